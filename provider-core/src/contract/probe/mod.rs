//! Probes: questions that are asked inside a sandbox, and the reading of their answers.
//!
//! A probe is a POSIX shell script that is sent as one command. Its answer is lines of the form `key=value`, from
//! `probe=NAME/VERSION` to `end=NAME/VERSION`. Whatever was found is written as hexadecimal digits, so that no content
//! can forge a line. An answer that is cut off, malformed or of another version is an error, never a pass.

mod answer;
mod filesystem;
pub mod fingerprint;
mod identity;
mod secrets;

pub use filesystem::{Filesystem, Offence, OffenceKind};
pub use identity::Identity;
pub use secrets::{Hit, SecretSearch, SecretsAnswer, Tally, Where};

use std::time::Duration;

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
}

impl Probe {
    /// The name and version that begin and end its answer.
    pub fn name(self) -> &'static str {
        match self {
            Probe::Identity => "identity/1",
            Probe::Filesystem => "filesystem/1",
            Probe::Secrets => "secrets/1",
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
        }
    }

    /// The probe that this command is, with its arguments.
    pub fn of(command: &Command) -> Option<(Probe, &[String])> {
        let Program::Argv(words) = &command.program else {
            return None;
        };
        let [shell, flag, script, name, arguments @ ..] = words.as_slice() else {
            return None;
        };
        let probe = [Probe::Identity, Probe::Filesystem, Probe::Secrets]
            .into_iter()
            .find(|probe| probe.name() == name && probe.script() == script)?;
        (shell == SHELL && flag == "-c").then_some((probe, arguments))
    }

    fn command(self, arguments: impl IntoIterator<Item = String>, limit: Duration) -> Command {
        let words = [SHELL, "-c", self.script(), self.name()].map(String::from);
        Command::argv(words.into_iter().chain(arguments)).timeout(limit).output_cap(ANSWER_MAX)
    }
}

const SHELL: &str = "/bin/sh";

/// No answer of a probe is longer, in bytes.
const ANSWER_MAX: usize = 4 << 20;
