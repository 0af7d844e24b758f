//! `core.python`: the Python version satisfies the Environment; an installer is on `PATH`.

use async_trait::async_trait;
use pep440_rs::{Version, VersionSpecifiers};

use super::{Check, CheckContext, Verdict};
use crate::{
    contract::probe::{self, InstallerState},
    error::{Code, Error, Result},
};

pub(super) struct Python;

#[async_trait]
impl Check for Python {
    async fn ask(&self, context: &CheckContext<'_>) -> Result<Verdict> {
        let contract = &context.contract;
        let wanted = context.language.as_ref().map_or("", |language| &language.version);
        let specifiers: VersionSpecifiers = wanted.parse().map_err(|source| {
            Error::new(Code::SpecInvalid, format!("{wanted:?} are no version specifiers of PEP 440"))
                .with_source(source)
        })?;
        let output = context.sandbox.exec(probe::Python::command(contract)).await?;
        let seen = probe::Python::parse(&output)?;
        let mut mismatches = Vec::new();
        match seen.version.parse::<Version>() {
            Ok(version) if specifiers.contains(&version) => {}
            Ok(version) => {
                mismatches.push(format!("{} is {version}, the Environment says {wanted:?}", contract.python))
            }
            Err(_) => mismatches.push(format!("{} says no version", contract.python)),
        }
        let asked = seen.installers.iter().map(|installer| installer.name.as_str());
        if !asked.eq(contract.installers.iter().copied()) {
            mismatches.push("the answer is about other installers than the contract's".into());
        }
        if !seen.installers.iter().any(|installer| installer.state == InstallerState::Answers) {
            mismatches.push(format!("none of {} answers on PATH", contract.installers.join(", ")));
        }
        let mut notes = vec![format!("the interpreter is {:?}", seen.path)];
        notes.extend(seen.installers.iter().map(|installer| match installer.state {
            InstallerState::Answers => format!("{} answers {:?}", installer.name, installer.says),
            InstallerState::Fails => format!("{} is on PATH and does not answer", installer.name),
            InstallerState::Absent => format!("{} is not on PATH", installer.name),
        }));
        Ok(Verdict::of(mismatches, format!("{} is {}", contract.python, seen.version), notes))
    }
}
