//! The name of a layer: a digest of all that its content depends on.

use provider_core::{
    environment::sha256_hex,
    error::{Code, Result},
};
use serde::Serialize;

use crate::{
    errors::{error, from_store},
    store::LayerKey,
};

/// Changes when the same step would make another content, and with the form of layers: with the engine's mask, the
/// driver's files and the manifest.
const LAYOUT: u32 = 2;

/// All that a layer's content depends on. It holds no value of a secret.
pub(super) struct Parts<'a> {
    pub(super) real_ids: bool,
    /// The base's fingerprint.
    pub(super) base: &'a str,
    pub(super) parent: Option<&'a LayerKey>,
    pub(super) step: serde_json::Value,
}

#[derive(Serialize)]
struct Hashed<'a> {
    layout: u32,
    version: &'static str,
    engine: &'static str,
    arch: &'static str,
    real_ids: bool,
    base: &'a str,
    parent: Option<&'a LayerKey>,
    step: &'a serde_json::Value,
}

impl Parts<'_> {
    /// The key.
    ///
    /// # Errors
    /// [`Code::Internal`] if the parts have no form, which does not happen.
    pub(super) fn key(&self) -> Result<LayerKey> {
        let hashed = Hashed {
            layout: LAYOUT,
            version: env!("CARGO_PKG_VERSION"),
            engine: "embedded",
            arch: std::env::consts::ARCH,
            real_ids: self.real_ids,
            base: self.base,
            parent: self.parent,
            step: &self.step,
        };
        let text = serde_json::to_vec(&hashed)
            .map_err(|source| error(Code::Internal, "the step has no form").with_source(source))?;
        LayerKey::new(sha256_hex(&text)).map_err(from_store)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_part_changes_the_key() {
        let parent = LayerKey::new("p").unwrap();
        let parts = || Parts { real_ids: true, base: "b", parent: None, step: json!({"files": ["a"]}) };
        let keys = [
            parts().key().unwrap(),
            Parts { real_ids: false, ..parts() }.key().unwrap(),
            Parts { base: "c", ..parts() }.key().unwrap(),
            Parts { parent: Some(&parent), ..parts() }.key().unwrap(),
            Parts { step: json!({"files": ["b"]}), ..parts() }.key().unwrap(),
        ];
        let different: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(different.len(), keys.len());
        assert_eq!(parts().key().unwrap(), keys[0]);
    }
}
