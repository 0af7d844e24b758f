//! This test program as a child of itself: drivers that die, and worlds of their own.

use super::common::{Outcome, is_root, small_base_path, use_small_base};
use super::{crash, failures, inputs, worlds};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

const ASK: &str = "--as-child";
const SKIPPED: i32 = 77;

/// Does what a parent asked for, and says whether that was so.
pub(crate) fn run_if_asked() -> bool {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [ask, what, base, rest @ ..] = arguments.as_slice() else { return false };
    if ask != ASK {
        return false;
    }
    use_small_base(base.into());
    let state = PathBuf::from(rest.first().cloned().unwrap_or_default());
    let mark = rest.get(1).cloned().unwrap_or_default();
    match what.as_str() {
        "storm" => crash::storm(&state, &mark),
        "hold" => crash::hold(&state, &mark),
        "panic" => crash::panicking(&state, &mark),
        "full-disk" => failures::full_disk_child(&state),
        "overlay-state" => failures::overlay_state_child(&state),
        "deep-folder" => worlds::deep_folder_child(&state),
        "mounts-below" => worlds::mounts_below_child(&state),
        "own-file-systems" => worlds::own_file_systems_child(&state),
        "input-mounts" => inputs::mounts_below_child(),
        "masked-proc" => worlds::masked_proc_child(&state),
        "no-memory-programs" => worlds::no_memory_programs_child(&state),
        "no-namespaces" => failures::no_namespaces_child(&state),
        other => panic!("unknown request {other:?}"),
    }
    true
}

/// Ends the child: this machine cannot show what was asked for.
pub(crate) fn skip(reason: &str) -> ! {
    println!("{reason}");
    std::process::exit(SKIPPED);
}

fn this_program() -> PathBuf {
    std::env::current_exe().expect("the path of this program")
}

/// A driver in a process of its own.
pub(crate) struct Driver {
    child: Child,
}

impl Driver {
    pub(crate) fn start(what: &str, state: &Path, mark: &str) -> Self {
        let mut command = Command::new(this_program());
        command
            .args([ASK, what])
            .arg(small_base_path())
            .arg(state)
            .arg(mark)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        Self { child: command.spawn().expect("a child") }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn wait_for_line(&mut self) {
        let mut line = String::new();
        let stdout = self.child.stdout.as_mut().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert_eq!(line, "go\n");
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.wait();
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("an end")
    }
}

/// Copies of all descriptors of another process.
pub(crate) fn copy_descriptors(pid: u32) -> Vec<OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
    let pid = Pid::from_raw(i32::try_from(pid).expect("a number")).expect("a process");
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return Vec::new();
    };
    (3..64).filter_map(|number| pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok()).collect()
}

/// Runs a request in a mount namespace of its own (and, for an ordinary user, a user namespace).
pub(crate) fn in_own_mounts(what: &str) -> Outcome {
    in_own_world(what, if is_root() { "-m" } else { "-Urm" })
}

/// Runs a request in a user namespace of its own, whose limits are not this machine's.
pub(crate) fn in_own_limits(what: &str) -> Outcome {
    in_own_world(what, "-Urm")
}

/// As [`in_own_limits`], with process numbers of its own as well.
pub(crate) fn in_own_processes(what: &str) -> Outcome {
    in_own_world(what, "-Urmpf")
}

fn in_own_world(what: &str, how: &str) -> Outcome {
    let mut command = Command::new("unshare");
    command.arg(how);
    if how.contains('p') {
        command.arg("--mount-proc");
    }
    // Made here, since the child cannot remove a folder that it has mounted something on.
    let folder = tempfile::tempdir()?;
    command.arg(this_program()).args([ASK, what]).arg(small_base_path()).arg(folder.path());
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return super::common::skip(format!("unshare: {error}")),
    };
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // An overlay leaves a folder that is closed even to its owner.
    let _ = fs::set_permissions(folder.path().join("work/work"), fs::Permissions::from_mode(0o700));
    if output.status.code() == Some(SKIPPED) {
        return super::common::skip(said.trim());
    }
    assert!(output.status.success(), "{}: {said}", output.status);
    Ok(())
}

pub(crate) fn mount_tmpfs(target: &Path, options: &str) {
    mount(&["-t", "tmpfs", "-o", options, "tmpfs", &target.to_string_lossy()]);
}

/// Mounts `merged` in this folder, of `lower`, `upper` and `work`.
pub(crate) fn mount_overlay(folder: &Path) {
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let marks = if is_first_namespace() { "" } else { ",userxattr" };
    let options =
        format!("lowerdir={},upperdir={},workdir={}{marks}", path("lower"), path("upper"), path("work"));
    mount(&["-t", "overlay", "-o", &options, "overlay", &path("merged")]);
}

fn is_first_namespace() -> bool {
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.contains("4294967295"))
}

pub(crate) fn mount(arguments: &[&str]) {
    let status = Command::new("mount").args(arguments).status().expect("mount");
    assert!(status.success(), "mount {arguments:?}");
}
