//! The bases that somebody has approved: each is a name and a channel, and for each provider one digest.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;

use super::{
    BasePin, BaseRef, EnvironmentSpec, Format, SPEC_MAX, content::read_at_most, packages::OLDEST_MINOR,
    parse, spec::unique_keys,
};
use crate::{
    error::{Code, Error, Result},
    names::ProviderId,
};

/// The table of approved bases. Every provider has its own digest of a base.
///
/// ```
/// # use provider_core::{environment::{ApprovedBases, BaseRef, Format}, names::ProviderId};
/// let table = r#"
///     [python]
///     python = ["3.12", "3.13"]
///     [python.channels.stable]
///     e2b = "registry.example/python@sha256:6bfa1f0c4f7a4e0f1d0a1c1d6ff2bd4b6bc9d0f4cf8c6c2bb3a5f0d9d3b1e2a4"
///     [python.snapshots]
///     stable = "2026-11-01"
/// "#;
/// let bases = ApprovedBases::parse(table, Format::Toml)?;
/// let base = BaseRef { name: "python".into(), channel: Some("stable".into()) };
/// let pin = bases.pin(&base, &ProviderId::new("e2b")?)?;
/// assert!(pin.is_pinned());
/// # Ok::<(), provider_core::error::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovedBases(BTreeMap<String, ApprovedBase>);

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovedBase {
    /// Minor versions, such as `3.12`.
    #[serde(default)]
    python: Vec<String>,
    #[serde(default, deserialize_with = "unique_keys")]
    channels: BTreeMap<String, Channel>,
    /// The day of the distribution's packages, by channel.
    #[serde(default, deserialize_with = "unique_keys")]
    snapshots: BTreeMap<String, String>,
}

/// References by provider, and the pins that they are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Channel(#[serde(deserialize_with = "unique_keys")] BTreeMap<ProviderId, Published>);

/// A pin, written as its reference alone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Published(BasePin);

impl TryFrom<String> for Published {
    type Error = String;

    fn try_from(reference: String) -> Result<Self, String> {
        BasePin::digest(reference)
            .map(Self)
            .map_err(|error| format!("{}; {}", error.message(), error.advice()))
    }
}

#[derive(Deserialize)]
struct Table(#[serde(deserialize_with = "unique_keys")] BTreeMap<String, ApprovedBase>);

impl ApprovedBases {
    /// No approved bases: only those that drivers have of their own.
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads a table: the base's name, then `python` (its minor versions), `channels` (channel, then provider, then
    /// `[registry/]repository@sha256:<digest>`) and `snapshots` (channel, then the day of the distribution's packages).
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] naming the place: for an unknown or repeated key, a tag in place of a digest, the
    /// placeholder of zeros, and what is no version of Python.
    pub fn parse(text: &str, format: Format) -> Result<Self> {
        let Table(bases) = parse::parse(WHAT, text, format)?;
        for (name, base) in &bases {
            base.check().map_err(|words| {
                Error::new(Code::SpecInvalid, format!("{WHAT} cannot be read: {name}.{words}"))
            })?;
        }
        Ok(Self(bases))
    }

    /// Reads a table from a `.toml` or `.json` file. Blocks for as long as the disk needs.
    ///
    /// # Errors
    /// As for [`ApprovedBases::parse`]; [`Code::FileError`] naming the file that cannot be read.
    pub fn load(path: &Path) -> Result<Self> {
        let format = Format::of_path(path)?;
        let bytes = read_at_most(path, SPEC_MAX)?.map_err(|len| parse::too_long(WHAT, len))?;
        let place = path.display();
        let text = String::from_utf8(bytes)
            .map_err(|_| Error::new(Code::SpecInvalid, format!("{place}: it is not UTF-8")))?;
        Self::parse(&text, format).map_err(|error| {
            Error::new(error.code(), format!("{place}: {}", error.message()))
                .with_advice(error.advice().to_owned())
        })
    }

    /// The provider's own digest of a base.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] with the known names, if the base or its channel is not known, or no channel is named;
    /// [`Code::ArtifactMissing`], with the reason `base_channel_unpublished`, if the channel has no digest for this
    /// provider.
    pub fn pin(&self, base: &BaseRef, provider: &ProviderId) -> Result<BasePin> {
        let (name, approved) = (&base.name, self.base(base)?);
        let known = names(approved.channels.keys());
        let wrong = |place: &str, words: String| {
            Error::new(Code::SpecInvalid, format!("{place}: {words}; known are {known}"))
                .with_provider(provider)
        };
        let Some(channel) = &base.channel else {
            return Err(wrong("spec.base.channel", format!("base {name:?} is published in channels")));
        };
        let Some(Channel(pins)) = approved.channels.get(channel) else {
            return Err(wrong("spec.base.channel", format!("base {name:?} has no channel {channel:?}")));
        };
        pins.get(provider).map(|Published(pin)| pin.clone()).ok_or_else(|| {
            let words = format!("channel {channel:?} of base {name:?} is not published for {provider}");
            Error::new(Code::ArtifactMissing, words)
                .with_provider(provider)
                .with_context("reason", "base_channel_unpublished")
                .with_context("published for", names(pins.keys()))
        })
    }

    /// The day of the distribution's packages in a base, where the table names one.
    pub fn snapshot(&self, base: &BaseRef) -> Option<&str> {
        let approved = self.0.get(&base.name)?;
        approved.snapshots.get(base.channel.as_ref()?).map(String::as_str)
    }

    /// Refuses a specification whose language the base does not have in any version that will do.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] naming both; or the known names, if the base is not known.
    pub fn check_language(&self, spec: &EnvironmentSpec) -> Result<()> {
        let Some(language) = &spec.spec.language else { return Ok(()) };
        let approved = self.base(&spec.spec.base)?;
        if approved.minors().flatten().any(|minor| language.includes_minor(minor)) {
            return Ok(());
        }
        let (base, wanted) = (&spec.spec.base.name, &language.version);
        let words = format!(
            "spec.language.version: {wanted:?} has none of the versions of base {base:?}: {}",
            names(approved.python.iter())
        );
        Err(Error::new(Code::SpecInvalid, words)
            .with_advice("name a version that the base has, or another base"))
    }

    fn base(&self, base: &BaseRef) -> Result<&ApprovedBase> {
        self.0.get(&base.name).ok_or_else(|| {
            let words = format!("spec.base.ref: there is no approved base {:?}; known are ", base.name);
            Error::new(Code::SpecInvalid, words + &names(self.0.keys()))
                .with_advice("name one of them, or have the base approved")
        })
    }
}

const WHAT: &str = "the table of approved bases";

impl ApprovedBase {
    /// The minor versions of Python 3; `None` for what is none.
    fn minors(&self) -> impl Iterator<Item = Option<u32>> {
        self.python.iter().map(|version| {
            let minor = version.strip_prefix("3.")?;
            let plain = (1..=2).contains(&minor.len()) && minor.bytes().all(|b| b.is_ascii_digit());
            minor.parse().ok().filter(|minor| plain && *minor >= OLDEST_MINOR)
        })
    }

    fn check(&self) -> Result<(), String> {
        if let Some(at) = self.minors().position(|minor| minor.is_none()) {
            let version = self.python.get(at).map(String::as_str).unwrap_or_default();
            return Err(format!("python[{at}]: {version:?} is no minor version from 3.{OLDEST_MINOR} on"));
        }
        for (channel, day) in &self.snapshots {
            if !self.channels.contains_key(channel) {
                return Err(format!("snapshots.{channel}: there is no such channel"));
            }
            if day.is_empty() || !day.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b':') {
                return Err(format!("snapshots.{channel}: {day:?} is no day such as 2026-11-30"));
            }
        }
        Ok(())
    }
}

fn names(all: impl Iterator<Item = impl ToString>) -> String {
    let all: Vec<String> = all.map(|name| name.to_string()).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(digit: char) -> String {
        format!("sha256:{}", digit.to_string().repeat(64))
    }

    fn table() -> String {
        format!(
            "[py]\npython = [\"3.11\", \"3.12\"]\n[py.channels.stable]\ne2b = \"r.example:5000/py@{}\"\nmodal = \
             \"py@{}\"\n[py.channels.edge]\n[py.snapshots]\nstable = \"2026-11-01\"\n[bare]\n",
            digest('a'),
            digest('b')
        )
    }

    fn bases() -> ApprovedBases {
        ApprovedBases::parse(&table(), Format::Toml).unwrap()
    }

    fn base(name: &str, channel: Option<&str>) -> BaseRef {
        BaseRef { name: name.into(), channel: channel.map(str::to_owned) }
    }

    fn pin(base: &BaseRef, provider: &str) -> Result<BasePin> {
        bases().pin(base, &ProviderId::new(provider).unwrap())
    }

    #[test]
    fn a30_each_provider_has_its_own_digest() {
        let stable = base("py", Some("stable"));
        assert_eq!(pin(&stable, "e2b").unwrap().name(), format!("r.example:5000/py@{}", digest('a')));
        assert_eq!(pin(&stable, "modal").unwrap().fingerprint(), digest('b'));
        assert_eq!(bases().snapshot(&stable), Some("2026-11-01"));
        assert_eq!(bases().snapshot(&base("py", None)), None);
        let json = format!(r#"{{"py":{{"channels":{{"stable":{{"e2b":"x@{}"}}}}}}}}"#, digest('c'));
        let json = ApprovedBases::parse(&json, Format::Json).unwrap();
        assert_eq!(json.pin(&stable, &ProviderId::new("e2b").unwrap()).unwrap().fingerprint(), digest('c'));
    }

    #[test]
    fn a30_an_unknown_base_or_channel_is_refused_with_the_known_ones() {
        for (base, words) in [
            (base("ubuntu", Some("stable")), "\"ubuntu\"; known are bare, py"),
            (base("py", Some("nightly")), "\"nightly\"; known are edge, stable"),
            (base("py", None), "channels; known are edge, stable"),
            (base("bare", Some("stable")), "known are none"),
        ] {
            let error = pin(&base, "e2b").unwrap_err();
            assert_eq!(error.code(), Code::SpecInvalid, "{error}");
            assert!(error.message().contains(words), "{words:?} is not in {error}");
        }
        let error =
            ApprovedBases::none().pin(&base("py", None), &ProviderId::new("e2b").unwrap()).unwrap_err();
        assert!(error.message().contains("known are none"), "{error}");
    }

    #[test]
    fn a30_a_channel_that_is_not_published_for_a_provider_is_an_artifact_missing() {
        for channel in ["stable", "edge"] {
            let error = pin(&base("py", Some(channel)), "daytona").unwrap_err();
            assert_eq!(error.code(), Code::ArtifactMissing);
            assert!(
                error.context().contains(&("reason", "base_channel_unpublished".to_owned())),
                "{error:?}"
            );
            assert!(error.to_string().contains("daytona") && error.message().contains(channel), "{error}");
        }
    }

    #[test]
    fn the_language_must_be_one_that_the_base_has() {
        let check = |version: &str, name: &str| {
            let mut spec = EnvironmentSpec::named("a");
            spec.spec.base = base(name, Some("stable"));
            spec.spec.language = Some(crate::environment::Language::python(version));
            bases().check_language(&spec)
        };
        for version in ["3.11", ">=3.9", ">=3.12.3,<3.14", "==3.11.*"] {
            check(version, "py").unwrap();
        }
        for (version, name) in [("3.13", "py"), (">=3.9,<3.11", "py"), ("3.12", "bare")] {
            let error = check(version, name).unwrap_err();
            assert_eq!(error.code(), Code::SpecInvalid);
            let listed = if name == "py" { "3.11, 3.12" } else { "none" };
            assert!(error.message().contains(version) && error.message().contains(listed), "{error}");
        }
        let mut without = EnvironmentSpec::named("a");
        without.spec.base = base("bare", Some("stable"));
        bases().check_language(&without).unwrap();
    }

    #[test]
    fn a31_a_tag_and_the_placeholder_are_refused_with_their_place() {
        let good = digest('a');
        for (from, to, words) in [
            (good.as_str(), digest('0'), "py.channels.stable.e2b"),
            (&format!("@{good}"), ":latest".to_owned(), "py.channels.stable.e2b"),
            (&format!("@{good}"), String::new(), "a tag may move"),
            ("\"3.12\"", "\"3.x\"".to_owned(), "py.python[1]"),
            ("\"3.12\"", "\"3.7\"".to_owned(), "py.python[1]"),
            ("\"3.12\"", "12".to_owned(), "py.python"),
            ("stable = \"2026", "steady = \"2026".to_owned(), "py.snapshots.steady"),
            ("2026-11-01", "a b".to_owned(), "py.snapshots.stable"),
            ("[bare]", "[bare]\nsurprise = 1".to_owned(), "surprise"),
            ("e2b", "E2B".to_owned(), "E2B"),
            ("[bare]", "[py]".to_owned(), "line"),
        ] {
            let error = ApprovedBases::parse(&table().replacen(from, &to, 1), Format::Toml).unwrap_err();
            assert_eq!(error.code(), Code::SpecInvalid);
            assert!(error.message().contains(words), "{words:?} is not in {error}");
            assert!(!error.to_string().contains('\n'));
        }
        let twice = format!(r#"{{"a":{{"channels":{{"s":{{"x":"a@{0}","x":"a@{0}"}}}}}}}}"#, good);
        let error = ApprovedBases::parse(&twice, Format::Json).unwrap_err();
        assert!(error.message().contains("duplicate key \"x\""), "{error}");
    }

    #[test]
    fn a_table_is_read_from_a_file_and_errors_name_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bases.toml");
        std::fs::write(&path, table()).unwrap();
        assert_eq!(ApprovedBases::load(&path).unwrap(), bases());
        std::fs::write(&path, "x").unwrap();
        assert!(ApprovedBases::load(&path).unwrap_err().message().contains("bases.toml"));
        assert_eq!(ApprovedBases::load(&folder.path().join("no.toml")).unwrap_err().code(), Code::FileError);
    }
}
