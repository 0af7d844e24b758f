//! The command behind a session: its streams, its start and its end.

use std::{sync::Arc, time::Duration};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    CodeOptions, PROTOCOL,
    frame::{Broken, Encoder, Frame, FrameReader, Kind},
};
use crate::{
    error::{Code, Effect, Error, Result},
    lifecycle::{Clock, timeout},
    sandbox::{ByteReader, ByteWriter, ChildControl, ExitStatus, Sandbox, Scope},
};

const SIGKILL: i32 = 9;

/// How long a sandbox may take to kill a tree of processes and to tell so.
const KILL_WITHIN: Duration = Duration::from_secs(30);

/// How long a session that is closed may take to end by itself. The driver takes less.
const END_WITHIN: Duration = Duration::from_secs(10);

/// How much of the command's own standard error is kept, in bytes: what the interpreter says when it cannot start.
const STDERR_MAX: usize = 4 << 10;

/// How long the last words of a command that has ended are waited for.
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(1);

/// A driver that has answered.
pub(super) struct Process {
    stdin: Option<ByteWriter>,
    /// What is to be written, and how much of it was.
    outbox: (Vec<u8>, usize),
    encoder: Encoder,
    frames: FrameReader,
    stderr: Option<ByteReader>,
    said: Vec<u8>,
}

/// The grip on a command that stays when its streams are given up.
#[derive(Clone)]
pub(super) struct Grip {
    control: Arc<dyn ChildControl>,
    clock: Arc<dyn Clock>,
}

impl Process {
    /// Starts the driver and waits for its first answer. Whatever goes wrong, nothing is left running that was seen
    /// to start.
    pub(super) async fn start(
        sandbox: &Arc<dyn Sandbox>,
        options: &CodeOptions,
    ) -> Result<(Self, Grip, String)> {
        let clock = &options.clock;
        let spawned = timeout(clock, options.start_limit, sandbox.spawn(options.command())).await;
        let child = spawned.unwrap_or_else(|_| Err(late(options)))?;
        let grip = Grip { control: child.control, clock: Arc::clone(clock) };
        let nonce = format!("{:032x}", fastrand::u128(..));
        let mut process = Self {
            stdin: child.stdin,
            outbox: (Vec::new(), 0),
            encoder: Encoder::new(nonce.clone()),
            frames: FrameReader::new(child.stdout, nonce),
            stderr: Some(child.stderr),
            said: Vec::new(),
        };
        process.send(0, Kind::Hello, b"");
        let error = match timeout(clock, options.start_limit, process.next()).await {
            Ok(Ok(frame)) if frame.kind == Kind::Hello && frame.run == 0 => {
                let hello = String::from_utf8_lossy(&frame.payload).into_owned();
                match hello.split_once(' ') {
                    Some((PROTOCOL, python)) => return Ok((process, grip, python.to_owned())),
                    _ => no_start("its first answer is of another version"),
                }
            }
            Ok(Ok(_)) => no_start("its first answer is not a greeting"),
            Ok(Err(Broken::End)) => match grip.end(SIGKILL).await {
                Ok(status) => no_start(format!("{} ended with {status}", options.python)),
                Err(error) => error,
            },
            Ok(Err(broken)) => no_start(broken.to_string()),
            Err(_) => late(options),
        };
        let _ = grip.end(SIGKILL).await;
        process.read_last_words(clock).await;
        let said = String::from_utf8_lossy(&process.said).into_owned();
        Err(if said.is_empty() { error } else { error.with_context("standard error", said) })
    }

    /// Takes a message to be sent while frames are awaited.
    pub(super) fn send(&mut self, run: u64, kind: Kind, payload: &[u8]) {
        self.encoder.encode(run, kind, payload, &mut self.outbox.0);
    }

    /// Sends what is to be sent, reads what the command says outside of frames, and answers the next frame. Cancel
    /// safe: called again it goes on.
    pub(super) async fn next(&mut self) -> Result<Frame, Broken> {
        let mut chunk = [0; 1024];
        loop {
            let has_mail = self.stdin.is_some() && !self.outbox.0.is_empty();
            tokio::select! {
                frame = self.frames.next() => return frame,
                sent = deliver(&mut self.stdin, &mut self.outbox), if has_mail => {
                    // A driver that reads no more may have said why; and if not, its stream ends.
                    if sent.is_err() {
                        self.stdin = None;
                    }
                }
                read = read_some(&mut self.stderr, &mut chunk), if self.stderr.is_some() => {
                    if read == 0 {
                        self.stderr = None;
                    }
                    self.keep(&chunk[..read]);
                }
            }
        }
    }

    fn keep(&mut self, said: &[u8]) {
        let room = STDERR_MAX - self.said.len();
        self.said.extend_from_slice(&said[..said.len().min(room)]);
    }

    /// Reads what a command that has ended said last. The end of one stream may be seen before the words on the other.
    async fn read_last_words(&mut self, clock: &Arc<dyn Clock>) {
        let mut chunk = [0; 1024];
        let reading = async {
            while let read @ 1.. = read_some(&mut self.stderr, &mut chunk).await {
                self.keep(&chunk[..read]);
            }
        };
        // A process that it left behind may hold the stream open.
        let _ = timeout(clock, LAST_WORDS_WITHIN, reading).await;
    }

    /// Ends the driver's input, after which it ends.
    pub(super) fn hang_up(&mut self) {
        self.stdin = None;
    }
}

/// Cancel safe: what is written is marked so.
async fn deliver(
    stdin: &mut Option<ByteWriter>,
    (bytes, done): &mut (Vec<u8>, usize),
) -> std::io::Result<()> {
    let Some(stdin) = stdin else { return Ok(()) };
    while *done < bytes.len() {
        match stdin.write(&bytes[*done..]).await? {
            0 => return Err(std::io::ErrorKind::WriteZero.into()),
            written => *done += written,
        }
    }
    stdin.flush().await?;
    bytes.clear();
    *done = 0;
    Ok(())
}

/// A stream that fails is at its end.
async fn read_some(stream: &mut Option<ByteReader>, chunk: &mut [u8]) -> usize {
    match stream {
        Some(stream) => stream.read(chunk).await.unwrap_or(0),
        None => 0,
    }
}

impl Grip {
    /// Kills the command with all its descendants and waits until it has ended.
    pub(super) async fn kill(&self) -> Result<ExitStatus> {
        self.end(SIGKILL).await
    }

    /// Waits until the command ends by itself, and kills it if it does not.
    pub(super) async fn wait_or_kill(&self) -> Result<ExitStatus> {
        match timeout(&self.clock, END_WITHIN, self.control.wait()).await {
            Ok(status) => status,
            Err(_) => self.kill().await,
        }
    }

    async fn end(&self, signal: i32) -> Result<ExitStatus> {
        let ended = async {
            self.control.signal(signal, Scope::Tree).await?;
            self.control.wait().await
        };
        timeout(&self.clock, KILL_WITHIN, ended).await.unwrap_or_else(|_| {
            let words =
                format!("the code session was killed, and its end was not seen within {KILL_WITHIN:?}");
            Err(Error::new(Code::Timeout, words).with_effect(Effect::Unknown))
        })
    }
}

fn late(options: &CodeOptions) -> Error {
    Error::new(Code::Timeout, format!("no code session answered within {:?}", options.start_limit))
        .with_operation("start code session")
}

fn no_start(why: impl Into<String>) -> Error {
    Error::new(Code::ExecFailed, format!("the code session did not start: {}", why.into()))
        .with_operation("start code session")
        .with_advice("check that the sandbox has Python 3.8 or later under this name")
}
