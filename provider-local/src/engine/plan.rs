//! What a caller asks for: boxes and commands, as plain data.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How the engine works. Everything but the state folder has a sensible default.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineConfig {
    /// Where layers, records and boxes lie; one folder for each user, on a real file system (no overlay, no
    /// network).
    pub state_dir: PathBuf,
    /// How long a box may take to start. Default 20 s.
    pub start_limit: Duration,
    /// How long the helper may take to answer a request, such as "start this command". Default 30 s.
    pub request_limit: Duration,
    /// Further paths of this machine that boxes on [`Base::Host`] must not see.
    pub hidden: Vec<PathBuf>,
    /// Makes the start of every box fail at one place, for tests.
    #[doc(hidden)]
    pub fault: Option<Fault>,
}

impl EngineConfig {
    /// The defaults, with this state folder.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            state_dir: state_dir.into(),
            start_limit: Duration::from_secs(20),
            request_limit: Duration::from_secs(30),
            hidden: Vec::new(),
            fault: None,
        }
    }
}

/// Where a start fails on purpose.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// After the folder of the box was made.
    AfterFolder,
    /// After the plan was written.
    AfterPlan,
    /// After the helper was started.
    AfterSpawn,
    /// The helper is killed right after it got the plan.
    KillHelper,
    /// The map of ids is nonsense.
    BadMap,
    /// The helper cannot carry out the action with this number.
    AtAction(usize),
    /// After the box became ready.
    AfterReady,
}

/// What a box is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To make a layer: commands may run as root of the box.
    Build,
    /// To run commands without any privilege; what they write goes away with the box.
    Run,
}

/// What lies below all layers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// This machine's own root, its private parts hidden. Cannot be pinned: it changes with the machine.
    Host,
    /// A folder with a root file system, which nobody changes while boxes use it.
    Dir(PathBuf),
}

/// A user and a group, as numbered inside the box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl Identity {
    /// Root of the box.
    pub const ROOT: Identity = Identity { uid: 0, gid: 0 };
    /// Who commands of a run box are.
    pub const SANDBOX: Identity = Identity { uid: 1000, gid: 100 };
}

/// Bytes that are overwritten when they are dropped, and never shown.
pub struct SecretBytes(Vec<u8>);

impl SecretBytes {
    /// Takes the bytes over.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    #[cfg(embedded)]
    pub(crate) fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for SecretBytes {
    fn drop(&mut self) {
        self.0.fill(0);
        // Keeps the compiler from leaving out a write that nobody reads.
        std::hint::black_box(&self.0);
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SecretBytes(hidden)")
    }
}

/// A file or folder of this machine that a build box can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildInput {
    /// Its name below `/run/inputs`: a file name without a dot in front, of at most 255 bytes.
    pub name: String,
    /// Where it is on this machine, absolute. A link is followed.
    pub path: PathBuf,
}

impl BuildInput {
    /// This file or folder under this name.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), path: path.into() }
    }
}

/// Everything about a box that is decided before it starts.
#[cfg(embedded)]
#[derive(Debug)]
#[non_exhaustive]
pub struct BoxPlan {
    /// Unique in the state folder: 1 to 100 of `a-z A-Z 0-9 - _ .`, not beginning with a dot.
    pub id: String,
    /// Any name, kept in the journal.
    pub name: String,
    /// Whatever the driver wants to find again with [`Store::boxes`](crate::store::Store::boxes).
    pub journal: serde_json::Value,
    /// What the box is for.
    pub purpose: Purpose,
    /// What lies below the layers.
    pub base: Base,
    /// The layers, the lowest (first built) first.
    pub layers: Vec<crate::store::LayerKey>,
    /// Who owns the secrets; and in a user namespace, the only identity there is.
    pub identity: Identity,
    /// The host name inside: 1 to 63 of `a-z A-Z 0-9 -`.
    pub hostname: String,
    /// Folders inside that a run box must not be able to change. They are made when missing.
    pub reserved: Vec<PathBuf>,
    /// Files under `/run/secrets`, by name; readable for `identity` alone, in memory alone, and never part of
    /// a layer.
    pub secrets: Vec<(String, SecretBytes)>,
    /// What a build box gets of this machine below `/run/inputs`, at most 32 files or folders, whatever else of this
    /// machine is hidden. Nobody in the box can change them, and they are never part of a layer. A run box gets none.
    pub inputs: Vec<BuildInput>,
}

#[cfg(embedded)]
impl BoxPlan {
    /// A box with this id that runs commands on this base, and nothing else.
    pub fn run(id: impl Into<String>, base: Base) -> Self {
        let id = id.into();
        Self {
            name: id.clone(),
            id,
            journal: serde_json::Value::Null,
            purpose: Purpose::Run,
            base,
            layers: Vec::new(),
            identity: Identity::SANDBOX,
            hostname: "sandbox".to_owned(),
            reserved: Vec::new(),
            secrets: Vec::new(),
            inputs: Vec::new(),
        }
    }

    /// A box with this id that makes a layer on this base.
    pub fn build(id: impl Into<String>, base: Base) -> Self {
        Self { purpose: Purpose::Build, identity: Identity::ROOT, ..Self::run(id, base) }
    }
}

/// What a command reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: the end at once.
    #[default]
    Null,
    /// A pipe, whose other end is in [`Process::stdin`](super::Process).
    Pipe,
}

/// A command. Nothing is inherited from the caller: no variable, no descriptor, no limit of the environment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExecSpec {
    /// The program and its arguments. A program without a slash is searched in the `PATH` of `env`, inside
    /// the box.
    pub argv: Vec<OsString>,
    /// The variables.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory, inside the box.
    pub cwd: PathBuf,
    /// As whom.
    pub identity: Identity,
    /// Supplementary groups. In a user namespace they cannot be set, and must be empty.
    pub groups: Vec<u32>,
    /// What it reads.
    pub stdin: Stdin,
}

impl ExecSpec {
    /// This command, as this user, in `/`, without variables, reading nothing.
    pub fn new<T: Into<OsString>>(identity: Identity, argv: impl IntoIterator<Item = T>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: PathBuf::from("/"),
            identity,
            groups: Vec::new(),
            stdin: Stdin::Null,
        }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// Whom a signal reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalScope {
    /// The command's own process.
    Process,
    /// Its session and every descendant, in whatever session, that still has its line of parents. A process
    /// that forked twice into a session of its own escapes this, and lives until the box stops.
    Tree,
}

/// One thing that boxes need from this machine, and whether it is there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Need {
    /// A short name: `state_folder`, `helper`, `namespaces`, `overlay`, `proc`, ...
    pub name: &'static str,
    /// Whether it is there.
    pub ok: bool,
    /// What was seen.
    pub detail: String,
    /// What to do; empty when it is there.
    pub fix: String,
}

/// How boxes of this engine are kept apart from this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Isolation {
    /// Whether boxes have a user namespace of their own: as an ordinary user. As root, ids are real.
    pub user_namespace: bool,
    /// Supplementary groups of the caller that every process in a box keeps, since an ordinary user cannot
    /// drop them.
    pub kept_groups: Vec<u32>,
    /// Limits of memory, processes or CPU that are enforced: none yet, no cgroup is made.
    pub cgroups: bool,
}
