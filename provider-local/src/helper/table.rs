//! The commands and file operations under way, without an allocator.

use super::sys::Fd;

/// What a child of the first process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A command between fork and execve; the pipe tells how that went.
    Starting { status: Fd },
    /// A command that runs.
    Running,
    /// A command that could not start, not yet reaped.
    Refused,
    /// A file operation.
    File,
}

/// One child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) id: u32,
    pub(crate) pid: u32,
    pub(crate) kind: Kind,
}

/// What is known of a command by its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) pid: u32,
    pub(crate) running: bool,
}

/// Children by place, and the last commands that ended.
#[derive(Debug)]
pub(crate) struct Table {
    entries: [Option<Entry>; Table::SIZE],
    ended: [(u32, u32); Table::REMEMBERED],
    next_ended: usize,
}

impl Table {
    /// How many children there may be at once.
    pub(crate) const SIZE: usize = 1024;
    const REMEMBERED: usize = 1024;

    pub(crate) const fn new() -> Self {
        Self { entries: [None; Self::SIZE], ended: [(0, 0); Self::REMEMBERED], next_ended: 0 }
    }

    pub(crate) fn free_place(&self) -> Option<usize> {
        self.entries.iter().position(Option::is_none)
    }

    pub(crate) fn put(&mut self, place: usize, id: u32, pid: u32, kind: Kind) {
        if let Some(entry) = self.entries.get_mut(place) {
            *entry = Some(Entry { id, pid, kind });
        }
    }

    /// The status pipes of the commands that are starting.
    pub(crate) fn pending(&self) -> impl Iterator<Item = Fd> {
        self.entries.iter().flatten().filter_map(|entry| match entry.kind {
            Kind::Starting { status } => Some(status),
            _ => None,
        })
    }

    pub(crate) fn index_of_pid(&self, pid: u32) -> Option<usize> {
        self.entries.iter().position(|entry| entry.is_some_and(|entry| entry.pid == pid))
    }

    pub(crate) fn status_pipe(&self, index: usize) -> Option<Fd> {
        match self.entries.get(index).copied()??.kind {
            Kind::Starting { status } => Some(status),
            _ => None,
        }
    }

    /// The command with this status pipe runs now, or was refused.
    pub(crate) fn started(&mut self, status: Fd, runs: bool) -> Option<Entry> {
        let is_it = |entry: &&mut Entry| entry.kind == Kind::Starting { status };
        let entry = self.entries.iter_mut().flatten().find(is_it)?;
        entry.kind = if runs { Kind::Running } else { Kind::Refused };
        Some(*entry)
    }

    /// Takes out a child that was reaped; a command stays known for a while.
    pub(crate) fn remove(&mut self, index: usize) -> Option<Entry> {
        let entry = self.entries.get_mut(index)?.take()?;
        if entry.kind == Kind::Running {
            if let Some(place) = self.ended.get_mut(self.next_ended) {
                *place = (entry.id, entry.pid);
            }
            self.next_ended = (self.next_ended + 1) % Self::REMEMBERED;
        }
        Some(entry)
    }

    /// The process of a command, running or ended. A number that meanwhile went to another child is not the
    /// command's.
    pub(crate) fn pid_of(&self, id: u32) -> Option<Known> {
        let commands = || self.entries.iter().flatten().filter(|entry| entry.kind != Kind::File);
        if let Some(entry) = commands().find(|entry| entry.id == id) {
            return Some(Known { pid: entry.pid, running: true });
        }
        let (_, pid) = self.ended.iter().find(|(ended, pid)| *ended == id && *pid != 0)?;
        let reused = self.entries.iter().flatten().any(|entry| entry.pid == *pid);
        (!reused).then_some(Known { pid: *pid, running: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_goes_through_its_states() {
        let mut table = Table::new();
        let place = table.free_place().expect("room");
        table.put(place, 7, 100, Kind::Starting { status: 5 });
        assert_eq!(table.pending().collect::<Vec<_>>(), [5]);
        assert_eq!(table.started(5, true).map(|entry| entry.pid), Some(100));
        assert_eq!(table.started(5, true).map(|entry| entry.pid), None);
        assert_eq!(table.pid_of(7), Some(Known { pid: 100, running: true }));
        let index = table.index_of_pid(100).expect("known");
        assert_eq!(table.remove(index).map(|entry| entry.id), Some(7));
        assert_eq!(table.pid_of(7), Some(Known { pid: 100, running: false }));
    }

    #[test]
    fn a_reused_number_is_not_the_old_command() {
        let mut table = Table::new();
        table.put(0, 7, 100, Kind::Running);
        table.remove(0);
        table.put(0, 8, 100, Kind::Running);
        assert_eq!(table.pid_of(7), None);
        assert_eq!(table.pid_of(8), Some(Known { pid: 100, running: true }));
    }

    #[test]
    fn a_full_table_has_no_place() {
        let mut table = Table::new();
        for place in 0..Table::SIZE {
            table.put(place, 1, 1, Kind::File);
        }
        assert_eq!(table.free_place(), None);
    }
}
