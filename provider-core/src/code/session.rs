//! The code session.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    CodeEnd, CodeOptions, CodeOutput, Interrupter,
    frame::Broken,
    process::{Grip, Process},
    run::{Loss, Run, RunEnd},
};
use crate::{
    error::{Code, Effect, Error, Result},
    sandbox::{ExitStatus, Sandbox},
};

/// Runs Python code in a sandbox, piece after piece, with its state kept in between.
///
/// A session is *lost* when its interpreter has ended, does not answer, or answers in a way that cannot be read. Then
/// its process is killed, each call but [`restart`](Self::restart) and [`close`](Self::close) is an error that says
/// why, and nothing is ever run a second time.
///
/// Dropping a session ends the driver's input, and with that its processes; nobody waits for it.
pub struct CodeSession {
    sandbox: Arc<dyn Sandbox>,
    options: CodeOptions,
    state: State,
    /// The command that was started last.
    grip: Grip,
    python_version: String,
    runs: u64,
    interrupter: Interrupter,
}

enum State {
    Ready(Process),
    Lost(String),
}

impl CodeSession {
    /// Starts an interpreter in a sandbox.
    ///
    /// Not cancel safe: a command whose start was dropped ends with its input, if the driver of the sandbox ends the
    /// input of a child that is dropped.
    ///
    /// # Errors
    /// Those of [`Sandbox::spawn`]; [`Code::ExecFailed`] if there is no such interpreter or it cannot run the session,
    /// with what it said; [`Code::Timeout`] if it does not answer within [`CodeOptions::start_limit`].
    pub async fn start(sandbox: &Arc<dyn Sandbox>, options: CodeOptions) -> Result<Self> {
        let (process, grip, python_version) = Process::start(sandbox, &options).await?;
        Ok(Self {
            sandbox: Arc::clone(sandbox),
            options,
            state: State::Ready(process),
            grip,
            python_version,
            runs: 0,
            interrupter: Interrupter::default(),
        })
    }

    /// The interpreter's version, such as `3.12.1`.
    pub fn python_version(&self) -> &str {
        &self.python_version
    }

    /// A handle that interrupts the code that runs, from another task.
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Why the session is lost, if it is.
    pub fn lost(&self) -> Option<&str> {
        match &self.state {
            State::Ready(_) => None,
            State::Lost(why) => Some(why),
        }
    }

    /// Runs code for at most [`CodeOptions::run_limit`]. See [`CodeSession::run_within`].
    ///
    /// # Errors
    /// As for [`CodeSession::run_within`].
    pub async fn run(&mut self, code: &str) -> Result<CodeOutput> {
        self.run_within(code, self.options.run_limit).await
    }

    /// Runs code for at most `limit`. Then it is interrupted; if it does not answer within
    /// [`CodeOptions::interrupt_grace`], its whole tree is killed and the session is lost. What was printed until then
    /// is in the output in each case: see [`CodeOutput::end`].
    ///
    /// Not cancel safe: dropping the future kills the code, and the session is lost.
    ///
    /// # Errors
    /// An error never stands for a fault of the code. [`Code::WrongState`] if the session was lost before: nothing was
    /// run. [`Code::SandboxGone`]; [`Code::Timeout`] if not even the driver answered, and [`Code::StreamCut`] if its
    /// answer was cut off or cannot be read: what the code did is unknown, and the session is lost. The sandbox's own
    /// errors if it could not kill what hangs.
    pub async fn run_within(&mut self, code: &str, limit: Duration) -> Result<CodeOutput> {
        // If this future is dropped, the process goes with it, which ends its input.
        let dropped = State::Lost("a call was dropped while its code ran".into());
        let mut process = match std::mem::replace(&mut self.state, dropped) {
            State::Ready(process) => process,
            State::Lost(why) => {
                let error = lost(&why);
                self.state = State::Lost(why);
                return Err(error);
            }
        };
        self.runs += 1;
        let running = self.interrupter.begin(self.runs);
        let mut run = Run::new(self.runs, self.options.output_cap);
        let end = run.carry_out(&mut process, &running, code, limit, &self.options).await;
        drop(running);
        let ended = match end {
            RunEnd::Done => {
                self.state = State::Ready(process);
                return Ok(run.output(CodeEnd::Finished));
            }
            RunEnd::Lost(ended) => ended,
        };
        let killed = match self.grip.kill().await {
            Err(error) if error.code() == Code::SandboxGone => {
                self.state = State::Lost("the sandbox is gone".into());
                return Err(error.with_operation("run code").with_effect(Effect::Unknown));
            }
            killed => killed,
        };
        drop(process);
        let (why, outcome) = verdict(ended, killed, run, limit);
        self.state = State::Lost(why);
        outcome
    }

    /// Kills the interpreter with all its descendants, waits until it has ended, and starts a new one. State and
    /// processes are gone, files stay.
    ///
    /// Not cancel safe: the session is lost until it is restarted again.
    ///
    /// # Errors
    /// Those of the sandbox and of [`CodeSession::start`]. If the old interpreter cannot be killed, no new one is
    /// started. In each case the session is lost, and can be restarted again.
    pub async fn restart(&mut self) -> Result<()> {
        // Its input ends only once the signal was sent: what is tried here is the kill.
        let old = std::mem::replace(&mut self.state, State::Lost("a restart was not completed".into()));
        self.grip.kill().await.map_err(|error| error.with_operation("restart code session"))?;
        drop(old);
        let (process, grip, python_version) = Process::start(&self.sandbox, &self.options).await?;
        self.grip = grip;
        self.python_version = python_version;
        self.state = State::Ready(process);
        Ok(())
    }

    /// Ends the interpreter, as the end of its input does, and waits until it has ended; if it does not in a few
    /// seconds, it is killed.
    ///
    /// Not cancel safe: the interpreter ends, and nobody waits for it.
    ///
    /// # Errors
    /// Those of the sandbox; [`Code::Timeout`] if its end cannot be seen.
    pub async fn close(self) -> Result<()> {
        let grip = self.grip.clone();
        let end = match self.state {
            State::Ready(mut process) => {
                process.hang_up();
                grip.wait_or_kill().await
            }
            State::Lost(_) => grip.kill().await,
        };
        end.map(drop).map_err(|error| error.with_operation("close code session"))
    }
}

impl fmt::Debug for CodeSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeSession")
            .field("sandbox", &format_args!("{}", self.sandbox))
            .field("options", &self.options)
            .field("python_version", &self.python_version)
            .field("runs", &self.runs)
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}

/// Why the session is lost, and what the caller is told.
fn verdict(
    loss: Loss,
    killed: Result<ExitStatus>,
    run: Run,
    limit: Duration,
) -> (String, Result<CodeOutput>) {
    match loss {
        // That it ended is known, whether or not its end could be seen again.
        Loss::Died(status) => {
            (format!("the interpreter ended with {status}"), Ok(run.output(CodeEnd::Died(status))))
        }
        Loss::Silent { acknowledged: true } => (
            "code did not answer the interrupt at its time limit".to_owned(),
            killed.map(|_| run.output(CodeEnd::Killed)),
        ),
        Loss::Silent { acknowledged: false } => {
            let why = format!("no answer came within {limit:?}, nor to the interrupt");
            let error = unknown(Code::Timeout, &why);
            (why, Err(error))
        }
        Loss::Broken(broken) => {
            let status = match (&broken, killed) {
                (Broken::End, Ok(status)) => format!(", and its command with {status}"),
                _ => String::new(),
            };
            let why = format!("its answer cannot be read: {broken}{status}");
            let mut error = unknown(Code::StreamCut, &why);
            if let Broken::Failed(source) = broken {
                error = error.with_source(source);
            }
            (why, Err(error))
        }
    }
}

fn lost(why: &str) -> Error {
    Error::new(Code::WrongState, format!("the code session is lost, and nothing was run: {why}"))
        .with_operation("run code")
        .with_advice("restart the session; its variables are gone")
}

fn unknown(code: Code, why: &str) -> Error {
    Error::new(code, format!("the code session is lost: {why}"))
        .with_operation("run code")
        .with_effect(Effect::Unknown)
        .with_advice("whether the code finished is unknown; check, and restart the session")
}
