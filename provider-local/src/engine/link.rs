//! The connection to the helper of one box: requests, their answers, and the thread that reads them.

use super::EngineError;
use super::plan::Exit;
use super::wire::{self, Packet};
use crate::helper::packet::{Reply, Request, Scope};
use crate::helper::step::Step;
use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

const SIGKILL: u32 = 9;

/// The answer to a request.
pub(super) enum Answer {
    /// The command runs; its number inside the box.
    Started(u32),
    /// Done, with the descriptor of an opened file.
    Done(Option<OwnedFd>),
    /// Refused.
    Refused(Step, io::Error),
}

struct Waiting {
    answer: Option<SyncSender<Answer>>,
    exit: Option<oneshot::Sender<Exit>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Alive,
    /// The helper has closed its end: nothing runs any more, or is about to be dead.
    Closed,
    /// The helper's process was waited for: every process of the box is dead.
    Dead,
}

/// The driver's end of the control socket.
pub(super) struct Link {
    id: String,
    socket: OwnedFd,
    limit: Duration,
    next: AtomicU32,
    waiting: Mutex<HashMap<u32, Waiting>>,
    phase: Mutex<Phase>,
    changed: Condvar,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Link").field("id", &self.id).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    /// Starts the reading thread, which also waits for the helper's process.
    pub(super) fn open(
        id: &str,
        socket: OwnedFd,
        child: Child,
        limit: Duration,
    ) -> Result<Arc<Self>, (EngineError, Child)> {
        let link = Arc::new(Self {
            id: id.to_owned(),
            socket,
            limit,
            next: AtomicU32::new(1),
            waiting: Mutex::default(),
            phase: Mutex::new(Phase::Alive),
            changed: Condvar::new(),
        });
        let (hand_over, take) = mpsc::sync_channel::<Child>(1);
        let reader = Arc::clone(&link);
        let thread =
            std::thread::Builder::new().name(format!("box-{id}")).stack_size(256 << 10).spawn(move || {
                if let Ok(child) = take.recv() {
                    reader.read_until_end(child);
                }
            });
        match thread {
            Ok(_) => match hand_over.send(child) {
                Ok(()) => Ok(link),
                Err(mpsc::SendError(child)) => Err((link.broken(io::ErrorKind::BrokenPipe.into()), child)),
            },
            Err(source) => Err((link.broken(source), child)),
        }
    }

    fn broken(&self, source: io::Error) -> EngineError {
        EngineError::Connection { id: self.id.clone(), source }
    }

    fn ended(&self) -> EngineError {
        EngineError::BoxEnded { id: self.id.clone() }
    }

    /// A number for the next request.
    pub(super) fn next_id(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a request that is answered, and waits for the answer.
    pub(super) fn ask(
        &self,
        id: u32,
        request: &Request<'_>,
        fds: &[BorrowedFd<'_>],
        exit: Option<oneshot::Sender<Exit>>,
        what: &'static str,
    ) -> Result<Answer, EngineError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        {
            let phase = lock(&self.phase);
            if *phase != Phase::Alive {
                return Err(self.ended());
            }
            lock(&self.waiting).insert(id, Waiting { answer: Some(sender), exit });
        }
        if let Err(error) = self.send(request, fds) {
            lock(&self.waiting).remove(&id);
            return Err(error);
        }
        match receiver.recv_timeout(self.limit) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
            Err(RecvTimeoutError::Timeout) => {
                let mut waiting = lock(&self.waiting);
                if let Ok(answer) = receiver.try_recv() {
                    return Ok(answer);
                }
                // The reader kills a command that starts after all, since nobody waits for it any more.
                waiting.remove(&id);
                Err(EngineError::Timeout { id: self.id.clone(), what, limit: self.limit })
            }
        }
    }

    pub(super) fn send(&self, request: &Request<'_>, fds: &[BorrowedFd<'_>]) -> Result<(), EngineError> {
        wire::send(&self.socket, request, fds).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => self.ended(),
            _ => self.broken(error),
        })
    }

    /// Whether requests are answered.
    pub(super) fn is_alive(&self) -> bool {
        *lock(&self.phase) == Phase::Alive
    }

    /// Waits until every process of the box is dead; `false` when the time is over.
    pub(super) fn wait_dead(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut phase = lock(&self.phase);
        while *phase != Phase::Dead {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            phase = self.changed.wait_timeout(phase, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Ends the connection, which ends the box.
    pub(super) fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    fn read_until_end(&self, mut child: Child) {
        let mut packet = Packet::new();
        while matches!(wire::receive(&self.socket, &mut packet), Ok(true)) {
            let fd = packet.fd.take();
            if let Some(reply) = Reply::decode(packet.bytes()) {
                self.deliver(&reply, fd);
            }
        }
        self.advance(Phase::Closed);
        // Dropping the senders tells everybody who waits that the box has ended.
        lock(&self.waiting).clear();
        // After a broken packet the helper may still live; it ends when the connection does.
        self.hang_up();
        if let Err(error) = child.wait() {
            tracing::debug!(box_id = %self.id, %error, "the helper was waited for by somebody else");
        }
        self.advance(Phase::Dead);
    }

    fn advance(&self, to: Phase) {
        *lock(&self.phase) = to;
        self.changed.notify_all();
    }

    fn deliver(&self, reply: &Reply<'_>, fd: Option<OwnedFd>) {
        match *reply {
            Reply::Started { id, pid } => {
                let mut waiting = lock(&self.waiting);
                match waiting.get_mut(&id).and_then(|waiting| waiting.answer.take()) {
                    // The sender has room for its one message.
                    Some(sender) => drop(sender.send(Answer::Started(pid))),
                    None => {
                        drop(waiting);
                        self.kill_abandoned(id);
                    }
                }
            }
            Reply::Exited { id, status } => {
                let waiting = lock(&self.waiting).remove(&id);
                if let Some(sender) = waiting.and_then(|waiting| waiting.exit) {
                    let _ = sender.send(exit_of(status));
                }
            }
            Reply::Done { id } => self.finish(id, Answer::Done(fd)),
            Reply::Refused { id, step, errno } => {
                self.finish(id, Answer::Refused(step, io::Error::from_raw_os_error(errno)));
            }
            Reply::Born | Reply::Ready | Reply::Failed { .. } => {}
        }
    }

    fn finish(&self, id: u32, answer: Answer) {
        let waiting = lock(&self.waiting).remove(&id);
        if let Some(sender) = waiting.and_then(|waiting| waiting.answer) {
            let _ = sender.send(answer);
        }
    }

    fn kill_abandoned(&self, target: u32) {
        let request = Request::Signal { id: self.next_id(), target, signal: SIGKILL, scope: Scope::Tree };
        if let Err(error) = self.send(&request, &[]) {
            tracing::debug!(box_id = %self.id, %error, "a late command lives until the box ends");
        }
    }
}

/// Splits a wait status.
fn exit_of(status: u32) -> Exit {
    let signal = status & 0x7f;
    if signal == 0 {
        Exit::Code(i32::from((status >> 8 & 0xff) as u8))
    } else {
        Exit::Signal(i32::from(signal as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_statuses_are_split() {
        assert_eq!(exit_of(0), Exit::Code(0));
        assert_eq!(exit_of(127 << 8), Exit::Code(127));
        assert_eq!(exit_of(9), Exit::Signal(9));
        assert_eq!(exit_of(11 | 0x80), Exit::Signal(11));
    }
}
