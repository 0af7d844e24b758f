//! What is mounted inside the new root: devices, /proc, /sys, memory folders, secrets, locks.

use super::program::Program;
use crate::engine::EngineError;
use crate::engine::facts::Facts;
use crate::engine::plan::{BoxPlan, Purpose};
use crate::helper::plan::{Flags, Owner};
use std::path::Path;

const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];
const DEVICE_LINKS: &[(&str, &str)] = &[
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
];
/// Parts of the kernel's own folders that tell of this machine, or change it.
const HIDDEN_KERNEL_PATHS: &[&str] = &[
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/firmware",
];
const READ_ONLY_KERNEL_PATHS: &[&str] = &[
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// The name, in the scratch folder, of an empty file that nobody may read.
pub(crate) const VEIL: &str = "veil";

/// Writes everything between "the root is entered" and "the old root is let go".
pub(crate) fn write(
    program: &mut Program,
    facts: &Facts,
    plan: &BoxPlan,
    scratch: &Path,
) -> Result<(), EngineError> {
    kernel_folders(program)?;
    devices(program, facts)?;
    memory_folders(program)?;
    secrets(program, plan)?;
    if plan.purpose == Purpose::Run {
        if facts.user_namespace() {
            veil_passwords(program, scratch)?;
        }
        for path in &plan.reserved {
            program.reserve(path, facts.user_namespace())?;
        }
    }
    Ok(())
}

fn kernel_folders(program: &mut Program) -> Result<(), EngineError> {
    program.proc("/proc")?;
    let flags = Flags::RECURSIVE
        .and(Flags::READ_ONLY)
        .and(Flags::NO_SUID)
        .and(Flags::NO_DEV)
        .and(Flags::NO_EXEC);
    program.bind(Path::new("/sys"), Path::new("/sys"), flags)?;
    for path in HIDDEN_KERNEL_PATHS {
        program.hide(Path::new(path))?;
    }
    for path in READ_ONLY_KERNEL_PATHS {
        program.read_only(Path::new(path))?;
    }
    Ok(())
}

fn devices(program: &mut Program, facts: &Facts) -> Result<(), EngineError> {
    program.tmpfs(Path::new("/dev"), "mode=0755,size=256k", Flags::NO_EXEC)?;
    for name in DEVICES {
        let path = Path::new("/dev").join(name);
        program.file(&path, Owner::mode(0o666), b"")?;
        program.bind(
            &path,
            &path,
            Flags::NO_SUID.and(Flags::NO_EXEC).and(Flags::OPTIONAL),
        )?;
    }
    for (path, target) in DEVICE_LINKS {
        program.link(Path::new(path), Path::new(target))?;
    }
    program.dir(Path::new("/dev/pts"), Owner::mode(0o755))?;
    // Group 5 is "tty" everywhere; in a user namespace with one group it does not exist.
    let group = if facts.user_namespace() { "" } else { ",gid=5" };
    program.devpts("/dev/pts", &format!("newinstance,ptmxmode=0666,mode=0620{group}"))?;
    program.dir(Path::new("/dev/shm"), Owner::mode(0o1777))?;
    program.tmpfs(Path::new("/dev/shm"), "mode=1777", Flags::NO_EXEC)
}

fn memory_folders(program: &mut Program) -> Result<(), EngineError> {
    program.tmpfs(Path::new("/tmp"), "mode=1777", Flags::default())?;
    program.tmpfs(Path::new("/run"), "mode=0755", Flags::default())?;
    program.dir(Path::new("/run/lock"), Owner::mode(0o1777))
}

fn secrets(program: &mut Program, plan: &BoxPlan) -> Result<(), EngineError> {
    if plan.secrets.is_empty() {
        return Ok(());
    }
    let folder = Path::new("/run/secrets");
    program.dir(folder, Owner::mode(0o755))?;
    program.tmpfs(folder, "mode=0755", Flags::NO_EXEC)?;
    let owner = Owner {
        mode: 0o400,
        uid: plan.identity.uid,
        gid: plan.identity.gid,
    };
    for (name, secret) in &plan.secrets {
        program.file(&folder.join(name), owner, secret.expose())?;
    }
    program.read_only(folder)
}

/// In a user namespace the one user owns every file, password files included. They hold no passwords, but programs expect
/// them to be unreadable: a file without any permission, on a read-only mount, is.
fn veil_passwords(program: &mut Program, scratch: &Path) -> Result<(), EngineError> {
    for target in ["/etc/shadow", "/etc/gshadow"] {
        program.bind(
            &scratch.join(VEIL),
            Path::new(target),
            Flags::READ_ONLY.and(Flags::OPTIONAL),
        )?;
    }
    Ok(())
}
