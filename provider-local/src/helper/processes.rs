//! Finds the processes that belong to a command, in the box's own /proc.

use super::mounts::copy_text;
use super::sys::{self, Answer, Fd, SIGKILL};

/// How many processes one look at /proc takes in; what is beyond is met in the next round.
const MAX_SEEN: usize = 2048;
/// How often a killing sweep looks again for processes that were born meanwhile, or are not dead yet.
const MAX_ROUNDS: usize = 1000;
/// From this round on there is a pause of a millisecond before each, since killed processes need the
/// processor to die.
const FIRST_PAUSED_ROUND: usize = 3;

/// One process, as /proc/PID/stat shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    session: u32,
    dead: bool,
    member: bool,
}

const NOBODY: Process = Process { pid: 0, parent: 0, session: 0, dead: true, member: false };

/// Signals the session of `leader` and everything that descends from its members. SIGKILL goes on until a
/// look at /proc finds nobody left, so that a process cannot escape by forking. Says whether anybody was
/// signalled.
pub(crate) fn signal_tree(proc: Fd, leader: u32, signal: u32) -> Answer<bool> {
    let mut anybody = false;
    for round in 0..MAX_ROUNDS {
        if round >= FIRST_PAUSED_ROUND {
            let _ = sys::poll(&mut [], Some(1));
        }
        let mut seen = [NOBODY; MAX_SEEN];
        let count = look(proc, &mut seen)?;
        let seen = seen.get_mut(..count).unwrap_or(&mut []);
        mark_members(seen, leader);
        let mut signalled = false;
        for process in seen.iter().filter(|process| process.member && !process.dead) {
            if let Ok(pid) = i32::try_from(process.pid) {
                signalled |= sys::kill(pid, signal).is_ok();
            }
        }
        anybody |= signalled;
        if signal != SIGKILL || !signalled {
            break;
        }
    }
    Ok(anybody)
}

fn mark_members(seen: &mut [Process], leader: u32) {
    for process in seen.iter_mut() {
        process.member = process.pid == leader || process.session == leader;
    }
    loop {
        let mut changed = false;
        for index in 0..seen.len() {
            let Some(process) = seen.get(index).copied() else {
                break;
            };
            if !process.member && seen.iter().any(|other| other.member && other.pid == process.parent) {
                changed = true;
                if let Some(process) = seen.get_mut(index) {
                    process.member = true;
                }
            }
        }
        if !changed {
            return;
        }
    }
}

fn look(proc: Fd, seen: &mut [Process]) -> Answer<usize> {
    let folder = sys::rewind(proc)?;
    let mut count = 0;
    let answer = for_each_pid(folder, |pid| {
        if let Some(process) = read_process(proc, pid)
            && let Some(place) = seen.get_mut(count)
        {
            *place = process;
            count += 1;
        }
    });
    sys::close(folder);
    answer.map(|()| count)
}

fn for_each_pid(folder: Fd, mut each: impl FnMut(u32)) -> Answer<()> {
    const LENGTH_AT: usize = 16;
    const NAME_AT: usize = 19;
    let mut buffer = [0_u8; 4096];
    loop {
        let filled = sys::read_dir(folder, &mut buffer)?;
        if filled == 0 {
            return Ok(());
        }
        let mut rest = buffer.get(..filled).unwrap_or(&[]);
        while let Some(length) = rest.get(LENGTH_AT..LENGTH_AT + 2) {
            let length = length.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            // The kernel's numbers are little-endian on both machines that this is built for.
            let Some((entry, next)) = rest.split_at_checked(length) else {
                break;
            };
            if length == 0 {
                break;
            }
            if let Some(pid) = entry.get(NAME_AT..).and_then(parse_number) {
                each(pid);
            }
            rest = next;
        }
    }
}

fn read_process(proc: Fd, pid: u32) -> Option<Process> {
    let mut name = Name { text: [0; 24], used: 0 };
    name.put_number(pid)?;
    name.put(b"/stat")?;
    let mut path = [0_u8; 25];
    let fd = sys::open(proc, copy_text(&mut path, name.filled()).ok()?, 0, 0).ok()?;
    let mut text = [0_u8; 512];
    let length = sys::read(fd, &mut text);
    sys::close(fd);
    parse_stat(pid, text.get(..length.ok()?)?)
}

/// `pid (name) state parent group session ...`, where the name may hold anything, parentheses included.
fn parse_stat(pid: u32, text: &[u8]) -> Option<Process> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let mut fields = text.get(end + 2..)?.split(|byte| *byte == b' ');
    let state = fields.next()?;
    let parent = parse_number(fields.next()?)?;
    let _group = fields.next()?;
    let session = parse_number(fields.next()?)?;
    let dead = matches!(state, b"Z" | b"X");
    Some(Process { pid, parent, session, dead, member: false })
}

/// A decimal number that ends at the slice's end or at a NUL.
fn parse_number(text: &[u8]) -> Option<u32> {
    let digits = text.split(|byte| *byte == 0).next().filter(|digits| !digits.is_empty())?;
    digits.iter().try_fold(0_u32, |sum, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        sum.checked_mul(10)?.checked_add(u32::from(digit))
    })
}

/// A short text under construction.
#[derive(Debug)]
pub(crate) struct Name {
    text: [u8; 24],
    used: usize,
}

impl Name {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.used.checked_add(bytes.len())?;
        self.text.get_mut(self.used..end)?.copy_from_slice(bytes);
        self.used = end;
        Some(())
    }

    fn put_number(&mut self, number: u32) -> Option<()> {
        let mut divisor = 1;
        while number / divisor >= 10 {
            divisor *= 10;
        }
        while divisor > 0 {
            let digit = u8::try_from(number / divisor % 10).ok()?;
            self.put(&[b'0' + digit])?;
            divisor /= 10;
        }
        Some(())
    }

    fn filled(&self) -> &[u8] {
        self.text.get(..self.used).unwrap_or(&[])
    }
}

/// Opens a file of /proc/PID.
pub(crate) fn open_proc_file(proc: Fd, pid: u32, file: &[u8], flags: u32) -> Answer<Fd> {
    let mut name = Name { text: [0; 24], used: 0 };
    let filled = name.put_number(pid).and_then(|()| name.put(b"/")).and_then(|()| name.put(file));
    filled.ok_or(sys::Errno::NAMETOOLONG)?;
    let mut path = [0_u8; 25];
    sys::open(proc, copy_text(&mut path, name.filled())?, flags, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse_the_parser() {
        let process = parse_stat(7, b"7 (a) b) (c) S 3 7 5 0 -1").expect("a stat line");
        assert_eq!((process.parent, process.session, process.dead), (3, 5, false));
        assert!(parse_stat(7, b"7 (x) Z 1 1 1 0").expect("a stat line").dead);
        assert_eq!(parse_stat(7, b"7 (x"), None);
        assert_eq!(parse_stat(7, b")"), None);
    }

    #[test]
    fn numbers_are_read_strictly() {
        assert_eq!(parse_number(b"120\0junk"), Some(120));
        assert_eq!(parse_number(b"12a"), None);
        assert_eq!(parse_number(b""), None);
        assert_eq!(parse_number(b"99999999999"), None);
    }

    #[test]
    fn numbers_are_written() {
        for number in [0, 7, 10, 4_294_967_295] {
            let mut name = Name { text: [0; 24], used: 0 };
            name.put_number(number).expect("fits");
            assert_eq!(name.filled(), number.to_string().as_bytes());
        }
    }

    #[test]
    fn members_are_the_session_and_all_descendants() {
        let process = |pid, parent, session| Process { pid, parent, session, dead: false, member: false };
        // 10 leads; 11 is its child in the session; 13 descends through 12, which left the session; 20 is
        // somebody else; 14 was handed to process 1 but kept the session.
        let mut seen = [
            process(13, 12, 12),
            process(10, 1, 10),
            process(11, 10, 10),
            process(12, 11, 12),
            process(20, 1, 20),
            process(14, 1, 10),
        ];
        mark_members(&mut seen, 10);
        let members: Vec<u32> =
            seen.iter().filter(|process| process.member).map(|process| process.pid).collect();
        assert_eq!(members, [13, 10, 11, 12, 14]);
    }

    #[test]
    fn this_process_is_found_in_proc() {
        let proc = sys::open(sys::AT_CWD, c"/proc", 0, 0).expect("/proc");
        let me = std::process::id();
        let mut found = false;
        for_each_pid(sys::rewind(proc).expect("/proc"), |pid| found |= pid == me).expect("/proc");
        assert!(found);
        assert_eq!(read_process(proc, me).map(|process| process.pid), Some(me));
        sys::close(proc);
    }
}
