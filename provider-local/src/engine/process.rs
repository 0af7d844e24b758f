//! A command that runs in a box.

use super::EngineError;
use super::link::{Answer, Link};
use super::plan::{ExecSpec, Exit, Stdin};
use super::wire::sealed_file;
use crate::helper::exec::{MAX_GROUPS, encode_block};
use crate::helper::packet::Request;
use crate::helper::step::Step;
use rustix::fs::MemfdFlags;
use rustix::pipe::PipeFlags;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// A running command. Dropping it closes the ends of its pipes, and leaves it running.
#[derive(Debug)]
pub struct Process {
    /// Names it in [`RunningBox::signal`](super::RunningBox::signal).
    pub id: u32,
    /// Its number inside the box.
    pub pid: u32,
    /// Where its stdin is written, with [`Stdin::Pipe`]; closing it is the end of the stream.
    pub stdin: Option<OwnedFd>,
    /// Where its stdout is read, in blocking mode.
    pub stdout: OwnedFd,
    /// Where its stderr is read, in blocking mode.
    pub stderr: OwnedFd,
    /// How it ends. Comes when the process ends, whether or not somebody else still holds its pipes.
    pub exit: ExitWait,
}

/// Waits for the end of a command. Dropping it changes nothing; it needs no runtime.
#[derive(Debug)]
pub struct ExitWait {
    box_id: String,
    receiver: oneshot::Receiver<Exit>,
}

impl Future for ExitWait {
    /// [`EngineError::BoxEnded`] when the whole box ended first.
    type Output = Result<Exit, EngineError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let id = &self.box_id.clone();
        Pin::new(&mut self.receiver)
            .poll(context)
            .map(|exit| exit.map_err(|_| EngineError::BoxEnded { id: id.clone() }))
    }
}

impl ExitWait {
    /// Waits in this thread, which must not be one that runs asynchronous tasks.
    ///
    /// # Errors
    /// [`EngineError::BoxEnded`] when the whole box ended first.
    pub fn wait(self) -> Result<Exit, EngineError> {
        self.receiver.blocking_recv().map_err(|_| EngineError::BoxEnded { id: self.box_id })
    }
}

/// Starts a command.
pub(super) fn spawn(link: &Link, box_id: &str, spec: &ExecSpec) -> Result<Process, EngineError> {
    let system = |source| EngineError::Connection { id: box_id.to_owned(), source };
    let bytes = encode(spec)?;
    let length = bytes.len() as u64;
    let block = sealed_file("arguments", &bytes, MemfdFlags::empty()).map_err(system)?;
    let (stdout, child_stdout) = pipe().map_err(system)?;
    let (stderr, child_stderr) = pipe().map_err(system)?;
    let (child_stdin, stdin) = match spec.stdin {
        Stdin::Null => (OwnedFd::from(File::open("/dev/null").map_err(system)?), None),
        Stdin::Pipe => pipe().map(|(read, write)| (read, Some(write))).map_err(system)?,
    };
    let (sender, receiver) = oneshot::channel();
    let id = link.next_id();
    let request = Request::Exec { id, uid: spec.identity.uid, gid: spec.identity.gid, length };
    let fds = [block.as_fd(), child_stdin.as_fd(), child_stdout.as_fd(), child_stderr.as_fd()];
    match link.ask(id, &request, &fds, Some(sender), "start the command")? {
        Answer::Started(pid) => {
            let exit = ExitWait { box_id: box_id.to_owned(), receiver };
            Ok(Process { id, pid, stdin, stdout, stderr, exit })
        }
        Answer::Refused(step, source) => Err(refusal(spec, step, source)),
        Answer::Done(_) => Err(system(io::ErrorKind::InvalidData.into())),
    }
}

fn refusal(spec: &ExecSpec, step: Step, source: io::Error) -> EngineError {
    let subject = match step {
        Step::WorkingDirectory => spec.cwd.as_os_str().to_owned(),
        _ => spec.argv.first().cloned().unwrap_or_default(),
    };
    EngineError::Exec { step, subject: subject.to_string_lossy().into_owned(), source }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?)
}

fn encode(spec: &ExecSpec) -> Result<Vec<u8>, EngineError> {
    let bad = |what: &str| EngineError::BadInput { what: what.to_owned() };
    if spec.argv.is_empty() {
        return Err(bad("a command needs at least a program"));
    }
    if spec.groups.len() > MAX_GROUPS {
        return Err(bad("a command can have at most 64 supplementary groups"));
    }
    let argv = spec.argv.iter().map(|text| c_text("an argument", text)).collect::<Result<Vec<_>, _>>()?;
    let env = spec.env.iter().map(|(name, value)| variable(name, value)).collect::<Result<Vec<_>, _>>()?;
    let cwd = c_text("the working directory", spec.cwd.as_os_str())?;
    let mut block = Vec::new();
    let arguments = argv.iter().map(CString::as_c_str);
    let environment = env.iter().map(CString::as_c_str);
    encode_block(&mut block, &cwd, &spec.groups, arguments, environment)
        .ok_or_else(|| bad("the arguments of a command are longer than 4 GiB"))?;
    Ok(block)
}

fn c_text(what: &str, text: &OsStr) -> Result<CString, EngineError> {
    CString::new(text.as_bytes())
        .map_err(|_| EngineError::BadInput { what: format!("{what} contains a NUL byte") })
}

fn variable(name: &OsStr, value: &OsStr) -> Result<CString, EngineError> {
    let name_bytes = name.as_bytes();
    if name_bytes.is_empty() || name_bytes.contains(&b'=') {
        return Err(EngineError::BadInput { what: format!("{name:?} is no name of a variable") });
    }
    let text = [name_bytes, b"=", value.as_bytes()].concat();
    // The value may be a secret, so the name alone is shown.
    CString::new(text)
        .map_err(|_| EngineError::BadInput { what: format!("the variable {name:?} contains a NUL byte") })
}
