//! Which layers are cache, which go with their artifact, and which are known to be what was built.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use provider_core::{
    environment::Artifact,
    error::{Code, Error, Result},
    provider::Finding,
};

use crate::{
    driver::Inner,
    errors::{error, from_store},
    record,
    store::{Differences, Layer, LayerKey, Store},
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
/// [`Code::MachineUnsuitable`] if the store cannot be read or written.
pub(crate) fn remove_private(store: &Store) -> Result<()> {
    let layers = store.layers().map_err(from_store)?;
    if !layers.iter().any(is_private) {
        return Ok(());
    }
    let cache: Vec<LayerKey> =
        layers.iter().filter(|layer| !is_private(layer)).map(|layer| layer.key().clone()).collect();
    store.collect(&cache).map(|_| ()).map_err(from_store)
}

/// The layers that this process has compared with what was built, or has built itself, by key and digest.
#[derive(Debug, Default)]
pub(crate) struct Verified(Mutex<HashSet<(LayerKey, String)>>);

impl Verified {
    fn layers(&self) -> MutexGuard<'_, HashSet<(LayerKey, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, layer: &Layer) -> bool {
        self.layers().contains(&mark(layer))
    }

    pub(crate) fn add(&self, layer: &Layer) {
        self.layers().insert(mark(layer));
    }

    fn remove(&self, layer: &Layer) {
        self.layers().remove(&mark(layer));
    }
}

fn mark(layer: &Layer) -> (LayerKey, String) {
    (layer.key().clone(), layer.digest().to_owned())
}

/// What of a layer is not as it was built. Reads all of it, at its first use by this process. Blocks.
///
/// # Errors
/// [`Code::MachineUnsuitable`] if the layer cannot be read at all.
pub(crate) fn differences(inner: &Inner, layer: &Layer) -> Result<Differences> {
    if inner.verified.has(layer) {
        return Ok(Differences::default());
    }
    look_again(inner, layer)
}

fn look_again(inner: &Inner, layer: &Layer) -> Result<Differences> {
    let differences = inner.engine.store().verify_layer(layer).map_err(from_store)?;
    if differences.is_empty() {
        inner.verified.add(layer);
    } else {
        inner.verified.remove(layer);
    }
    Ok(differences)
}

/// Refuses layers that are not what was built, and notes the use of the others. Blocks.
///
/// # Errors
/// [`Code::ArtifactMissing`] naming the layer and what differs first.
pub(crate) fn use_for_launch(inner: &Inner, artifact: &Artifact, layers: &[Layer]) -> Result<()> {
    for layer in layers {
        let differences = differences(inner, layer)?;
        if !differences.is_empty() {
            let words = format!("its layer {} is not what was built: {differences}", layer.key());
            return Err(record::missing(artifact, &words));
        }
        inner.engine.store().touch_layer(layer);
    }
    Ok(())
}

/// Everything of an artifact that is not as it was built. Reads all of its layers. Blocks.
///
/// # Errors
/// [`Code::MachineUnsuitable`] if the store cannot be read.
pub(crate) fn verify(inner: &Inner, artifact: &Artifact) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let stack = match record::read(&inner.engine, artifact) {
        Ok((stack, _)) => stack,
        Err(error) => return told("record", error).map(|finding| vec![finding]),
    };
    for (key, digest) in &stack {
        let place = format!("layer {key}");
        match record::layer(&inner.engine, artifact, key, digest) {
            Ok(layer) => findings.extend(all_of(&place, &look_again(inner, &layer)?)),
            Err(error) => findings.push(told(place, error)?),
        }
    }
    Ok(findings)
}

fn told(place: impl Into<String>, error: Error) -> Result<Finding> {
    match error.code() {
        Code::ArtifactMissing => Ok(Finding::new(place, Code::ArtifactMissing, words_of(&error))),
        _ => Err(error),
    }
}

fn words_of(error: &Error) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}"));
    format!("{}{}; {}", error.message(), source.unwrap_or_default(), error.advice())
}

fn all_of(place: &str, differences: &Differences) -> Vec<Finding> {
    let finding = |place: String, words: String| Finding::new(place, Code::ArtifactMissing, words);
    let listed = differences.listed.iter();
    let mut findings: Vec<Finding> =
        listed.map(|one| finding(format!("{place}: {}", one.path), one.words.clone())).collect();
    let unlisted = differences.total.saturating_sub(findings.len() as u64);
    if unlisted > 0 {
        findings.push(finding(place.to_owned(), format!("{unlisted} more things differ")));
    }
    findings
}

/// A layer for a build, if there is one and it is what was built. One that is not is removed. Blocks.
///
/// # Errors
/// [`Code::BuildFailed`] naming it, if it would have to be removed and an artifact or a box needs it.
pub(crate) fn reusable(inner: &Inner, lock: &crate::store::LayerLock) -> Result<Reuse> {
    use crate::store::StoreError;
    let store = inner.engine.store();
    let why = match store.layer(lock.key()) {
        Ok(None) => return Ok(Reuse::None),
        Ok(Some(layer)) => {
            let differences = differences(inner, &layer)?;
            if differences.is_empty() {
                store.touch_layer(&layer);
                return Ok(Reuse::Layer(layer));
            }
            differences.to_string()
        }
        Err(unreadable @ StoreError::Unreadable { .. }) => unreadable.to_string(),
        Err(source) => return Err(from_store(source)),
    };
    match store.discard_layer(lock) {
        Ok(_) => Ok(Reuse::Discarded(why)),
        Err(StoreError::LayerInUse { key, user }) => {
            let words = format!(
                "{user} uses the layer {key} of an earlier build, which is not what was built: {why}"
            );
            Err(error(Code::BuildFailed, words).with_advice(format!("delete {user}, and build again")))
        }
        Err(source) => Err(from_store(source)),
    }
}

/// What a build can use.
pub(crate) enum Reuse {
    /// A layer of an earlier build.
    Layer(Layer),
    /// There is none.
    None,
    /// There was one that differed in this way, and it was removed.
    Discarded(String),
}
