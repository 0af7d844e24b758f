//! Probes: questions that are asked inside a sandbox, and the reading of their answers.
//!
//! A probe is a POSIX shell script, or a program for the contract's interpreter where the question is about that, and is
//! sent as one command. Its answer is lines of the form `key=value`, from
//! `probe=NAME/VERSION` to `end=NAME/VERSION`. Whatever was found is written as hexadecimal digits, so that no content
//! can forge a line. An answer that is cut off, malformed or of another version is an error, never a pass.

mod answer;
mod filesystem;
pub mod fingerprint;
mod identity;
mod imports;
mod python;
mod secrets;
mod shutdown;

pub use filesystem::{Filesystem, Offence, OffenceKind};
pub use identity::Identity;
pub use imports::{ImportedModule, ImportedPackage, Imports};
pub use python::{Installer, InstallerState, Python};
pub use secrets::{Hit, SecretSearch, SecretsAnswer, Tally, Where};
pub use shutdown::Shutdown;

use std::time::Duration;

use super::Contract;
use crate::sandbox::{Command, Program};

/// Which probe a command is, for what stands in for a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Who runs, and where.
    Identity,
    /// What can be written.
    Filesystem,
    /// Whether secrets were left behind.
    Secrets,
    /// Which interpreter and installers answer.
    Python,
    /// Which packages are installed and can be imported.
    Imports,
    /// Whether a group of processes ends and is reaped.
    Shutdown,
}

impl Probe {
    /// The name and version that begin and end its answer.
    pub fn name(self) -> &'static str {
        match self {
            Probe::Identity => "identity/1",
            Probe::Filesystem => "filesystem/1",
            Probe::Secrets => "secrets/1",
            Probe::Python => "python/1",
            Probe::Imports => "imports/1",
            Probe::Shutdown => "shutdown/1",
        }
    }

    /// The script that is sent.
    pub(crate) fn script(self) -> &'static str {
        match self {
            Probe::Identity => concat!(include_str!("hex.sh"), include_str!("identity.sh")),
            Probe::Filesystem => {
                concat!(include_str!("hex.sh"), include_str!("../writable.sh"), include_str!("filesystem.sh"))
            }
            Probe::Secrets => {
                concat!(include_str!("hex.sh"), include_str!("search.sh"), include_str!("secrets.sh"))
            }
            Probe::Python => include_str!("python.py"),
            Probe::Imports => include_str!("imports.py"),
            Probe::Shutdown => include_str!("shutdown.sh"),
        }
    }

    /// The probe that this command is, with its arguments.
    pub fn of(command: &Command) -> Option<(Probe, &[String])> {
        let Program::Argv(words) = &command.program else {
            return None;
        };
        let [program, flag, script, name, arguments @ ..] = words.as_slice() else {
            return None;
        };
        let probe = Self::ALL.into_iter().find(|probe| probe.name() == name && probe.script() == script)?;
        let is_asked = flag == "-c" && (program == SHELL || probe.needs_python());
        is_asked.then_some((probe, arguments))
    }

    const ALL: [Probe; 6] =
        [Probe::Identity, Probe::Filesystem, Probe::Secrets, Probe::Python, Probe::Imports, Probe::Shutdown];

    fn needs_python(self) -> bool {
        matches!(self, Probe::Python | Probe::Imports)
    }

    fn command(self, arguments: impl IntoIterator<Item = String>, limit: Duration) -> Command {
        self.command_of(SHELL, arguments, limit)
    }

    fn python_command(
        self,
        contract: &Contract,
        arguments: impl IntoIterator<Item = String>,
        limit: Duration,
    ) -> Command {
        self.command_of(contract.python, arguments, limit)
    }

    fn command_of(
        self,
        program: &str,
        arguments: impl IntoIterator<Item = String>,
        limit: Duration,
    ) -> Command {
        let words = [program, "-c", self.script(), self.name()].map(String::from);
        Command::argv(words.into_iter().chain(arguments)).timeout(limit).output_cap(ANSWER_MAX)
    }
}

const SHELL: &str = "/bin/sh";

/// No answer of a probe is longer, in bytes.
const ANSWER_MAX: usize = 4 << 20;
