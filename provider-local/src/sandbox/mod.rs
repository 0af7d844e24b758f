//! A running sandbox: commands and files in its box.

pub(crate) mod child;
mod files;
mod paths;

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use provider_core::{
    contract::SANDBOX_V1,
    error::{Code, Result},
    identity::User,
    lifecycle::{Clock, ResourceRef, SystemClock},
    sandbox::{ByteReader, Child, Command, FileStat, Output, Sandbox, Stdin},
};

use crate::{
    boxes::Held,
    driver::Inner,
    engine::{Identity, RunningBox},
    errors::error,
};
use files::Files;

/// The handle of a sandbox. It owns nothing: the driver has the box.
pub(crate) struct LocalSandbox {
    thing: ResourceRef,
    running: RunningBox,
    env_vars: Arc<BTreeMap<String, String>>,
    real_ids: bool,
}

impl LocalSandbox {
    pub(crate) fn new(inner: &Inner, held: Held) -> Self {
        Self { thing: held.thing, running: held.running, env_vars: held.env_vars, real_ids: inner.real_ids }
    }

    fn files(&self) -> Files {
        Files { running: self.running.clone(), real_ids: self.real_ids }
    }

    /// Who runs a command.
    fn identity(&self, command: &Command) -> Result<Identity> {
        let user = command.user.unwrap_or(SANDBOX_V1.user);
        if !self.real_ids && user != SANDBOX_V1.user {
            let words = format!(
                "no command can run as {user} here: the sandbox has the user {} alone",
                SANDBOX_V1.user
            );
            return Err(error(Code::CapabilityUnsupported, words)
                .with_operation("exec")
                .with_advice("leave the user out, or run this program as root"));
        }
        Ok(identity(user))
    }

    async fn start(&self, command: &Command, feeds: bool) -> Result<(Child, child::Leash)> {
        command.check().map_err(|error| error.with_provider(&self.thing.provider))?;
        let who = self.identity(command)?;
        child::start(&self.running, command, &self.env_vars, who, feeds).await
    }
}

fn identity(user: User) -> Identity {
    Identity { uid: user.uid, gid: user.gid }
}

#[async_trait]
impl Sandbox for LocalSandbox {
    fn reference(&self) -> &ResourceRef {
        &self.thing
    }

    async fn exec(&self, command: Command) -> Result<Output> {
        if command.stdin == Stdin::Piped {
            return Err(error(Code::SpecInvalid, "nobody could write to the piped input of this command")
                .with_operation("exec")
                .with_advice("give it bytes, or spawn it"));
        }
        let (child, leash) = self.start(&command, false).await?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let output = child.collect(&command, &clock).await?;
        leash.let_go();
        Ok(output)
    }

    async fn spawn(&self, command: Command) -> Result<Child> {
        let (child, leash) = self.start(&command, true).await?;
        leash.let_go();
        Ok(child)
    }

    async fn read(&self, path: &str) -> Result<ByteReader> {
        self.files().read(path).await
    }

    async fn write(&self, path: &str, content: ByteReader, mode: u32) -> Result<()> {
        self.files().write(path, content, mode).await
    }

    async fn stat(&self, path: &str) -> Result<Option<FileStat>> {
        self.files().stat(path).await
    }

    async fn list(&self, path: &str) -> Result<Vec<String>> {
        self.files().list(path).await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.files().remove(path).await
    }
}

impl fmt::Display for LocalSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.thing.fmt(f)
    }
}

impl fmt::Debug for LocalSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSandbox").field("id", &self.thing.id).finish_non_exhaustive()
    }
}
