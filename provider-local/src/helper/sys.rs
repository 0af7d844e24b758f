//! System calls without a C library: the entry into the kernel, and typed wrappers.
//!
//! Every wrapper is safe to call: it takes references for what the kernel reads or writes. Descriptors are
//! plain numbers here, since a helper that forks and executes cannot give them owners.

mod descriptors;
mod files;
mod processes;

pub(crate) use descriptors::*;
pub(crate) use files::*;
pub(crate) use processes::*;

use core::ffi::CStr;

/// An error number of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub i32);

impl Errno {
    pub(crate) const PERM: Errno = Errno(1);
    pub(crate) const NOENT: Errno = Errno(2);
    pub(crate) const SRCH: Errno = Errno(3);
    pub(crate) const INTR: Errno = Errno(4);
    pub(crate) const IO: Errno = Errno(5);
    pub(crate) const BIG: Errno = Errno(7);
    pub(crate) const CHILD: Errno = Errno(10);
    pub(crate) const AGAIN: Errno = Errno(11);
    pub(crate) const ACCES: Errno = Errno(13);
    pub(crate) const EXIST: Errno = Errno(17);
    pub(crate) const NOTDIR: Errno = Errno(20);
    pub(crate) const INVAL: Errno = Errno(22);
    pub(crate) const NAMETOOLONG: Errno = Errno(36);
    pub(crate) const NOSYS: Errno = Errno(38);
    pub(crate) const LOOP: Errno = Errno(40);
    pub(crate) const BADMSG: Errno = Errno(74);
    pub(crate) const CONNRESET: Errno = Errno(104);
}

/// The answer of a system call.
pub(crate) type Answer<T> = Result<T, Errno>;

/// A descriptor.
pub(crate) type Fd = i32;

/// "Relative to the working directory."
pub(crate) const AT_CWD: Fd = -100;
pub(crate) const AT_SYMLINK_NOFOLLOW: u32 = 0x100;
pub(crate) const AT_REMOVEDIR: u32 = 0x200;
pub(crate) const AT_EMPTY_PATH: u32 = 0x1000;
pub(crate) const AT_RECURSIVE: u32 = 0x8000;

pub(crate) const O_WRONLY: u32 = 0o1;
pub(crate) const O_CREAT: u32 = 0o100;
pub(crate) const O_EXCL: u32 = 0o200;
pub(crate) const O_NOCTTY: u32 = 0o400;
pub(crate) const O_NONBLOCK: u32 = 0o4000;
pub(crate) const O_CLOEXEC: u32 = 0o2_000_000;
pub(crate) const O_PATH: u32 = 0o10_000_000;

pub(crate) const S_IFMT: u32 = 0o170_000;
pub(crate) const S_IFCHR: u32 = 0o020_000;
pub(crate) const S_IFDIR: u32 = 0o040_000;

pub(crate) const SIGKILL: u32 = 9;
pub(crate) const SIGTERM: u32 = 15;
pub(crate) const SIGCHLD: u32 = 17;

pub(crate) const POLLIN: i16 = 0x1;
pub(crate) const POLLERR: i16 = 0x8;
pub(crate) const POLLHUP: i16 = 0x10;
pub(crate) const POLLRDHUP: i16 = 0x2000;

/// Enters the kernel.
///
/// # Safety
/// The arguments must be what call `number` expects: pointers valid for what it reads and writes.
#[cfg(target_arch = "x86_64")]
unsafe fn enter(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let answer: isize;
    // SAFETY: the caller vouches for the arguments; the clobbers are those of the `syscall` instruction.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// Enters the kernel.
///
/// # Safety
/// The arguments must be what call `number` expects: pointers valid for what it reads and writes.
#[cfg(target_arch = "aarch64")]
unsafe fn enter(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let answer: isize;
    // SAFETY: the caller vouches for the arguments; `svc 0` changes x0 alone.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => answer,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    answer
}

/// One system call, its answer split into value and error.
///
/// # Safety
/// As for [`enter`].
pub(crate) unsafe fn call(number: usize, arguments: [usize; 6]) -> Answer<usize> {
    // SAFETY: the caller vouches for the arguments.
    let answer = unsafe { enter(number, arguments) };
    usize::try_from(answer).map_err(|_| Errno(i32::try_from(-answer).unwrap_or(i32::MAX)))
}

/// A call whose arguments are numbers alone.
fn call_with_numbers(number: usize, arguments: [usize; 6]) -> Answer<usize> {
    // SAFETY: private to this file, and used only for calls that take no pointer.
    unsafe { call(number, arguments) }
}

fn address(text: &CStr) -> usize {
    text.as_ptr() as usize
}

fn number(fd: Fd) -> usize {
    // Sign-extended, since AT_CWD is negative.
    fd as isize as usize
}

fn as_fd(value: usize) -> Answer<Fd> {
    Fd::try_from(value).map_err(|_| Errno::INVAL)
}
