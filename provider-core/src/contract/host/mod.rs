//! Runs the contract's scripts on this machine, for tests of the scripts themselves.

#[cfg(target_os = "linux")]
mod sandbox;

use std::{
    os::unix::{
        fs::{PermissionsExt, chown},
        process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Command as Process, Stdio},
};

#[cfg(target_os = "linux")]
pub(crate) use sandbox::HostSandbox;

use crate::{
    contract::SANDBOX_V1,
    identity::User,
    sandbox::{Command, ExitStatus, Output, Stdin},
};

/// A directory of the system that no ordinary user can change or replace.
pub(crate) const REFUSES: &str = "/srv";

/// Who the scripts run as: the contract's numbers if the tests run as root, else the tests' own.
pub(crate) fn user() -> User {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if uid.is_root() { SANDBOX_V1.user } else { User { uid: uid.as_raw(), gid: gid.as_raw() } }
}

/// Runs a command here as [`user`], with no variables but its own and a plain `PATH`.
pub(crate) fn run(command: &Command) -> Output {
    run_as(user(), command)
}

/// Like [`run`], with another shell in place of the first word.
pub(crate) fn run_with(shell: &str, command: &Command) -> Output {
    let mut command = command.clone();
    let mut words = command.program.argv();
    words[0] = shell.to_owned();
    command.program = crate::sandbox::Program::Argv(words);
    run(&command)
}

/// Runs a command here as this user.
pub(crate) fn run_as(user: User, command: &Command) -> Output {
    assert_eq!(command.stdin, Stdin::Closed, "not needed so far");
    let words = command.program.argv();
    let mut process = Process::new(&words[0]);
    process.args(&words[1..]).env_clear().env("PATH", SANDBOX_V1.path).envs(&command.env_vars);
    process.stdin(Stdio::null()).current_dir(command.cwd.as_deref().unwrap_or("/"));
    if rustix::process::geteuid().is_root() {
        // Setting the user as root clears the supplementary groups too.
        process.uid(user.uid).gid(user.gid);
    }
    let output = process.output().unwrap();
    let status = match (output.status.code(), output.status.signal()) {
        (Some(code), _) => ExitStatus::Code(code),
        (None, signal) => ExitStatus::Signal(signal.unwrap_or(0)),
    };
    Output::new(status, output.stdout, output.stderr)
}

/// Whether there is an interpreter for [`run`]. If not, it says that a test is skipped.
pub(crate) fn has_python() -> bool {
    let places = SANDBOX_V1.path.split(':').map(|folder| Path::new(folder).join(SANDBOX_V1.python));
    let has = places.into_iter().any(|place| place.exists());
    if !has {
        println!("skipped: this machine has no {} on {}", SANDBOX_V1.python, SANDBOX_V1.path);
    }
    has
}

/// The shells of this machine that the scripts are tried with.
pub(crate) fn shells() -> Vec<&'static str> {
    let known = ["/bin/sh", "/bin/dash", "/bin/bash"];
    known.into_iter().filter(|shell| Path::new(shell).exists()).collect()
}

/// What the program `id` answers for [`user`].
pub(crate) fn id(flag: &str) -> String {
    run(&Command::argv(["id", flag])).stdout_text().trim().to_owned()
}

/// A contract's texts are static. Tests may leak a few.
pub(crate) fn leak(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

/// A folder that belongs to [`user`] and is removed at the end.
pub(crate) struct Folder(tempfile::TempDir, String);

impl Folder {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().into_os_string().into_string().unwrap();
        own(&path);
        Self(folder, path)
    }

    pub(crate) fn path(&self) -> &str {
        &self.1
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file and makes the folders above it. All of them belong to [`user`].
    pub(crate) fn add(&self, name: &str, content: impl AsRef<[u8]>, mode: u32) {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        for part in path.ancestors().take_while(|part| *part != self.0.path()) {
            own(part);
        }
    }

    pub(crate) fn content(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).unwrap()
    }

    /// Takes the right to write in a folder away.
    pub(crate) fn lock(&self, name: &str) {
        std::fs::set_permissions(self.at(name), PermissionsExt::from_mode(0o555)).unwrap();
    }

    /// Gives it back, so that it can be removed.
    pub(crate) fn unlock(&self, name: &str) {
        std::fs::set_permissions(self.at(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
}

fn own(path: impl AsRef<Path>) {
    if rustix::process::geteuid().is_root() {
        let user = user();
        chown(path, Some(user.uid), Some(user.gid)).unwrap();
    }
}
