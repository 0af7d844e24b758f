//! What the checks are told of the language that an Environment names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Python, as an Environment names it and its lockfile resolves it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LanguageFacts {
    /// The versions of the interpreter that are allowed, as specifiers of PEP 440, such as `>=3.9`.
    pub version: String,
    /// The direct dependencies by their normalised names (small letters, words joined by `-`), each with the versions
    /// that the lockfile holds of it.
    pub packages: BTreeMap<String, Vec<LockedVersion>>,
}

/// A version of a package in a lockfile. A universal lockfile may hold several, each for some of the machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedVersion {
    /// The version, as PEP 440 writes it.
    pub version: String,
    /// The environment marker of PEP 508 under which it counts; absent means always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
}

impl LockedVersion {
    /// A version that counts on every machine.
    pub fn always(version: impl Into<String>) -> Self {
        Self { version: version.into(), marker: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_form_is_exact() {
        let text = r#"{"version":">=3.9","packages":{"a-b":[{"version":"1.0"},{"version":"2","marker":"os_name == 'nt'"}]}}"#;
        let facts: LanguageFacts = serde_json::from_str(text).unwrap();
        assert_eq!(facts.packages["a-b"][0], LockedVersion::always("1.0"));
        assert_eq!(serde_json::to_string(&facts).unwrap(), text);
        assert!(serde_json::from_str::<LanguageFacts>(&text.replace("\"marker\"", "\"mark\"")).is_err());
    }
}
