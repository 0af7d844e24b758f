//! The answer of a runner: read strictly, checked against what was asked, and written in our own form.

use std::{collections::BTreeMap, str::FromStr as _};

use pep440_rs::Version;
use pep508_rs::MarkerTree;

use super::{protected, requirements};
use crate::{
    environment::{
        EnvironmentSpec, Lockfile, PinnedPackage, Requirement,
        locked::{APT, Header, LockedPackage, package},
        normalised,
        packages::OLDEST_MINOR,
    },
    error::{Code, Error, Result},
};

/// A package of the answer, with its marker read.
struct Pin<'a> {
    package: &'a LockedPackage,
    version: Version,
    marker: MarkerTree,
}

/// The lockfile of this answer.
///
/// # Errors
/// [`Code::ProtectedPackage`] if it has another version of what is pinned; [`Code::ProviderError`] naming the place
/// if it cannot be used.
pub(super) fn lockfile(spec: &EnvironmentSpec, text: &str) -> Result<Lockfile> {
    let (apt, packages) = read(text).map_err(|words| unusable(&words))?;
    check_apt(spec, &apt).map_err(|words| unusable(&words))?;
    check(spec, &packages)?;
    let header = Header { apt, ..Header::of(spec, protected(spec))? };
    let lockfile = Lockfile::of(header, packages);
    // What is handed out must be what a file of it gives back.
    let again = Lockfile::from_text(lockfile.text()).map_err(|error| unusable(error.message()))?;
    if again != lockfile {
        return Err(Error::new(Code::Internal, "the lockfile is not read as it was written"));
    }
    Ok(lockfile)
}

fn unusable(words: &str) -> Error {
    Error::unmapped(format!("the resolver's answer cannot be used: {words}"))
        .with_advice("use another version of the resolver, or give a lockfile")
}

/// The packages of the distribution and of the language, both sorted.
fn read(text: &str) -> Result<(Vec<String>, Vec<LockedPackage>), String> {
    if text.len() > Lockfile::TEXT_MAX {
        return Err(format!("it has {} bytes, and {} are allowed", text.len(), Lockfile::TEXT_MAX));
    }
    let (mut apt, mut packages) = (Vec::new(), Vec::new());
    let mut lines = text.lines().enumerate().map(|(number, line)| (number + 1, line));
    while let Some((number, line)) = lines.next() {
        let mut whole = without_comment(line).to_owned();
        while let Some(begun) = whole.strip_suffix('\\') {
            let (_, next) = lines.next().ok_or_else(|| format!("line {number} goes on behind the end"))?;
            whole = format!("{}{}", begun, without_comment(next));
        }
        if let Some(pinned) = line.strip_prefix(APT) {
            apt.push(pinned.trim().to_owned());
        } else if whole.chars().any(char::is_control) {
            return Err(format!("line {number} holds a control character"));
        } else if !whole.trim().is_empty() {
            packages.push(one(whole.trim()).map_err(|words| format!("line {number}: {words}"))?);
        }
    }
    apt.sort();
    apt.dedup();
    packages.sort_by(|a, b| (&a.name, &a.version, &a.marker).cmp(&(&b.name, &b.version, &b.marker)));
    Ok((apt, packages))
}

/// A comment begins at the start of a line or behind a space.
fn without_comment(line: &str) -> &str {
    let end = if line.starts_with('#') { Some(0) } else { line.find(" #") };
    end.map_or(line, |end| line.get(..end).unwrap_or_default()).trim_end_matches(' ')
}

fn one(line: &str) -> Result<LockedPackage, String> {
    let (name, rest) = line.split_once("==").ok_or("it is not pinned to one version")?;
    let mut package = package(&format!("{}=={rest}", normalised(name.trim())))?;
    package.hashes.sort();
    package.hashes.dedup();
    Ok(package)
}

/// Each package of the distribution that was asked for is there, in the version that was asked for, and no other.
fn check_apt(spec: &EnvironmentSpec, pins: &[String]) -> Result<(), String> {
    let mut pinned = BTreeMap::new();
    for pin in pins {
        let (name, version) = pin.split_once('=').unwrap_or((pin, ""));
        if version.is_empty() || pinned.insert(name, version).is_some() {
            return Err(format!("{pin:?} is not name=version, or another version of it is named too"));
        }
    }
    for asked in &spec.spec.packages.system.apt {
        let (name, version) = asked.split_once('=').map_or((asked.as_str(), None), |(n, v)| (n, Some(v)));
        match pinned.get(name) {
            None => return Err(format!("it does not have {asked}")),
            Some(found) if version.is_some_and(|version| version != *found) => {
                return Err(format!("it has {name}={found}, and {asked} was asked for"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn check(spec: &EnvironmentSpec, packages: &[LockedPackage]) -> Result<()> {
    let mut by_name: BTreeMap<&str, Vec<Pin<'_>>> = BTreeMap::new();
    for package in packages {
        let marker = package.marker.as_deref().map_or(Ok(MarkerTree::TRUE), MarkerTree::from_str);
        let (Ok(version), Ok(marker)) = (Version::from_str(&package.version), marker) else {
            return Err(unusable(&format!("the line of {} cannot be read", package.name)));
        };
        by_name.entry(&package.name).or_default().push(Pin { package, version, marker });
    }
    for pinned in protected(spec) {
        check_protected(pinned, by_name.get(pinned.name).map_or(&[], Vec::as_slice))?;
    }
    for (name, pins) in &by_name {
        let mut pairs =
            pins.iter().enumerate().flat_map(|(n, one)| pins[n + 1..].iter().map(move |other| (one, other)));
        if let Some((one, other)) = pairs.find(|(one, other)| !one.marker.is_disjoint(&other.marker)) {
            let (one, other) = (&one.package.version, &other.package.version);
            return Err(unusable(&format!("{name} {one} and {other} are both for one Python")));
        }
    }
    let range = python_range(spec);
    for requirement in requirements(spec) {
        let pins = by_name.get(requirement.name.as_str()).map_or(&[][..], Vec::as_slice);
        check_requirement(&requirement, pins, &range).map_err(|words| unusable(&words))?;
    }
    Ok(())
}

/// Exactly one version, everywhere.
fn check_protected(pinned: &PinnedPackage, pins: &[Pin<'_>]) -> Result<()> {
    let (name, version, supported) = (pinned.name, pinned.version, pinned.supported);
    let found = match pins {
        [pin] if pin.package.version == version && pin.marker.is_true() => return Ok(()),
        [] => "none".to_owned(),
        pins => pins.iter().map(|pin| pin.package.version.as_str()).collect::<Vec<_>>().join(" and "),
    };
    let words = format!(
        "every artifact carries {name} {version}, and the resolver answered {found}; the supported range is \
         {name}{supported}"
    );
    Err(Error::new(Code::ProtectedPackage, words))
}

/// What counts for this requirement is there and satisfies it.
fn check_requirement(requirement: &Requirement, pins: &[Pin<'_>], range: &MarkerTree) -> Result<(), String> {
    let mut place = requirement.marker.clone();
    place.and(range.clone());
    let mut counting = pins.iter().filter(|pin| !pin.marker.is_disjoint(&place)).peekable();
    // A requirement for an older Python than any that is served asks for nothing.
    if counting.peek().is_none() && !place.is_false() {
        return Err(format!("it does not have {requirement}"));
    }
    let fits =
        |pin: &&Pin<'_>| requirement.versions.as_ref().is_none_or(|versions| versions.contains(&pin.version));
    match counting.find(|pin| !fits(pin)) {
        Some(pin) => {
            Err(format!("it has {} {}, which is not {requirement}", requirement.name, pin.package.version))
        }
        None => Ok(()),
    }
}

/// The versions of Python that are served.
fn python_range(spec: &EnvironmentSpec) -> MarkerTree {
    let minor = spec.spec.language.as_ref().and_then(crate::environment::Language::oldest_minor);
    let text = format!("python_full_version >= '3.{}'", minor.unwrap_or(OLDEST_MINOR));
    MarkerTree::from_str(&text).unwrap_or(MarkerTree::TRUE)
}
