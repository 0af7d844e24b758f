//! File operations, each in a child of its own with the credentials of the request, inside the box: links
//! cannot lead out of it, permissions hold, and a path that blocks does not block the box.

use super::credentials::{Policy, assume};
use super::packet::{FileAction, Reply};
use super::socket::reply;
use super::step::Step;
use super::sys::{self, AT_CWD, Errno, Fd};

/// A file operation as it was requested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileRequest<'a> {
    pub(crate) id: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) action: FileAction<'a>,
}

/// Runs in the child: does the operation, answers, and ends. The exit code says whether the answer was sent.
pub(crate) fn run(socket: Fd, policy: &Policy, request: &FileRequest<'_>) -> ! {
    let answer = assume(policy, request.uid, request.gid, &[]).and_then(|()| operate(&request.action));
    let sent = match answer {
        Ok(fd) => reply(socket, &Reply::Done { id: request.id }, fd),
        Err((step, Errno(errno))) => reply(socket, &Reply::Refused { id: request.id, step, errno }, None),
    };
    sys::exit(i32::from(sent.is_err()))
}

fn operate(action: &FileAction<'_>) -> Result<Option<Fd>, (Step, Errno)> {
    match *action {
        FileAction::Open { path, flags, mode } => {
            // A pipe or a terminal must not block the child or become anybody's controlling terminal.
            let flags = flags | sys::O_NOCTTY | sys::O_NONBLOCK;
            sys::open(AT_CWD, path, flags, mode).map(Some).map_err(|errno| (Step::OpenFile, errno))
        }
        FileAction::MakeDir { path, mode } => {
            sys::make_dir(path, mode).map(|()| None).map_err(|errno| (Step::MakeDirectory, errno))
        }
        FileAction::Unlink { path } => {
            sys::unlink(path, 0).map(|()| None).map_err(|errno| (Step::Unlink, errno))
        }
        FileAction::RemoveDir { path } => sys::unlink(path, sys::AT_REMOVEDIR)
            .map(|()| None)
            .map_err(|errno| (Step::RemoveDirectory, errno)),
        FileAction::Rename { from, to } => {
            sys::rename(from, to).map(|()| None).map_err(|errno| (Step::Rename, errno))
        }
    }
}
