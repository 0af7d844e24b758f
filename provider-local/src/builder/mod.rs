//! From an Environment to an artifact: layers, each made in a build box of its own, and a record that names them.

mod accounts;
mod commands;
mod findings;
mod key;
mod log;
mod process;
mod python;
mod steps;
mod tree;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use provider_core::{
    environment::BuildRequest,
    error::{Code, Result},
    lifecycle::{Clock as _, Creator, Progress, ResourceKind, SystemClock},
    provider::Built,
};

use crate::{
    blocking::blocking,
    boxes::{self, Shape},
    driver::Inner,
    engine::{Base, Purpose},
    errors::{again_as, error, from_engine, from_store},
    layers::{self, Reuse},
    record,
    store::{Layer, LayerKey, LayerLock, StoreError},
};
pub(crate) use findings::findings;
pub(crate) use python::Installers;
use steps::Step;

/// The layers of one build so far. Their locks are held until the record was put, so that no collection takes a layer
/// away in between.
struct Stack {
    layers: Vec<Layer>,
    locks: Vec<Arc<LayerLock>>,
}

/// Builds an artifact. When the future is dropped, the guards that it holds have all that it made deleted; whole
/// layers stay as cache, and half ones never come to be.
///
/// # Errors
/// [`Code::BuildFailed`] naming the step; [`Code::ArtifactMissing`] if the base has changed since it was pinned; those
/// of the engine.
pub(crate) async fn build(
    inner: Arc<Inner>,
    request: Arc<BuildRequest>,
    creator: Creator,
    progress: Progress,
) -> Result<Built> {
    let base = pinned_base(&inner, &request).await?;
    let mut stack = Stack { layers: Vec::new(), locks: Vec::new() };
    let (planning, asked) = (Arc::clone(&inner), Arc::clone(&request));
    for step in blocking(move || Step::of(&planning, &asked)).await? {
        progress.stage(step.name());
        let parts = key::Parts {
            real_ids: inner.real_ids,
            base: request.base().fingerprint(),
            parent: stack.layers.last().map(Layer::key),
            step: step.parts(),
        };
        let key = parts.key()?;
        let lock = lock(&inner, &key, &progress).await?;
        let layer = match reusable(&inner, step.name(), &lock, &progress).await? {
            Some(layer) => layer,
            None => {
                let work = Work { inner: &inner, creator: &creator, progress: &progress, base: &base };
                work.build_layer(step, &stack.layers, Arc::clone(&lock)).await?
            }
        };
        stack.layers.push(layer);
        stack.locks.push(lock);
    }
    // What changed meanwhile below the layers would not be what the record says.
    pinned_base(&inner, &request).await?;
    progress.stage("record");
    publish(inner, request, creator, stack).await
}

/// Names the layers in a record, which is the artifact.
async fn publish(
    inner: Arc<Inner>,
    request: Arc<BuildRequest>,
    creator: Creator,
    stack: Stack,
) -> Result<Built> {
    let (built, expires) = (SystemClock::new().now(), creator.expires());
    let (layers, locks) = (Arc::new(stack.layers), Arc::new(stack.locks));
    let (asked, below, store) = (Arc::clone(&request), Arc::clone(&layers), inner.engine.store().clone());
    let thing = creator
        .create(ResourceKind::Artifact, "record", move |intent| {
            let (request, layers) = (Arc::clone(&asked), Arc::clone(&below));
            let (store, locks) = (store.clone(), Arc::clone(&locks));
            let thing = intent.made(intent.name().to_string());
            blocking(move || {
                let (record, _) = record::describe(&request, &layers, &thing, built, expires)?;
                let put = store.put_record(&thing.id, &record).map_err(from_store);
                drop(locks);
                // A layer that is gone does not come back by asking again.
                put.map_err(|error| match error.code() {
                    Code::ArtifactMissing => again_as(Code::NotFound, error),
                    _ => error,
                })?;
                Ok(thing.into())
            })
        })
        .await?;
    let (_, artifact) = record::describe(&request, &layers, &thing, built, expires)?;
    Ok(Built { artifact, owned: vec![thing] })
}

/// The base that was asked for and pinned, if it is still the same.
async fn pinned_base(inner: &Arc<Inner>, request: &Arc<BuildRequest>) -> Result<Base> {
    let (asked, pin) = (&request.spec().spec.base.name, request.base());
    if pin.is_pinned() || pin.name() != asked {
        let words = format!("the Environment asks for base {asked:?}, and the pinned one is {pin}");
        return Err(error(Code::SpecInvalid, words).with_advice("pin the base with LocalProvider::pin_base"));
    }
    let (inner, request) = (Arc::clone(inner), Arc::clone(request));
    blocking(move || {
        let pin = request.base();
        inner.bases.unchanged(&inner.engine, pin.name(), pin.fingerprint())
    })
    .await
}

/// The right to build a layer. Another builder may have it for as long as its build takes, so this waits in short
/// pieces, between which the future can be dropped.
async fn lock(inner: &Arc<Inner>, key: &LayerKey, progress: &Progress) -> Result<Arc<LayerLock>> {
    const PIECE: Duration = Duration::from_millis(200);
    let mut told = false;
    loop {
        let (store, wanted) = (inner.engine.store().clone(), key.clone());
        let locked = blocking(move || match store.lock_layer(&wanted, PIECE) {
            Ok(lock) => Ok(Some(lock)),
            Err(StoreError::Locked { .. }) => Ok(None),
            Err(source) => Err(from_store(source)),
        });
        if let Some(lock) = locked.await? {
            return Ok(Arc::new(lock));
        }
        if !told {
            progress.waiting("another build of the same layer");
            told = true;
        }
    }
}

/// The layer of an earlier build, if there is one and it is still what was built.
async fn reusable(
    inner: &Arc<Inner>,
    step: &str,
    lock: &Arc<LayerLock>,
    progress: &Progress,
) -> Result<Option<Layer>> {
    let (looking, lock) = (Arc::clone(inner), Arc::clone(lock));
    match blocking(move || layers::reusable(&looking, &lock)).await? {
        Reuse::None => Ok(None),
        Reuse::Layer(layer) => {
            progress.log(format!("{step}: a layer that was built before is used"));
            Ok(Some(layer))
        }
        Reuse::Discarded(why) => {
            progress.log(format!(
                "{step}: the layer of an earlier build is not what was built, and is built again: {why}"
            ));
            Ok(None)
        }
    }
}

/// What the layers of one build share.
struct Work<'a> {
    inner: &'a Arc<Inner>,
    creator: &'a Creator,
    progress: &'a Progress,
    base: &'a Base,
}

impl Work<'_> {
    /// Makes one layer in a build box of its own, which is gone when this returns, or going if a step failed.
    async fn build_layer(&self, step: Step, below: &[Layer], lock: Arc<LayerLock>) -> Result<Layer> {
        let step = Arc::new(step);
        let asked = Arc::clone(&step);
        let mut supplies = blocking(move || asked.supplies()).await?;
        let shape = Arc::new(Shape {
            purpose: Purpose::Build,
            base: self.base.clone(),
            layers: below.iter().map(|layer| layer.key().clone()).collect(),
            secrets: std::mem::take(&mut supplies.secrets),
            inputs: std::mem::take(&mut supplies.inputs),
            reserved: Vec::new(),
            env_vars: Arc::new(BTreeMap::new()),
        });
        let inner = Arc::clone(self.inner);
        let owned = self
            .creator
            .create(ResourceKind::Intermediate, "build box", move |intent| {
                boxes::start(Arc::clone(&inner), Arc::clone(&shape), intent)
            })
            .await
            .map_err(|error| match error.code() {
                Code::NotFound => again_as(Code::ArtifactMissing, error),
                _ => error,
            })?;
        let running = self.inner.boxes.held(&owned.id)?.running;
        let meta = layers::meta(step.name(), step.is_private());
        // After a failure the step's own error is what the caller waits for, so the guard is only dropped: the session
        // deletes the box in the background, and its close reports one that does not go away.
        step.run(self.inner, &running, self.progress, supplies).await?;
        let layer = blocking(move || running.publish(&lock, meta).map_err(from_engine)).await?;
        self.inner.verified.add(&layer);
        owned.close().await?;
        Ok(layer)
    }
}
