//! A command in a box, with its streams and its end.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Write as _},
    os::fd::OwnedFd,
    sync::Arc,
};

use async_trait::async_trait;
use provider_core::{
    contract::SANDBOX_V1,
    error::{Code, Error, Result},
    sandbox::{ByteReader, Child, ChildControl, Command, ExitStatus, Scope, Stdin},
};
use tokio::{net::unix::pipe, sync::Mutex};

use super::paths;
use crate::{
    blocking::blocking,
    engine::{self, EngineError, ExecSpec, Exit, ExitWait, Identity, Process, RunningBox, SignalScope},
    errors::{error, from_engine},
};

const SIGKILL: i32 = 9;

/// Starts a command. Dropping the future, or the leash, kills it with all its descendants.
///
/// With [`Stdin::Bytes`], the caller writes the input, as [`Child::collect`] does; with `feeds`, it is written here.
///
/// # Errors
/// [`Code::ExecFailed`] naming the program or folder that is missing; [`Code::SandboxGone`].
pub(crate) async fn start(
    running: &RunningBox,
    command: &Command,
    env_vars: &Arc<BTreeMap<String, String>>,
    who: Identity,
    feeds: bool,
) -> Result<(Child, Leash)> {
    let mut variables: BTreeMap<&String, &String> = env_vars.iter().collect();
    variables.extend(&command.env_vars);
    let mut spec = ExecSpec::new(who, command.program.argv());
    spec.env = variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    spec.cwd = paths::absolute(command.cwd.as_deref().unwrap_or(SANDBOX_V1.workdir));
    spec.stdin = match command.stdin {
        Stdin::Closed => engine::Stdin::Null,
        Stdin::Bytes(_) | Stdin::Piped => engine::Stdin::Pipe,
    };
    let input = match &command.stdin {
        Stdin::Bytes(bytes) if feeds => Some(bytes.clone()),
        _ => None,
    };
    let running = running.clone();
    let (process, leash) = blocking(move || {
        let mut process = running.spawn(&spec).map_err(|source| not_started(&running, source))?;
        // Made on this thread, so that the command ends even if nobody waits for the answer any more.
        let leash = Leash(Some((running, process.id)));
        if let Some(input) = input
            && let Some(stdin) = process.stdin.take()
        {
            feed(stdin, input)?;
        }
        Ok((process, leash))
    })
    .await?;
    let child = child(&leash, process)?;
    Ok((child, leash))
}

fn child(leash: &Leash, process: Process) -> Result<Child> {
    let Some((running, _)) = &leash.0 else {
        return Err(error(Code::Internal, "a command without a leash"));
    };
    let stdin = process.stdin.map(pipe::Sender::from_owned_fd).transpose().map_err(broken)?;
    let control = Control {
        running: running.clone(),
        process: process.id,
        end: Mutex::new(End::Waiting(process.exit)),
    };
    let stdout = stream(process.stdout)?;
    let stderr = stream(process.stderr)?;
    Ok(Child::new(stdin.map(|stdin| Box::pin(stdin) as _), stdout, stderr, Arc::new(control)))
}

fn stream(fd: OwnedFd) -> Result<ByteReader> {
    Ok(Box::pin(pipe::Receiver::from_owned_fd(fd).map_err(broken)?))
}

fn broken(source: io::Error) -> Error {
    error(Code::MachineUnsuitable, "the streams of the command cannot be used").with_source(source)
}

/// Why a command did not start, in words that name the program or folder.
fn not_started(running: &RunningBox, source: EngineError) -> Error {
    if !running.is_alive() {
        return gone(running).with_source(source);
    }
    let advice = if source.is_missing_program() {
        "check the program's name, and PATH"
    } else if source.is_missing_directory() {
        "make the working directory first, or name another"
    } else {
        return from_engine(source).with_operation("exec");
    };
    from_engine(source).with_operation("exec").with_advice(advice)
}

/// The error of every use of a box that has ended.
pub(super) fn gone(running: &RunningBox) -> Error {
    error(
        Code::SandboxGone,
        format!("the sandbox {} has ended, with all its processes and files", running.id()),
    )
}

/// Kills a command with all its descendants when it is dropped.
pub(crate) struct Leash(Option<(RunningBox, u32)>);

impl Leash {
    /// The command goes on.
    pub(crate) fn let_go(mut self) {
        self.0 = None;
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        let Some((running, process)) = self.0.take() else {
            return;
        };
        // The signal is answered only when nobody of the tree is left, so this needs a thread; and one that no
        // runtime can take away.
        let kill = move || {
            if let Err(error) = running.signal(process, SIGKILL, SignalScope::Tree)
                && !matches!(error, EngineError::NoProcess | EngineError::BoxEnded { .. })
            {
                tracing::warn!(provider = "local", %error, "a command that nobody waits for was not killed");
            }
        };
        if let Err(error) = std::thread::Builder::new().name("provider-local-kill".into()).spawn(kill) {
            tracing::warn!(provider = "local", %error, "a command that nobody waits for was not killed");
        }
    }
}

/// Signals and waiting.
struct Control {
    running: RunningBox,
    process: u32,
    end: Mutex<End>,
}

enum End {
    Waiting(ExitWait),
    Came(Exit),
    /// The box ended first.
    Lost,
}

#[async_trait]
impl ChildControl for Control {
    async fn signal(&self, signal: i32, scope: Scope) -> Result<()> {
        let (running, process) = (self.running.clone(), self.process);
        let scope = match scope {
            Scope::Process => SignalScope::Process,
            Scope::Tree => SignalScope::Tree,
        };
        blocking(move || match running.signal(process, signal, scope) {
            Ok(()) | Err(EngineError::NoProcess) => Ok(()),
            Err(source) if !running.is_alive() => Err(gone(&running).with_source(source)),
            Err(source) => Err(from_engine(source)),
        })
        .await
    }

    async fn wait(&self) -> Result<ExitStatus> {
        let mut end = self.end.lock().await;
        if let End::Waiting(exit) = &mut *end {
            *end = match exit.await {
                Ok(exit) => End::Came(exit),
                Err(_) => End::Lost,
            };
        }
        match *end {
            End::Came(Exit::Code(code)) => Ok(ExitStatus::Code(code)),
            End::Came(Exit::Signal(signal)) => Ok(ExitStatus::Signal(signal)),
            End::Waiting(_) | End::Lost => Err(gone(&self.running)),
        }
    }
}

/// Writes the input of a command on a thread of its own, which ends with the input, or when nobody reads any more.
fn feed(stdin: OwnedFd, bytes: Vec<u8>) -> Result<()> {
    let write = move || {
        // A command that does not read all its input is no error.
        let _ = File::from(stdin).write_all(&bytes);
    };
    std::thread::Builder::new().name("provider-local-stdin".into()).spawn(write).map(drop).map_err(broken)
}
