//! The packets between driver and helper. Both sides compile this file, so that they cannot disagree.
//!
//! One packet is one message of a `SOCK_SEQPACKET` socket: a tag, then the fields of [`codec`](super::codec).

use super::codec::{Reader, Sink};
use super::step::Step;
use core::ffi::CStr;

/// Which processes a signal reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The command's own process alone.
    Process,
    /// Its session, and everything that descends from either, as `/proc` shows it.
    Tree,
}

/// A file operation, done by a child with the credentials of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileAction<'a> {
    /// openat(2); the answer carries the descriptor.
    Open { path: &'a CStr, flags: u32, mode: u32 },
    /// mkdirat(2).
    MakeDir { path: &'a CStr, mode: u32 },
    /// unlinkat(2).
    Unlink { path: &'a CStr },
    /// unlinkat(2) of a directory.
    RemoveDir { path: &'a CStr },
    /// renameat2(2).
    Rename { from: &'a CStr, to: &'a CStr },
}

/// From the driver. `id` numbers are the driver's and name the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    /// The first packet. Descriptors: the plan, the lock of the box, a pidfd of the driver.
    Plan { length: u64 },
    /// Start a command. Descriptors: the argument block (`length` bytes), stdin, stdout, stderr.
    Exec { id: u32, uid: u32, gid: u32, length: u64 },
    /// Signal the command that request `target` started.
    Signal { id: u32, target: u32, signal: u32, scope: Scope },
    /// A file operation.
    File { id: u32, uid: u32, gid: u32, action: FileAction<'a> },
    /// End every process: SIGTERM, then SIGKILL after the grace.
    Shutdown { grace_milliseconds: u32 },
}

/// From the helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply<'a> {
    /// The first process of the box exists. Descriptor: its pidfd.
    Born,
    /// The box accepts requests.
    Ready,
    /// The box could not be made and is gone. `subject` names the thing, and may be empty.
    Failed { step: Step, errno: i32, subject: &'a CStr },
    /// The command of request `id` runs; `pid` is its number inside the box.
    Started { id: u32, pid: u32 },
    /// Its process ended with this wait status.
    Exited { id: u32, status: u32 },
    /// Request `id` is done. Descriptor: the opened file, when the request opens one.
    Done { id: u32 },
    /// Request `id` failed.
    Refused { id: u32, step: Step, errno: i32 },
}

impl<'a> FileAction<'a> {
    fn encode(&self, sink: &mut impl Sink) -> Option<()> {
        match *self {
            FileAction::Open { path, flags, mode } => {
                sink.u8(1)?;
                sink.text(path)?;
                sink.u32(flags)?;
                sink.u32(mode)
            }
            FileAction::MakeDir { path, mode } => {
                sink.u8(2)?;
                sink.text(path)?;
                sink.u32(mode)
            }
            FileAction::Unlink { path } => {
                sink.u8(3)?;
                sink.text(path)
            }
            FileAction::RemoveDir { path } => {
                sink.u8(4)?;
                sink.text(path)
            }
            FileAction::Rename { from, to } => {
                sink.u8(5)?;
                sink.text(from)?;
                sink.text(to)
            }
        }
    }

    fn decode(reader: &mut Reader<'a>) -> Option<Self> {
        Some(match reader.u8()? {
            1 => FileAction::Open { path: reader.text()?, flags: reader.u32()?, mode: reader.u32()? },
            2 => FileAction::MakeDir { path: reader.text()?, mode: reader.u32()? },
            3 => FileAction::Unlink { path: reader.text()? },
            4 => FileAction::RemoveDir { path: reader.text()? },
            5 => FileAction::Rename { from: reader.text()?, to: reader.text()? },
            _ => return None,
        })
    }
}

impl<'a> Request<'a> {
    /// Appends the packet; `None` when it is longer than a packet may be.
    pub(crate) fn encode(&self, sink: &mut impl Sink) -> Option<()> {
        match *self {
            Request::Plan { length } => {
                sink.u8(1)?;
                sink.u64(length)
            }
            Request::Exec { id, uid, gid, length } => {
                sink.u8(2)?;
                sink.u32(id)?;
                sink.u32(uid)?;
                sink.u32(gid)?;
                sink.u64(length)
            }
            Request::Signal { id, target, signal, scope } => {
                sink.u8(3)?;
                sink.u32(id)?;
                sink.u32(target)?;
                sink.u32(signal)?;
                sink.u8(u8::from(scope == Scope::Tree))
            }
            Request::File { id, uid, gid, action } => {
                sink.u8(4)?;
                sink.u32(id)?;
                sink.u32(uid)?;
                sink.u32(gid)?;
                action.encode(sink)
            }
            Request::Shutdown { grace_milliseconds } => {
                sink.u8(5)?;
                sink.u32(grace_milliseconds)
            }
        }
    }

    /// The packet in `bytes`, if it is one, whole and with nothing behind it.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let request = match reader.u8()? {
            1 => Request::Plan { length: reader.u64()? },
            2 => Request::Exec {
                id: reader.u32()?,
                uid: reader.u32()?,
                gid: reader.u32()?,
                length: reader.u64()?,
            },
            3 => Request::Signal {
                id: reader.u32()?,
                target: reader.u32()?,
                signal: reader.u32()?,
                scope: match reader.u8()? {
                    0 => Scope::Process,
                    1 => Scope::Tree,
                    _ => return None,
                },
            },
            4 => Request::File {
                id: reader.u32()?,
                uid: reader.u32()?,
                gid: reader.u32()?,
                action: FileAction::decode(&mut reader)?,
            },
            5 => Request::Shutdown { grace_milliseconds: reader.u32()? },
            _ => return None,
        };
        reader.is_empty().then_some(request)
    }
}

impl<'a> Reply<'a> {
    /// Appends the packet; `None` when it is longer than a packet may be.
    pub(crate) fn encode(&self, sink: &mut impl Sink) -> Option<()> {
        match *self {
            Reply::Born => sink.u8(1),
            Reply::Ready => sink.u8(2),
            Reply::Failed { step, errno, subject } => {
                sink.u8(3)?;
                sink.u16(step as u16)?;
                sink.i32(errno)?;
                sink.text(subject)
            }
            Reply::Started { id, pid } => {
                sink.u8(4)?;
                sink.u32(id)?;
                sink.u32(pid)
            }
            Reply::Exited { id, status } => {
                sink.u8(5)?;
                sink.u32(id)?;
                sink.u32(status)
            }
            Reply::Done { id } => {
                sink.u8(6)?;
                sink.u32(id)
            }
            Reply::Refused { id, step, errno } => {
                sink.u8(7)?;
                sink.u32(id)?;
                sink.u16(step as u16)?;
                sink.i32(errno)
            }
        }
    }

    /// The packet in `bytes`, if it is one, whole and with nothing behind it.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let reply = match reader.u8()? {
            1 => Reply::Born,
            2 => Reply::Ready,
            3 => Reply::Failed { step: reader.step()?, errno: reader.i32()?, subject: reader.text()? },
            4 => Reply::Started { id: reader.u32()?, pid: reader.u32()? },
            5 => Reply::Exited { id: reader.u32()?, status: reader.u32()? },
            6 => Reply::Done { id: reader.u32()? },
            7 => Reply::Refused { id: reader.u32()?, step: reader.step()?, errno: reader.i32()? },
            _ => return None,
        };
        reader.is_empty().then_some(reply)
    }
}
