//! What the trials share: a driver with folders of its own, requests, and looks at what is left.

use std::{
    fs,
    future::Future,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use libtest_mimic::Trial;
use provider_core::{
    environment::{
        Artifact, BuildRequest, BuildSecret, Environment, EnvironmentSpec, FileSpec, Lockfile, SecretMount,
    },
    error::{Code, Error, Result},
    lifecycle::{Owned, Session, SessionConfig, TeardownReport},
    provider::{LaunchOptions, Provider},
    sandbox::{Command, Output, Sandbox},
    secret::SecretSet,
};
use provider_local::{LocalConfig, LocalProvider};

pub(crate) type Outcome = Result<(), libtest_mimic::Failed>;

/// How long a close may take; it only bounds a trial that fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// The value of every build secret.
pub(crate) const CANARY: &str = "canary-4711-do-not-show";

pub(crate) fn trial(name: &str, run: fn() -> Outcome) -> Trial {
    Trial::test(name, run)
}

/// A trial that shows as ignored, with the reason, where it cannot be tried.
pub(crate) fn trial_if(can: bool, name: &str, reason: &str, run: fn() -> Outcome) -> Trial {
    if can { trial(name, run) } else { trial(&format!("{name} ({reason})"), run).with_ignored_flag(true) }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs a trial on a runtime like that of a tool.
pub(crate) fn on_a_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(work)
}

/// A driver, and state folders that nobody else uses.
pub(crate) struct World {
    pub(crate) driver: LocalProvider,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) folder: Folder,
}

/// A folder that is removed at the end, or one of somebody else.
pub(crate) enum Folder {
    Own(tempfile::TempDir),
    Other(PathBuf),
}

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Folder::Own(folder) => folder.path(),
            Folder::Other(path) => path,
        }
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|config| config)
    }

    pub(crate) fn with(change: impl FnOnce(LocalConfig) -> LocalConfig) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = change(LocalConfig::new(folder.path().join("local")));
        let driver = LocalProvider::open(config).expect("a driver");
        Self { folder: Folder::Own(folder), ..Self::at(Path::new(""), driver) }
    }

    /// In the folder of another process.
    pub(crate) fn at(folder: &Path, driver: LocalProvider) -> Self {
        Self { provider: Arc::new(driver.clone()), driver, folder: Folder::Other(folder.to_owned()) }
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("local")
    }

    pub(crate) fn ledgers(&self) -> PathBuf {
        self.folder.path().join("ledgers")
    }

    pub(crate) fn session(&self) -> Session {
        Session::open(SessionConfig::new("test").state_folder(self.ledgers())).expect("a session")
    }

    pub(crate) fn request(&self, spec: EnvironmentSpec) -> BuildRequest {
        let base = self.driver.pin_base(&spec.spec.base.name).expect("a base");
        let mut secrets = SecretSet::new();
        for secret in &spec.spec.build_secrets {
            secrets.insert(&secret.id, CANARY).expect("a secret");
        }
        let environment = Environment::new(spec, None).expect("an environment");
        BuildRequest::new(environment, Lockfile::without_packages(), base, secrets).expect("a request")
    }

    pub(crate) async fn build(&self, session: &Session, spec: EnvironmentSpec) -> Result<Owned<Artifact>> {
        session.build(&self.provider, self.request(spec)).await
    }

    pub(crate) async fn launch(&self, session: &Session, artifact: &Artifact) -> Owned<Arc<dyn Sandbox>> {
        let launched = session.launch(&self.provider, artifact, LaunchOptions::default()).await;
        launched.expect("a sandbox")
    }

    /// A session with a sandbox of an Environment that asks for nothing.
    pub(crate) async fn sandbox(&self) -> (Session, Owned<Artifact>, Owned<Arc<dyn Sandbox>>) {
        let session = self.session();
        let artifact = self.build(&session, EnvironmentSpec::named("plain")).await.expect("an artifact");
        let sandbox = self.launch(&session, &artifact).await;
        (session, artifact, sandbox)
    }

    pub(crate) fn names_in(&self, folder: &str) -> Vec<String> {
        names(&self.store().join(folder))
    }

    /// Layers without their locks.
    pub(crate) fn layers(&self) -> Vec<String> {
        let names = self.names_in("layer");
        names.into_iter().filter(|name| !name.ends_with(".lock")).collect()
    }

    /// Nothing but layers is left: no box, no record, no mount.
    pub(crate) fn assert_clean(&self) {
        for folder in ["box", "tmp", "trash", "art"] {
            let names = self.names_in(folder);
            assert!(names.is_empty(), "left in {folder}: {names:?}");
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
        assert!(!mounts.contains(&format!("{}/", self.store().display())), "a mount is left");
    }

    /// Closes a session, after which nothing may be left.
    pub(crate) async fn close(&self, session: &Session) -> TeardownReport {
        let report = session.close(LIMIT).await;
        assert!(report.is_clean(), "{report:?}");
        self.assert_clean();
        // The helpers of a box show its id, which begins with the owner.
        let mark = format!("px-{}-", session.owner());
        let helpers = processes(|argument| argument.starts_with(mark.as_bytes()));
        assert_eq!(helpers, [0; 0], "helpers are left");
        report
    }
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub(crate) fn file(path: &str, content: &str) -> FileSpec {
    FileSpec {
        path: path.into(),
        content: Some(content.into()),
        content_ref: None,
        sha256: None,
        mode: "0644".into(),
    }
}

pub(crate) fn secret(id: &str, mount_as: SecretMount, name: &str) -> BuildSecret {
    BuildSecret { id: id.into(), mount_as, name: name.into() }
}

pub(crate) async fn exec(sandbox: &dyn Sandbox, command: Command) -> Output {
    sandbox.exec(command).await.expect("an output")
}

/// What a line of shell prints; it must succeed.
pub(crate) async fn say(sandbox: &dyn Sandbox, line: &str) -> String {
    let output = exec(sandbox, Command::shell(marked(line))).await;
    assert!(output.status.success(), "{line}: {output:?}");
    output.stdout_text()
}

pub(crate) fn assert_code<T>(answer: Result<T>, code: Code) -> Error {
    let error = answer.map(drop).expect_err("an error");
    assert_eq!(error.code(), code, "{error:?}");
    assert!(!format!("{error} {error:?}").contains(CANARY), "the error shows a secret");
    error
}

/// The numbers of the processes of this machine that have this word among their arguments.
pub(crate) fn processes_with(word: &str) -> Vec<u32> {
    let word = marked(word);
    processes(|argument| argument == word.as_bytes())
}

/// A line in which each number of the form `471xxx`, by which trials find their processes, belongs to this process
/// alone, so that several runs of the trials do not see each other. `sleep` takes it as a fraction.
pub(crate) fn marked(line: &str) -> String {
    let words = line.split_inclusive(|letter: char| !letter.is_ascii_digit());
    words
        .map(|word| {
            let digits = word.trim_end_matches(|letter: char| !letter.is_ascii_digit());
            match word.strip_prefix(digits) {
                Some(rest) if digits.len() == 6 && digits.starts_with("471") => {
                    format!("{digits}.{:07}{rest}", std::process::id())
                }
                _ => word.to_owned(),
            }
        })
        .collect()
}

fn processes(is_wanted: impl Fn(&[u8]) -> bool) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|number: &u32| {
            let arguments = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            arguments.split(|byte| *byte == 0).any(&is_wanted)
        })
        .collect()
}

/// Waits until a condition holds; the limit only bounds a trial that fails.
pub(crate) async fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(10), "waited too long until {what}");
        pause(Duration::from_millis(2)).await;
    }
}

#[expect(clippy::disallowed_methods, reason = "the processes of a trial live in real time")]
pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
