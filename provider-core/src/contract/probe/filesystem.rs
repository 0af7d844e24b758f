//! The probe of `core.filesystem`: what can be written.

use std::time::Duration;

use super::{
    Probe,
    answer::{Answer, render},
};
use crate::{
    contract::Contract,
    error::Result,
    hex::hex,
    sandbox::{Command, Output},
};

const LIMIT: Duration = Duration::from_secs(60);

/// What the contract's user could and could not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filesystem {
    /// A new file was written in the working directory.
    pub written: bool,
    /// What was read back from it.
    pub read: Vec<u8>,
    /// It was deleted, and then it was gone.
    pub removed: bool,
    /// The reserved path is a directory.
    pub reserved: bool,
    /// How many things the reserved path holds, itself included, as far as they can be seen.
    pub entries: u64,
    /// What should have been refused and was not. At most 20 inside the reserved path.
    pub offences: Vec<Offence>,
}

/// One thing about the reserved path that should have been refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offence {
    /// What was possible.
    pub kind: OffenceKind,
    /// With which path.
    pub path: String,
}

/// What was possible, although the reserved path must not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffenceKind {
    /// A file was made in this directory.
    Create,
    /// This file was opened for writing.
    Write,
    /// The mode of this path was set, which its owner alone may.
    Chmod,
    /// This path can be moved away and another put in its place.
    Replace,
}

impl OffenceKind {
    const ALL: [OffenceKind; 4] = [Self::Create, Self::Write, Self::Chmod, Self::Replace];

    fn key(self) -> &'static str {
        match self {
            OffenceKind::Create => "can_create",
            OffenceKind::Write => "can_write",
            OffenceKind::Chmod => "can_chmod",
            OffenceKind::Replace => "can_replace",
        }
    }

    /// What was possible, in words that the path follows.
    pub fn words(self) -> &'static str {
        match self {
            OffenceKind::Create => "a file can be made in",
            OffenceKind::Write => "the user can write",
            OffenceKind::Chmod => "the user can change the mode of",
            OffenceKind::Replace => "the user can replace",
        }
    }
}

impl Filesystem {
    /// The command that writes `text` in the working directory, and tries to change the reserved path.
    pub fn command(contract: &Contract, text: &str) -> Command {
        let arguments = [contract.workdir, text, contract.reserved_path].map(String::from);
        Probe::Filesystem.command(arguments, LIMIT)
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// [`Code::SmokeTestFailed`](crate::error::Code::SmokeTestFailed) if it is not exactly one whole answer.
    pub fn parse(output: &Output) -> Result<Self> {
        let mut answer = Answer::open(Probe::Filesystem, output)?;
        let mut seen = Self {
            written: answer.take_either("written", "yes", "no")?,
            read: answer.take_bytes("read")?,
            removed: answer.take_either("removed", "yes", "no")?,
            reserved: answer.take_either("reserved", "present", "absent")?,
            entries: answer.take_number("entries")?,
            offences: Vec::new(),
        };
        while let Some((key, value)) = answer.take_any() {
            let kind = OffenceKind::ALL.into_iter().find(|kind| kind.key() == key);
            let kind = kind.ok_or_else(|| answer.broken("it has an unknown key".into()))?;
            let path = String::from_utf8_lossy(&answer.bytes(&value)?).into_owned();
            seen.offences.push(Offence { kind, path });
        }
        answer.close()?;
        Ok(seen)
    }

    /// The answer that says this.
    pub fn render(&self) -> Output {
        let yes = |flag: bool, yes: &str, no: &str| if flag { yes } else { no }.to_owned();
        let mut lines = vec![
            ("written", yes(self.written, "yes", "no")),
            ("read", hex(&self.read)),
            ("removed", yes(self.removed, "yes", "no")),
            ("reserved", yes(self.reserved, "present", "absent")),
            ("entries", self.entries.to_string()),
        ];
        lines.extend(self.offences.iter().map(|offence| (offence.kind.key(), hex(&offence.path))));
        render(Probe::Filesystem, &lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> Filesystem {
        Filesystem {
            written: true,
            read: b"x\n".to_vec(),
            removed: true,
            reserved: true,
            entries: 2,
            offences: Vec::new(),
        }
    }

    #[test]
    fn an_answer_is_read_as_it_is_written() {
        let mut seen = healthy();
        assert_eq!(Filesystem::parse(&seen.render()).unwrap(), seen);
        seen.written = false;
        seen.offences = OffenceKind::ALL.map(|kind| Offence { kind, path: "/a\nb".into() }).to_vec();
        assert_eq!(Filesystem::parse(&seen.render()).unwrap(), seen);
    }

    #[test]
    fn an_unknown_key_is_an_error() {
        let text = healthy().render().stdout_text().replace("end=", "can_fly=00\nend=");
        assert!(Filesystem::parse(&Output::new(crate::sandbox::ExitStatus::Code(0), text, "")).is_err());
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod host_tests {
    use super::*;
    use crate::contract::{SANDBOX_V1, host};

    fn ask(workdir: &str, reserved: &str) -> Filesystem {
        let contract =
            Contract { workdir: host::leak(workdir), reserved_path: host::leak(reserved), ..SANDBOX_V1 };
        Filesystem::parse(&host::run(&Filesystem::command(&contract, "it's\n\"so\"\n"))).unwrap()
    }

    #[test]
    fn a_folder_of_the_user_takes_a_file_and_a_folder_of_the_system_refuses() {
        let folder = host::Folder::new();
        let seen = ask(folder.path(), host::REFUSES);
        assert_eq!((seen.written, seen.removed, seen.reserved), (true, true, true));
        assert_eq!(seen.read, b"it's\n\"so\"\n");
        assert!(seen.entries >= 1);
        assert_eq!(seen.offences, []);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something was left");
    }

    #[test]
    fn a_folder_of_the_system_does_not_work_as_working_directory() {
        let seen = ask(host::REFUSES, host::REFUSES);
        assert_eq!((seen.written, seen.removed, seen.read), (false, false, Vec::new()));
    }

    #[test]
    fn whatever_is_open_in_the_reserved_path_is_named() {
        let folder = host::Folder::new();
        let reserved = format!("{}/reserved", folder.path());
        folder.add("reserved/doctor", "old", 0o444);
        folder.add("reserved/sub/open", "old", 0o644);
        folder.lock("reserved/sub");
        folder.lock("reserved");
        let seen = ask(folder.path(), &reserved);
        let expected = [
            // Directories of mode 0555 refuse files, but their owner can change that.
            (OffenceKind::Chmod, reserved.clone()),
            (OffenceKind::Chmod, format!("{reserved}/doctor")),
            (OffenceKind::Chmod, format!("{reserved}/sub")),
            (OffenceKind::Write, format!("{reserved}/sub/open")),
            (OffenceKind::Chmod, format!("{reserved}/sub/open")),
            (OffenceKind::Replace, reserved.clone()),
        ];
        for (kind, path) in expected {
            let offence = Offence { kind, path };
            assert!(seen.offences.contains(&offence), "{offence:?} is missing in {:?}", seen.offences);
        }
        assert!(
            !seen.offences.iter().any(|offence| offence.kind == OffenceKind::Create),
            "{:?}",
            seen.offences
        );
        folder.unlock("reserved");
        let seen = ask(folder.path(), &reserved);
        let offence = Offence { kind: OffenceKind::Create, path: reserved };
        assert!(seen.offences.contains(&offence), "{:?}", seen.offences);
        assert_eq!(folder.content("reserved/doctor"), "old");
    }

    #[test]
    fn a_missing_reserved_path_is_seen() {
        let folder = host::Folder::new();
        let seen = ask(folder.path(), &format!("{}/none", folder.path()));
        assert!(!seen.reserved);
        assert_eq!(seen.entries, 0);
    }
}
