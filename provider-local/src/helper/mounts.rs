//! Carries out the actions of a plan, in the first process of the box.

use super::codec::Reader;
use super::mount_api as api;
use super::nr::O_NOFOLLOW;
use super::overlay;
use super::plan::{Action, Flags, Owner};
use super::step::Step;
use super::sys::{self, AT_CWD, AT_SYMLINK_NOFOLLOW, Answer, Errno, Fd};
use core::ffi::CStr;

/// The longest path that is handled, in bytes, its NUL included.
pub(crate) const MAX_PATH: usize = 4096;

/// How many mounts of this machine can be kept at hand.
const MAX_SLOTS: usize = 64;

/// What could not be done, and to which thing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure<'a> {
    pub(crate) step: Step,
    pub(crate) errno: Errno,
    pub(crate) subject: &'a CStr,
}

/// Carries out all actions that follow the header.
pub(crate) fn carry_out<'a>(reader: &mut Reader<'a>, user_namespace: bool) -> Result<(), Failure<'a>> {
    let mut state = State { taken: [-1; MAX_SLOTS], keep_owner: user_namespace };
    while !reader.is_empty() {
        let unreadable = Failure { step: Step::ReadPlan, errno: Errno::BADMSG, subject: c"" };
        let action = Action::decode(reader).ok_or(unreadable)?;
        let (step, subject) = describe(&action);
        state.act(&action).map_err(|errno| Failure { step, errno, subject })?;
    }
    Ok(())
}

fn describe<'a>(action: &Action<'a>) -> (Step, &'a CStr) {
    match *action {
        Action::Tmpfs { target, .. } => (Step::Tmpfs, target),
        Action::Dir { path, .. } => (Step::MakeDir, path),
        Action::File { path, .. } => (Step::WriteFile, path),
        Action::Link { path, .. } => (Step::MakeLink, path),
        Action::Whiteout { path } => (Step::Whiteout, path),
        Action::Opaque { path, .. } => (Step::Opaque, path),
        Action::Overlay(overlay) => (Step::Overlay, overlay.target),
        Action::Enter { root } => (Step::EnterRoot, root),
        Action::Take { source, .. } => (Step::Take, source),
        Action::Bind { target, .. } => (Step::Bind, target),
        Action::Proc { target } => (Step::Proc, target),
        Action::Devpts { target, .. } => (Step::Devpts, target),
        Action::Hide { path } => (Step::Hide, path),
        Action::ReadOnly { path } => (Step::ReadOnly, path),
        Action::Reserve { path, .. } => (Step::Reserve, path),
    }
}

struct State {
    /// Copies of mounts of this machine, attached nowhere, by slot.
    taken: [Fd; MAX_SLOTS],
    /// In a user namespace everything that is made already has the one owner there is.
    keep_owner: bool,
}

impl State {
    fn act(&mut self, action: &Action<'_>) -> Answer<()> {
        match *action {
            Action::Tmpfs { target, options, flags } => tmpfs(target, options, flags),
            Action::Dir { path, owner } => self.make_dir(path, owner),
            Action::File { path, owner, data } => self.write_file(path, owner, data),
            Action::Link { path, target } => sys::symlink(target, path),
            Action::Whiteout { path } => sys::make_whiteout(path),
            Action::Opaque { path, user_marks } => overlay::mark_opaque(path, user_marks),
            Action::Overlay(ref overlay) => overlay::mount(overlay),
            Action::Take { source, slot, flags } => self.take(source, slot, flags),
            Action::Enter { root } => enter(root),
            Action::Bind { slot, target, flags } => self.bind(slot, target, flags),
            Action::Proc { target } => {
                api::mount(c"proc", target, c"proc", api::MS_NOSUID | api::MS_NODEV | api::MS_NOEXEC, c"")
            }
            Action::Devpts { target, options } => {
                api::mount(c"devpts", target, c"devpts", api::MS_NOSUID | api::MS_NOEXEC, options)
            }
            Action::Hide { path } => hide(path),
            Action::ReadOnly { path } => {
                let flags = Flags::READ_ONLY.and(Flags::OPTIONAL).and(Flags::RECURSIVE);
                bind_onto(path, path, flags)
            }
            Action::Reserve { path, parents } => reserve(path, parents),
        }
    }

    fn make_dir(&self, path: &CStr, owner: Owner) -> Answer<()> {
        match sys::make_dir(path, 0o700) {
            Err(Errno::EXIST) if is_dir(AT_CWD, path, AT_SYMLINK_NOFOLLOW) => return Ok(()),
            answer => answer?,
        }
        if owner.uid != Owner::KEEP && !self.keep_owner {
            sys::change_owner(path, owner.uid, owner.gid)?;
        }
        sys::change_mode(path, owner.mode)
    }

    fn write_file(&self, path: &CStr, owner: Owner, data: &[u8]) -> Answer<()> {
        let flags = sys::O_WRONLY | sys::O_CREAT | sys::O_EXCL | O_NOFOLLOW;
        let fd = sys::open(AT_CWD, path, flags, 0o600)?;
        let answer = (|| {
            sys::write_all(fd, data)?;
            if owner.uid != Owner::KEEP && !self.keep_owner {
                sys::change_fd_owner(fd, owner.uid, owner.gid)?;
            }
            sys::change_fd_mode(fd, owner.mode)
        })();
        sys::close(fd);
        answer
    }

    fn take(&mut self, source: &CStr, slot: u8, flags: Flags) -> Answer<()> {
        let place = self.taken.get_mut(usize::from(slot)).ok_or(Errno::INVAL)?;
        match api::open_tree(AT_CWD, source, flags.has(Flags::RECURSIVE)) {
            Err(errno) if flags.has(Flags::OPTIONAL) && is_absent(errno) => Ok(()),
            answer => answer.map(|mount| *place = mount),
        }
    }

    fn bind(&mut self, slot: u8, target: &CStr, flags: Flags) -> Answer<()> {
        let place = self.taken.get_mut(usize::from(slot)).ok_or(Errno::INVAL)?;
        match core::mem::replace(place, -1) {
            -1 if flags.has(Flags::OPTIONAL) => Ok(()),
            -1 => Err(Errno::NOENT),
            mount => attach_restricted(mount, target, flags),
        }
    }
}

/// Nothing of the old root can be reached by a path any more when this comes back. It must not even stay
/// stacked on the new one for a while, as `..` of a folder in the root would lead there.
fn enter(root: &CStr) -> Answer<()> {
    sys::change_dir(root)?;
    api::pivot_here()?;
    api::detach_here()?;
    sys::change_dir(c"/")
}

/// The box's own /dev must be there.
fn hide(path: &CStr) -> Answer<()> {
    match sys::file_mode(AT_CWD, path, 0) {
        Err(errno) if is_absent(errno) => Ok(()),
        Err(errno) => Err(errno),
        Ok(mode) if mode & sys::S_IFMT == sys::S_IFDIR => {
            tmpfs(path, c"mode=0755,size=4k", Flags::READ_ONLY.and(Flags::NO_EXEC))
        }
        Ok(_) => bind_onto(c"/dev/null", path, Flags::READ_ONLY),
    }
}

fn tmpfs(target: &CStr, options: &CStr, flags: Flags) -> Answer<()> {
    if flags.has(Flags::OPTIONAL) && !is_dir(AT_CWD, target, AT_SYMLINK_NOFOLLOW) {
        return Ok(());
    }
    let mut bits = api::MS_NOSUID | api::MS_NODEV;
    if flags.has(Flags::READ_ONLY) {
        bits |= api::MS_RDONLY;
    }
    if flags.has(Flags::NO_EXEC) {
        bits |= api::MS_NOEXEC;
    }
    api::mount(c"tmpfs", target, c"tmpfs", bits, options)
}

/// The attribute bits of `fsmount` and `mount_setattr`.
pub(crate) fn attributes(flags: Flags) -> u64 {
    // The first four bits of `Flags` are numbered as the kernel numbers its attributes.
    u64::from(flags.0 & 0xf)
}

/// Binds a path of the box onto another.
fn bind_onto(source: &CStr, target: &CStr, flags: Flags) -> Answer<()> {
    match api::open_tree(AT_CWD, source, flags.has(Flags::RECURSIVE)) {
        Err(errno) if flags.has(Flags::OPTIONAL) && is_absent(errno) => Ok(()),
        Err(errno) => Err(errno),
        Ok(mount) => attach_restricted(mount, target, flags),
    }
}

fn attach_restricted(mount: Fd, target: &CStr, flags: Flags) -> Answer<()> {
    let answer = (|| {
        if attributes(flags) != 0 {
            api::restrict(mount, attributes(flags), flags.has(Flags::RECURSIVE))?;
        }
        match api::attach(mount, target) {
            Err(errno) if flags.has(Flags::OPTIONAL) && is_absent(errno) => Ok(()),
            answer => answer,
        }
    })();
    sys::close(mount);
    answer
}

/// A reserved path is made if it is missing. A folder above it that can be renamed would let its owner put
/// another one in its place, so with `parents` each becomes a mount point, which the kernel refuses to move.
fn reserve(path: &CStr, parents: bool) -> Answer<()> {
    let bytes = path.to_bytes();
    for (index, byte) in bytes.iter().enumerate().skip(1) {
        if *byte == b'/' {
            let mut buffer = [0_u8; MAX_PATH];
            let parent = copy_text(&mut buffer, bytes.get(..index).unwrap_or(&[]))?;
            make_missing_dir(parent)?;
            if parents {
                bind_onto(parent, parent, Flags::RECURSIVE)?;
            }
        }
    }
    make_missing_dir(path)?;
    let flags = Flags::READ_ONLY.and(Flags::NO_SUID).and(Flags::NO_DEV).and(Flags::RECURSIVE);
    bind_onto(path, path, flags)
}

fn make_missing_dir(path: &CStr) -> Answer<()> {
    match sys::make_dir(path, 0o755) {
        Err(Errno::EXIST) => Ok(()),
        answer => answer,
    }
}

/// Copies `bytes` into `buffer` and ends them with a NUL.
pub(crate) fn copy_text<'a>(buffer: &'a mut [u8], bytes: &[u8]) -> Answer<&'a CStr> {
    let end = bytes.len().checked_add(1).ok_or(Errno::NAMETOOLONG)?;
    let place = buffer.get_mut(..end).ok_or(Errno::NAMETOOLONG)?;
    if let Some((last, text)) = place.split_last_mut() {
        text.copy_from_slice(bytes);
        *last = 0;
    }
    CStr::from_bytes_with_nul(place).map_err(|_| Errno::INVAL)
}

fn is_absent(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

fn is_dir(folder: Fd, path: &CStr, flags: u32) -> bool {
    sys::file_mode(folder, path, flags).is_ok_and(|mode| mode & sys::S_IFMT == sys::S_IFDIR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_does_not_fit_is_refused() {
        let mut buffer = [0_u8; 4];
        assert_eq!(copy_text(&mut buffer, b"abc"), Ok(c"abc"));
        assert_eq!(copy_text(&mut buffer, b"abcd"), Err(Errno::NAMETOOLONG));
        assert_eq!(copy_text(&mut buffer, b"a\0b"), Err(Errno::INVAL));
    }

    #[test]
    fn attributes_are_numbered_as_the_kernel_does() {
        assert_eq!(attributes(Flags::READ_ONLY.and(Flags::NO_EXEC).and(Flags::RECURSIVE)), 9);
    }
}
