//! From requirements to a lockfile.
//!
//! A [`ResolveRunner`] answers the text of a requirements list with hashes; here it is asked, and what it answers is
//! believed only after it has been checked.

mod answer;
mod clauses;
mod process;
mod resolution;
mod uv;
mod words;

pub use resolution::{Resolution, pin_bases, resolve_for};
pub use uv::UvRunner;

use std::fmt;

use async_trait::async_trait;

use super::{EnvironmentSpec, Lockfile, PROTECTED, PinnedPackage, Requirement, packages::OLDEST_MINOR};
use crate::{error::Result, provider::Finding};

/// What is to be resolved. It was checked: no part of it is an option, a path, an address of a package or a credential.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResolveInputs {
    /// Requirements (PEP 508) in the order of the specification, and behind them what is pinned in any case.
    pub requirements: Vec<String>,
    /// Versions of packages that others bring along (PEP 508).
    pub constraints: Vec<String>,
    /// Addresses of indexes that are asked, the first first, in place of the public one; none means the public one.
    pub indexes: Vec<String>,
    /// The oldest version of Python that must be served, such as `3.9`; absent without a language.
    pub python: Option<String>,
    /// Packages of the distribution, as `name` or `name=version`.
    pub apt: Vec<String>,
}

impl ResolveInputs {
    /// What this specification asks for.
    fn of(spec: &EnvironmentSpec) -> Self {
        let packages = &spec.spec.packages;
        let language = spec.spec.language.as_ref();
        let pins = protected(spec).iter().map(|pin| format!("{}=={}", pin.name, pin.version));
        let oldest = |minor: Option<u32>| format!("3.{}", minor.unwrap_or(OLDEST_MINOR));
        Self {
            requirements: packages.python.dependencies.iter().cloned().chain(pins).collect(),
            constraints: packages.python.constraints.clone(),
            indexes: packages.python.indexes.clone(),
            python: language.map(|language| oldest(language.oldest_minor())),
            apt: packages.system.apt.clone(),
        }
    }
}

/// What is pinned whatever the specification asks for.
fn protected(spec: &EnvironmentSpec) -> &'static [PinnedPackage] {
    if spec.names_language() { &PROTECTED } else { &[] }
}

/// Something that resolves requirements: a program of this machine, or a service.
#[async_trait]
pub trait ResolveRunner: fmt::Debug + Send + Sync {
    /// The text of a requirements list: each package pinned to one version with its hashes, as `pip install
    /// --require-hashes -r` reads it, for each Python from the oldest on and each system. Comments are passed over,
    /// apart from `# provider-apt: name=version`, one for each package of the distribution that was asked for.
    ///
    /// The future may be dropped at any await; what was started for it must then end.
    ///
    /// # Errors
    /// [`Code::CapabilityUnsupported`](crate::error::Code::CapabilityUnsupported) for what this runner cannot
    /// resolve; `PackageNotFound` and `ResolveConflict` naming the packages; errors of the connection.
    async fn run(&self, inputs: &ResolveInputs) -> Result<String>;
}

/// Resolves the packages of a specification. The same answers of the runner give the same bytes. The runner is asked
/// at most once, and not at all where there is nothing to resolve.
///
/// Cancel safe: nothing is kept.
///
/// # Errors
/// [`Code::SpecInvalid`](crate::error::Code::SpecInvalid) and `ProtectedPackage` for a wrong specification, before
/// the runner is asked; those of the runner; `ProtectedPackage` if the answer has another version of what is pinned;
/// `ProviderError` naming the place in an answer that cannot be used.
pub async fn resolve(spec: &EnvironmentSpec, runner: &dyn ResolveRunner) -> Result<Lockfile> {
    Finding::refuse_all(&spec.check())?;
    let packages = &spec.spec.packages;
    if packages.python.dependencies.is_empty() && packages.system.apt.is_empty() {
        return match spec.spec.needs_packages() {
            true => Lockfile::of_installer(spec),
            false => Ok(Lockfile::without_packages()),
        };
    }
    let inputs = ResolveInputs::of(spec);
    let answer = runner.run(&inputs).await.map_err(|error| error.with_operation("resolve"))?;
    let lockfile = answer::lockfile(spec, &answer).map_err(|error| error.with_operation("resolve"))?;
    tracing::info!(
        environment = spec.metadata.name,
        packages = lockfile.packages().len(),
        digest = lockfile.digest(),
        "resolved"
    );
    Ok(lockfile)
}

/// The requirements of the specification, read. They were checked before.
fn requirements(spec: &EnvironmentSpec) -> impl Iterator<Item = Requirement> {
    spec.spec.packages.python.dependencies.iter().filter_map(|text| Requirement::parse(text).ok())
}

#[cfg(test)]
mod tests;
