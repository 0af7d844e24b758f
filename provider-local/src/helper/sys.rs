//! System calls without a C library: the entry into the kernel, and typed wrappers for processes and files.
//!
//! Every wrapper is safe to call: it takes references for what the kernel reads or writes. Descriptors are plain
//! numbers here, since a helper that forks and executes cannot give them owners.

use super::nr;
use core::ffi::{CStr, c_void};
use core::ptr;

/// An error number of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub i32);

impl Errno {
    pub(crate) const PERM: Errno = Errno(1);
    pub(crate) const NOENT: Errno = Errno(2);
    pub(crate) const SRCH: Errno = Errno(3);
    pub(crate) const INTR: Errno = Errno(4);
    pub(crate) const IO: Errno = Errno(5);
    pub(crate) const BIG: Errno = Errno(7);
    pub(crate) const CHILD: Errno = Errno(10);
    pub(crate) const AGAIN: Errno = Errno(11);
    pub(crate) const ACCES: Errno = Errno(13);
    pub(crate) const EXIST: Errno = Errno(17);
    pub(crate) const NOTDIR: Errno = Errno(20);
    pub(crate) const INVAL: Errno = Errno(22);
    pub(crate) const NAMETOOLONG: Errno = Errno(36);
    pub(crate) const NOSYS: Errno = Errno(38);
    pub(crate) const LOOP: Errno = Errno(40);
    pub(crate) const BADMSG: Errno = Errno(74);
}

/// The answer of a system call.
pub(crate) type Answer<T> = Result<T, Errno>;

/// A descriptor.
pub(crate) type Fd = i32;

/// "Relative to the working directory."
pub(crate) const AT_CWD: Fd = -100;
pub(crate) const AT_SYMLINK_NOFOLLOW: u32 = 0x100;
pub(crate) const AT_REMOVEDIR: u32 = 0x200;
pub(crate) const AT_EMPTY_PATH: u32 = 0x1000;
pub(crate) const AT_RECURSIVE: u32 = 0x8000;

pub(crate) const O_WRONLY: u32 = 0o1;
pub(crate) const O_CREAT: u32 = 0o100;
pub(crate) const O_EXCL: u32 = 0o200;
pub(crate) const O_NOCTTY: u32 = 0o400;
pub(crate) const O_NONBLOCK: u32 = 0o4000;
pub(crate) const O_CLOEXEC: u32 = 0o2_000_000;
pub(crate) const O_PATH: u32 = 0o10_000_000;

pub(crate) const S_IFMT: u32 = 0o170_000;
pub(crate) const S_IFCHR: u32 = 0o020_000;
pub(crate) const S_IFDIR: u32 = 0o040_000;

pub(crate) const SIGKILL: u32 = 9;
pub(crate) const SIGTERM: u32 = 15;
pub(crate) const SIGCHLD: u32 = 17;

pub(crate) const POLLIN: i16 = 0x1;
pub(crate) const POLLERR: i16 = 0x8;
pub(crate) const POLLHUP: i16 = 0x10;
pub(crate) const POLLRDHUP: i16 = 0x2000;

/// Enters the kernel.
///
/// # Safety
/// The arguments must be what call `number` expects: pointers valid for what it reads and writes.
#[cfg(target_arch = "x86_64")]
unsafe fn enter(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let answer: isize;
    // SAFETY: the caller vouches for the arguments; the clobbers are those of the `syscall` instruction.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// Enters the kernel.
///
/// # Safety
/// The arguments must be what call `number` expects: pointers valid for what it reads and writes.
#[cfg(target_arch = "aarch64")]
unsafe fn enter(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let answer: isize;
    // SAFETY: the caller vouches for the arguments; `svc 0` changes x0 alone.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => answer,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    answer
}

/// One system call, its answer split into value and error.
///
/// # Safety
/// As for [`enter`].
pub(crate) unsafe fn call(number: usize, arguments: [usize; 6]) -> Answer<usize> {
    // SAFETY: the caller vouches for the arguments.
    let answer = unsafe { enter(number, arguments) };
    usize::try_from(answer).map_err(|_| Errno(i32::try_from(-answer).unwrap_or(i32::MAX)))
}

/// A call whose arguments are numbers alone.
fn call_with_numbers(number: usize, arguments: [usize; 6]) -> Answer<usize> {
    // SAFETY: private to this file, and used only for calls that take no pointer.
    unsafe { call(number, arguments) }
}

fn address(text: &CStr) -> usize {
    text.as_ptr() as usize
}

fn number(fd: Fd) -> usize {
    // Sign-extended, since AT_CWD is negative.
    fd as isize as usize
}

fn as_fd(value: usize) -> Answer<Fd> {
    Fd::try_from(value).map_err(|_| Errno::INVAL)
}

// ---- files

pub(crate) fn open(folder: Fd, path: &CStr, flags: u32, mode: u32) -> Answer<Fd> {
    let arguments = [
        number(folder),
        address(path),
        (flags | O_CLOEXEC) as usize,
        mode as usize,
        0,
        0,
    ];
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
    unsafe {
        call(
            nr::MKDIRAT,
            [number(AT_CWD), address(path), mode as usize, 0, 0, 0],
        )
    }
    .map(drop)
}

pub(crate) fn unlink(path: &CStr, flags: u32) -> Answer<()> {
    // SAFETY: `path` ends with a NUL.
    unsafe {
        call(
            nr::UNLINKAT,
            [number(AT_CWD), address(path), flags as usize, 0, 0, 0],
        )
    }
    .map(drop)
}

pub(crate) fn rename(from: &CStr, to: &CStr) -> Answer<()> {
    let arguments = [number(AT_CWD), address(from), number(AT_CWD), address(to), 0, 0];
    // SAFETY: both paths end with a NUL.
    unsafe { call(nr::RENAMEAT2, arguments) }.map(drop)
}

pub(crate) fn symlink(target: &CStr, path: &CStr) -> Answer<()> {
    // SAFETY: both texts end with a NUL.
    unsafe {
        call(
            nr::SYMLINKAT,
            [address(target), number(AT_CWD), address(path), 0, 0, 0],
        )
    }
    .map(drop)
}

/// A character device 0:0, which an overlay reads as "there is nothing here".
pub(crate) fn make_whiteout(path: &CStr) -> Answer<()> {
    // SAFETY: `path` ends with a NUL.
    unsafe {
        call(
            nr::MKNODAT,
            [number(AT_CWD), address(path), S_IFCHR as usize, 0, 0, 0],
        )
    }
    .map(drop)
}

pub(crate) fn change_mode(path: &CStr, mode: u32) -> Answer<()> {
    // SAFETY: `path` ends with a NUL.
    unsafe {
        call(
            nr::FCHMODAT,
            [number(AT_CWD), address(path), mode as usize, 0, 0, 0],
        )
    }
    .map(drop)
}

pub(crate) fn change_owner(path: &CStr, uid: u32, gid: u32) -> Answer<()> {
    let flags = AT_SYMLINK_NOFOLLOW as usize;
    let arguments = [
        number(AT_CWD),
        address(path),
        uid as usize,
        gid as usize,
        flags,
        0,
    ];
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
    let arguments = [
        address(path),
        address(name),
        value.as_ptr() as usize,
        value.len(),
        0,
        0,
    ];
    // SAFETY: the texts end with a NUL; `value` is read for its length.
    unsafe { call(nr::SETXATTR, arguments) }.map(drop)
}

/// Type and permission bits of a path, links followed unless `flags` says otherwise.
pub(crate) fn file_mode(folder: Fd, path: &CStr, flags: u32) -> Answer<u32> {
    const STATX_TYPE_AND_MODE: usize = 0x3;
    const MODE_AT: usize = 28;
    let mut record = [0_u8; 256];
    let arguments = [
        number(folder),
        address(path),
        flags as usize,
        STATX_TYPE_AND_MODE,
        record.as_mut_ptr() as usize,
        0,
    ];
    // SAFETY: `path` ends with a NUL; struct statx has 256 bytes.
    unsafe { call(nr::STATX, arguments) }?;
    let mode = record
        .get(MODE_AT..MODE_AT + 2)
        .and_then(|bytes| bytes.try_into().ok())
        .map(u16::from_ne_bytes);
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
    let start = unsafe {
        call(
            nr::MMAP,
            [0, length, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, usize::MAX, 0],
        )
    }?;
    // SAFETY: page-aligned, zeroed, mapped for this many words, and nobody else knows the address.
    Ok(unsafe { core::slice::from_raw_parts_mut(start as *mut usize, count) })
}

// ---- descriptors

pub(crate) fn pipe() -> Answer<(Fd, Fd)> {
    let mut ends = [0 as Fd; 2];
    // SAFETY: the kernel writes two descriptors there.
    unsafe {
        call(
            nr::PIPE2,
            [ends.as_mut_ptr() as usize, O_CLOEXEC as usize, 0, 0, 0, 0],
        )
    }?;
    let [read, write] = ends;
    Ok((read, write))
}

/// A copy of `fd` with a number of at least `lowest`, closed on exec.
pub(crate) fn duplicate_above(fd: Fd, lowest: Fd) -> Answer<Fd> {
    const F_DUPFD_CLOEXEC: usize = 1030;
    as_fd(call_with_numbers(
        nr::FCNTL,
        [number(fd), F_DUPFD_CLOEXEC, number(lowest), 0, 0, 0],
    )?)
}

/// Makes `to` a copy of `from` that survives exec.
pub(crate) fn duplicate_onto(from: Fd, to: Fd) -> Answer<()> {
    call_with_numbers(nr::DUP3, [number(from), number(to), 0, 0, 0, 0]).map(drop)
}

/// Marks every descriptor from `first` on as closed on exec.
pub(crate) fn close_on_exec_from(first: Fd) -> Answer<()> {
    const CLOSE_RANGE_CLOEXEC: usize = 4;
    call_with_numbers(
        nr::CLOSE_RANGE,
        [number(first), u32::MAX as usize, CLOSE_RANGE_CLOEXEC, 0, 0, 0],
    )
    .map(drop)
}

/// One descriptor to wait for.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Poll {
    pub(crate) fd: Fd,
    pub(crate) wanted: i16,
    pub(crate) seen: i16,
}

impl Poll {
    pub(crate) const NOTHING: Poll = Poll {
        fd: -1,
        wanted: 0,
        seen: 0,
    };

    pub(crate) const fn new(fd: Fd, wanted: i16) -> Self {
        Self { fd, wanted, seen: 0 }
    }
}

/// Waits until a descriptor is ready or the time is over; `None` waits without end.
pub(crate) fn poll(entries: &mut [Poll], milliseconds: Option<u64>) -> Answer<usize> {
    let mut time = [0_u64; 2];
    let time_address = milliseconds.map_or(0, |limit| {
        time = [limit / 1000, limit % 1000 * 1_000_000];
        time.as_mut_ptr() as usize
    });
    let arguments = [
        entries.as_mut_ptr() as usize,
        entries.len(),
        time_address,
        0,
        0,
        0,
    ];
    // SAFETY: the entries have the kernel's layout; the time is null or a valid timespec.
    unsafe { call(nr::PPOLL, arguments) }
}

// ---- processes

/// Ends every thread of the process.
pub(crate) fn exit(code: i32) -> ! {
    loop {
        let _ = call_with_numbers(nr::EXIT_GROUP, [code as usize, 0, 0, 0, 0, 0]);
    }
}

/// A copy of this process: `None` in the child, the child's number in the parent.
pub(crate) fn fork() -> Answer<Option<u32>> {
    // SAFETY: without CLONE_VM the child has its own copy of all memory, this stack included.
    let answer = unsafe { call(nr::CLONE, [SIGCHLD as usize, 0, 0, 0, 0, 0]) }?;
    Ok(u32::try_from(answer).ok().filter(|pid| *pid != 0))
}

/// As [`fork`], into the new namespaces that `flags` names; the parent also gets a pidfd.
pub(crate) fn fork_into(flags: usize) -> Answer<Option<(u32, Fd)>> {
    const CLONE_PIDFD: usize = 0x1000;
    let mut pidfd: Fd = -1;
    let arguments = [
        flags | CLONE_PIDFD | SIGCHLD as usize,
        0,
        ptr::from_mut(&mut pidfd) as usize,
        0,
        0,
        0,
    ];
    // SAFETY: as for `fork`; the kernel writes one descriptor to `pidfd` in the parent.
    let answer = unsafe { call(nr::CLONE, arguments) }?;
    Ok(u32::try_from(answer)
        .ok()
        .filter(|pid| *pid != 0)
        .map(|pid| (pid, pidfd)))
}

/// What [`wait_for`] and [`reap`] saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) pid: u32,
    pub(crate) status: u32,
}

fn wait(pid: isize, options: usize) -> Answer<Option<Ended>> {
    let mut status = 0_u32;
    let arguments = [
        pid as usize,
        ptr::from_mut(&mut status) as usize,
        options,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel writes one word to `status`.
    let pid = unsafe { call(nr::WAIT4, arguments) }?;
    Ok(u32::try_from(pid)
        .ok()
        .filter(|pid| *pid != 0)
        .map(|pid| Ended { pid, status }))
}

/// Waits for this child.
pub(crate) fn wait_for(pid: u32) -> Answer<u32> {
    loop {
        match wait(pid as isize, 0) {
            Ok(Some(ended)) => return Ok(ended.status),
            Ok(None) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// The next child that has ended, without waiting; [`Errno::CHILD`] when there are no children at all.
pub(crate) fn reap() -> Answer<Option<Ended>> {
    const WNOHANG: usize = 1;
    wait(-1, WNOHANG)
}

/// Signals one process, or with -1 all that this process may signal, itself excepted.
pub(crate) fn kill(pid: i32, signal: u32) -> Answer<()> {
    call_with_numbers(nr::KILL, [pid as isize as usize, signal as usize, 0, 0, 0, 0]).map(drop)
}

pub(crate) fn kill_pidfd(pidfd: Fd, signal: u32) -> Answer<()> {
    call_with_numbers(
        nr::PIDFD_SEND_SIGNAL,
        [number(pidfd), signal as usize, 0, 0, 0, 0],
    )
    .map(drop)
}

pub(crate) fn new_session() -> Answer<()> {
    call_with_numbers(nr::SETSID, [0; 6]).map(drop)
}

pub(crate) fn set_umask(mask: u32) {
    let _ = call_with_numbers(nr::UMASK, [mask as usize, 0, 0, 0, 0, 0]);
}

pub(crate) fn process_control(option: usize, argument: usize) -> Answer<()> {
    call_with_numbers(nr::PRCTL, [option, argument, 0, 0, 0, 0]).map(drop)
}

pub(crate) fn set_groups(groups: &[u32]) -> Answer<()> {
    // SAFETY: the kernel reads `groups.len()` words there.
    unsafe {
        call(
            nr::SETGROUPS,
            [groups.len(), groups.as_ptr() as usize, 0, 0, 0, 0],
        )
    }
    .map(drop)
}

pub(crate) fn set_group(gid: u32) -> Answer<()> {
    let gid = gid as usize;
    call_with_numbers(nr::SETRESGID, [gid, gid, gid, 0, 0, 0]).map(drop)
}

pub(crate) fn set_user(uid: u32) -> Answer<()> {
    let uid = uid as usize;
    call_with_numbers(nr::SETRESUID, [uid, uid, uid, 0, 0, 0]).map(drop)
}

/// Sets the effective and permitted capabilities to `keep`, and the inheritable ones to none.
pub(crate) fn set_capabilities(keep: u64) -> Answer<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let low = keep as u32;
    let high = (keep >> 32) as u32;
    let header = [VERSION_3, 0_u32];
    let data = [low, low, 0_u32, high, high, 0_u32];
    // SAFETY: header and data have the layout of version 3.
    unsafe {
        call(
            nr::CAPSET,
            [header.as_ptr() as usize, data.as_ptr() as usize, 0, 0, 0, 0],
        )
    }
    .map(drop)
}

/// Executes a program; comes back only with an error.
///
/// # Safety
/// `arguments` and `environment` must be null-terminated lists of addresses of NUL-terminated texts.
pub(crate) unsafe fn execute(path: &CStr, arguments: &[usize], environment: &[usize]) -> Errno {
    let list = [
        address(path),
        arguments.as_ptr() as usize,
        environment.as_ptr() as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the caller vouches for the lists.
    unsafe { call(nr::EXECVE, list) }.err().unwrap_or(Errno::IO)
}

/// Blocks exactly these signals (bit n-1 for signal n).
pub(crate) fn set_blocked_signals(mask: u64) -> Answer<()> {
    const SIG_SETMASK: usize = 2;
    let arguments = [
        SIG_SETMASK,
        ptr::from_ref(&mask) as usize,
        0,
        size_of::<u64>(),
        0,
        0,
    ];
    // SAFETY: the kernel reads one 8-byte set.
    unsafe { call(nr::RT_SIGPROCMASK, arguments) }.map(drop)
}

/// A descriptor from which these blocked signals can be read.
pub(crate) fn signal_fd(mask: u64) -> Answer<Fd> {
    let flags = (O_CLOEXEC | O_NONBLOCK) as usize;
    let arguments = [
        usize::MAX,
        ptr::from_ref(&mask) as usize,
        size_of::<u64>(),
        flags,
        0,
        0,
    ];
    // SAFETY: the kernel reads one 8-byte set.
    as_fd(unsafe { call(nr::SIGNALFD4, arguments) }?)
}

/// Milliseconds of a clock that never jumps.
pub(crate) fn now_milliseconds() -> u64 {
    const CLOCK_MONOTONIC: usize = 1;
    let mut time = [0_u64; 2];
    let address = ptr::from_mut(&mut time).cast::<c_void>() as usize;
    // SAFETY: the kernel writes one timespec.
    let _ = unsafe { call(nr::CLOCK_GETTIME, [CLOCK_MONOTONIC, address, 0, 0, 0, 0]) };
    let [seconds, nanoseconds] = time;
    seconds
        .saturating_mul(1000)
        .saturating_add(nanoseconds / 1_000_000)
}

pub(crate) fn set_hostname(name: &CStr) -> Answer<()> {
    // SAFETY: `name` is read for its length.
    unsafe { call(nr::SETHOSTNAME, [address(name), name.count_bytes(), 0, 0, 0, 0]) }.map(drop)
}
