//! What is mounted inside the new root: devices, /proc, /sys, memory folders, secrets, locks.

use super::program::{Program, Taken};
use crate::engine::EngineError;
use crate::engine::facts::Facts;
use crate::engine::plan::{BoxPlan, Purpose};
use crate::helper::plan::{Flags, Owner};
use std::path::Path;

const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];
const PASSWORD_FILES: &[&str] = &["/etc/shadow", "/etc/gshadow"];
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
const READ_ONLY_KERNEL_PATHS: &[&str] =
    &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// What a box gets of this machine, taken before its root is entered.
#[derive(Debug)]
pub(crate) struct Supplies {
    proc: Taken,
    sys: Taken,
    devices: Vec<(&'static str, Taken)>,
    /// Empty files that nobody may read.
    veils: Vec<(&'static str, Taken)>,
}

impl Supplies {
    pub(crate) fn take(program: &mut Program, scratch: &Path) -> Result<Self, EngineError> {
        // A user namespace may mount /proc only while another one is in sight, so this comes before the old
        // root goes.
        let proc = scratch.join("proc");
        program.dir(&proc, Owner::mode(0o555))?;
        program.proc(&proc)?;
        let proc = program.take(&proc, Flags::default())?;
        let sys = program.take(Path::new("/sys"), Flags::RECURSIVE)?;
        let mut devices = Vec::new();
        for name in DEVICES {
            devices.push((*name, program.take(&Path::new("/dev").join(name), Flags::OPTIONAL)?));
        }
        let veil = scratch.join("veil");
        program.file(&veil, Owner::mode(0), b"")?;
        let mut veils = Vec::new();
        for path in PASSWORD_FILES {
            veils.push((*path, program.take(&veil, Flags::OPTIONAL)?));
        }
        Ok(Self { proc, sys, devices, veils })
    }
}

/// Mounts what every box has, right after its root is entered.
pub(crate) fn write_first(
    program: &mut Program,
    facts: &Facts,
    supplies: &Supplies,
) -> Result<(), EngineError> {
    devices(program, facts, supplies)?;
    kernel_folders(program, supplies)?;
    memory_folders(program)
}

/// What the plan asks for, when everything else is in place.
pub(crate) fn write_last(
    program: &mut Program,
    facts: &Facts,
    plan: &BoxPlan,
    supplies: &Supplies,
) -> Result<(), EngineError> {
    secrets(program, plan)?;
    if plan.purpose == Purpose::Run {
        if facts.user_namespace() {
            veil_passwords(program, supplies)?;
        }
        for path in &plan.reserved {
            program.reserve(path, facts.user_namespace())?;
        }
    }
    Ok(())
}

fn kernel_folders(program: &mut Program, supplies: &Supplies) -> Result<(), EngineError> {
    program.bind(&supplies.proc, Path::new("/proc"), Flags::default())?;
    let flags = Flags::READ_ONLY.and(Flags::NO_SUID).and(Flags::NO_DEV).and(Flags::NO_EXEC);
    program.bind(&supplies.sys, Path::new("/sys"), flags)?;
    for path in HIDDEN_KERNEL_PATHS {
        program.hide(Path::new(path))?;
    }
    for path in READ_ONLY_KERNEL_PATHS {
        program.read_only(Path::new(path))?;
    }
    Ok(())
}

fn devices(program: &mut Program, facts: &Facts, supplies: &Supplies) -> Result<(), EngineError> {
    program.tmpfs(Path::new("/dev"), "mode=0755,size=256k", Flags::NO_EXEC)?;
    for (name, device) in &supplies.devices {
        let path = Path::new("/dev").join(name);
        program.file(&path, Owner::mode(0o666), b"")?;
        program.bind(device, &path, Flags::NO_SUID.and(Flags::NO_EXEC))?;
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
    let owner = Owner { mode: 0o400, uid: plan.identity.uid, gid: plan.identity.gid };
    for (name, secret) in &plan.secrets {
        program.file(&folder.join(name), owner, secret.expose())?;
    }
    program.read_only(folder)
}

/// In a user namespace the one user owns every file, password files included. They hold no passwords, but
/// programs expect them to be unreadable: a file without any permission, on a read-only mount, is.
fn veil_passwords(program: &mut Program, supplies: &Supplies) -> Result<(), EngineError> {
    for (path, veil) in &supplies.veils {
        program.bind(veil, Path::new(path), Flags::READ_ONLY)?;
    }
    Ok(())
}
