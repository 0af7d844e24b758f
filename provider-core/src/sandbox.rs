//! The verbs of a running sandbox: commands and files.

use std::{collections::BTreeMap, fmt, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{
    error::{Code, Error, Result},
    identity::User,
    lifecycle::{Clock, ResourceRef, timeout},
};

/// A stream of bytes that comes out of a sandbox.
pub type ByteReader = Pin<Box<dyn AsyncRead + Send>>;
/// A stream of bytes that goes into a sandbox.
pub type ByteWriter = Pin<Box<dyn AsyncWrite + Send>>;

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A program with its arguments, passed on exactly. The first word is looked up in `PATH` if it has no slash.
    Argv(Vec<String>),
    /// One line for `/bin/sh -c`.
    Shell(String),
}

impl Program {
    /// The words that are executed.
    pub fn argv(&self) -> Vec<String> {
        match self {
            Program::Argv(words) => words.clone(),
            Program::Shell(line) => vec!["/bin/sh".into(), "-c".into(), line.clone()],
        }
    }
}

/// What a command reads.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: the end of input at once.
    #[default]
    Closed,
    /// These bytes, then the end of input.
    Bytes(Vec<u8>),
    /// What is written to [`Child::stdin`]. Only for [`Sandbox::spawn`].
    Piped,
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stdin::Closed => f.write_str("Closed"),
            Stdin::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Stdin::Piped => f.write_str("Piped"),
        }
    }
}

/// A command to run in a sandbox. Its `Debug` shows no values of variables, which may be secret.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Command {
    /// What is run.
    pub program: Program,
    /// Variables added to those of the artifact; the same name replaces.
    pub env_vars: BTreeMap<String, String>,
    /// The working directory; absent means the contract's.
    pub cwd: Option<String>,
    /// Who runs it; absent means the contract's user.
    pub user: Option<User>,
    /// What it reads.
    pub stdin: Stdin,
    /// How long it may run. Then the whole tree of processes is killed. Absent means no limit of its own.
    pub timeout: Option<Duration>,
    /// How many bytes of each stream [`Sandbox::exec`] keeps; what follows is read and dropped.
    pub output_cap: usize,
}

impl Command {
    /// The default of [`Command::output_cap`]: 16 MiB.
    pub const OUTPUT_CAP: usize = 16 << 20;

    /// A program with arguments.
    pub fn argv<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Self {
        Self::new(Program::Argv(words.into_iter().map(Into::into).collect()))
    }

    /// A line for the shell.
    pub fn shell(line: impl Into<String>) -> Self {
        Self::new(Program::Shell(line.into()))
    }

    fn new(program: Program) -> Self {
        Self {
            program,
            env_vars: BTreeMap::new(),
            cwd: None,
            user: None,
            stdin: Stdin::Closed,
            timeout: None,
            output_cap: Self::OUTPUT_CAP,
        }
    }

    /// Adds a variable.
    #[must_use]
    pub fn env_var(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env_vars.insert(name.into(), value.into());
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(mut self, path: impl Into<String>) -> Self {
        self.cwd = Some(path.into());
        self
    }

    /// Sets who runs it.
    #[must_use]
    pub fn user(mut self, user: User) -> Self {
        self.user = Some(user);
        self
    }

    /// Sets what it reads.
    #[must_use]
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Sets how long it may run.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Sets how many bytes of each stream are kept.
    #[must_use]
    pub fn output_cap(mut self, bytes: usize) -> Self {
        self.output_cap = bytes;
        self
    }

    /// Refuses what no provider can pass on.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] if there is no program, if a word, name, value or path holds a NUL, or if a variable's
    /// name is empty or holds `=`.
    pub fn check(&self) -> Result<()> {
        let refuse = |words: String| Err(Error::new(Code::SpecInvalid, words).with_operation("exec"));
        let argv = self.program.argv();
        if argv.first().is_none_or(String::is_empty) {
            return refuse("the command has no program".into());
        }
        if argv.iter().chain(&self.cwd).any(|text| text.contains('\0')) {
            return refuse("the command or its working directory holds a NUL".into());
        }
        match self.env_vars.iter().find(|(name, value)| !is_env_name(name) || value.contains('\0')) {
            Some((name, _)) => {
                refuse(format!("variable {name:?} has no valid name or its value holds a NUL"))
            }
            None => Ok(()),
        }
    }
}

fn is_env_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("program", &self.program)
            .field("env_vars", &self.env_vars.keys())
            .field("cwd", &self.cwd)
            .field("user", &self.user)
            .field("stdin", &self.stdin)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It ran into its limit and was killed with all its descendants.
    TimedOut,
}

impl ExitStatus {
    /// Whether it exited with 0.
    pub fn success(self) -> bool {
        self == ExitStatus::Code(0)
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExitStatus::Code(code) => write!(f, "exit code {code}"),
            ExitStatus::Signal(signal) => write!(f, "signal {signal}"),
            ExitStatus::TimedOut => f.write_str("killed at its time limit"),
        }
    }
}

/// What a command left behind: its status and both streams, apart.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output, up to the cap.
    pub stdout: Vec<u8>,
    /// Standard error, up to the cap.
    pub stderr: Vec<u8>,
    /// Whether a stream was longer than the cap.
    pub truncated: bool,
    /// Whether a process that the command left behind still held a stream when reading ended.
    pub held_open: bool,
}

impl Output {
    /// An output with nothing cut off.
    pub fn new(status: ExitStatus, stdout: impl Into<Vec<u8>>, stderr: impl Into<Vec<u8>>) -> Self {
        Self { status, stdout: stdout.into(), stderr: stderr.into(), truncated: false, held_open: false }
    }

    /// Standard output as text; bytes that are not UTF-8 are replaced.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text; bytes that are not UTF-8 are replaced.
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("status", &self.status)
            .field("stdout", &self.stdout_text())
            .field("stderr", &self.stderr_text())
            .field("truncated", &self.truncated)
            .field("held_open", &self.held_open)
            .finish()
    }
}

/// Which processes a signal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The command's own process.
    Process,
    /// The command's process and all its descendants.
    Tree,
}

/// The part of a running command that a driver supplies.
#[async_trait]
pub trait ChildControl: Send + Sync {
    /// Sends a signal. A command that has ended already is no error.
    async fn signal(&self, signal: i32, scope: Scope) -> Result<()>;

    /// Waits until the command's own process has ended. Cancel safe; it can be called again.
    ///
    /// # Errors
    /// [`Code::StreamCut`] or [`Code::SandboxGone`] if the status can no longer be known. Never a status of 0
    /// instead.
    async fn wait(&self) -> Result<ExitStatus>;
}

/// A running command with live streams.
#[non_exhaustive]
pub struct Child {
    /// Takes input, if [`Stdin::Piped`] was asked for. Dropping it is the end of input.
    pub stdin: Option<ByteWriter>,
    /// Standard output. The end of the stream is not the end of the command.
    pub stdout: ByteReader,
    /// Standard error.
    pub stderr: ByteReader,
    /// Signals and waiting.
    pub control: Arc<dyn ChildControl>,
}

impl Child {
    /// Puts a running command together.
    pub fn new(
        stdin: Option<ByteWriter>,
        stdout: ByteReader,
        stderr: ByteReader,
        control: Arc<dyn ChildControl>,
    ) -> Self {
        Self { stdin, stdout, stderr, control }
    }

    /// Reads both streams to their end and waits, as [`Sandbox::exec`] does: input is written first to last while
    /// output is read, the tree is killed at the command's limit with what it wrote until then kept, and after
    /// the exit a stream that a left-over process holds open is given up after a short while.
    ///
    /// Not cancel safe: what was read so far is lost. The command goes on unless it is signalled.
    ///
    /// # Errors
    /// Those of the streams and of [`ChildControl::wait`].
    pub async fn collect(self, command: &Command, clock: &Arc<dyn Clock>) -> Result<Output> {
        let Child { stdin, stdout, stderr, control } = self;
        let input = match &command.stdin {
            Stdin::Bytes(bytes) => bytes.as_slice(),
            _ => &[],
        };
        let (mut out, mut err) = (Capture::new(command.output_cap), Capture::new(command.output_cap));
        let mut streams = Box::pin(async {
            let (_, out_end, err_end) = tokio::join!(feed(stdin, input), out.fill(stdout), err.fill(stderr));
            out_end.and(err_end)
        });
        let limit = command.timeout.unwrap_or(Duration::MAX);
        let mut exit = Box::pin(timeout(clock, limit, control.wait()));
        let mut streams_end = None;
        let status = loop {
            tokio::select! {
                biased;
                end = &mut streams, if streams_end.is_none() => streams_end = Some(end),
                status = &mut exit => break match status {
                    Ok(status) => status?,
                    Err(_) => {
                        control.signal(SIGKILL, Scope::Tree).await?;
                        ExitStatus::TimedOut
                    }
                },
            }
        };
        let held_open = match streams_end {
            Some(_) => false,
            None => match timeout(clock, DRAIN, &mut streams).await {
                Ok(end) => {
                    streams_end = Some(end);
                    false
                }
                Err(_) => true,
            },
        };
        drop(streams);
        streams_end.unwrap_or(Ok(()))?;
        let truncated = out.truncated || err.truncated;
        Ok(Output { status, stdout: out.kept, stderr: err.kept, truncated, held_open })
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("stdin", &self.stdin.is_some()).finish_non_exhaustive()
    }
}

const SIGKILL: i32 = 9;

/// How long after the exit a stream is read that another process still holds open.
const DRAIN: Duration = Duration::from_millis(250);

/// A command that ends before it has read all its input is no error.
async fn feed(stdin: Option<ByteWriter>, input: &[u8]) {
    if let Some(mut stdin) = stdin
        && stdin.write_all(input).await.is_ok()
    {
        let _ = stdin.shutdown().await;
    }
}

struct Capture {
    kept: Vec<u8>,
    cap: usize,
    truncated: bool,
}

impl Capture {
    fn new(cap: usize) -> Self {
        Self { kept: Vec::new(), cap, truncated: false }
    }

    async fn fill(&mut self, mut stream: ByteReader) -> Result<()> {
        let mut chunk = vec![0; 64 << 10];
        loop {
            let read = stream.read(&mut chunk).await.map_err(|source| {
                Error::new(Code::StreamCut, "the command's output could not be read to its end")
                    .with_source(source)
            })?;
            if read == 0 {
                return Ok(());
            }
            let room = self.cap - self.kept.len();
            self.kept.extend_from_slice(&chunk[..read.min(room)]);
            self.truncated |= read > room;
        }
    }
}

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, socket or device.
    Other,
}

/// Facts about a path in a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileStat {
    /// What it is. Links are not followed.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Owner, as seen inside.
    pub user: User,
}

impl FileStat {
    /// Puts the facts together.
    pub fn new(kind: FileKind, size: u64, mode: u32, user: User) -> Self {
        Self { kind, size, mode, user }
    }
}

/// A running machine made from an artifact.
///
/// Paths are absolute, or relative to the contract's working directory. Files are used as the contract's user: its
/// permissions hold. Memory does not grow with a file's size.
#[async_trait]
pub trait Sandbox: fmt::Display + fmt::Debug + Send + Sync + 'static {
    /// What it is on its provider.
    fn reference(&self) -> &ResourceRef;

    /// Runs a command to its end. A command's own failure is no error: see [`Output::status`].
    ///
    /// Not cancel safe: dropping the future asks for the command to be killed, and its output is lost.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] before anything is sent; [`Code::ExecFailed`] if the program cannot be started;
    /// [`Code::StreamCut`] if its end cannot be known; [`Code::SandboxGone`].
    async fn exec(&self, command: Command) -> Result<Output>;

    /// Starts a command and leaves its streams to the caller. Dropping the [`Child`] does not end it.
    ///
    /// # Errors
    /// As for [`Sandbox::exec`].
    async fn spawn(&self, command: Command) -> Result<Child>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// [`Code::FileError`] if it is missing, a directory or not readable; [`Code::SandboxGone`].
    async fn read(&self, path: &str) -> Result<ByteReader>;

    /// Writes a file from a stream: a new one with permissions `mode`, or over the content of an old one. The
    /// folder must exist.
    ///
    /// Not cancel safe: the file may be left with a part of the content.
    ///
    /// # Errors
    /// [`Code::FileError`] if it cannot be written; [`Code::SandboxGone`].
    async fn write(&self, path: &str, content: ByteReader, mode: u32) -> Result<()>;

    /// Facts about a path, or `None` where nothing is.
    ///
    /// # Errors
    /// [`Code::FileError`] if it cannot be looked at; [`Code::SandboxGone`].
    async fn stat(&self, path: &str) -> Result<Option<FileStat>>;

    /// The names in a directory, sorted, without `.` and `..`.
    ///
    /// # Errors
    /// [`Code::FileError`] if it is no directory or cannot be read; [`Code::SandboxGone`].
    async fn list(&self, path: &str) -> Result<Vec<String>>;

    /// Removes a file, a link or an empty directory.
    ///
    /// # Errors
    /// [`Code::FileError`] if nothing is there or it cannot be removed; [`Code::SandboxGone`].
    async fn remove(&self, path: &str) -> Result<()>;
}

/// Reads a stream to its end, for content that is known to be small.
///
/// # Errors
/// [`Code::FileError`] if it is longer than `cap` bytes or cannot be read.
pub async fn read_all(stream: ByteReader, cap: usize) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    let read = stream.take(cap as u64 + 1).read_to_end(&mut content).await;
    match read {
        Ok(_) if content.len() <= cap => Ok(content),
        Ok(_) => Err(Error::new(Code::FileError, format!("the content is longer than {cap} bytes"))),
        Err(source) => Err(Error::new(Code::FileError, "the content cannot be read").with_source(source)),
    }
}

/// A stream of these bytes.
pub fn reader_of(bytes: impl Into<Vec<u8>>) -> ByteReader {
    Box::pin(std::io::Cursor::new(bytes.into()))
}
