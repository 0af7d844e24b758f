//! What a collection of the cache is to spare, and what it did.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a collection of the cache is to spare. The default spares only what is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CacheLimits {
    /// Only layers that no build and no launch has used for this long are removed.
    pub older_than: Option<Duration>,
    /// Nothing is removed; the report says what would be.
    pub dry_run: bool,
}

impl CacheLimits {
    /// Spares what was used within this time.
    #[must_use]
    pub fn older_than(mut self, time: Duration) -> Self {
        self.older_than = Some(time);
        self
    }

    /// Only looks.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// What a collection of the cache did, or would do. Layers are told by their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CacheReport {
    /// Whether nothing was removed, since it was asked only what would be.
    pub dry_run: bool,
    /// The layers that were removed.
    pub removed: Vec<RemovedLayer>,
    /// The disk space that they took, in bytes.
    pub removed_bytes: u64,
    /// Layers that stay since the record of an artifact needs them.
    pub kept_for_artifacts: Vec<String>,
    /// Layers that stay since a box stands on them, or a build makes or uses them.
    pub kept_in_use: Vec<String>,
    /// Layers that stay since they were used of late.
    pub kept_recent: Vec<String>,
}

/// A layer that a collection removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RemovedLayer {
    /// Its key.
    pub key: String,
    /// The disk space that it took, in bytes.
    pub bytes: u64,
}

#[cfg(embedded)]
impl CacheReport {
    pub(crate) fn new(limits: &CacheLimits, collected: crate::store::Collected) -> Self {
        let keys = |keys: Vec<crate::store::LayerKey>| keys.into_iter().map(String::from).collect();
        let removed = collected.layers.into_iter();
        Self {
            dry_run: limits.dry_run,
            removed: removed.map(|(key, bytes)| RemovedLayer { key: key.into(), bytes }).collect(),
            removed_bytes: collected.bytes,
            kept_for_artifacts: keys(collected.recorded),
            kept_in_use: keys(collected.busy),
            kept_recent: keys(collected.recent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_reports_have_a_form() {
        let limits: CacheLimits = serde_json::from_str(r#"{"dry_run": true}"#).unwrap();
        assert_eq!(limits, CacheLimits::default().dry_run());
        assert!(serde_json::from_str::<CacheLimits>(r#"{"older": 1}"#).is_err());
        let removed = vec![RemovedLayer { key: "k".into(), bytes: 7 }];
        let report = CacheReport { removed, removed_bytes: 7, ..CacheReport::default() };
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<CacheReport>(&text).unwrap(), report);
    }
}
