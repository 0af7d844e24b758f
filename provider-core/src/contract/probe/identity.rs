//! The probe of `core.identity`: who runs, and where.

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

const LIMIT: Duration = Duration::from_secs(30);

/// Who a command of a sandbox is, as the kernel says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's name in the user database; empty where it has none.
    pub user: String,
    /// The user's number: real, effective, saved, and of the file system.
    pub uids: [u32; 4],
    /// The group's number: real, effective, saved, and of the file system.
    pub gids: [u32; 4],
    /// The supplementary groups.
    pub groups: Vec<u32>,
    /// The variable `HOME`; empty where it is not set.
    pub home: String,
    /// The working directory, with links resolved.
    pub workdir: String,
}

impl Identity {
    /// The identity that the contract asks for.
    pub fn of(contract: &Contract) -> Self {
        Self {
            user: contract.user_name.to_owned(),
            uids: [contract.user.uid; 4],
            gids: [contract.user.gid; 4],
            groups: Vec::new(),
            home: contract.home.to_owned(),
            workdir: contract.workdir.to_owned(),
        }
    }

    /// The command that asks.
    pub fn command() -> Command {
        Probe::Identity.command([], LIMIT)
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// [`Code::SmokeTestFailed`](crate::error::Code::SmokeTestFailed) if it is not exactly one whole answer.
    pub fn parse(output: &Output) -> Result<Self> {
        let mut answer = Answer::open(Probe::Identity, output)?;
        let identity = Self {
            user: answer.take_text("user")?,
            uids: four(&mut answer, "uids")?,
            gids: four(&mut answer, "gids")?,
            groups: numbers(&mut answer, "groups")?,
            home: answer.take_text("home")?,
            workdir: answer.take_text("workdir")?,
        };
        answer.close()?;
        Ok(identity)
    }

    /// The answer that says this.
    pub fn render(&self) -> Output {
        let words = |numbers: &[u32]| hex(numbers.iter().map(u32::to_string).collect::<Vec<_>>().join("\t"));
        render(
            Probe::Identity,
            &[
                ("user", hex(&self.user)),
                ("uids", words(&self.uids)),
                ("gids", words(&self.gids)),
                ("groups", words(&self.groups)),
                ("home", hex(&self.home)),
                ("workdir", hex(&self.workdir)),
            ],
        )
    }
}

fn numbers(answer: &mut Answer, key: &str) -> Result<Vec<u32>> {
    let text = answer.take_text(key)?;
    text.split_ascii_whitespace().map(|word| answer.number(word)).collect()
}

fn four(answer: &mut Answer, key: &str) -> Result<[u32; 4]> {
    let numbers = numbers(answer, key)?;
    numbers.try_into().map_err(|_| answer.broken(format!("{key} are not four numbers")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::SANDBOX_V1;

    #[test]
    fn an_answer_is_read_as_it_is_written() {
        let mut identity = Identity::of(&SANDBOX_V1);
        assert_eq!(Identity::parse(&identity.render()).unwrap(), identity);
        identity.groups = vec![100, 65534];
        identity.home = "/a\nuids=00\nb".into();
        assert_eq!(Identity::parse(&identity.render()).unwrap(), identity);
    }

    #[test]
    fn an_answer_with_too_few_ids_is_an_error() {
        let whole = Identity::of(&SANDBOX_V1).render().stdout_text();
        let three = hex("1000\t1000\t1000");
        let cut = whole.replace(&hex("1000\t1000\t1000\t1000"), &three);
        assert_ne!(cut, whole);
        assert!(Identity::parse(&Output::new(crate::sandbox::ExitStatus::Code(0), cut, "")).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_script_says_who_runs_it() {
        use crate::contract::host;
        let folder = host::Folder::new();
        for shell in host::shells() {
            let output =
                host::run_with(shell, &Identity::command().cwd(folder.path()).env_var("HOME", "/a b\n'c"));
            let identity = Identity::parse(&output).unwrap();
            let user = host::user();
            assert_eq!((identity.uids, identity.gids), ([user.uid; 4], [user.gid; 4]), "{shell}");
            assert_eq!(identity.user, host::id("-un"), "{shell}");
            assert_eq!(
                (identity.home.as_str(), identity.workdir.as_str()),
                ("/a b\n'c", folder.path()),
                "{shell}"
            );
        }
    }
}
