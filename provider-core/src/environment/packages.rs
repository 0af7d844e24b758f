//! The language of an Environment, and what is installed for it.

use std::{fmt, str::FromStr as _};

use pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::{MarkerTree, Requirement as Parsed, VerbatimUrl, VersionOrUrl};
use serde::{Deserialize, Serialize};

/// The language that the sandboxes of an Environment speak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Language {
    /// Which one. Only `python` is known.
    pub name: String,
    /// The versions that will do: a minor version such as `3.12`, or a range such as `>=3.10,<3.14` (PEP 440).
    #[serde(default = "any_version")]
    pub version: String,
}

/// The oldest minor version of Python 3 that is supported.
pub(super) const OLDEST_MINOR: u32 = 9;
/// No minor version of Python 3 that is looked at is later than this.
const LATEST_MINOR: u32 = 99;

fn any_version() -> String {
    format!(">=3.{OLDEST_MINOR}")
}

impl Language {
    /// Python of these versions.
    pub fn python(version: impl Into<String>) -> Self {
        Self { name: "python".into(), version: version.into() }
    }

    /// The versions as specifiers, where a plain `3.12` means each version of that minor version.
    ///
    /// # Errors
    /// In words, what is wrong with the text.
    pub fn specifiers(&self) -> Result<VersionSpecifiers, String> {
        let text = self.version.trim();
        let plain = text.strip_prefix("3.").is_some_and(|minor| {
            !minor.is_empty() && minor.len() <= 2 && minor.bytes().all(|b| b.is_ascii_digit())
        });
        let text = if plain { format!("=={text}.*") } else { text.to_owned() };
        let specifiers = VersionSpecifiers::from_str(&text)
            .map_err(|_| format!("{:?} is neither a version such as 3.12 nor a range", self.version))?;
        if specifiers.is_empty() {
            return Err("it names no version".to_owned());
        }
        Ok(specifiers)
    }

    /// The oldest minor version of Python 3 that will do, such as 9 for `>=3.9`; `None` if no version does, or the
    /// text cannot be read.
    pub fn oldest_minor(&self) -> Option<u32> {
        (0..=LATEST_MINOR).find(|minor| self.includes_minor(*minor))
    }

    /// Whether some release of this minor version of Python 3 will do.
    pub fn includes_minor(&self, minor: u32) -> bool {
        let Ok(specifiers) = self.specifiers() else { return false };
        // The first and a late patch release stand for all: ranges seldom name one.
        [0_u64, 1, 99].iter().any(|patch| specifiers.contains(&Version::new([3, u64::from(minor), *patch])))
    }
}

/// What is installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Packages {
    /// Packages of the language.
    pub python: PythonPackages,
    /// Packages of the distribution.
    pub system: SystemPackages,
}

/// Python packages. They are resolved into a lockfile with hashes, and installed from it alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct PythonPackages {
    /// What installs them.
    pub manager: Manager,
    /// Requirements (PEP 508), such as `packaging==24.2`.
    pub dependencies: Vec<String>,
    /// Versions of packages that others bring along.
    pub constraints: Vec<String>,
    /// Addresses of indexes that are asked, the first first, in place of the public one.
    pub indexes: Vec<String>,
}

/// What installs Python packages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Manager {
    /// Whichever of `uv` and `pip` there is: the lockfile decides what is installed, not the tool.
    #[default]
    Auto,
    /// `uv`, from the caller's PATH.
    Uv,
    /// `pip`.
    Pip,
    /// Conda. No driver has it.
    Conda,
}

/// Packages of the distribution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct SystemPackages {
    /// Names of Debian packages, each with a version after `=` if one is wanted.
    pub apt: Vec<String>,
}

/// A requirement of a package, read.
#[derive(Clone, Debug)]
pub struct Requirement {
    /// The package's name, normalised: small letters, and a hyphen for each run of `-`, `_` and `.`.
    pub name: String,
    /// The versions that will do; absent means any.
    pub versions: Option<VersionSpecifiers>,
    /// Where it counts: for which Python and system.
    pub(super) marker: MarkerTree,
    text: String,
}

impl Requirement {
    /// Reads a requirement.
    ///
    /// # Errors
    /// In words, what is wrong with it. They do not quote the text, which may hold a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refuse = |words: &str| Err(words.to_owned());
        if text.len() > 1000 || text.chars().any(char::is_control) {
            return refuse("it is too long or holds a control character");
        }
        // Installers put variables into the lines of their files, and a backslash goes on to the next.
        if text.contains(['$', '`', '\\']) {
            return refuse("it holds one of $, ` and \\, which no requirement needs");
        }
        if text.trim_start().starts_with('-') {
            return refuse("it is an option of an installer, not a requirement");
        }
        if text.contains("://") || text.contains(" @ ") {
            return refuse("it names an address; only packages of an index can be locked with hashes");
        }
        let parsed = Parsed::<VerbatimUrl>::from_str(text)
            .map_err(|_| "it is no requirement such as name>=1.0 (PEP 508)".to_owned())?;
        let versions = match parsed.version_or_url {
            None => None,
            Some(VersionOrUrl::VersionSpecifier(versions)) => Some(versions),
            Some(VersionOrUrl::Url(_)) => return refuse("it names an address"),
        };
        Ok(Self {
            name: normalised(parsed.name.as_ref()),
            versions,
            marker: parsed.marker,
            text: text.trim().to_owned(),
        })
    }
}

impl Requirement {
    /// Whether it counts only for some Pythons or systems.
    pub fn depends_on_the_machine(&self) -> bool {
        !self.marker.is_true()
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A package's name in its one form: small letters, and a hyphen for each run of `-`, `_` and `.`.
pub fn normalised(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if text.ends_with('-') => {}
            '-' | '_' | '.' => text.push('-'),
            c => text.push(c.to_ascii_lowercase()),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_people_write_them() {
        for (text, oldest) in [
            ("3.12", Some(12)),
            (">=3.9", Some(9)),
            (">=3.10,<3.14", Some(10)),
            (">3.9.5", Some(9)),
            ("~=3.11", Some(11)),
            ("==3.13.*", Some(13)),
            ("<3.9", Some(0)),
            (">=3.12,<3.12", None),
            (">=2.7,<3", None),
        ] {
            assert_eq!(Language::python(text).oldest_minor(), oldest, "{text:?}");
        }
        for text in ["", "python3", "3.", "3.x", ">=", "4", "3.12; rm -rf /"] {
            let read = Language::python(text).specifiers();
            assert!(read.is_err(), "{text:?} was read as {read:?}");
        }
    }

    #[test]
    fn requirements_are_read_and_nothing_else() {
        let good = Requirement::parse("Foo.Bar_baz[extra] >=1.0,<2 ; python_version < '3.12'").unwrap();
        assert_eq!(good.name, "foo-bar-baz");
        assert!(good.versions.unwrap().contains(&Version::new([1, 5])));
        for text in [
            "",
            "a b",
            "a; rm -rf /",
            "a==1 && id",
            "$(id)",
            "`id`",
            "a>",
            "-r other.txt",
            "--index-url=x",
            "a @ https://example.org/a.whl",
            "git+https://example.org/a",
            "./a",
            "a\nb",
            "a\0",
            "a; sys_platform == '${HOME}'",
        ] {
            assert!(Requirement::parse(text).is_err(), "{text:?} was accepted");
        }
    }
}
