//! The text of a lockfile: a header in comments, then pinned packages with their hashes.
//!
//! ```text
//! # provider-lock: v1
//! # provider-inputs: sha256:<digest of language and packages>
//! # provider-protected: pip==26.0.1
//! packaging==24.2 \
//!     --hash=sha256:<64 hex> \
//!     --hash=sha256:<64 hex>
//! ```

use std::{collections::BTreeMap, fmt::Write as _, str::FromStr as _};

use pep440_rs::Version;
use pep508_rs::MarkerTree;

use super::{EnvironmentSpec, PinnedPackage, is_sha256_hex, packages::normalised};
use crate::error::Result;

/// One package of a lockfile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedPackage {
    /// Its normalised name.
    pub name: String,
    /// Its one version.
    pub version: String,
    /// For which Python and system it is installed (PEP 508); absent means for each.
    pub marker: Option<String>,
    /// The SHA-256 of each file that will do, as 64 hexadecimal digits.
    pub hashes: Vec<String>,
}

/// What a lockfile says beside its packages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// The digest of what was resolved.
    pub(crate) inputs: Option<String>,
    /// What was pinned in any case, as `name==version`.
    pub(crate) protected: Vec<String>,
    /// Packages of the distribution, as `name=version`.
    pub(crate) apt: Vec<String>,
}

const VERSION_LINE: &str = "# provider-lock: v1";
const INPUTS: &str = "# provider-inputs: ";
const PROTECTED: &str = "# provider-protected: ";
pub(super) const APT: &str = "# provider-apt: ";

impl Header {
    /// The header of what this specification resolves to.
    pub(crate) fn of(spec: &EnvironmentSpec, protected: &[PinnedPackage]) -> Result<Self> {
        let pin = |pin: &PinnedPackage| format!("{}=={}", pin.name, pin.version);
        Ok(Self {
            inputs: Some(spec.inputs_digest()?),
            protected: protected.iter().map(pin).collect(),
            apt: Vec::new(),
        })
    }
}

/// The text of these packages.
pub(super) fn render(header: &Header, packages: &[LockedPackage]) -> String {
    let mut text = format!("{VERSION_LINE}\n");
    for (key, values) in
        [(INPUTS, header.inputs.as_slice()), (PROTECTED, &header.protected), (APT, &header.apt)]
    {
        values.iter().for_each(|value| text += &format!("{key}{value}\n"));
    }
    for package in packages {
        let _ = write!(text, "{}=={}", package.name, package.version);
        if let Some(marker) = &package.marker {
            let _ = write!(text, " ; {marker}");
        }
        package.hashes.iter().for_each(|hash| text += &format!(" \\\n    --hash=sha256:{hash}"));
        text.push('\n');
    }
    text
}

/// Reads a text.
///
/// # Errors
/// What is wrong, in words that name the line.
pub(super) fn parse(text: &str) -> Result<(Header, Vec<LockedPackage>), String> {
    let body = text.strip_suffix('\n').ok_or("it is empty or its last line is not ended")?;
    let mut lines = body.split('\n').enumerate().map(|(number, line)| (number + 1, line)).peekable();
    if lines.next().is_none_or(|(_, first)| first != VERSION_LINE) {
        return Err(format!("its text does not begin with {VERSION_LINE:?}"));
    }
    let mut header = Header::default();
    let mut packages = Vec::new();
    let mut seen = BTreeMap::new();
    while let Some((number, line)) = lines.next() {
        if line.chars().any(char::is_control) {
            return Err(format!("line {number} holds a control character"));
        }
        if line.starts_with('#') {
            header.read(line).ok_or_else(|| format!("line {number} is no known header"))?;
            continue;
        }
        let mut whole = line.to_owned();
        while let Some(begun) = whole.strip_suffix('\\') {
            let (_, next) = lines.next().ok_or_else(|| format!("line {number} goes on behind the end"))?;
            whole = format!("{begun}{next}");
        }
        let package = package(&whole).map_err(|words| format!("line {number}: {words}"))?;
        let marked = (package.name.clone(), package.marker.clone());
        if let Some(other) = seen.insert(marked, number) {
            return Err(format!("lines {other} and {number} pin {} twice", package.name));
        }
        packages.push(package);
    }
    Ok((header, packages))
}

impl Header {
    fn read(&mut self, line: &str) -> Option<()> {
        if let Some(digest) = line.strip_prefix(INPUTS) {
            let is_digest = digest.strip_prefix("sha256:").is_some_and(is_sha256_hex);
            return (is_digest && self.inputs.replace(digest.to_owned()).is_none()).then_some(());
        }
        for (key, list) in [(PROTECTED, &mut self.protected), (APT, &mut self.apt)] {
            if let Some(value) = line.strip_prefix(key) {
                return (!value.is_empty()).then(|| list.push(value.to_owned()));
            }
        }
        None
    }
}

/// One package, on one line.
pub(super) fn package(line: &str) -> Result<LockedPackage, String> {
    let mut words = line.split(" --hash=").map(str::trim);
    let pin = words.next().unwrap_or_default();
    let (requirement, marker) = match pin.split_once(" ; ") {
        Some((requirement, marker)) => (requirement, Some(marker.trim())),
        None => (pin, None),
    };
    let (name, version) = requirement.split_once("==").ok_or("it is not pinned to one version")?;
    if name.is_empty()
        || name != normalised(name)
        || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    {
        return Err(format!("{name:?} is no normalised name of a package"));
    }
    if Version::from_str(version).is_err() || version.contains(char::is_whitespace) {
        return Err(format!("{version:?} is no version"));
    }
    if marker.is_some_and(|marker| MarkerTree::from_str(marker).is_err()) {
        return Err(format!("the marker of {name} cannot be read"));
    }
    let mut hashes = Vec::new();
    for word in words {
        let hash = word.strip_prefix("sha256:").filter(|hash| is_sha256_hex(hash));
        hashes.push(hash.ok_or_else(|| format!("a hash of {name} is no SHA-256"))?.to_owned());
    }
    if hashes.is_empty() {
        return Err(format!("{name} has no hash"));
    }
    Ok(LockedPackage {
        name: name.to_owned(),
        version: version.to_owned(),
        marker: marker.map(str::to_owned),
        hashes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn what_is_written_is_read() {
        let header = Header {
            inputs: Some(format!("sha256:{HASH}")),
            protected: vec!["pip==26.0.1".into()],
            apt: vec!["git=1:2.39.5-0".into()],
        };
        let package = |version: &str, marker: Option<&str>| LockedPackage {
            name: "a-b".into(),
            version: version.into(),
            marker: marker.map(str::to_owned),
            hashes: vec![HASH.to_owned(), HASH.to_owned()],
        };
        let packages = vec![
            package("1.0", Some("python_full_version < '3.10'")),
            package("2.0.post1", Some("python_full_version >= '3.10'")),
        ];
        let text = render(&header, &packages);
        assert_eq!(parse(&text).unwrap(), (header, packages), "{text}");
    }

    #[test]
    fn what_is_not_pinned_with_a_hash_is_refused_with_its_line() {
        let line = |line: &str| format!("{VERSION_LINE}\n{line}\n");
        for (text, words) in [
            (String::new(), "empty"),
            ("packaging==24.2\n".to_owned(), "begin"),
            (line("packaging==24.2"), "line 2: packaging has no hash"),
            (line(&format!("packaging>=24.2 --hash=sha256:{HASH}")), "pinned"),
            (line(&format!("packaging=={HASH} x --hash=sha256:{HASH}")), "version"),
            (line(&format!("Packaging==24.2 --hash=sha256:{HASH}")), "normalised"),
            (line("packaging==24.2 --hash=md5:0123"), "SHA-256"),
            (line(&format!("packaging==24.2 --hash=sha256:{}", "0".repeat(64))), "SHA-256"),
            (line(&format!("packaging==24.2 ; rm -rf --hash=sha256:{HASH}")), "marker"),
            (line(&format!("-r other.txt --hash=sha256:{HASH}")), "pinned"),
            (line(&format!("--index-url x==1 --hash=sha256:{HASH}")), "name"),
            (line(""), "pinned"),
            (line("# another comment"), "header"),
            (line("packaging==24.2 \\"), "behind the end"),
            (line(&format!("a==1 --hash=sha256:{HASH}\na==2 --hash=sha256:{HASH}")), "twice"),
            (format!("{VERSION_LINE}\r\n"), "begin"),
        ] {
            let refused = parse(&text).unwrap_err();
            assert!(refused.contains(words), "{words:?} is not in {refused:?} for {text:?}");
        }
    }
}
