//! A sandbox that answers from a script: the doctor, the probes of the contract, the checks' code sessions, and a few
//! small programs.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures_util::future::BoxFuture;

use crate::{
    contract::fixtures::ScriptedMachine,
    environment::sha256_hex,
    error::{Code, Error, Result},
    lifecycle::ResourceRef,
    sandbox::{
        ByteReader, Child, ChildControl, Command, ExitStatus, FileStat, Output, Sandbox, Scope, read_all,
        reader_of,
    },
};

/// Asks the world whether the sandbox still runs.
type Ask = Box<dyn Fn() -> BoxFuture<'static, Result<()>> + Send + Sync>;

pub(super) struct MemorySandbox {
    reference: ResourceRef,
    machine: ScriptedMachine,
    ask: Ask,
}

/// No file of a scripted machine is longer.
const FILE_MAX: usize = 64 << 20;

impl MemorySandbox {
    pub(super) fn new(reference: ResourceRef, machine: ScriptedMachine, ask: Ask) -> Self {
        Self { reference, machine, ask }
    }

    /// The program that prints a file's digest.
    fn sum(&self, command: &Command) -> Option<Output> {
        let argv = command.program.argv();
        let [program, path] = argv.as_slice() else { return None };
        (program == "sha256sum").then(|| match self.machine.read(path) {
            Ok(content) => {
                Output::new(ExitStatus::Code(0), format!("{}  {path}\n", sha256_hex(&content)), "")
            }
            Err(error) => Output::new(ExitStatus::Code(1), "", error.message()),
        })
    }

    async fn live(&self) -> Result<()> {
        let answer = (self.ask)().await.map_err(|error| match error.code() {
            Code::NotFound | Code::WrongState => {
                Error::new(Code::SandboxGone, format!("{} does not run", self.reference)).with_source(error)
            }
            _ => error,
        });
        answer.map_err(|error| error.with_provider(&self.reference.provider).with_operation("use sandbox"))
    }
}

#[async_trait]
impl Sandbox for MemorySandbox {
    fn reference(&self) -> &ResourceRef {
        &self.reference
    }

    async fn exec(&self, command: Command) -> Result<Output> {
        command.check()?;
        self.live().await?;
        let answer = self.machine.answer(&command).or_else(|| self.sum(&command));
        answer.or_else(|| small_program(&command)).ok_or_else(|| {
            Error::new(Code::ExecFailed, format!("the script has no answer to {:?}", command.program.argv()))
        })
    }

    async fn spawn(&self, command: Command) -> Result<Child> {
        if let Some(session) = self.machine.spawn(&command) {
            self.live().await?;
            return Ok(session);
        }
        let output = self.exec(command).await?;
        let control = Arc::new(Ended(output.status));
        Ok(Child::new(None, reader_of(output.stdout), reader_of(output.stderr), control))
    }

    async fn read(&self, path: &str) -> Result<ByteReader> {
        self.live().await?;
        self.machine.read(path).map(reader_of)
    }

    async fn write(&self, path: &str, content: ByteReader, mode: u32) -> Result<()> {
        self.live().await?;
        let bytes = read_all(content, FILE_MAX).await?;
        self.machine.write(path, bytes, mode)
    }

    async fn stat(&self, path: &str) -> Result<Option<FileStat>> {
        self.live().await?;
        self.machine.stat(path)
    }

    async fn list(&self, path: &str) -> Result<Vec<String>> {
        self.live().await?;
        self.machine.list(path)
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.live().await?;
        self.machine.remove(path)
    }
}

/// The few programs that need no machine.
fn small_program(command: &Command) -> Option<Output> {
    let argv = command.program.argv();
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    let printed = |text: String| Some(Output::new(ExitStatus::Code(0), text, ""));
    match &words[..] {
        ["true"] => printed(String::new()),
        ["false"] => Some(Output::new(ExitStatus::Code(1), "", "")),
        ["echo", rest @ ..] => printed(rest.join(" ") + "\n"),
        _ => None,
    }
}

/// A scripted command has ended when it begins.
struct Ended(ExitStatus);

#[async_trait]
impl ChildControl for Ended {
    async fn signal(&self, _signal: i32, _scope: Scope) -> Result<()> {
        Ok(())
    }

    async fn wait(&self) -> Result<ExitStatus> {
        Ok(self.0)
    }
}

impl fmt::Display for MemorySandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reference.fmt(f)
    }
}

impl fmt::Debug for MemorySandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySandbox").field("reference", &self.reference).finish_non_exhaustive()
    }
}
