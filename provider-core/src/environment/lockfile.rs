//! The resolved packages of an Environment.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{is_sha256_hex, sha256_hex};
use crate::error::{Code, Error, Result};

/// Resolved packages with their hashes, as text. Its digest is computed from the text and cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Lockfile {
    text: String,
    digest: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    text: String,
    digest: String,
}

const HEADER: &str = "# provider-lock: v1\n";

impl Lockfile {
    /// A lockfile of this text.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] if the text is empty or does not end with a line's end.
    pub fn from_text(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        if !text.ends_with('\n') {
            return Err(Error::new(Code::SpecInvalid, "the lockfile is empty or its last line is not ended"));
        }
        let digest = format!("sha256:{}", sha256_hex(text.as_bytes()));
        Ok(Self { text, digest })
    }

    /// A lockfile whose digest was stored beside its text.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] if the digest is not the text's, naming both, or is the placeholder of zeros.
    pub fn from_parts(text: impl Into<String>, digest: &str) -> Result<Self> {
        if !digest.strip_prefix("sha256:").is_some_and(is_sha256_hex) {
            return Err(Error::new(
                Code::SpecInvalid,
                format!("lockfile digest {digest:?} is not a SHA-256"),
            ));
        }
        let lockfile = Self::from_text(text)?;
        if lockfile.digest != digest {
            let words = format!("the lockfile's digest is {}, not the stored {digest}", lockfile.digest);
            return Err(Error::new(Code::SpecInvalid, words));
        }
        Ok(lockfile)
    }

    /// The lockfile of an Environment without packages.
    pub fn without_packages() -> Self {
        let digest = format!("sha256:{}", sha256_hex(HEADER.as_bytes()));
        Self { text: HEADER.to_owned(), digest }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// `sha256:` and the SHA-256 of the text.
    pub fn digest(&self) -> &str {
        &self.digest
    }
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

    #[test]
    fn a28_the_placeholder_and_a_foreign_digest_are_refused() {
        let lockfile = Lockfile::without_packages();
        assert_eq!(Lockfile::from_text(lockfile.text()).unwrap(), lockfile);
        for digest in [
            format!("sha256:{}", "0".repeat(64)),
            String::new(),
            lockfile.digest().to_uppercase(),
            lockfile.digest().replace("sha256:", ""),
            Lockfile::from_text("other\n").unwrap().digest().to_owned(),
        ] {
            assert!(Lockfile::from_parts(lockfile.text(), &digest).is_err(), "{digest:?} was accepted");
        }
        assert!(Lockfile::from_text("").is_err());
    }

    proptest! {
        #[test]
        fn a28_one_changed_byte_of_text_or_digest_is_refused(text in "[ -~\n]{1,200}", position in any::<prop::sample::Index>(), flip in 1u8..128) {
            let good = Lockfile::from_text(text + "\n").unwrap();
            let stored = serde_json::to_string(&good).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Lockfile>(&stored).unwrap(), &good);
            for (part, other) in [(good.text(), 0), (good.digest(), 1)] {
                let mut bytes = part.as_bytes().to_vec();
                let at = position.index(bytes.len());
                bytes[at] = (bytes[at] ^ flip) & 0x7f;
                prop_assume!(bytes != part.as_bytes());
                let changed = String::from_utf8(bytes).unwrap();
                let result = if other == 0 { Lockfile::from_parts(changed, good.digest()) } else { Lockfile::from_parts(good.text(), &changed) };
                prop_assert!(result.is_err());
            }
        }
    }
}
