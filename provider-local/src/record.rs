//! The record of an artifact, and the reference that names exactly its content.

use provider_core::{
    environment::{Artifact, BuildRequest, sha256_hex},
    error::{Code, Error, Result},
    lifecycle::{ResourceRef, Timestamp},
};
use serde::{Deserialize, Serialize};

use crate::{
    engine::Engine,
    errors::{error, from_store},
    store::{Layer, LayerKey, Record, StoreError},
};

/// The version of the record's form.
const VERSION: u32 = 3;

/// What this driver writes into a record. No secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Body {
    version: u32,
    pub(crate) environment: String,
    pub(crate) contract: String,
    pub(crate) base: String,
    pub(crate) base_fingerprint: String,
    pub(crate) spec_digest: String,
    pub(crate) lockfile_digest: String,
    /// The digests of the layers' manifests, in the order of the layers.
    manifests: Vec<String>,
    /// What the artifact's own record says beside its reference.
    artifact: serde_json::Value,
}

impl Body {
    /// What is to be remembered of a build with these layers, the lowest first, that gives this artifact.
    fn of(request: &BuildRequest, layers: &[Layer], artifact: &Artifact) -> Result<Self> {
        Ok(Self {
            version: VERSION,
            environment: request.spec().metadata.name.clone(),
            contract: request.spec().spec.contract.clone(),
            base: request.base().name().to_owned(),
            base_fingerprint: request.base().fingerprint().to_owned(),
            spec_digest: request.spec().digest()?,
            lockfile_digest: request.lockfile().digest().to_owned(),
            manifests: layers.iter().map(|layer| layer.digest().to_owned()).collect(),
            artifact: artifact.facts()?,
        })
    }

    /// The record with the same layers.
    fn record(&self, layers: &[Layer]) -> Result<Record> {
        let body = serde_json::to_value(self).map_err(|source| {
            error(Code::Internal, "the record of the artifact has no form").with_source(source)
        })?;
        Ok(Record { layers: layers.iter().map(|layer| layer.key().clone()).collect(), body })
    }
}

/// The artifact of a build under this name, and the record in the store that its reference names. The record knows all
/// that the artifact says, so that neither can be changed alone.
///
/// # Errors
/// [`Code::Internal`] if one of them has no form, which does not happen.
pub(crate) fn describe(
    request: &BuildRequest,
    layers: &[Layer],
    thing: &ResourceRef,
    built: Timestamp,
    expires: Option<Timestamp>,
) -> Result<(Record, Artifact)> {
    let mut artifact = Artifact::of_build(request, thing, String::new(), built, expires)?;
    let record = Body::of(request, layers, &artifact)?.record(layers)?;
    artifact.reference = reference(&thing.id, &record)?;
    Ok((record, artifact))
}

/// The reference of a record: its name, and the digest of all that it says.
///
/// # Errors
/// [`Code::Internal`] if the record has no form, which does not happen.
fn reference(name: &str, record: &Record) -> Result<String> {
    let text = serde_json::to_vec(record).map_err(|source| {
        error(Code::Internal, "the record of the artifact has no form").with_source(source)
    })?;
    Ok(format!("{name}@sha256:{}", sha256_hex(&text)))
}

/// A layer, and the digest of its manifest.
pub(crate) type Pinned = (LayerKey, String);

/// A record as it was built, with all its layers. Blocks.
///
/// # Errors
/// [`Code::ArtifactMissing`] if it or a layer is gone, or if one of them does not say what it said when it was built.
/// What is in the layers is not looked at.
pub(crate) fn load(engine: &Engine, artifact: &Artifact) -> Result<(Vec<Layer>, Body)> {
    let (stack, body) = read(engine, artifact)?;
    let layers = stack.iter().map(|(key, digest)| layer(engine, artifact, key, digest));
    Ok((layers.collect::<Result<_>>()?, body))
}

/// A record as it was built, and what it says about its layers. Blocks.
///
/// # Errors
/// [`Code::ArtifactMissing`] if it is gone, of another version, or does not say what it said when it was built.
pub(crate) fn read(engine: &Engine, artifact: &Artifact) -> Result<(Vec<Pinned>, Body)> {
    let (name, reference_says) = (&artifact.thing.id, &artifact.reference);
    let record = match engine.store().record(name) {
        Ok(Some(record)) => record,
        Ok(None) => return Err(missing(artifact, "it was deleted, or swept when its time was over")),
        Err(source @ StoreError::Unreadable { .. }) => {
            return Err(missing(artifact, "its record cannot be understood").with_source(source));
        }
        Err(source) => return Err(from_store(source)),
    };
    if reference(name, &record)? != *reference_says {
        return Err(missing(artifact, "its record is not the one that was built"));
    }
    let of_another_version = || missing(artifact, "its record is of another version of this driver");
    if record.body["version"] != VERSION {
        return Err(of_another_version());
    }
    let body: Body =
        serde_json::from_value(record.body).map_err(|source| of_another_version().with_source(source))?;
    if body.manifests.len() != record.layers.len() {
        return Err(of_another_version());
    }
    let changed = artifact.differs_from(&body.artifact)?;
    if !changed.is_empty() {
        let words = format!("its record was changed after the build: {}", changed.join(", "));
        return Err(missing(artifact, &words).with_advice("use the record that the build gave"));
    }
    let stack = record.layers.into_iter().zip(body.manifests.iter().cloned()).collect();
    Ok((stack, body))
}

/// One of the layers that a record names. Blocks.
///
/// # Errors
/// [`Code::ArtifactMissing`] if it is gone or another one.
pub(crate) fn layer(engine: &Engine, artifact: &Artifact, key: &LayerKey, digest: &str) -> Result<Layer> {
    let missing = |why: &str| missing(artifact, why).with_context("layer", key.as_str());
    match engine.store().layer(key) {
        Ok(Some(layer)) if layer.digest() == digest => Ok(layer),
        Ok(Some(_)) => Err(missing("the meta.json of one of its layers is not the one that was built")),
        Ok(None) => Err(missing("one of its layers is gone")),
        Err(source @ StoreError::Unreadable { .. }) => {
            Err(missing("the meta.json of one of its layers cannot be understood").with_source(source))
        }
        Err(source) => Err(from_store(source)),
    }
}

/// An artifact that cannot be used.
pub(crate) fn missing(artifact: &Artifact, why: &str) -> Error {
    error(Code::ArtifactMissing, format!("the artifact {artifact} cannot be used: {why}"))
        .with_advice("build it again")
}
