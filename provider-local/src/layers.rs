//! Which layers are cache, and which go with their artifact.

use provider_core::error::Result;

use crate::{
    errors::from_store,
    store::{Layer, LayerKey, Store},
};

const PRIVATE: &str = "private";

/// What is written beside a layer. A private one may hold what came of a secret of its build.
pub(crate) fn meta(step: &str, private: bool) -> serde_json::Value {
    serde_json::json!({ "step": step, PRIVATE: private })
}

fn is_private(layer: &Layer) -> bool {
    layer.meta()[PRIVATE] == true
}

/// Removes the private layers that no artifact needs and nobody uses. Blocks.
///
/// # Errors
/// [`Code::MachineUnsuitable`](provider_core::error::Code) if the store cannot be read or written.
pub(crate) fn remove_private(store: &Store) -> Result<()> {
    let layers = store.layers().map_err(from_store)?;
    if !layers.iter().any(is_private) {
        return Ok(());
    }
    let cache: Vec<LayerKey> =
        layers.iter().filter(|layer| !is_private(layer)).map(|layer| layer.key().clone()).collect();
    store.collect(&cache).map(|_| ()).map_err(from_store)
}
