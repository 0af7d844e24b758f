//! Processes, their credentials and signals, the clock.

use super::super::nr;
use super::{
    Answer, Errno, Fd, O_CLOEXEC, O_NONBLOCK, SIGCHLD, address, as_fd, call, call_with_numbers, number,
};
use core::ffi::{CStr, c_void};
use core::ptr;

/// Ends every thread of the process.
pub(crate) fn exit(code: i32) -> ! {
    loop {
        let _ = call_with_numbers(nr::EXIT_GROUP, [code as usize, 0, 0, 0, 0, 0]);
    }
}

/// A copy of this process: `None` in the child, the child's number in the parent.
pub(crate) fn fork() -> Answer<Option<u32>> {
    // SAFETY: without CLONE_VM the child has its own copy of all memory, this stack included.
    let answer = unsafe { call(nr::CLONE, [SIGCHLD as usize, 0, 0, 0, 0, 0]) }?;
    Ok(u32::try_from(answer).ok().filter(|pid| *pid != 0))
}

/// As [`fork`], into the new namespaces that `flags` names; the parent also gets a pidfd.
pub(crate) fn fork_into(flags: usize) -> Answer<Option<(u32, Fd)>> {
    const CLONE_PIDFD: usize = 0x1000;
    let mut pidfd: Fd = -1;
    let arguments = [flags | CLONE_PIDFD | SIGCHLD as usize, 0, ptr::from_mut(&mut pidfd) as usize, 0, 0, 0];
    // SAFETY: as for `fork`; the kernel writes one descriptor to `pidfd` in the parent.
    let answer = unsafe { call(nr::CLONE, arguments) }?;
    Ok(u32::try_from(answer).ok().filter(|pid| *pid != 0).map(|pid| (pid, pidfd)))
}

/// What [`wait_for`] and [`reap`] saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) pid: u32,
    pub(crate) status: u32,
}

fn wait(pid: isize, options: usize) -> Answer<Option<Ended>> {
    let mut status = 0_u32;
    let arguments = [pid as usize, ptr::from_mut(&mut status) as usize, options, 0, 0, 0];
    // SAFETY: the kernel writes one word to `status`.
    let pid = unsafe { call(nr::WAIT4, arguments) }?;
    Ok(u32::try_from(pid).ok().filter(|pid| *pid != 0).map(|pid| Ended { pid, status }))
}

/// Waits for this child.
pub(crate) fn wait_for(pid: u32) -> Answer<u32> {
    loop {
        match wait(pid as isize, 0) {
            Ok(Some(ended)) => return Ok(ended.status),
            Ok(None) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// The next child that has ended, without waiting; [`Errno::CHILD`] when there are no children at all.
pub(crate) fn reap() -> Answer<Option<Ended>> {
    const WNOHANG: usize = 1;
    wait(-1, WNOHANG)
}

/// Signals one process, or with -1 all that this process may signal, itself excepted.
pub(crate) fn kill(pid: i32, signal: u32) -> Answer<()> {
    call_with_numbers(nr::KILL, [pid as isize as usize, signal as usize, 0, 0, 0, 0]).map(drop)
}

pub(crate) fn kill_pidfd(pidfd: Fd, signal: u32) -> Answer<()> {
    call_with_numbers(nr::PIDFD_SEND_SIGNAL, [number(pidfd), signal as usize, 0, 0, 0, 0]).map(drop)
}

pub(crate) fn new_session() -> Answer<()> {
    call_with_numbers(nr::SETSID, [0; 6]).map(drop)
}

pub(crate) fn set_umask(mask: u32) {
    let _ = call_with_numbers(nr::UMASK, [mask as usize, 0, 0, 0, 0, 0]);
}

pub(crate) fn process_control(option: usize, argument: usize) -> Answer<()> {
    call_with_numbers(nr::PRCTL, [option, argument, 0, 0, 0, 0]).map(drop)
}

pub(crate) fn set_groups(groups: &[u32]) -> Answer<()> {
    // SAFETY: the kernel reads `groups.len()` words there.
    unsafe { call(nr::SETGROUPS, [groups.len(), groups.as_ptr() as usize, 0, 0, 0, 0]) }.map(drop)
}

pub(crate) fn set_group(gid: u32) -> Answer<()> {
    let gid = gid as usize;
    call_with_numbers(nr::SETRESGID, [gid, gid, gid, 0, 0, 0]).map(drop)
}

pub(crate) fn set_user(uid: u32) -> Answer<()> {
    let uid = uid as usize;
    call_with_numbers(nr::SETRESUID, [uid, uid, uid, 0, 0, 0]).map(drop)
}

/// Sets the effective and permitted capabilities to `keep`, and the inheritable ones to none.
pub(crate) fn set_capabilities(keep: u64) -> Answer<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let low = keep as u32;
    let high = (keep >> 32) as u32;
    let header = [VERSION_3, 0_u32];
    let data = [low, low, 0_u32, high, high, 0_u32];
    // SAFETY: header and data have the layout of version 3.
    unsafe { call(nr::CAPSET, [header.as_ptr() as usize, data.as_ptr() as usize, 0, 0, 0, 0]) }.map(drop)
}

/// Executes a program; comes back only with an error.
///
/// # Safety
/// `arguments` and `environment` must be null-terminated lists of addresses of NUL-terminated texts.
pub(crate) unsafe fn execute(path: &CStr, arguments: &[usize], environment: &[usize]) -> Errno {
    let list = [address(path), arguments.as_ptr() as usize, environment.as_ptr() as usize, 0, 0, 0];
    // SAFETY: the caller vouches for the lists.
    unsafe { call(nr::EXECVE, list) }.err().unwrap_or(Errno::IO)
}

/// Blocks exactly these signals (bit n-1 for signal n).
pub(crate) fn set_blocked_signals(mask: u64) -> Answer<()> {
    const SIG_SETMASK: usize = 2;
    let arguments = [SIG_SETMASK, ptr::from_ref(&mask) as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: the kernel reads one 8-byte set.
    unsafe { call(nr::RT_SIGPROCMASK, arguments) }.map(drop)
}

/// Every signal does what it does by default, whatever the caller ignored.
pub(crate) fn reset_signals() {
    const SIGNALS: usize = 64;
    // struct sigaction of the kernel: all zero is the default action.
    let action = [0_u64; 4];
    for signal in 1..=SIGNALS {
        let arguments = [signal, action.as_ptr() as usize, 0, size_of::<u64>(), 0, 0];
        // SAFETY: the kernel reads one sigaction. It refuses SIGKILL and SIGSTOP, which need no reset.
        let _ = unsafe { call(nr::RT_SIGACTION, arguments) };
    }
}

/// A descriptor from which these blocked signals can be read.
pub(crate) fn signal_fd(mask: u64) -> Answer<Fd> {
    let flags = (O_CLOEXEC | O_NONBLOCK) as usize;
    let arguments = [usize::MAX, ptr::from_ref(&mask) as usize, size_of::<u64>(), flags, 0, 0];
    // SAFETY: the kernel reads one 8-byte set.
    as_fd(unsafe { call(nr::SIGNALFD4, arguments) }?)
}

/// Milliseconds of a clock that never jumps.
pub(crate) fn now_milliseconds() -> u64 {
    const CLOCK_MONOTONIC: usize = 1;
    let mut time = [0_u64; 2];
    let address = ptr::from_mut(&mut time).cast::<c_void>() as usize;
    // SAFETY: the kernel writes one timespec.
    let _ = unsafe { call(nr::CLOCK_GETTIME, [CLOCK_MONOTONIC, address, 0, 0, 0, 0]) };
    let [seconds, nanoseconds] = time;
    seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000)
}

pub(crate) fn set_hostname(name: &CStr) -> Answer<()> {
    // SAFETY: `name` is read for its length.
    unsafe { call(nr::SETHOSTNAME, [address(name), name.count_bytes(), 0, 0, 0, 0]) }.map(drop)
}
