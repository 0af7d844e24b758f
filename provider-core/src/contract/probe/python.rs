//! The probe of `core.python`: which interpreter answers, and which installers.

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

/// Each installer may take a minute.
const LIMIT: Duration = Duration::from_secs(180);

/// What the interpreter says of itself and of the installers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Python {
    /// The version, as PEP 440 writes it.
    pub version: String,
    /// The interpreter's own path.
    pub path: String,
    /// The installers that were asked for, in order.
    pub installers: Vec<Installer>,
}

/// What became of asking one installer for its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installer {
    /// The name that was looked up in `PATH`.
    pub name: String,
    /// Whether it is there and answers.
    pub state: InstallerState,
    /// What it says.
    pub says: String,
}

/// Whether an installer is of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallerState {
    /// It is on `PATH` and tells its version.
    Answers,
    /// It is on `PATH`, and cannot be run or fails.
    Fails,
    /// It is not on `PATH`.
    Absent,
}

impl InstallerState {
    const ALL: [(InstallerState, &'static str); 3] =
        [(Self::Answers, "answers"), (Self::Fails, "fails"), (Self::Absent, "absent")];

    fn word(self) -> &'static str {
        Self::ALL.into_iter().find(|(state, _)| *state == self).map_or("", |(_, word)| word)
    }
}

impl Python {
    /// The command that asks the contract's interpreter.
    pub fn command(contract: &Contract) -> Command {
        let installers = contract.installers.iter().map(|name| (*name).to_owned());
        Probe::Python.python_command(contract, installers, LIMIT)
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// [`Code::SmokeTestFailed`](crate::error::Code::SmokeTestFailed) if it is not exactly one whole answer.
    pub fn parse(output: &Output) -> Result<Self> {
        let mut answer = Answer::open(Probe::Python, output)?;
        let (version, path) = (answer.take_text("version")?, answer.take_text("path")?);
        let mut installers = Vec::new();
        while answer.has_more() {
            let name = answer.take_text("installer")?;
            let word = answer.take("state")?;
            let state = InstallerState::ALL.into_iter().find(|(_, known)| *known == word);
            let (state, _) =
                state.ok_or_else(|| answer.broken("an installer has an unknown state".into()))?;
            installers.push(Installer { name, state, says: answer.take_text("says")? });
        }
        answer.close()?;
        Ok(Self { version, path, installers })
    }

    /// The answer that says this.
    pub fn render(&self) -> Output {
        let mut lines = vec![("version", hex(&self.version)), ("path", hex(&self.path))];
        for installer in &self.installers {
            lines.extend([
                ("installer", hex(&installer.name)),
                ("state", installer.state.word().to_owned()),
                ("says", hex(&installer.says)),
            ]);
        }
        render(Probe::Python, &lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_it_is_written() {
        let mut seen =
            Python { version: "3.12.1".into(), path: "/usr/bin/python3".into(), installers: Vec::new() };
        assert_eq!(Python::parse(&seen.render()).unwrap(), seen);
        for (state, _) in InstallerState::ALL {
            seen.installers.push(Installer { name: "uv".into(), state, says: "uv 1\nend=python/1".into() });
        }
        assert_eq!(Python::parse(&seen.render()).unwrap(), seen);
        let text = seen.render().stdout_text().replace("state=fails", "state=maybe");
        assert!(Python::parse(&Output::new(crate::sandbox::ExitStatus::Code(0), text, "")).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_script_says_what_answers() {
        use crate::contract::{SANDBOX_V1, host};
        let folder = host::Folder::new();
        folder.add("works", "#!/bin/sh\necho works 1.0\n", 0o755);
        folder.add("fails", "#!/bin/sh\necho fails 1.0\nexit 3\n", 0o755);
        folder.add("silent", "#!/bin/sh\n", 0o755);
        folder.add("subprocess.py", "raise SystemExit\n", 0o644);
        let contract =
            Contract { installers: &["works", "fails", "silent", "no-such-program"], ..SANDBOX_V1 };
        let path = format!("{}:{}", folder.path(), SANDBOX_V1.path);
        let command = Python::command(&contract).env_var("PATH", path).cwd(folder.path());
        if !host::has_python() {
            return;
        }
        let seen = Python::parse(&host::run(&command)).unwrap();
        assert!(seen.version.starts_with("3.") && seen.path.contains("python"), "{seen:?}");
        let states: Vec<_> = seen.installers.iter().map(|it| it.state).collect();
        let fails = InstallerState::Fails;
        assert_eq!(states, [InstallerState::Answers, fails, fails, InstallerState::Absent], "{seen:?}");
        assert_eq!(seen.installers[0].says, "works 1.0");
    }
}
