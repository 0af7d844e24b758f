//! What an Environment promises about its language.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What an Environment promises about its language, for the checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LanguageFacts {
    /// The versions that will do (PEP 440), such as `>=3.9`.
    pub version: String,
    /// The direct dependencies by normalised name, each with the versions of the lockfile.
    pub packages: BTreeMap<String, Vec<LockedVersion>>,
}

/// A version of a package that a lockfile names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedVersion {
    /// The version.
    pub version: String,
    /// For which Python and system (PEP 508); absent means for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
}
