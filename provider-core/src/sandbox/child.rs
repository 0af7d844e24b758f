//! A running command.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{ByteReader, ByteWriter, Command, ExitStatus, Output, Stdin};
use crate::{
    error::{Code, Error, Result},
    lifecycle::{Clock, timeout},
};

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

    /// Reads both streams to their end and waits, as [`Sandbox::exec`](super::Sandbox::exec) does: input is written
    /// first to last while output is read, the tree is killed at the command's limit with what it wrote until then
    /// kept, and after the exit a stream that a left-over process holds open is given up after a short while.
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
