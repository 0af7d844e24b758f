//! This machine as a sandbox that runs commands in a folder.

use std::{collections::BTreeMap, fmt, process::Stdio, sync::Arc};

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process};

use super::{Folder, user};
use crate::{
    contract::SANDBOX_V1,
    error::{Code, Error, Result},
    lifecycle::{Clock, ResourceKind, ResourceRef, SystemClock},
    names::ProviderId,
    sandbox::{
        ByteReader, Child, ChildControl, Command, ExitStatus, FileStat, Output, Sandbox, Scope, Stdin,
    },
};

/// Commands run as [`user`], in the folder, with the contract's `PATH` and otherwise their own variables.
pub(crate) struct HostSandbox {
    reference: ResourceRef,
    pub(crate) folder: Folder,
}

impl HostSandbox {
    pub(crate) fn new() -> Self {
        let reference = ResourceRef {
            kind: ResourceKind::Sandbox,
            provider: ProviderId::new("host").unwrap(),
            account: "none".into(),
            endpoint: "none".into(),
            id: "1".into(),
            name: None,
            details: BTreeMap::new(),
        };
        Self { reference, folder: Folder::new() }
    }
}

#[async_trait]
impl Sandbox for HostSandbox {
    fn reference(&self) -> &ResourceRef {
        &self.reference
    }

    async fn exec(&self, command: Command) -> Result<Output> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        self.spawn(command.clone()).await?.collect(&command, &clock).await
    }

    async fn spawn(&self, command: Command) -> Result<Child> {
        command.check()?;
        let words = command.program.argv();
        let mut process = tokio::process::Command::new(&words[0]);
        process.args(&words[1..]).env_clear().env("PATH", SANDBOX_V1.path).envs(&command.env_vars);
        process.current_dir(command.cwd.as_deref().unwrap_or(self.folder.path()));
        process.stdin(if command.stdin == Stdin::Closed { Stdio::null() } else { Stdio::piped() });
        process.stdout(Stdio::piped()).stderr(Stdio::piped());
        if rustix::process::geteuid().is_root() {
            process.uid(user().uid).gid(user().gid);
        }
        let mut child = process.spawn().map_err(|source| {
            Error::new(Code::ExecFailed, format!("{:?} cannot be started", words[0])).with_source(source)
        })?;
        let stdin = child.stdin.take().map(|stdin| Box::pin(stdin) as _);
        let (stdout, stderr) =
            (Box::pin(child.stdout.take().unwrap()), Box::pin(child.stderr.take().unwrap()));
        let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
        let control = Arc::new(Control { pid, child: tokio::sync::Mutex::new(child) });
        Ok(Child::new(stdin, stdout, stderr, control))
    }

    async fn read(&self, _path: &str) -> Result<ByteReader> {
        no_files()
    }

    async fn write(&self, _path: &str, _content: ByteReader, _mode: u32) -> Result<()> {
        no_files()
    }

    async fn stat(&self, _path: &str) -> Result<Option<FileStat>> {
        no_files()
    }

    async fn list(&self, _path: &str) -> Result<Vec<String>> {
        no_files()
    }

    async fn remove(&self, _path: &str) -> Result<()> {
        no_files()
    }
}

fn no_files<T>() -> Result<T> {
    Err(Error::new(Code::CapabilityUnsupported, "this sandbox only runs commands"))
}

struct Control {
    pid: Pid,
    child: tokio::sync::Mutex<tokio::process::Child>,
}

#[async_trait]
impl ChildControl for Control {
    async fn signal(&self, signal: i32, scope: Scope) -> Result<()> {
        // As long as nobody has waited, the number belongs to this process.
        if self.child.lock().await.id().is_none() {
            return Ok(());
        }
        let mut pids = vec![self.pid];
        if scope == Scope::Tree {
            pids.extend(descendants(self.pid));
        }
        // The youngest first, so that nobody is orphaned before its turn.
        for pid in pids.into_iter().rev() {
            let _ = kill_process(pid, Signal::from_named_raw(signal).unwrap());
        }
        Ok(())
    }

    async fn wait(&self) -> Result<ExitStatus> {
        use std::os::unix::process::ExitStatusExt as _;
        let status = self.child.lock().await.wait().await.map_err(|source| {
            Error::new(Code::StreamCut, "the command's end cannot be known").with_source(source)
        })?;
        Ok(match (status.code(), status.signal()) {
            (Some(code), _) => ExitStatus::Code(code),
            (None, signal) => ExitStatus::Signal(signal.unwrap_or(0)),
        })
    }
}

/// All processes below one, parents before children.
fn descendants(root: Pid) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parents: Vec<(i32, i32)> = pids
        .filter_map(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let (mut found, mut next) = (Vec::new(), vec![root.as_raw_nonzero().get()]);
    while let Some(parent) = next.pop() {
        let children = parents.iter().filter(|(_, its)| *its == parent).map(|(pid, _)| *pid);
        let children: Vec<i32> = children.collect();
        found.extend(children.iter().filter_map(|pid| Pid::from_raw(*pid)));
        next.extend(children);
    }
    found
}

impl fmt::Display for HostSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reference.fmt(f)
    }
}

impl fmt::Debug for HostSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostSandbox")
    }
}
