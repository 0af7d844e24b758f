//! The sandbox that a caller holds: it answers with a typed error once its session has deleted it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;

use super::ResourceRef;
use crate::{
    error::{Code, Error, Result},
    sandbox::{ByteReader, Child, Command, FileStat, Output, Sandbox},
};

#[derive(Clone)]
pub(crate) struct Lease {
    sandbox: Arc<dyn Sandbox>,
    ended: Arc<AtomicBool>,
}

impl Lease {
    pub(crate) fn new(sandbox: Arc<dyn Sandbox>) -> Self {
        Self { sandbox, ended: Arc::default() }
    }

    /// From now on each use is refused.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    fn live(&self) -> Result<&dyn Sandbox> {
        if self.ended.load(Ordering::Acquire) {
            let thing = self.sandbox.reference();
            return Err(Error::new(Code::SandboxGone, format!("{thing} was deleted by its session"))
                .with_provider(&thing.provider));
        }
        Ok(&*self.sandbox)
    }
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sandbox.fmt(f)
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("sandbox", &self.sandbox).field("ended", &self.ended).finish()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Sandbox for Lease {
    fn reference(&self) -> &ResourceRef {
        self.sandbox.reference()
    }

    async fn exec(&self, command: Command) -> Result<Output> {
        self.live()?.exec(command).await
    }

    async fn spawn(&self, command: Command) -> Result<Child> {
        self.live()?.spawn(command).await
    }

    async fn read(&self, path: &str) -> Result<ByteReader> {
        self.live()?.read(path).await
    }

    async fn write(&self, path: &str, content: ByteReader, mode: u32) -> Result<()> {
        self.live()?.write(path, content, mode).await
    }

    async fn stat(&self, path: &str) -> Result<Option<FileStat>> {
        self.live()?.stat(path).await
    }

    async fn list(&self, path: &str) -> Result<Vec<String>> {
        self.live()?.list(path).await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.live()?.remove(path).await
    }
}
