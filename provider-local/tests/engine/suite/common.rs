//! What the trials share: an engine in a temporary folder, bases, and commands run to their end.

use provider_local::engine::{
    Base, BoxPlan, Engine, EngineConfig, ExecSpec, Exit, Identity, Process, RunningBox, Stdin,
};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Why a trial ended early.
pub(crate) enum Stopped {
    /// This machine cannot show it.
    Skipped(String),
    /// It went wrong.
    Failed(String),
}

impl<E: std::error::Error> From<E> for Stopped {
    fn from(error: E) -> Self {
        Stopped::Failed(error.to_string())
    }
}

pub(crate) type Outcome = Result<(), Stopped>;

pub(crate) fn skip(reason: impl Into<String>) -> Outcome {
    Err(Stopped::Skipped(reason.into()))
}

pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// An engine with a state folder of its own, which must be empty of boxes at the end of the trial.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) state: PathBuf,
    _folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    pub(crate) fn with(change: impl FnOnce(&mut EngineConfig)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let state = folder.path().join("state");
        let mut config = EngineConfig::new(&state);
        change(&mut config);
        let engine = Engine::open(config).expect("an engine");
        Self { engine, state, _folder: folder }
    }

    pub(crate) fn run(&self, base: Base) -> RunningBox {
        self.start(&BoxPlan::run(new_id(), base))
    }

    pub(crate) fn build(&self, base: Base) -> RunningBox {
        self.start(&BoxPlan::build(new_id(), base))
    }

    pub(crate) fn start(&self, plan: &BoxPlan) -> RunningBox {
        self.engine.start(plan).expect("a box")
    }

    /// Nothing of any box is left in the state folder.
    pub(crate) fn assert_clean(&self) {
        for folder in ["box", "tmp", "trash"] {
            let names: Vec<_> = fs::read_dir(self.state.join(folder)).expect("a folder").flatten().collect();
            assert!(names.is_empty(), "left in {folder}: {names:?}");
        }
        self.assert_unmounted();
    }

    pub(crate) fn assert_unmounted(&self) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
        assert!(!mounts.contains(&*self.state.to_string_lossy()), "a mount is left");
    }
}

/// An id that no other trial uses, and that is not the beginning of another one.
pub(crate) fn new_id() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("t{}-{:05}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) exit: Exit,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.exit, Exit::Code(0), "stdout {:?} stderr {:?}", self.out, self.err);
        self.out
    }

    pub(crate) fn failed(&self) -> bool {
        self.exit != Exit::Code(0)
    }
}

pub(crate) fn shell(script: &str, who: Identity) -> ExecSpec {
    let mut spec = ExecSpec::new(who, ["sh", "-c", script]);
    spec.env.push(("PATH".into(), PATH.into()));
    spec.env.push(("LC_ALL".into(), "C".into()));
    spec
}

/// Runs a script to its end, as the sandbox user.
pub(crate) fn say(running: &RunningBox, script: &str) -> Said {
    finish(spawn(running, &shell(script, Identity::SANDBOX)))
}

/// Runs a script to its end, as root of the box.
pub(crate) fn say_as_root(running: &RunningBox, script: &str) -> Said {
    finish(spawn(running, &shell(script, Identity::ROOT)))
}

pub(crate) fn spawn(running: &RunningBox, spec: &ExecSpec) -> Process {
    running.spawn(spec).expect("a command")
}

pub(crate) fn finish(process: Process) -> Said {
    let stderr = File::from(process.stderr);
    let reader = std::thread::spawn(move || read_all(stderr));
    let out = read_all(File::from(process.stdout));
    let err = reader.join().expect("a reader");
    Said { exit: process.exit.wait().expect("an exit"), out, err }
}

pub(crate) fn read_all(mut file: File) -> String {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).expect("a stream");
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) fn with_stdin(mut spec: ExecSpec) -> ExecSpec {
    spec.stdin = Stdin::Pipe;
    spec
}

static BASE: OnceLock<PathBuf> = OnceLock::new();

/// A small root file system: a shell, some tools, their libraries, two account files. One for all trials and
/// for the children of this process, which are told where it is.
pub(crate) fn small_base() -> Base {
    Base::Dir(small_base_path().to_owned())
}

pub(crate) fn small_base_path() -> &'static Path {
    BASE.get_or_init(|| {
        let path = tempfile::tempdir().expect("a temporary folder").keep();
        fill_base(&path);
        path
    })
}

/// In a child: where the parent's is.
pub(crate) fn use_small_base(path: PathBuf) {
    BASE.set(path).expect("set once");
}

/// In the parent, at the end of all trials.
pub(crate) fn remove_small_base() {
    if let Some(path) = BASE.get() {
        fs::remove_dir_all(path).expect("removed");
    }
}

const TOOLS: &[&str] = &[
    "cat", "chmod", "cut", "dd", "env", "head", "id", "ln", "ls", "mkdir", "mv", "ps", "readlink", "rm",
    "setsid", "sh", "sleep", "stat", "touch", "tr", "true", "wc", "yes", "chown", "mknod", "grep", "kill",
    "hostname",
];

fn fill_base(path: &Path) {
    let mut files = BTreeSet::new();
    for tool in TOOLS {
        let found = PATH.split(':').map(|folder| Path::new(folder).join(tool)).find(|path| path.exists());
        let Some(found) = found else { continue };
        let listed = Command::new("ldd").arg(&found).output().expect("ldd");
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        files.extend(text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from));
        files.insert(found);
    }
    for file in files {
        let relative = file.strip_prefix("/").expect("an absolute path");
        let target = path.join(relative);
        fs::create_dir_all(target.parent().expect("a parent")).expect("a folder");
        fs::copy(&file, &target).expect("a copy");
    }
    fs::create_dir_all(path.join("etc")).expect("a folder");
    fs::write(
        path.join("etc/passwd"),
        "root:x:0:0::/root:/bin/sh\nsandbox:x:1000:100::/home/sandbox:/bin/sh\n",
    )
    .expect("a file");
    fs::write(path.join("etc/group"), "root:x:0:\nusers:x:100:\n").expect("a file");
    fs::write(path.join("etc/base-file"), "base").expect("a file");
    for folder in ["bin", "lib", "lib64", "sbin"] {
        let real = path.join("usr").join(folder);
        // On a machine with a merged /usr the tools were found below it, and programs name their loader in
        // /lib64.
        if real.exists() && !path.join(folder).exists() {
            std::os::unix::fs::symlink(Path::new("usr").join(folder), path.join(folder)).expect("a link");
        }
    }
}

pub(crate) fn both_bases() -> [Base; 2] {
    [Base::Host, small_base()]
}

/// Waits until a condition holds; the limit only bounds a failing trial.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(10), "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The command lines of all processes that carry this text in them, this process left out.
pub(crate) fn processes_with(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.parse::<u32>().is_ok_and(|pid| pid != std::process::id()) {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.contains(text) {
                found.push(format!("{name}: {line}"));
            }
        }
    }
    found
}
