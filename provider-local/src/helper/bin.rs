//! The root of the helper: a static program without a standard library and without a C library.
//!
//! Everything it does is in modules that the crate compiles as well; only what a bare program needs is here:
//! the entry point, the panic handler, and the memory functions that the compiler calls.
#![no_std]
#![no_main]
#![allow(dead_code, reason = "the driver's half of the shared modules is not used here")]

mod codec;
mod credentials;
mod exec;
mod files;
mod init;
mod mount_api;
mod mounts;
mod nr;
mod overlay;
mod packet;
mod plan;
mod processes;
mod socket;
mod step;
mod supervisor;
mod sys;
mod table;

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "and rsp, -16",
    "call {main}",
    "ud2",
    main = sym main,
);

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".globl _start",
    "_start:",
    "mov x29, #0",
    "mov x30, #0",
    "bl {main}",
    "brk #1",
    main = sym main,
);

extern "C" fn main() -> ! {
    supervisor::run()
}

/// The exit code is reported as the fate of the first process, or seen as the end of stage 1.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::exit(99)
}

// The loops read or write through volatile accesses, since the compiler would otherwise recognise them and
// replace them with calls of the very functions they implement.

/// # Safety
/// As for C's `memcpy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    for index in 0..count {
        // SAFETY: the caller vouches for `count` bytes at both places.
        unsafe { to.add(index).write_volatile(*from.add(index)) };
    }
    to
}

/// # Safety
/// As for C's `memmove`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    if to.cast_const() < from {
        // SAFETY: going upwards never overwrites what is still to be read when the goal lies below.
        return unsafe { memcpy(to, from, count) };
    }
    for index in (0..count).rev() {
        // SAFETY: the caller vouches for `count` bytes at both places.
        unsafe { to.add(index).write_volatile(*from.add(index)) };
    }
    to
}

/// # Safety
/// As for C's `memset`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, value: i32, count: usize) -> *mut u8 {
    for index in 0..count {
        // SAFETY: the caller vouches for `count` bytes.
        unsafe { to.add(index).write_volatile(value as u8) };
    }
    to
}

/// # Safety
/// As for C's `memcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, count: usize) -> i32 {
    for index in 0..count {
        // SAFETY: the caller vouches for `count` bytes at both places.
        let (a, b) = unsafe { (left.add(index).read_volatile(), right.add(index).read_volatile()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}

/// # Safety
/// As for `bcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, count: usize) -> i32 {
    // SAFETY: the caller vouches for the same as `memcmp` needs.
    unsafe { memcmp(left, right, count) }
}

/// # Safety
/// As for C's `strlen`.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut count = 0;
    // SAFETY: the caller vouches for a NUL at the end.
    while unsafe { text.add(count).read_volatile() } != 0 {
        count += 1;
    }
    count
}

#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
