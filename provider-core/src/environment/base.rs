//! What an artifact starts from, pinned.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::is_sha256_hex;
use crate::error::{Code, Error, Result};

/// A base that cannot change between resolving and building.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "Stored", into = "Stored")]
pub struct BasePin(Pin);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pin {
    Digest { reference: String },
    Unpinned { name: String, fingerprint: String },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Stored {
    Digest { reference: String },
    Unpinned { name: String, fingerprint: String },
}

impl BasePin {
    /// A base that is pinned by a digest: `[registry/]repository@sha256:<64 hex>`.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] if there is no digest, or it is the placeholder of zeros. A tag pins nothing.
    pub fn digest(reference: impl Into<String>) -> Result<Self> {
        let reference = reference.into();
        let pinned = reference.split_once("@sha256:").is_some_and(|(name, digest)| {
            !name.is_empty() && !name.contains(char::is_whitespace) && is_sha256_hex(digest)
        });
        if pinned {
            return Ok(Self(Pin::Digest { reference }));
        }
        Err(Error::new(Code::SpecInvalid, format!("base {reference:?} is not pinned by a digest"))
            .with_advice("name it as repository@sha256:<digest>; a tag may move"))
    }

    /// A base that has no digest, known by its name and a fingerprint. Only where the driver allows it; the
    /// artifact is then marked as not reproducible.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] if one of the two is empty.
    pub fn unpinned(name: impl Into<String>, fingerprint: impl Into<String>) -> Result<Self> {
        let (name, fingerprint) = (name.into(), fingerprint.into());
        if name.is_empty() || fingerprint.is_empty() {
            return Err(Error::new(
                Code::SpecInvalid,
                "a base without a digest needs a name and a fingerprint",
            ));
        }
        Ok(Self(Pin::Unpinned { name, fingerprint }))
    }

    /// Whether a digest proves the content.
    pub fn is_pinned(&self) -> bool {
        matches!(self.0, Pin::Digest { .. })
    }

    /// The reference with its digest, or the name.
    pub fn name(&self) -> &str {
        match &self.0 {
            Pin::Digest { reference } => reference,
            Pin::Unpinned { name, .. } => name,
        }
    }

    /// The digest, or the fingerprint.
    pub fn fingerprint(&self) -> &str {
        match &self.0 {
            Pin::Digest { reference } => reference.split_once('@').map_or("", |(_, digest)| digest),
            Pin::Unpinned { fingerprint, .. } => fingerprint,
        }
    }
}

impl fmt::Display for BasePin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl TryFrom<Stored> for BasePin {
    type Error = Error;
    fn try_from(stored: Stored) -> Result<Self> {
        match stored {
            Stored::Digest { reference } => Self::digest(reference),
            Stored::Unpinned { name, fingerprint } => Self::unpinned(name, fingerprint),
        }
    }
}

impl From<BasePin> for Stored {
    fn from(pin: BasePin) -> Stored {
        match pin.0 {
            Pin::Digest { reference } => Stored::Digest { reference },
            Pin::Unpinned { name, fingerprint } => Stored::Unpinned { name, fingerprint },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a31_a_base_without_a_digest_is_refused() {
        let hex = "0123456789abcdef".repeat(4);
        assert!(BasePin::digest(format!("registry.example:5000/debian@sha256:{hex}")).unwrap().is_pinned());
        for reference in [
            "debian".to_owned(),
            "debian:12".to_owned(),
            "debian:latest@sha256:".to_owned(),
            format!("debian@sha256:{}", "0".repeat(64)),
            format!("@sha256:{hex}"),
            format!("debian@sha256:{}", &hex[1..]),
            format!("debian@sha256:{}", hex.to_uppercase()),
        ] {
            assert_eq!(BasePin::digest(&*reference).unwrap_err().code(), Code::SpecInvalid, "{reference:?}");
            let stored = format!(r#"{{"digest":{{"reference":{reference:?}}}}}"#);
            assert!(serde_json::from_str::<BasePin>(&stored).is_err(), "{reference:?} was read from data");
        }
    }
}
