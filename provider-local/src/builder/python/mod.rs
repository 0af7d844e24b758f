//! The Python of an Environment: a virtual environment with exactly the packages of the lockfile.

mod base;
mod errors;
mod failure;
mod fixed;
mod install;
mod own;
mod variables;
mod ways;

use std::sync::Arc;

use provider_core::{
    contract::SANDBOX_V1,
    environment::{BuildRequest, PIP},
    error::{Code, Result},
    lifecycle::Progress,
};
use serde_json::json;

use crate::{
    driver::Inner,
    engine::{BuildInput, RunningBox},
    errors::error,
};
pub(super) use variables::Supplies;
use ways::Choice;
pub(crate) use ways::Installers;

/// Changes when the same lockfile would be installed in another way.
const VERSION: u32 = 1;
/// The name of `uv` among the inputs.
const UV_INPUT: &str = "uv";

/// An installation, as it is decided before a box starts.
pub(super) struct Installation {
    request: Arc<BuildRequest>,
    choice: Choice,
}

impl Installation {
    /// What a request asks for; `None` if it names no language. Blocks: the first call asks `uv` for its version.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] if the lockfile has no installer; [`Code::CapabilityUnsupported`] if the Environment's
    /// manager cannot be had.
    pub(super) fn of(inner: &Inner, request: &Arc<BuildRequest>) -> Result<Option<Self>> {
        if !request.spec().names_language() {
            return Ok(None);
        }
        if !request.lockfile().by_name().contains_key(PIP.name) {
            let words =
                format!("the lockfile does not pin {}, which every artifact with a language has", PIP.name);
            return Err(error(Code::SpecInvalid, words).with_advice("resolve again: `matrix resolve`"));
        }
        let choice = inner.installers.choose(request.spec().spec.packages.python.manager)?;
        Ok(Some(Self { request: Arc::clone(request), choice }))
    }

    /// What the layer's content depends on. The variables of installers are no part of it: they say how files are
    /// fetched, and the lockfile says which.
    pub(super) fn parts(&self) -> serde_json::Value {
        let spec = &self.request.spec().spec;
        json!({
            "python": VERSION,
            "lockfile": self.request.lockfile().text(),
            "language": spec.language,
            "installers": self.choice.key(),
            "venv": SANDBOX_V1.venv,
            "path": spec.env.get("PATH"),
        })
    }

    /// What the box is given. Looks at files, so it blocks.
    ///
    /// # Errors
    /// Those of [`Supplies::of`].
    pub(super) fn prepare(&self) -> Result<Supplies> {
        let indexes = &self.request.spec().spec.packages.python.indexes;
        let mut passed = Supplies::of(self.request.installer_variables(), indexes)?;
        let uv = self.choice.uv.iter().filter(|uv| uv.path.exists());
        passed.inputs.extend(uv.map(|uv| BuildInput::new(UV_INPUT, &uv.path)));
        Ok(passed)
    }

    /// Makes the environment in a build box that was given what [`Installation::prepare`] says.
    ///
    /// # Errors
    /// [`Code::BuildFailed`] naming the package or what the base lacks; [`Code::SpecInvalid`] if the base's Python is
    /// not of a version that was asked for; [`Code::PackageNotFound`]; [`Code::ConnectionFailed`] and
    /// [`Code::Unauthenticated`] naming the host; [`Code::MachineUnsuitable`] if the disk is full.
    pub(super) async fn run(
        &self,
        inner: &Inner,
        running: &RunningBox,
        progress: &Progress,
        passed: Supplies,
    ) -> Result<()> {
        install::Work::new(self, inner.real_ids, running, progress, passed).run().await
    }
}

/// Gives what commands left in the environment of this request to its user, to whom all of it belongs.
///
/// # Errors
/// [`Code::BuildFailed`] with the reason.
pub(super) async fn own_what_commands_left(
    request: &BuildRequest,
    inner: &Inner,
    running: &RunningBox,
    progress: &Progress,
) -> Result<()> {
    if !request.spec().names_language() {
        return Ok(());
    }
    let python = format!("{}/bin/{}", SANDBOX_V1.venv, SANDBOX_V1.python);
    own::own(running, inner.real_ids, &python, progress).await
}
