//! `core.imports`: each direct dependency imports, with exactly the lockfile's version.

use async_trait::async_trait;
use pep440_rs::Version;

use super::{Check, CheckContext, Verdict, counted};
use crate::{
    contract::{
        LanguageFacts, LockedVersion,
        probe::{self, ImportedPackage},
    },
    error::Result,
};

pub(super) struct Imports;

#[async_trait]
impl Check for Imports {
    async fn ask(&self, context: &CheckContext<'_>) -> Result<Verdict> {
        let none = LanguageFacts::default();
        let facts = context.language.as_ref().unwrap_or(&none);
        let output = context.sandbox.exec(probe::Imports::command(&context.contract, facts)).await?;
        let seen = probe::Imports::parse(&output)?;
        if !seen.packages.iter().map(|package| &package.name).eq(facts.packages.keys()) {
            return Ok(Verdict::failed("the answer is about other packages than were asked about".into()));
        }
        let (mut mismatches, mut notes) = (Vec::new(), Vec::new());
        let mut modules = 0;
        for (package, locked) in seen.packages.iter().zip(facts.packages.values()) {
            compare(package, locked, &mut mismatches, &mut notes);
            modules += package.modules.len();
        }
        if !seen.judged && facts.packages.values().flatten().any(|version| version.marker.is_some()) {
            notes.push("markers could not be evaluated, and each was taken to hold".into());
        }
        let count = facts.packages.len();
        Ok(Verdict::of(
            mismatches,
            format!(
                "{} with {} {} imported",
                counted(count, "direct dependency", "direct dependencies"),
                counted(modules, "module", "modules"),
                if modules == 1 { "is" } else { "are" },
            ),
            notes,
        ))
    }
}

fn compare(
    package: &ImportedPackage,
    locked: &[LockedVersion],
    mismatches: &mut Vec<String>,
    notes: &mut Vec<String>,
) {
    let name = &package.name;
    let mut due = Vec::new();
    for place in &package.holding {
        match locked.get(*place) {
            Some(version) => due.push(version.version.as_str()),
            None => mismatches.push(format!("{name}: the answer names a version that was not asked about")),
        }
    }
    let due_words = due.join(" or ");
    match &package.version {
        None if locked.is_empty() => mismatches.push(format!("{name}: the lockfile holds no version of it")),
        None if due.is_empty() => notes.push(format!("{name} is not for this machine, by its markers")),
        None => mismatches.push(format!("{name} is not installed, the lockfile says {due_words}")),
        Some(version) if due.is_empty() => {
            mismatches.push(format!("{name} is {version}, the lockfile holds no version for this machine"));
        }
        Some(version) if !due.iter().any(|due| same(due, version)) => {
            mismatches.push(format!("{name} is {version}, the lockfile says {due_words}"));
        }
        Some(version) if package.modules.is_empty() => {
            notes.push(format!("{name} {version} brings no module that could be imported"));
        }
        Some(_) => {}
    }
    for module in package.modules.iter().filter(|module| !module.trouble.is_empty()) {
        mismatches.push(format!("{name}: module {} does not import: {}", module.name, module.trouble));
    }
}

/// Whether two versions are equal as PEP 440 orders them, local parts included.
fn same(one: &str, other: &str) -> bool {
    match (one.parse::<Version>(), other.parse::<Version>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::probe::ImportedModule;

    fn mismatches(version: Option<&str>, holding: &[usize], locked: &[LockedVersion]) -> Vec<String> {
        let package = ImportedPackage {
            name: "x".into(),
            holding: holding.to_vec(),
            version: version.map(str::to_owned),
            modules: vec![ImportedModule { name: "x".into(), trouble: String::new() }],
        };
        let mut found = Vec::new();
        compare(&package, locked, &mut found, &mut Vec::new());
        found
    }

    #[test]
    fn exactly_the_versions_whose_marker_holds_are_right() {
        let locked = [LockedVersion::always("1.0"), LockedVersion::always("2.0+cpu")];
        assert!(mismatches(Some("1.0"), &[0], &locked).is_empty());
        assert!(mismatches(Some("1.0.0"), &[0], &locked).is_empty());
        assert!(mismatches(Some("2.0+cpu"), &[0, 1], &locked).is_empty());
        assert!(mismatches(None, &[], &locked).is_empty(), "not for this machine");
        for (version, holding) in [
            (Some("1.0.post1"), &[0][..]),
            (Some("1.0"), &[1]),
            (Some("2.0"), &[1]),
            (Some("1.0"), &[]),
            (None, &[0]),
            (Some("1.0"), &[0, 2]),
        ] {
            assert_eq!(mismatches(version, holding, &locked).len(), 1, "{version:?} {holding:?}");
        }
        assert_eq!(mismatches(None, &[], &[]).len(), 1, "a lockfile without the package says nothing");
    }
}
