//! The probe of `core.shutdown`: whether a group of processes ends after SIGTERM and is reaped.

use std::time::Duration;

use super::{
    Probe,
    answer::{Answer, render},
};
use crate::{
    contract::Contract,
    error::Result,
    sandbox::{Command, Output},
};

/// What the probe may take beside the contract's own times: to start the group, and to look through the processes.
const MARGIN: Duration = Duration::from_secs(60);

/// What became of a group of three processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// How many of them were seen to run before: three, where the sandbox lets them.
    pub members: u32,
    /// Whether SIGTERM could be sent to the group.
    pub asked: bool,
    /// How many still ran when the time was over.
    pub outlived: u32,
    /// How long the group took to end, in whole seconds.
    pub seconds: u32,
    /// How many processes, of the group or other children of PID 1, had ended and were not reaped in time.
    pub zombies: u32,
}

impl Shutdown {
    /// How many processes the group has: a leader, its child and its grandchild.
    pub const MEMBERS: u32 = 3;

    /// The answer of a sandbox that keeps the contract.
    pub fn kept() -> Self {
        Self { members: Self::MEMBERS, asked: true, outlived: 0, seconds: 0, zombies: 0 }
    }

    /// The command that starts the group and asks it to end.
    pub fn command(contract: &Contract) -> Command {
        let times = [contract.stop_within, contract.reap_within].map(|time| time.as_secs().to_string());
        Probe::Shutdown.command(times, contract.stop_within + contract.reap_within + MARGIN)
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// [`Code::SmokeTestFailed`](crate::error::Code::SmokeTestFailed) if it is not exactly one whole answer.
    pub fn parse(output: &Output) -> Result<Self> {
        let mut answer = Answer::open(Probe::Shutdown, output)?;
        let seen = Self {
            members: answer.take_number("members")?,
            asked: answer.take_either("asked", "yes", "no")?,
            outlived: answer.take_number("outlived")?,
            seconds: answer.take_number("seconds")?,
            zombies: answer.take_number("zombies")?,
        };
        answer.close()?;
        Ok(seen)
    }

    /// The answer that says this.
    pub fn render(&self) -> Output {
        let lines = [
            ("members", self.members.to_string()),
            ("asked", if self.asked { "yes" } else { "no" }.to_owned()),
            ("outlived", self.outlived.to_string()),
            ("seconds", self.seconds.to_string()),
            ("zombies", self.zombies.to_string()),
        ];
        render(Probe::Shutdown, &lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_it_is_written() {
        let seen = Shutdown { members: 2, asked: false, outlived: 1, seconds: 12, zombies: 4 };
        assert_eq!(Shutdown::parse(&seen.render()).unwrap(), seen);
        let text = seen.render().stdout_text().replace("outlived=1", "outlived=");
        assert!(Shutdown::parse(&Output::new(crate::sandbox::ExitStatus::Code(0), text, "")).is_err());
    }

    /// On this machine, whose PID 1 may keep ended processes of others.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_script_says_what_becomes_of_a_group() {
        use crate::contract::{SANDBOX_V1, host};
        let brief = Contract {
            stop_within: Duration::from_secs(1),
            reap_within: Duration::from_secs(1),
            ..SANDBOX_V1
        };
        for shell in host::shells() {
            let seen = Shutdown::parse(&host::run_with(shell, &Shutdown::command(&brief))).unwrap();
            assert_eq!((seen.members, seen.asked, seen.outlived), (3, true, 0), "{shell}: {seen:?}");
            // A signal that is ignored from the start stays so.
            let mut words = Shutdown::command(&brief).program.argv();
            words[0] = shell.to_owned();
            let deaf = ["/bin/sh", "-c", "trap '' TERM; exec \"$@\"", "-"].map(str::to_owned);
            let deaf = Command::argv(deaf.into_iter().chain(words));
            let seen = Shutdown::parse(&host::run(&deaf)).unwrap();
            assert_eq!((seen.members, seen.asked, seen.outlived), (3, true, 3), "{shell}: {seen:?}");
            assert!(seen.seconds >= 1);
        }
    }
}
