//! A box that runs.

use super::EngineError;
use super::link::{Answer, Link};
use super::plan::{ExecSpec, Identity, Purpose, SignalScope};
use super::process::{self, Process};
use crate::helper::packet::{FileAction, Request, Scope};
use crate::store::{BoxDir, Layer, LayerLock, Layout};
use rustix::process::Signal;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest grace that [`RunningBox::stop`] gives.
const LONGEST_GRACE: Duration = Duration::from_secs(10);
/// How long the helper may take beyond the grace, and each kill after it.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// A box that runs. Clones share it; when the last is dropped, everything in the box is killed and its folder
/// is removed, which takes a few milliseconds, at most some seconds, and needs no runtime.
///
/// All functions may be called from any thread. They block: for the time of a system call or two inside the
/// box, and [`stop`](Self::stop) for its grace.
#[derive(Clone)]
pub struct RunningBox {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) id: String,
    pub(super) purpose: Purpose,
    pub(super) layout: Layout,
    pub(super) link: Arc<Link>,
    /// The helper outside the box, and the first process inside.
    pub(super) helper: OwnedFd,
    pub(super) first: Option<OwnedFd>,
    /// `None` once it was removed or became a layer.
    pub(super) folder: Mutex<Option<BoxDir>>,
}

impl fmt::Debug for RunningBox {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RunningBox").field("id", &self.inner.id).finish_non_exhaustive()
    }
}

impl RunningBox {
    /// The id that the plan gave it.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// Whether it still takes requests. It ends by [`stop`](Self::stop), or when its first process is killed
    /// from outside.
    pub fn is_alive(&self) -> bool {
        self.inner.link.is_alive()
    }

    /// Starts a command; comes back when the program was executed, or could not be.
    ///
    /// Not cancellable, but bounded by the request limit; a command whose start is reported after that limit
    /// is killed.
    ///
    /// # Errors
    /// [`EngineError::Exec`] when the command did not start, [`EngineError::BadInput`],
    /// [`EngineError::BoxEnded`], [`EngineError::Timeout`].
    pub fn spawn(&self, spec: &ExecSpec) -> Result<Process, EngineError> {
        process::spawn(&self.inner.link, &self.inner.id, spec)
    }

    /// Signals a command, by the id of its [`Process`]. With [`SignalScope::Tree`] this also works after the
    /// command's own end, for what it left in its session. SIGKILL of a tree comes back when nobody of it is
    /// left to be found.
    ///
    /// # Errors
    /// [`EngineError::NoProcess`] when there is nobody to signal, [`EngineError::BoxEnded`],
    /// [`EngineError::Timeout`].
    pub fn signal(&self, process: u32, signal: i32, scope: SignalScope) -> Result<(), EngineError> {
        let number = u32::try_from(signal).unwrap_or(u32::MAX);
        let scope = match scope {
            SignalScope::Process => Scope::Process,
            SignalScope::Tree => Scope::Tree,
        };
        let link = &self.inner.link;
        let id = link.next_id();
        let request = Request::Signal { id, target: process, signal: number, scope };
        match link.ask(id, &request, &[], None, "send a signal")? {
            Answer::Refused(_, source) if source.raw_os_error() == Some(3) => Err(EngineError::NoProcess),
            Answer::Refused(_, source) => Err(EngineError::Signal { source }),
            Answer::Done(_) | Answer::Started(_) => Ok(()),
        }
    }

    /// Opens a file inside the box, as this user: links cannot lead out of the box, and permissions hold.
    /// `flags` are those of open(2), `mode` the permissions of a new file, exactly. The file is opened
    /// without blocking: of a named pipe or a device the caller sees `O_NONBLOCK`, so look at its type first.
    ///
    /// # Errors
    /// [`EngineError::File`] with the system's reason, [`EngineError::BadInput`], [`EngineError::BoxEnded`],
    /// [`EngineError::Timeout`].
    pub fn open(&self, path: &Path, flags: i32, mode: u32, who: Identity) -> Result<OwnedFd, EngineError> {
        let text = c_path(path)?;
        let flags = u32::try_from(flags).map_err(|_| bad("the flags of open are negative"))?;
        let fd = self.file(path, who, FileAction::Open { path: &text, flags, mode })?;
        fd.ok_or_else(|| self.garbled())
    }

    /// Makes a folder inside the box, as this user, with exactly these permissions.
    ///
    /// # Errors
    /// As for [`RunningBox::open`].
    pub fn mkdir(&self, path: &Path, mode: u32, who: Identity) -> Result<(), EngineError> {
        self.file(path, who, FileAction::MakeDir { path: &c_path(path)?, mode }).map(drop)
    }

    /// Removes a file inside the box, as this user.
    ///
    /// # Errors
    /// As for [`RunningBox::open`].
    pub fn unlink(&self, path: &Path, who: Identity) -> Result<(), EngineError> {
        self.file(path, who, FileAction::Unlink { path: &c_path(path)? }).map(drop)
    }

    /// Removes an empty folder inside the box, as this user.
    ///
    /// # Errors
    /// As for [`RunningBox::open`].
    pub fn rmdir(&self, path: &Path, who: Identity) -> Result<(), EngineError> {
        self.file(path, who, FileAction::RemoveDir { path: &c_path(path)? }).map(drop)
    }

    /// Renames inside the box, as this user, in place of what has the new name.
    ///
    /// # Errors
    /// As for [`RunningBox::open`].
    pub fn rename(&self, from: &Path, to: &Path, who: Identity) -> Result<(), EngineError> {
        self.file(from, who, FileAction::Rename { from: &c_path(from)?, to: &c_path(to)? }).map(drop)
    }

    fn file(
        &self,
        path: &Path,
        who: Identity,
        action: FileAction<'_>,
    ) -> Result<Option<OwnedFd>, EngineError> {
        let link = &self.inner.link;
        let id = link.next_id();
        let request = Request::File { id, uid: who.uid, gid: who.gid, action };
        match link.ask(id, &request, &[], None, "do a file operation")? {
            Answer::Done(fd) => Ok(fd),
            Answer::Refused(step, source) => {
                Err(EngineError::File { step, path: path.to_string_lossy().into_owned(), source })
            }
            Answer::Started(_) => Err(self.garbled()),
        }
    }

    fn garbled(&self) -> EngineError {
        EngineError::Connection { id: self.inner.id.clone(), source: io::ErrorKind::InvalidData.into() }
    }

    /// Ends the box: SIGTERM to every process, SIGKILL to what is left after `grace` (at most 10 s). Comes
    /// back when all are dead. The folder of a run box is removed; that of a build box stays, for
    /// [`publish`](Self::publish), until the last clone is dropped.
    ///
    /// Idempotent; several threads may call it. After an error it can be called again.
    ///
    /// # Errors
    /// [`EngineError::Timeout`] when a process does not even die of SIGKILL (it hangs in the kernel), or the
    /// folder cannot be removed, which the next reap tries again.
    pub fn stop(&self, grace: Duration) -> Result<(), EngineError> {
        self.inner.end(grace)?;
        if self.inner.purpose == Purpose::Run { self.inner.discard() } else { Ok(()) }
    }

    /// Turns what a build box changed into a layer: stops the box if it runs, and moves its upper folder into
    /// the store, by one rename. When there is a layer of this key already, that one stays. The box is gone
    /// afterwards.
    ///
    /// # Errors
    /// [`EngineError::BadInput`] for a run box, or when it was published before; errors of
    /// [`stop`](Self::stop); or the store refuses, and nothing is published.
    pub fn publish(&self, lock: &LayerLock, meta: serde_json::Value) -> Result<Layer, EngineError> {
        if self.inner.purpose != Purpose::Build {
            return Err(bad("a run box cannot become a layer"));
        }
        self.inner.end(LONGEST_GRACE)?;
        let folder = self.inner.folder().take();
        let folder = folder.ok_or_else(|| bad("this box was published or removed before"))?;
        let layer = folder.publish(lock, self.inner.layout, meta)?;
        folder.discard()?;
        Ok(layer)
    }

    /// Kills everything and removes the folder, of a build box as well.
    ///
    /// # Errors
    /// As for [`RunningBox::stop`].
    pub fn destroy(&self) -> Result<(), EngineError> {
        self.inner.destroy()
    }
}

impl Inner {
    fn folder(&self) -> MutexGuard<'_, Option<BoxDir>> {
        self.folder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, grace: Duration) -> Result<(), EngineError> {
        let grace = grace.min(LONGEST_GRACE);
        let milliseconds = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        if self.link.is_alive()
            && self.link.send(&Request::Shutdown { grace_milliseconds: milliseconds }, &[]).is_err()
        {
            self.link.hang_up();
        }
        if self.link.wait_dead(grace + KILL_LIMIT) {
            return Ok(());
        }
        // The first process does not answer. Its death is the death of all others; stage 1 waits for it.
        for process in [self.first.as_ref(), Some(&self.helper)].into_iter().flatten() {
            let _ = rustix::process::pidfd_send_signal(process, Signal::KILL);
            if self.link.wait_dead(KILL_LIMIT) {
                return Ok(());
            }
        }
        Err(EngineError::Timeout {
            id: self.id.clone(),
            what: "die of SIGKILL",
            limit: grace + 3 * KILL_LIMIT,
        })
    }

    fn discard(&self) -> Result<(), EngineError> {
        match self.folder().take() {
            Some(folder) => Ok(folder.discard()?),
            None => Ok(()),
        }
    }

    pub(super) fn destroy(&self) -> Result<(), EngineError> {
        self.end(Duration::ZERO)?;
        self.discard()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(error) = self.destroy() {
            tracing::warn!(box_id = %self.id, %error, "a box was dropped and could not be removed at once");
        }
    }
}

fn bad(what: &str) -> EngineError {
    EngineError::BadInput { what: what.to_owned() }
}

fn c_path(path: &Path) -> Result<CString, EngineError> {
    const LONGEST: usize = 4095;
    let bytes = path.as_os_str().as_bytes();
    if !path.is_absolute() || bytes.len() > LONGEST {
        return Err(bad(&format!("{path:?} is no absolute path of at most {LONGEST} bytes")));
    }
    CString::new(bytes).map_err(|_| bad(&format!("the path {path:?} contains a NUL byte")))
}
