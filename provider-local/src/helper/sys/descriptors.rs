//! Descriptors, and waiting for them.

use super::super::nr;
use super::{Answer, Fd, O_CLOEXEC, as_fd, call, call_with_numbers, number};

pub(crate) fn pipe() -> Answer<(Fd, Fd)> {
    let mut ends = [0 as Fd; 2];
    // SAFETY: the kernel writes two descriptors there.
    unsafe { call(nr::PIPE2, [ends.as_mut_ptr() as usize, O_CLOEXEC as usize, 0, 0, 0, 0]) }?;
    let [read, write] = ends;
    Ok((read, write))
}

/// A copy of `fd` with a number of at least `lowest`, closed on exec.
pub(crate) fn duplicate_above(fd: Fd, lowest: Fd) -> Answer<Fd> {
    const F_DUPFD_CLOEXEC: usize = 1030;
    as_fd(call_with_numbers(nr::FCNTL, [number(fd), F_DUPFD_CLOEXEC, number(lowest), 0, 0, 0])?)
}

/// Makes `to` a copy of `from` that survives exec.
pub(crate) fn duplicate_onto(from: Fd, to: Fd) -> Answer<()> {
    call_with_numbers(nr::DUP3, [number(from), number(to), 0, 0, 0, 0]).map(drop)
}

/// Marks every descriptor from `first` on as closed on exec.
pub(crate) fn close_on_exec_from(first: Fd) -> Answer<()> {
    const CLOSE_RANGE_CLOEXEC: usize = 4;
    call_with_numbers(nr::CLOSE_RANGE, [number(first), u32::MAX as usize, CLOSE_RANGE_CLOEXEC, 0, 0, 0])
        .map(drop)
}

/// One descriptor to wait for.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Poll {
    pub(crate) fd: Fd,
    pub(crate) wanted: i16,
    pub(crate) seen: i16,
}

impl Poll {
    pub(crate) const NOTHING: Poll = Poll { fd: -1, wanted: 0, seen: 0 };

    pub(crate) const fn new(fd: Fd, wanted: i16) -> Self {
        Self { fd, wanted, seen: 0 }
    }
}

/// Waits until a descriptor is ready or the time is over; `None` waits without end.
pub(crate) fn poll(entries: &mut [Poll], milliseconds: Option<u64>) -> Answer<usize> {
    let mut time = [0_u64; 2];
    let time_address = milliseconds.map_or(0, |limit| {
        time = [limit / 1000, limit % 1000 * 1_000_000];
        time.as_mut_ptr() as usize
    });
    let arguments = [entries.as_mut_ptr() as usize, entries.len(), time_address, 0, 0, 0];
    // SAFETY: the entries have the kernel's layout; the time is null or a valid timespec.
    unsafe { call(nr::PPOLL, arguments) }
}
