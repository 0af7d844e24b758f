//! The record of an artifact, and the reference that names exactly its content.

use provider_core::{
    environment::{Artifact, BuildRequest, sha256_hex},
    error::{Code, Error, Result},
};
use serde::{Deserialize, Serialize};

use crate::{
    engine::Engine,
    errors::{error, from_store},
    store::{LayerKey, Record, StoreError},
};

/// The version of the record's form.
const VERSION: u32 = 1;

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
}

impl Body {
    pub(crate) fn of(request: &BuildRequest) -> Result<Self> {
        Ok(Self {
            version: VERSION,
            environment: request.spec().metadata.name.clone(),
            contract: request.spec().spec.contract.clone(),
            base: request.base().name().to_owned(),
            base_fingerprint: request.base().fingerprint().to_owned(),
            spec_digest: request.spec().digest()?,
            lockfile_digest: request.lockfile().digest().to_owned(),
        })
    }

    /// The record with these layers, the lowest first.
    pub(crate) fn record(&self, layers: &[LayerKey]) -> Result<Record> {
        let body = serde_json::to_value(self).map_err(|source| {
            error(Code::Internal, "the record of the artifact has no form").with_source(source)
        })?;
        Ok(Record { layers: layers.to_vec(), body })
    }
}

/// The reference of a record: its name, and the digest of all that it says.
///
/// # Errors
/// [`Code::Internal`] if the record has no form, which does not happen.
pub(crate) fn reference(name: &str, record: &Record) -> Result<String> {
    let text = serde_json::to_vec(record).map_err(|source| {
        error(Code::Internal, "the record of the artifact has no form").with_source(source)
    })?;
    Ok(format!("{name}@sha256:{}", sha256_hex(&text)))
}

/// A record as it was built, with all its layers. Blocks.
///
/// # Errors
/// [`Code::ArtifactMissing`] if it or a layer is gone, or if it does not say what it said when it was built.
pub(crate) fn load(engine: &Engine, artifact: &Artifact) -> Result<(Vec<LayerKey>, Body)> {
    let (name, reference_says) = (&artifact.thing.id, &artifact.reference);
    let record = match engine.store().record(name) {
        Ok(Some(record)) => record,
        Ok(None) => return Err(missing(artifact, "its record is gone")),
        Err(source @ StoreError::Unreadable { .. }) => {
            return Err(missing(artifact, "its record cannot be understood").with_source(source));
        }
        Err(source) => return Err(from_store(source)),
    };
    if reference(name, &record)? != *reference_says {
        return Err(missing(artifact, "its record is not the one that was built"));
    }
    let body: Body = serde_json::from_value(record.body)
        .map_err(|source| missing(artifact, "its record is of another version").with_source(source))?;
    if body.version != VERSION {
        return Err(missing(artifact, "its record is of another version"));
    }
    for key in &record.layers {
        if engine.store().layer(key).map_err(from_store)?.is_none() {
            return Err(missing(artifact, "one of its layers is gone").with_context("layer", key.as_str()));
        }
    }
    Ok((record.layers, body))
}

fn missing(artifact: &Artifact, why: &str) -> Error {
    error(Code::ArtifactMissing, format!("the artifact {artifact} cannot be used: {why}"))
        .with_advice("build it again")
}
