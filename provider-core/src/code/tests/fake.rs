//! A sandbox whose sessions have a driver that a test writes.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    sync::Notify,
};

use super::super::{
    CodeOptions,
    frame::{Decoder, Encoder, Frame, Kind},
};
use crate::{
    contract::fixtures::{MachineFacts, ScriptedMachine, ScriptedSandbox},
    error::Result,
    lifecycle::{ResourceKind, ResourceRef, control},
    names::ProviderId,
    sandbox::*,
};

/// The driver's side of the streams.
pub(super) struct Peer {
    input: DuplexStream,
    pub(super) output: DuplexStream,
    pub(super) decoder: Decoder,
    encoder: Option<Encoder>,
}

impl Peer {
    /// The next frame; at the end of input it waits for ever.
    pub(super) async fn next(&mut self) -> Frame {
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

    pub(super) async fn until(&mut self, kind: Kind) -> u64 {
        loop {
            let frame = self.next().await;
            if frame.kind == kind {
                return frame.run;
            }
        }
    }

    pub(super) async fn send(&mut self, run: u64, kind: Kind, payload: &[u8]) {
        let mut bytes = Vec::new();
        let nonce = self.decoder.nonce().unwrap().to_owned();
        self.encoder.get_or_insert_with(|| Encoder::new(nonce)).encode(run, kind, payload, &mut bytes);
        let _ = self.output.write_all(&bytes).await;
    }

    pub(super) async fn greet(&mut self) {
        self.until(Kind::Hello).await;
        self.send(0, Kind::Hello, b"code/1 3.12.0").await;
    }

    /// Greets, and answers with output, and the run's number, once code is to be run.
    pub(super) async fn begin(&mut self) -> u64 {
        self.greet().await;
        let run = self.until(Kind::Run).await;
        self.send(run, Kind::Stdout, b"early").await;
        run
    }
}

/// What a driver does.
pub(super) type Drive = fn(Peer) -> BoxFuture<'static, ()>;

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

/// A sandbox whose every session is driven so, and the number of its kills; they may have no effect.
pub(super) fn fake(drive: Drive, dies: bool) -> (Arc<dyn Sandbox>, Arc<AtomicUsize>) {
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
