//! From an artifact to a sandbox.

use std::sync::Arc;

use provider_core::{
    contract::SANDBOX_V1,
    environment::Artifact,
    error::{Code, Result},
    lifecycle::{Creator, ResourceKind},
    provider::{LaunchOptions, Launched},
};

use crate::{
    blocking::blocking,
    boxes::{self, Shape},
    driver::Inner,
    engine::Purpose,
    errors::{again_as, error},
    layers, record,
    sandbox::LocalSandbox,
};

pub(crate) async fn launch(
    inner: Arc<Inner>,
    artifact: Artifact,
    options: LaunchOptions,
    creator: Creator,
) -> Result<Launched> {
    if artifact.contract != SANDBOX_V1.name {
        let words = format!("the artifact {artifact} is of the contract {:?}", artifact.contract);
        return Err(error(Code::CapabilityUnsupported, words)
            .with_advice(format!("build it for {}", SANDBOX_V1.name)));
    }
    let life = options.lifetime;
    let finding = Arc::clone(&inner);
    let shape = blocking(move || shape(&finding, &artifact, options)).await?;
    let (starting, shape) = (Arc::clone(&inner), Arc::new(shape));
    let thing = creator
        .create(ResourceKind::Sandbox, "sandbox", move |intent| {
            boxes::start(Arc::clone(&starting), Arc::clone(&shape), intent)
        })
        .await
        .map_err(|error| match error.code() {
            Code::NotFound => again_as(Code::ArtifactMissing, error),
            _ => error,
        })?;
    let held = inner.boxes.held(&thing.id)?;
    if let Some(life) = life {
        inner.keeper.end_after(&thing.id, life)?;
    }
    Ok(Launched { sandbox: Arc::new(LocalSandbox::new(&inner, held)), owned: vec![thing] })
}

/// What the sandbox is to be. Blocks.
fn shape(inner: &Inner, artifact: &Artifact, options: LaunchOptions) -> Result<Shape> {
    let (layers, body) = record::load(&inner.engine, artifact)?;
    let base = inner.bases.unchanged(&inner.engine, &body.base, &body.base_fingerprint)?;
    layers::use_for_launch(inner, artifact, &layers)?;
    let mut env_vars = SANDBOX_V1.base_env_vars();
    env_vars.extend(artifact.env_vars.clone());
    env_vars.extend(options.env_vars);
    if let Some((name, _)) = env_vars
        .iter()
        .find(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0'))
    {
        let words = format!("variable {name:?} has no valid name or its value holds a NUL");
        return Err(error(Code::SpecInvalid, words));
    }
    Ok(Shape {
        purpose: Purpose::Run,
        base,
        layers: layers.iter().map(|layer| layer.key().clone()).collect(),
        secrets: Vec::new(),
        inputs: Vec::new(),
        reserved: vec![SANDBOX_V1.reserved_path.to_owned()],
        env_vars: Arc::new(env_vars),
    })
}
