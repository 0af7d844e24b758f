//! The resolved packages of an Environment.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{
    EnvironmentSpec, Requirement, is_sha256_hex,
    locked::{self, Header, LockedPackage},
    pins::PIP,
    sha256_hex,
};
use crate::error::{Code, Error, Result};

/// Resolved packages with their hashes, as text that `pip install --require-hashes -r` reads too. Its digest is
/// computed from the text and cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Lockfile {
    text: String,
    digest: String,
    header: Header,
    packages: Vec<LockedPackage>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    text: String,
    digest: String,
}

/// The first line of a lockfile in a file: the digest of all lines below it.
const DIGEST_LINE: &str = "# provider-digest: ";

impl Lockfile {
    /// The longest text, in bytes.
    pub const TEXT_MAX: usize = 8 << 20;

    /// A lockfile of this text.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] naming the line, if the text is not a list of packages that are pinned to one version
    /// and have at least one hash each, below a header of this version.
    pub fn from_text(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        if text.len() > Self::TEXT_MAX {
            let words = format!("it has {} bytes, and {} are allowed", text.len(), Self::TEXT_MAX);
            return Err(refused(&words));
        }
        let (header, packages) = locked::parse(&text).map_err(|words| refused(&words))?;
        let digest = format!("sha256:{}", sha256_hex(text.as_bytes()));
        Ok(Self { text, digest, header, packages })
    }

    /// A lockfile whose digest was stored beside its text.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] if the digest is not the text's, naming both, or is the placeholder of zeros; or as for
    /// [`Lockfile::from_text`].
    pub fn from_parts(text: impl Into<String>, digest: &str) -> Result<Self> {
        if !digest.strip_prefix("sha256:").is_some_and(is_sha256_hex) {
            return Err(refused(&format!("its stored digest {digest:?} is not a SHA-256")));
        }
        let text = text.into();
        // Before the text is looked at: what was changed is to be named first.
        let computed = format!("sha256:{}", sha256_hex(text.as_bytes()));
        if computed != digest {
            return Err(refused(&format!("the digest of its text is {computed}, and {digest} is stored")));
        }
        Self::from_text(text)
    }

    /// A lockfile as [`Lockfile::to_file_text`] writes it.
    ///
    /// # Errors
    /// As for [`Lockfile::from_parts`].
    pub fn from_file_text(content: &str) -> Result<Self> {
        let first = content.split_once('\n').and_then(|(first, rest)| {
            let digest = first.strip_suffix('\r').unwrap_or(first).strip_prefix(DIGEST_LINE)?;
            Some((digest, rest))
        });
        let Some((digest, text)) = first else {
            return Err(refused(&format!("its first line is not {DIGEST_LINE:?} with a digest")));
        };
        Self::from_parts(text, digest)
    }

    /// The form for a file: a first line with the digest, then the text. The whole is a requirements file with hashes.
    pub fn to_file_text(&self) -> String {
        format!("{DIGEST_LINE}{}\n{}", self.digest, self.text)
    }

    /// The lockfile of an Environment without a language.
    pub fn without_packages() -> Self {
        Self::of(Header::default(), Vec::new())
    }

    /// The lockfile of an Environment that names a language and no packages: the installer alone, which needs no
    /// resolver.
    ///
    /// # Errors
    /// [`Code::Internal`] if the specification has no canonical form, which does not happen.
    pub fn of_installer(spec: &EnvironmentSpec) -> Result<Self> {
        let pip = LockedPackage {
            name: PIP.name.to_owned(),
            version: PIP.version.to_owned(),
            marker: None,
            hashes: vec![PIP.sha256.to_owned()],
        };
        Ok(Self::of(Header::of(spec, &[PIP])?, vec![pip]))
    }

    /// The lockfile of these packages.
    pub(crate) fn of(header: Header, packages: Vec<LockedPackage>) -> Self {
        let text = locked::render(&header, &packages);
        let digest = format!("sha256:{}", sha256_hex(text.as_bytes()));
        Self { text, digest, header, packages }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// `sha256:` and the SHA-256 of the text.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The packages, in the order of the text.
    pub fn packages(&self) -> &[LockedPackage] {
        &self.packages
    }

    /// The packages of each name: several where it depends on the Python which one is installed.
    pub fn by_name(&self) -> BTreeMap<&str, Vec<&LockedPackage>> {
        let mut by_name: BTreeMap<&str, Vec<&LockedPackage>> = BTreeMap::new();
        self.packages.iter().for_each(|package| by_name.entry(&package.name).or_default().push(package));
        by_name
    }

    /// Refuses a lockfile that was resolved for other packages than this specification names.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] naming both digests of inputs, or the dependency that it does not pin.
    pub fn check_for(&self, spec: &EnvironmentSpec) -> Result<()> {
        let (found, wanted) = (self.header.inputs.as_deref(), spec.inputs_digest()?);
        let needs = spec.spec.needs_packages();
        if found == Some(wanted.as_str()) || found.is_none() && !needs && self.packages.is_empty() {
            return self.check_dependencies(spec);
        }
        let Some(found) = found else {
            return Err(refused("it is that of an Environment without a language")
                .with_advice("resolve again; `Lockfile::of_installer` is for a language without packages"));
        };
        Err(refused(&format!(
            "language or packages have changed since it was resolved (it was resolved for {found}, and now they are \
             {wanted})"
        )))
    }
}

impl Lockfile {
    /// Each dependency that every machine needs is there.
    fn check_dependencies(&self, spec: &EnvironmentSpec) -> Result<()> {
        let by_name = self.by_name();
        let asked = &spec.spec.packages.python.dependencies;
        let mut needed = asked
            .iter()
            .filter_map(|text| Requirement::parse(text).ok())
            .filter(|requirement| !requirement.depends_on_the_machine());
        match needed.find(|requirement| !by_name.contains_key(requirement.name.as_str())) {
            Some(requirement) => Err(refused(&format!("it does not pin {requirement}"))),
            None => Ok(()),
        }
    }
}

fn refused(words: &str) -> Error {
    Error::new(Code::SpecInvalid, format!("the lockfile cannot be used: {words}"))
        .with_advice("resolve again: `matrix resolve --env FILE`")
}

impl fmt::Display for Lockfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.digest)
    }
}

impl TryFrom<Stored> for Lockfile {
    type Error = Error;
    fn try_from(stored: Stored) -> Result<Self> {
        Self::from_parts(stored.text, &stored.digest)
    }
}

impl From<Lockfile> for Stored {
    fn from(lockfile: Lockfile) -> Stored {
        Stored { text: lockfile.text, digest: lockfile.digest }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::environment::Language;

    fn spec() -> EnvironmentSpec {
        let mut spec = EnvironmentSpec::named("a");
        spec.spec.language = Some(Language::python(">=3.9"));
        spec
    }

    #[test]
    fn a28_the_placeholder_and_a_foreign_digest_are_refused() {
        let lockfile = Lockfile::of_installer(&spec()).unwrap();
        assert_eq!(Lockfile::from_text(lockfile.text()).unwrap(), lockfile);
        for digest in [
            format!("sha256:{}", "0".repeat(64)),
            String::new(),
            lockfile.digest().to_uppercase(),
            lockfile.digest().replace("sha256:", ""),
            Lockfile::without_packages().digest().to_owned(),
        ] {
            assert!(Lockfile::from_parts(lockfile.text(), &digest).is_err(), "{digest:?} was accepted");
        }
        assert!(Lockfile::from_text("").is_err());
    }

    #[test]
    fn a28_a_lockfile_of_other_packages_is_refused() {
        let lockfile = Lockfile::of_installer(&spec()).unwrap();
        lockfile.check_for(&spec()).unwrap();
        let mut other = spec();
        other.spec.packages.python.dependencies.push("packaging==24.2".into());
        let error = lockfile.check_for(&other).unwrap_err();
        assert!(error.message().contains(&other.inputs_digest().unwrap()), "{error}");
        Lockfile::without_packages().check_for(&EnvironmentSpec::named("a")).unwrap();
        assert!(Lockfile::without_packages().check_for(&spec()).is_err());
    }

    proptest! {
        #[test]
        fn a28_one_changed_byte_of_text_or_digest_is_refused(position in any::<prop::sample::Index>(), flip in 1u8..128) {
            let good = Lockfile::of_installer(&spec()).unwrap();
            let stored = serde_json::to_string(&good).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Lockfile>(&stored).unwrap(), &good);
            prop_assert_eq!(&Lockfile::from_file_text(&good.to_file_text()).unwrap(), &good);
            for (part, other) in [(good.text(), 0), (good.digest(), 1), (&good.to_file_text(), 2)] {
                let mut bytes = part.as_bytes().to_vec();
                let at = position.index(bytes.len());
                bytes[at] = (bytes[at] ^ flip) & 0x7f;
                prop_assume!(bytes != part.as_bytes());
                let changed = String::from_utf8(bytes).unwrap();
                let result = match other {
                    0 => Lockfile::from_parts(changed, good.digest()),
                    1 => Lockfile::from_parts(good.text(), &changed),
                    _ => Lockfile::from_file_text(&changed),
                };
                prop_assert!(result.is_err());
            }
        }
    }
}
