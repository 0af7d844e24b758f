//! What a specification must not say about its language and packages.

use url::{Host, Url};

use super::{
    EnvironmentSpec, PROTECTED, Requirement,
    check::{Findings, looks_like_a_credential},
    packages::OLDEST_MINOR,
};
use crate::error::Code;

const REQUIREMENTS_MAX: usize = 256;
const INDEXES_MAX: usize = 8;
const APT_MAX: usize = 128;
const NO_CREDENTIALS: &str = "it holds what looks like a credential, which would stay in the artifact; give private \
                              indexes to the build in the variables of the installer (such as PIP_INDEX_URL or \
                              UV_INDEX_URL), and secrets of commands in spec.buildSecrets";

impl EnvironmentSpec {
    pub(super) fn check_packages(&self, findings: &mut Findings) {
        self.check_language(findings);
        let python = &self.spec.packages.python;
        let place = "spec.packages.python";
        check_requirements(&format!("{place}.dependencies"), &python.dependencies, false, findings);
        check_requirements(&format!("{place}.constraints"), &python.constraints, true, findings);
        check_indexes(&format!("{place}.indexes"), &python.indexes, findings);
        let any = !python.dependencies.is_empty() || !python.constraints.is_empty();
        if any && self.spec.language.is_none() {
            findings.add(place, "Python packages need spec.language".to_owned());
        }
        check_apt("spec.packages.system.apt", &self.spec.packages.system.apt, findings);
    }

    fn check_language(&self, findings: &mut Findings) {
        let Some(language) = &self.spec.language else { return };
        if language.name != "python" {
            findings.add("spec.language.name", format!("{:?} is not known; python is", language.name));
        }
        let place = "spec.language.version";
        match (language.specifiers(), language.oldest_minor()) {
            (Err(words), _) => findings.add(place, words),
            (Ok(_), None) => findings.add(place, format!("no version is in {:?}", language.version)),
            (Ok(_), Some(minor)) if minor < OLDEST_MINOR => {
                findings.add(place, format!("{:?} has versions before 3.{OLDEST_MINOR}", language.version));
            }
            (Ok(_), Some(_)) => {}
        }
    }
}

fn check_requirements(place: &str, texts: &[String], versions_needed: bool, findings: &mut Findings) {
    if texts.len() > REQUIREMENTS_MAX {
        findings.add(place, format!("there are {}, and {REQUIREMENTS_MAX} are allowed", texts.len()));
    }
    for (index, text) in texts.iter().enumerate() {
        let place = format!("{place}[{index}]");
        // First of all, so that no other words quote it.
        if looks_like_a_credential(text) || has_user_in_address(text) {
            findings.add(place, NO_CREDENTIALS.to_owned());
            continue;
        }
        let requirement = match Requirement::parse(text) {
            Ok(requirement) => requirement,
            Err(words) => {
                findings.add(place, format!("{text:?}: {words}"));
                continue;
            }
        };
        if versions_needed && requirement.versions.is_none() {
            findings.add(&place, format!("{text:?} names no version"));
        }
        check_protected(&place, &requirement, findings);
    }
}

fn check_protected(place: &str, requirement: &Requirement, findings: &mut Findings) {
    let pinned = PROTECTED.iter().find(|pin| pin.name == requirement.name);
    let excluded = pinned.filter(|pin| {
        let version = pin.version.parse::<pep440_rs::Version>();
        let fits = |version| requirement.versions.as_ref().is_none_or(|versions| versions.contains(&version));
        !version.is_ok_and(fits)
    });
    if let Some(pin) = excluded {
        let (name, version, supported) = (pin.name, pin.version, pin.supported);
        let words = format!(
            "{requirement} excludes {name} {version}, which every artifact carries; the supported range is \
             {name}{supported}"
        );
        findings.add_as(Code::ProtectedPackage, place, words);
    }
}

fn check_indexes(place: &str, indexes: &[String], findings: &mut Findings) {
    if indexes.len() > INDEXES_MAX {
        findings.add(place, format!("there are {}, and {INDEXES_MAX} are allowed", indexes.len()));
    }
    for (index, text) in indexes.iter().enumerate() {
        let place = format!("{place}[{index}]");
        if looks_like_a_credential(text) || has_user_in_address(text) {
            findings.add(place, NO_CREDENTIALS.to_owned());
            continue;
        }
        let is_loopback = |url: &Url| match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        };
        let plain = text.len() <= 2000 && !text.chars().any(|c| c.is_control() || c.is_whitespace());
        match Url::parse(text).ok().filter(|_| plain) {
            Some(url) if url.query().is_some() || url.fragment().is_some() => {
                findings.add(place, "an address of an index has no query and no fragment".to_owned());
            }
            Some(url) if url.scheme() == "https" || url.scheme() == "http" && is_loopback(&url) => {}
            _ => findings.add(place, "it is no https address of an index".to_owned()),
        }
    }
}

/// A user in an address, with or without a password: tokens are given so too.
fn has_user_in_address(text: &str) -> bool {
    text.split_once("://")
        .is_some_and(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default().contains('@'))
}

fn check_apt(place: &str, names: &[String], findings: &mut Findings) {
    if names.len() > APT_MAX {
        findings.add(place, format!("there are {}, and {APT_MAX} are allowed", names.len()));
    }
    let of = |text: &str, more: &str| {
        !text.is_empty()
            && text.len() <= 128
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || more.as_bytes().contains(&b))
    };
    for (index, text) in names.iter().enumerate() {
        let (name, version) = text.split_once('=').unwrap_or((text, "0"));
        let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        if !starts_well
            || !of(name, "+-.")
            || name.bytes().any(|b| b.is_ascii_uppercase())
            || !of(version, ".+:~-")
        {
            findings.add(
                format!("{place}[{index}]"),
                format!("{text:?} is neither the name of a Debian package nor name=version"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{environment::Language, provider::Finding};

    fn findings(change: impl FnOnce(&mut EnvironmentSpec)) -> Vec<Finding> {
        let mut spec = EnvironmentSpec::named("a");
        spec.spec.language = Some(Language::python(">=3.9"));
        change(&mut spec);
        spec.check()
    }

    fn with_dependency(text: &str) -> Vec<Finding> {
        findings(|spec| spec.spec.packages.python.dependencies.push(text.to_owned()))
    }

    #[test]
    fn what_people_write_is_accepted() {
        let none = findings(|spec| {
            let python = &mut spec.spec.packages.python;
            let dependencies =
                ["packaging==24.2", "uvicorn[standard]>=0.30,<1", "tomli>=2; python_version < '3.11'", "pip"];
            python.dependencies.extend(dependencies.map(str::to_owned));
            python.constraints.push("idna<4".into());
            python.indexes.extend(
                ["https://packages.example.org/simple/", "http://127.0.0.1:8080/"].map(str::to_owned),
            );
            spec.spec.packages.system.apt.extend(["git", "libstdc++6=12.2.0-14", "g++"].map(str::to_owned));
        });
        assert!(none.is_empty(), "{none:?}");
    }

    #[test]
    fn each_wrong_field_is_found_at_its_place() {
        type Change = fn(&mut EnvironmentSpec);
        let cases: [(Change, &str); 11] = [
            (|spec| spec.spec.language = None, ""),
            (
                |spec| spec.spec.language = Some(Language { name: "ruby".into(), version: "3.9".into() }),
                "spec.language.name",
            ),
            (|spec| spec.spec.language = Some(Language::python("three")), "spec.language.version"),
            (|spec| spec.spec.language = Some(Language::python(">=3.7")), "spec.language.version"),
            (|spec| spec.spec.language = Some(Language::python(">3.12,<3.12")), "spec.language.version"),
            (
                |spec| spec.spec.packages.python.constraints.push("idna".into()),
                "spec.packages.python.constraints[0]",
            ),
            (
                |spec| spec.spec.packages.python.indexes.push("ftp://example.org".into()),
                "spec.packages.python.indexes[0]",
            ),
            (
                |spec| spec.spec.packages.python.indexes.push("http://example.org/".into()),
                "spec.packages.python.indexes[0]",
            ),
            (
                |spec| spec.spec.packages.python.indexes.push("https://example.org/?a=b".into()),
                "spec.packages.python.indexes[0]",
            ),
            (|spec| spec.spec.packages.system.apt.push("git; id".into()), "spec.packages.system.apt[0]"),
            (|spec| spec.spec.packages.system.apt.push("--option".into()), "spec.packages.system.apt[0]"),
        ];
        for (change, place) in cases {
            let places: Vec<_> = findings(change).into_iter().map(|finding| finding.place).collect();
            assert_eq!(places.join(" "), place);
        }
        let without = findings(|spec| {
            spec.spec.language = None;
            spec.spec.packages.python.dependencies.push("a".into());
        });
        assert_eq!(without[0].place, "spec.packages.python");
        let many =
            findings(|spec| spec.spec.packages.python.dependencies.extend((0..257).map(|n| format!("a{n}"))));
        assert_eq!(many.len(), 1);
    }

    #[test]
    fn a75_addresses_with_credentials_are_refused_and_not_quoted() {
        const CANARY: &str = "canary4711";
        for text in [
            format!("a @ https://user:{CANARY}@example.org/a.whl"),
            format!("git+https://{CANARY}@example.org/a"),
            format!("https://{CANARY}:x@example.org/simple"),
        ] {
            let index = findings(|spec| spec.spec.packages.python.indexes.push(text.clone()));
            for found in [with_dependency(&text), index] {
                assert_eq!(found.len(), 1, "{text}");
                assert!(found[0].words.contains("spec.buildSecrets"), "{found:?}");
                assert!(!format!("{found:?}").contains(CANARY), "{found:?}");
            }
        }
    }

    #[test]
    fn a76_a_contradiction_to_a_protected_package_names_the_supported_range() {
        for text in ["pip<20", "PIP==20.0", "pip>=99"] {
            let found = with_dependency(text);
            assert_eq!((found.len(), found[0].code), (1, Code::ProtectedPackage), "{text}");
            assert!(found[0].words.contains("pip==26.0.1"), "{found:?}");
        }
        assert!(with_dependency("pip>=20").is_empty());
    }
}
