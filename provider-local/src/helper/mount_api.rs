//! The kernel's mount interface, new (`fsopen`, `open_tree`) and old (`mount`).

use super::nr;
use super::sys::{AT_CWD, AT_EMPTY_PATH, AT_RECURSIVE, Answer, Errno, Fd, O_CLOEXEC, call};
use core::ffi::CStr;

pub(crate) const MS_RDONLY: usize = 1;
pub(crate) const MS_NOSUID: usize = 2;
pub(crate) const MS_NODEV: usize = 4;
pub(crate) const MS_NOEXEC: usize = 8;
pub(crate) const MS_REC: usize = 0x4000;
pub(crate) const MS_PRIVATE: usize = 1 << 18;

const CONFIG_SET_FLAG: usize = 0;
const CONFIG_SET_STRING: usize = 1;
const CONFIG_CREATE: usize = 6;

fn fd(value: usize) -> Answer<Fd> {
    Fd::try_from(value).map_err(|_| Errno::INVAL)
}

fn number(fd: Fd) -> usize {
    fd as isize as usize
}

fn address(text: &CStr) -> usize {
    text.as_ptr() as usize
}

/// mount(2).
pub(crate) fn mount(source: &CStr, target: &CStr, kind: &CStr, flags: usize, options: &CStr) -> Answer<()> {
    let arguments = [address(source), address(target), address(kind), flags, address(options), 0];
    // SAFETY: all texts end with a NUL.
    unsafe { call(nr::MOUNT, arguments) }.map(drop)
}

/// umount2(2) of the working directory, detached at once.
pub(crate) fn detach_here() -> Answer<()> {
    const MNT_DETACH: usize = 2;
    // SAFETY: the text ends with a NUL.
    unsafe { call(nr::UMOUNT2, [address(c"."), MNT_DETACH, 0, 0, 0, 0]) }.map(drop)
}

/// pivot_root(2) onto the working directory, the old root stacked on it.
pub(crate) fn pivot_here() -> Answer<()> {
    // SAFETY: the texts end with a NUL.
    unsafe { call(nr::PIVOT_ROOT, [address(c"."), address(c"."), 0, 0, 0, 0]) }.map(drop)
}

/// A file system under configuration.
pub(crate) fn fs_open(kind: &CStr) -> Answer<Fd> {
    const FSOPEN_CLOEXEC: usize = 1;
    // SAFETY: `kind` ends with a NUL.
    fd(unsafe { call(nr::FSOPEN, [address(kind), FSOPEN_CLOEXEC, 0, 0, 0, 0]) }?)
}

/// Sets a value.
pub(crate) fn fs_set(context: Fd, key: &CStr, value: &CStr) -> Answer<()> {
    let arguments = [number(context), CONFIG_SET_STRING, address(key), address(value), 0, 0];
    // SAFETY: both texts end with a NUL.
    unsafe { call(nr::FSCONFIG, arguments) }.map(drop)
}

/// Sets a switch.
pub(crate) fn fs_set_flag(context: Fd, key: &CStr) -> Answer<()> {
    // SAFETY: `key` ends with a NUL.
    unsafe { call(nr::FSCONFIG, [number(context), CONFIG_SET_FLAG, address(key), 0, 0, 0]) }.map(drop)
}

/// Makes the file system that was configured.
pub(crate) fn fs_create(context: Fd) -> Answer<()> {
    // SAFETY: this command takes no pointer.
    unsafe { call(nr::FSCONFIG, [number(context), CONFIG_CREATE, 0, 0, 0, 0]) }.map(drop)
}

/// A mount of the file system that was made, attached nowhere yet. Attributes 1, 2, 4, 8 are read-only, no
/// set-user-id, no devices, no execution.
pub(crate) fn fs_mount(context: Fd, attributes: usize) -> Answer<Fd> {
    const FSMOUNT_CLOEXEC: usize = 1;
    // SAFETY: this call takes no pointer.
    fd(unsafe { call(nr::FSMOUNT, [number(context), FSMOUNT_CLOEXEC, attributes, 0, 0, 0]) }?)
}

/// A copy of the mount at `path`, attached nowhere yet.
pub(crate) fn open_tree(folder: Fd, path: &CStr, recursive: bool) -> Answer<Fd> {
    const OPEN_TREE_CLONE: u32 = 1;
    let flags = OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    // SAFETY: `path` ends with a NUL.
    fd(unsafe { call(nr::OPEN_TREE, [number(folder), address(path), flags as usize, 0, 0, 0]) }?)
}

/// Adds attributes to a mount, and with `recursive` to all below it.
pub(crate) fn restrict(mount: Fd, attributes: u64, recursive: bool) -> Answer<()> {
    let flags = AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    // struct mount_attr: set, clear, propagation, user namespace.
    let record = [attributes, 0_u64, 0, 0];
    let arguments =
        [number(mount), address(c""), flags as usize, record.as_ptr() as usize, size_of_val(&record), 0];
    // SAFETY: the text ends with a NUL; the record has the layout and the size that are given.
    unsafe { call(nr::MOUNT_SETATTR, arguments) }.map(drop)
}

/// Attaches a mount at a path.
pub(crate) fn attach(mount: Fd, path: &CStr) -> Answer<()> {
    const FROM_EMPTY_PATH: usize = 0x4;
    const TO_FOLLOW_LINKS: usize = 0x10;
    let flags = FROM_EMPTY_PATH | TO_FOLLOW_LINKS;
    let arguments = [number(mount), address(c""), number(AT_CWD), address(path), flags, 0];
    // SAFETY: both texts end with a NUL.
    unsafe { call(nr::MOVE_MOUNT, arguments) }.map(drop)
}

/// Attaches a mount onto an open folder.
pub(crate) fn attach_onto(mount: Fd, folder: Fd) -> Answer<()> {
    const FROM_AND_TO_EMPTY_PATH: usize = 0x4 | 0x40;
    let arguments = [number(mount), address(c""), number(folder), address(c""), FROM_AND_TO_EMPTY_PATH, 0];
    // SAFETY: both texts end with a NUL.
    unsafe { call(nr::MOVE_MOUNT, arguments) }.map(drop)
}
