//! Numbers of the system calls: the one thing here that differs from machine to machine.

#[cfg(target_arch = "x86_64")]
mod machine {
    pub(crate) const READ: usize = 0;
    pub(crate) const WRITE: usize = 1;
    pub(crate) const CLOSE: usize = 3;
    pub(crate) const MMAP: usize = 9;
    pub(crate) const RT_SIGACTION: usize = 13;
    pub(crate) const RT_SIGPROCMASK: usize = 14;
    pub(crate) const SENDMSG: usize = 46;
    pub(crate) const RECVMSG: usize = 47;
    pub(crate) const CLONE: usize = 56;
    pub(crate) const EXECVE: usize = 59;
    pub(crate) const WAIT4: usize = 61;
    pub(crate) const KILL: usize = 62;
    pub(crate) const FCNTL: usize = 72;
    pub(crate) const CHDIR: usize = 80;
    pub(crate) const FCHDIR: usize = 81;
    pub(crate) const FCHMOD: usize = 91;
    pub(crate) const FCHOWN: usize = 93;
    pub(crate) const UMASK: usize = 95;
    pub(crate) const SETSID: usize = 112;
    pub(crate) const SETGROUPS: usize = 116;
    pub(crate) const SETRESUID: usize = 117;
    pub(crate) const SETRESGID: usize = 119;
    pub(crate) const CAPSET: usize = 126;
    pub(crate) const PIVOT_ROOT: usize = 155;
    pub(crate) const PRCTL: usize = 157;
    pub(crate) const MOUNT: usize = 165;
    pub(crate) const UMOUNT2: usize = 166;
    pub(crate) const SETHOSTNAME: usize = 170;
    pub(crate) const SETXATTR: usize = 188;
    pub(crate) const GETDENTS64: usize = 217;
    pub(crate) const CLOCK_GETTIME: usize = 228;
    pub(crate) const EXIT_GROUP: usize = 231;
    pub(crate) const OPENAT: usize = 257;
    pub(crate) const MKDIRAT: usize = 258;
    pub(crate) const MKNODAT: usize = 259;
    pub(crate) const FCHOWNAT: usize = 260;
    pub(crate) const UNLINKAT: usize = 263;
    pub(crate) const SYMLINKAT: usize = 266;
    pub(crate) const FCHMODAT: usize = 268;
    pub(crate) const PPOLL: usize = 271;
    pub(crate) const SIGNALFD4: usize = 289;
    pub(crate) const DUP3: usize = 292;
    pub(crate) const PIPE2: usize = 293;
    pub(crate) const RENAMEAT2: usize = 316;
    pub(crate) const STATX: usize = 332;

    pub(crate) const O_DIRECTORY: u32 = 0o200_000;
    pub(crate) const O_NOFOLLOW: u32 = 0o400_000;
}

#[cfg(target_arch = "aarch64")]
mod machine {
    pub(crate) const SETXATTR: usize = 5;
    pub(crate) const DUP3: usize = 24;
    pub(crate) const FCNTL: usize = 25;
    pub(crate) const MKNODAT: usize = 33;
    pub(crate) const MKDIRAT: usize = 34;
    pub(crate) const UNLINKAT: usize = 35;
    pub(crate) const SYMLINKAT: usize = 36;
    pub(crate) const UMOUNT2: usize = 39;
    pub(crate) const MOUNT: usize = 40;
    pub(crate) const PIVOT_ROOT: usize = 41;
    pub(crate) const CHDIR: usize = 49;
    pub(crate) const FCHDIR: usize = 50;
    pub(crate) const FCHMOD: usize = 52;
    pub(crate) const FCHMODAT: usize = 53;
    pub(crate) const FCHOWNAT: usize = 54;
    pub(crate) const FCHOWN: usize = 55;
    pub(crate) const OPENAT: usize = 56;
    pub(crate) const CLOSE: usize = 57;
    pub(crate) const PIPE2: usize = 59;
    pub(crate) const GETDENTS64: usize = 61;
    pub(crate) const READ: usize = 63;
    pub(crate) const WRITE: usize = 64;
    pub(crate) const PPOLL: usize = 73;
    pub(crate) const SIGNALFD4: usize = 74;
    pub(crate) const CAPSET: usize = 91;
    pub(crate) const EXIT_GROUP: usize = 94;
    pub(crate) const CLOCK_GETTIME: usize = 113;
    pub(crate) const KILL: usize = 129;
    pub(crate) const RT_SIGACTION: usize = 134;
    pub(crate) const RT_SIGPROCMASK: usize = 135;
    pub(crate) const SETRESUID: usize = 147;
    pub(crate) const SETRESGID: usize = 149;
    pub(crate) const SETSID: usize = 157;
    pub(crate) const SETGROUPS: usize = 159;
    pub(crate) const SETHOSTNAME: usize = 161;
    pub(crate) const UMASK: usize = 166;
    pub(crate) const PRCTL: usize = 167;
    pub(crate) const SENDMSG: usize = 211;
    pub(crate) const RECVMSG: usize = 212;
    pub(crate) const CLONE: usize = 220;
    pub(crate) const EXECVE: usize = 221;
    pub(crate) const MMAP: usize = 222;
    pub(crate) const WAIT4: usize = 260;
    pub(crate) const RENAMEAT2: usize = 276;
    pub(crate) const STATX: usize = 291;

    pub(crate) const O_DIRECTORY: u32 = 0o40_000;
    pub(crate) const O_NOFOLLOW: u32 = 0o100_000;
}

pub(crate) use machine::*;

// Calls added since the numbers were unified.
pub(crate) const PIDFD_SEND_SIGNAL: usize = 424;
pub(crate) const OPEN_TREE: usize = 428;
pub(crate) const MOVE_MOUNT: usize = 429;
pub(crate) const FSOPEN: usize = 430;
pub(crate) const FSCONFIG: usize = 431;
pub(crate) const FSMOUNT: usize = 432;
pub(crate) const CLOSE_RANGE: usize = 436;
pub(crate) const MOUNT_SETATTR: usize = 442;
