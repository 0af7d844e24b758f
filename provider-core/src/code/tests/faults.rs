//! Sessions whose driver does what no driver should. Time moves when nothing else can happen.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    sync::Notify,
};

use super::super::{
    frame::{Decoder, Encoder, Frame, Kind},
    *,
};
use crate::{
    contract::fixtures::{MachineFacts, ScriptedMachine, ScriptedSandbox},
    error::{Code, Error, Result},
    lifecycle::{Clock as _, ResourceKind, ResourceRef, control},
    memory::ManualClock,
    names::ProviderId,
    sandbox::*,
};

/// The driver's side of the streams.
struct Peer {
    input: DuplexStream,
    output: DuplexStream,
    decoder: Decoder,
    encoder: Option<Encoder>,
}

impl Peer {
    /// The next frame; at the end of input it waits for ever.
    async fn next(&mut self) -> Frame {
        let mut chunk = [0; 4096];
        loop {
            if let Some(frame) = self.decoder.take().unwrap() {
                return frame;
            }
            match self.input.read(&mut chunk).await.unwrap() {
                0 => std::future::pending().await,
                read => self.decoder.push(&chunk[..read]),
            }
        }
    }

    async fn until(&mut self, kind: Kind) -> u64 {
        loop {
            let frame = self.next().await;
            if frame.kind == kind {
                return frame.run;
            }
        }
    }

    async fn send(&mut self, run: u64, kind: Kind, payload: &[u8]) {
        let mut bytes = Vec::new();
        let nonce = self.decoder.nonce().unwrap().to_owned();
        self.encoder.get_or_insert_with(|| Encoder::new(nonce)).encode(run, kind, payload, &mut bytes);
        let _ = self.output.write_all(&bytes).await;
    }

    async fn greet(&mut self) {
        self.until(Kind::Hello).await;
        self.send(0, Kind::Hello, b"code/1 3.12.0").await;
    }

    /// Greets, and answers with output, and the run's number, once code is to be run.
    async fn begin(&mut self) -> u64 {
        self.greet().await;
        let run = self.until(Kind::Run).await;
        self.send(run, Kind::Stdout, b"early").await;
        run
    }
}

type Drive = fn(Peer) -> BoxFuture<'static, ()>;

struct Fake {
    files: ScriptedSandbox,
    drive: Drive,
    kills: Arc<AtomicUsize>,
    dies: bool,
}

struct FakeControl {
    kills: Arc<AtomicUsize>,
    dies: bool,
    killed: Notify,
    status: Mutex<Option<ExitStatus>>,
}

#[async_trait]
impl ChildControl for FakeControl {
    async fn signal(&self, signal: i32, scope: Scope) -> Result<()> {
        assert_eq!((signal, scope), (9, Scope::Tree));
        self.kills.fetch_add(1, Ordering::SeqCst);
        if self.dies {
            *self.status.lock().unwrap() = Some(ExitStatus::Signal(9));
            self.killed.notify_one();
        }
        Ok(())
    }

    async fn wait(&self) -> Result<ExitStatus> {
        loop {
            if let Some(status) = *self.status.lock().unwrap() {
                return Ok(status);
            }
            self.killed.notified().await;
        }
    }
}

#[async_trait]
impl Sandbox for Fake {
    fn reference(&self) -> &ResourceRef {
        self.files.reference()
    }

    async fn exec(&self, command: Command) -> Result<Output> {
        self.files.exec(command).await
    }

    async fn spawn(&self, command: Command) -> Result<Child> {
        assert_eq!(CodeOptions::label_of(&command), Some(String::new()));
        let (stdin, input) = tokio::io::duplex(64);
        let (output, stdout) = tokio::io::duplex(64);
        let peer = Peer { input, output, decoder: Decoder::new(None), encoder: None };
        control::spawn(&control::handle()?, (self.drive)(peer));
        let control = FakeControl {
            kills: Arc::clone(&self.kills),
            dies: self.dies,
            killed: Notify::new(),
            status: Mutex::default(),
        };
        Ok(Child::new(Some(Box::pin(stdin)), Box::pin(stdout), reader_of("said"), Arc::new(control)))
    }

    async fn read(&self, path: &str) -> Result<ByteReader> {
        self.files.read(path).await
    }

    async fn write(&self, path: &str, content: ByteReader, mode: u32) -> Result<()> {
        self.files.write(path, content, mode).await
    }

    async fn stat(&self, path: &str) -> Result<Option<FileStat>> {
        self.files.stat(path).await
    }

    async fn list(&self, path: &str) -> Result<Vec<String>> {
        self.files.list(path).await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.files.remove(path).await
    }
}

impl fmt::Display for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fake")
    }
}

fn fake(drive: Drive, dies: bool) -> (Arc<dyn Sandbox>, Arc<AtomicUsize>) {
    let reference = ResourceRef {
        kind: ResourceKind::Sandbox,
        provider: ProviderId::new("fake").unwrap(),
        account: "none".into(),
        endpoint: "none".into(),
        id: "1".into(),
        name: None,
        details: Default::default(),
    };
    let kills = Arc::new(AtomicUsize::new(0));
    let files = ScriptedSandbox::new(reference, ScriptedMachine::new(MachineFacts::default()));
    (Arc::new(Fake { files, drive, kills: Arc::clone(&kills), dies }), kills)
}

/// What a test sees: the answer to the first run, how long it took, and how often a tree was killed.
struct Seen {
    answer: Result<CodeOutput>,
    took: Duration,
    kills: usize,
    next: Option<Error>,
}

fn options(clock: &ManualClock) -> CodeOptions {
    CodeOptions { clock: Arc::new(clock.clone()), output_cap: 1000, ..CodeOptions::default() }
}

/// Starts a session and runs code, on the control thread, where time moves once nothing else can happen.
fn run_with(drive: Drive, dies: bool) -> Seen {
    on_control(async move {
        let (sandbox, kills) = fake(drive, dies);
        let clock = ManualClock::new();
        let began = clock.now();
        let mut session = match CodeSession::start(&sandbox, options(&clock)).await {
            Ok(session) => session,
            Err(error) => {
                let (took, kills) = (clock.now().since(began), kills.load(Ordering::SeqCst));
                return Seen { answer: Err(error), took, kills, next: None };
            }
        };
        let began = clock.now();
        let answer = session.run_within("code", Duration::from_secs(100)).await;
        let took = clock.now().since(began);
        let kills = kills.load(Ordering::SeqCst);
        Seen { answer, took, kills, next: session.run("more").await.err() }
    })
}

fn on_control<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let (done, wait) = std::sync::mpsc::channel();
    control::spawn(&control::handle().unwrap(), async move {
        let _ = done.send(work.await);
    });
    wait.recv_timeout(Duration::from_secs(60)).expect("it hangs")
}

fn assert_lost(seen: &Seen) {
    let next = seen.next.as_ref().expect("the session goes on");
    assert_eq!(next.code(), Code::WrongState);
    assert!(next.advice().contains("restart"));
    assert_eq!(seen.kills, 1, "the tree was not killed");
}

#[test]
fn a66_a_lost_reply_is_an_error_within_limit_and_grace() {
    let seen = run_with(
        |mut peer| {
            Box::pin(async move {
                peer.begin().await;
                // The interrupt is read, and nothing is ever answered.
                peer.until(Kind::Interrupt).await;
                peer.next().await;
            })
        },
        true,
    );
    let error = seen.answer.as_ref().unwrap_err();
    assert_eq!((error.code(), error.effect()), (Code::Timeout, crate::error::Effect::Unknown));
    assert_eq!(seen.took, Duration::from_secs(105));
    assert_lost(&seen);
}

#[test]
fn a66_code_that_hangs_is_told_apart_from_a_driver_that_does() {
    let seen = run_with(
        |mut peer| {
            Box::pin(async move {
                let run = peer.begin().await;
                peer.until(Kind::Interrupt).await;
                peer.send(run, Kind::Acknowledged, b"").await;
                peer.next().await;
            })
        },
        true,
    );
    let output = seen.answer.as_ref().unwrap();
    assert_eq!((output.end, output.stdout.as_slice()), (CodeEnd::Killed, &b"early"[..]));
    assert_lost(&seen);
}

#[test]
fn a66_a_driver_that_reads_nothing_is_given_up_in_time() {
    let seen = run_with(
        |mut peer| {
            Box::pin(async move {
                peer.greet().await;
                std::future::pending::<()>().await;
            })
        },
        true,
    );
    assert_eq!(seen.answer.as_ref().unwrap_err().code(), Code::Timeout);
    assert_lost(&seen);
}

#[test]
fn a66_a_tree_that_cannot_be_killed_is_an_error_and_no_hang() {
    let seen = run_with(
        |mut peer| {
            Box::pin(async move {
                let run = peer.begin().await;
                peer.until(Kind::Interrupt).await;
                peer.send(run, Kind::Acknowledged, b"").await;
                peer.next().await;
            })
        },
        false,
    );
    let error = seen.answer.as_ref().unwrap_err();
    assert!(error.code() == Code::Timeout && error.message().contains("its end was not seen"), "{error}");
    assert_lost(&seen);
}

#[test]
fn a66_an_answer_that_is_cut_or_garbled_is_an_error_at_once() {
    let drives: [Drive; 8] = [
        // The stream ends between frames, and in the middle of one.
        |mut peer| {
            Box::pin(async move {
                peer.begin().await;
            })
        },
        |mut peer| {
            Box::pin(async move {
                let run = peer.begin().await;
                let nonce = peer.decoder.nonce().unwrap().to_owned();
                let _ = peer.output.write_all(format!("{nonce} 2 {run} D 1 3").as_bytes()).await;
            })
        },
        |mut peer| {
            Box::pin(async move {
                peer.begin().await;
                let _ = peer.output.write_all(b"Segmentation fault\n").await;
                peer.next().await;
            })
        },
        |mut peer| {
            Box::pin(async move {
                peer.begin().await;
                let _ = peer.output.write_all(&vec![b'x'; 1 << 20]).await;
                peer.next().await;
            })
        },
        // The answer to another run.
        |mut peer| {
            Box::pin(async move {
                let run = peer.begin().await;
                peer.send(run + 1, Kind::Done, b"0").await;
                peer.next().await;
            })
        },
        // Frames that a driver does not send, or not so.
        |mut peer| {
            Box::pin(async move {
                let run = peer.begin().await;
                peer.send(run, Kind::Run, b"0").await;
                peer.next().await;
            })
        },
        |mut peer| {
            Box::pin(async move {
                let run = peer.begin().await;
                peer.send(run, Kind::Done, b"fine").await;
                peer.next().await;
            })
        },
        |mut peer| {
            Box::pin(async move {
                let run = peer.begin().await;
                peer.send(run, Kind::Ended, b"code seven").await;
                peer.next().await;
            })
        },
    ];
    for (number, drive) in drives.into_iter().enumerate() {
        let seen = run_with(drive, true);
        let error = seen.answer.as_ref().unwrap_err();
        assert_eq!((error.code(), seen.took), (Code::StreamCut, Duration::ZERO), "{number}: {error}");
        assert_lost(&seen);
    }
}

#[test]
fn a66_gigantic_output_takes_no_more_memory_than_the_cap_and_does_not_stop_time() {
    let seen = run_with(
        |mut peer| {
            Box::pin(async move {
                let run = peer.begin().await;
                for _ in 0..300 {
                    peer.send(run, Kind::Stdout, &[b'x'; 3000]).await;
                    peer.send(run, Kind::Traceback, &[b'y'; 3000]).await;
                }
                peer.send(run, Kind::Done, b"2").await;
                peer.next().await;
            })
        },
        true,
    );
    let output = seen.answer.unwrap();
    assert!(output.truncated && output.stdout.len() == 1000, "{}", output.stdout.len());
    assert_eq!(output.error.unwrap().traceback.len(), 1000);
}

#[test]
fn a66_a_start_that_is_not_answered_as_it_should_be_is_refused() {
    let drives: [(Drive, Code, &str); 4] = [
        (
            |mut peer| Box::pin(async move { drop(peer.next().await) }),
            Code::ExecFailed,
            "ended with signal 9",
        ),
        (
            |mut peer| {
                Box::pin(async move {
                    peer.next().await;
                    peer.next().await;
                })
            },
            Code::Timeout,
            "within 60s",
        ),
        (
            |mut peer| {
                Box::pin(async move {
                    peer.next().await;
                    peer.send(0, Kind::Hello, b"code/2 3.12.0").await;
                    peer.next().await;
                })
            },
            Code::ExecFailed,
            "another version",
        ),
        (
            |mut peer| {
                Box::pin(async move {
                    peer.next().await;
                    peer.send(0, Kind::Done, b"0").await;
                    peer.next().await;
                })
            },
            Code::ExecFailed,
            "not a greeting",
        ),
    ];
    for (drive, code, words) in drives {
        let seen = run_with(drive, true);
        let error = seen.answer.unwrap_err();
        assert!(error.code() == code && error.message().contains(words), "{error:?}");
        assert!(seen.kills > 0, "{error:?}");
    }
}
