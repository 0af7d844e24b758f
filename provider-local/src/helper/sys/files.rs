//! Paths and files.

use super::super::nr;
use super::{AT_CWD, AT_SYMLINK_NOFOLLOW, Answer, Errno, Fd, O_CLOEXEC, S_IFCHR, address, as_fd, call};
use super::{call_with_numbers, number};
use core::ffi::CStr;

pub(crate) fn open(folder: Fd, path: &CStr, flags: u32, mode: u32) -> Answer<Fd> {
    let arguments = [number(folder), address(path), (flags | O_CLOEXEC) as usize, mode as usize, 0, 0];
    // SAFETY: `path` ends with a NUL.
    as_fd(unsafe { call(nr::OPENAT, arguments) }?)
}

pub(crate) fn close(fd: Fd) {
    let _ = call_with_numbers(nr::CLOSE, [number(fd), 0, 0, 0, 0, 0]);
}

pub(crate) fn read(fd: Fd, buffer: &mut [u8]) -> Answer<usize> {
    let arguments = [number(fd), buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0];
    // SAFETY: the kernel writes at most `buffer.len()` bytes there.
    unsafe { call(nr::READ, arguments) }
}

pub(crate) fn write_all(fd: Fd, mut bytes: &[u8]) -> Answer<()> {
    while !bytes.is_empty() {
        let arguments = [number(fd), bytes.as_ptr() as usize, bytes.len(), 0, 0, 0];
        // SAFETY: the kernel reads at most `bytes.len()` bytes there.
        match unsafe { call(nr::WRITE, arguments) } {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => bytes = bytes.get(count..).unwrap_or(&[]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

pub(crate) fn make_dir(path: &CStr, mode: u32) -> Answer<()> {
    // SAFETY: `path` ends with a NUL.
    unsafe { call(nr::MKDIRAT, [number(AT_CWD), address(path), mode as usize, 0, 0, 0]) }.map(drop)
}

pub(crate) fn unlink(path: &CStr, flags: u32) -> Answer<()> {
    // SAFETY: `path` ends with a NUL.
    unsafe { call(nr::UNLINKAT, [number(AT_CWD), address(path), flags as usize, 0, 0, 0]) }.map(drop)
}

pub(crate) fn rename(from: &CStr, to: &CStr) -> Answer<()> {
    let arguments = [number(AT_CWD), address(from), number(AT_CWD), address(to), 0, 0];
    // SAFETY: both paths end with a NUL.
    unsafe { call(nr::RENAMEAT2, arguments) }.map(drop)
}

pub(crate) fn symlink(target: &CStr, path: &CStr) -> Answer<()> {
    // SAFETY: both texts end with a NUL.
    unsafe { call(nr::SYMLINKAT, [address(target), number(AT_CWD), address(path), 0, 0, 0]) }.map(drop)
}

/// A character device 0:0, which an overlay reads as "there is nothing here".
pub(crate) fn make_whiteout(path: &CStr) -> Answer<()> {
    // SAFETY: `path` ends with a NUL.
    unsafe { call(nr::MKNODAT, [number(AT_CWD), address(path), S_IFCHR as usize, 0, 0, 0]) }.map(drop)
}

pub(crate) fn change_mode(path: &CStr, mode: u32) -> Answer<()> {
    // SAFETY: `path` ends with a NUL.
    unsafe { call(nr::FCHMODAT, [number(AT_CWD), address(path), mode as usize, 0, 0, 0]) }.map(drop)
}

pub(crate) fn change_owner(path: &CStr, uid: u32, gid: u32) -> Answer<()> {
    let flags = AT_SYMLINK_NOFOLLOW as usize;
    let arguments = [number(AT_CWD), address(path), uid as usize, gid as usize, flags, 0];
    // SAFETY: `path` ends with a NUL.
    unsafe { call(nr::FCHOWNAT, arguments) }.map(drop)
}

pub(crate) fn change_fd_mode(fd: Fd, mode: u32) -> Answer<()> {
    call_with_numbers(nr::FCHMOD, [number(fd), mode as usize, 0, 0, 0, 0]).map(drop)
}

pub(crate) fn change_fd_owner(fd: Fd, uid: u32, gid: u32) -> Answer<()> {
    call_with_numbers(nr::FCHOWN, [number(fd), uid as usize, gid as usize, 0, 0, 0]).map(drop)
}

pub(crate) fn set_attribute(path: &CStr, name: &CStr, value: &[u8]) -> Answer<()> {
    let arguments = [address(path), address(name), value.as_ptr() as usize, value.len(), 0, 0];
    // SAFETY: the texts end with a NUL; `value` is read for its length.
    unsafe { call(nr::SETXATTR, arguments) }.map(drop)
}

/// Type and permission bits of a path, links followed unless `flags` says otherwise.
pub(crate) fn file_mode(folder: Fd, path: &CStr, flags: u32) -> Answer<u32> {
    const STATX_TYPE_AND_MODE: usize = 0x3;
    const MODE_AT: usize = 28;
    let mut record = [0_u8; 256];
    let arguments =
        [number(folder), address(path), flags as usize, STATX_TYPE_AND_MODE, record.as_mut_ptr() as usize, 0];
    // SAFETY: `path` ends with a NUL; struct statx has 256 bytes.
    unsafe { call(nr::STATX, arguments) }?;
    let mode =
        record.get(MODE_AT..MODE_AT + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    mode.map(u32::from).ok_or(Errno::IO)
}

pub(crate) fn change_dir(path: &CStr) -> Answer<()> {
    // SAFETY: `path` ends with a NUL.
    unsafe { call(nr::CHDIR, [address(path), 0, 0, 0, 0, 0]) }.map(drop)
}

pub(crate) fn change_dir_to(fd: Fd) -> Answer<()> {
    call_with_numbers(nr::FCHDIR, [number(fd), 0, 0, 0, 0, 0]).map(drop)
}

/// The next entries of a folder, in the kernel's own format.
pub(crate) fn read_dir(fd: Fd, buffer: &mut [u8]) -> Answer<usize> {
    let arguments = [number(fd), buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0];
    // SAFETY: the kernel writes at most `buffer.len()` bytes there.
    unsafe { call(nr::GETDENTS64, arguments) }
}

/// Back to the first entry of a folder or the first byte of a file.
pub(crate) fn rewind(fd: Fd) -> Answer<Fd> {
    // A fresh open file description is simpler than a seek, and leaves no state behind.
    open(fd, c".", nr::O_DIRECTORY, 0)
}

/// Maps a sealed file for reading; it stays mapped until the process ends or executes.
pub(crate) fn map_file(fd: Fd, length: usize) -> Answer<&'static [u8]> {
    const PROT_READ: usize = 1;
    const MAP_PRIVATE: usize = 2;
    if length == 0 {
        return Ok(&[]);
    }
    // SAFETY: a new mapping at a place of the kernel's choice touches nothing that exists.
    let start = unsafe { call(nr::MMAP, [0, length, PROT_READ, MAP_PRIVATE, number(fd), 0]) }?;
    // SAFETY: mapped above for `length` bytes, never unmapped; the driver sealed the file against change.
    Ok(unsafe { core::slice::from_raw_parts(start as *const u8, length) })
}

/// Zeroed memory for `count` words; it stays until the process ends or executes.
pub(crate) fn map_words(count: usize) -> Answer<&'static mut [usize]> {
    const PROT_READ_WRITE: usize = 3;
    const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
    let length = count.max(1).checked_mul(size_of::<usize>()).ok_or(Errno::BIG)?;
    // SAFETY: a new mapping at a place of the kernel's choice touches nothing that exists.
    let start =
        unsafe { call(nr::MMAP, [0, length, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, usize::MAX, 0]) }?;
    // SAFETY: page-aligned, zeroed, mapped for this many words, and nobody else knows the address.
    Ok(unsafe { core::slice::from_raw_parts_mut(start as *mut usize, count) })
}
