//! Packages for builds, and the requests that ask for them.

use std::fs;

use provider_core::{
    environment::{
        BuildRequest, Environment, EnvironmentSpec, InstallerVariables, Lockfile, PIP, sha256_hex,
    },
    secret::SecretSet,
};

use crate::{common::*, wheels};

/// A folder of packages, and what a build with it is asked for.
pub(crate) struct Shelf {
    pub(crate) folder: tempfile::TempDir,
    /// Lines of the lockfile.
    pub(crate) pins: Vec<String>,
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl Shelf {
    /// With the pinned pip, from which alone everything is installed; no index is asked. Its place and a password
    /// must not be seen.
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix(CANARY).tempdir().expect("a temporary folder");
        let pip = wheels::pip().expect("the pinned pip");
        fs::copy(pip, folder.path().join(PIP.file)).expect("a copy");
        let variables = vec![
            ("PIP_NO_INDEX", "1".to_owned()),
            ("PIP_FIND_LINKS", format!("/no/such/folder {}", folder.path().display())),
            ("PIP_EXTRA_INDEX_URL", format!("https://someuser:{CANARY}@index.invalid/simple")),
        ];
        let pins = vec![pin(PIP.name, PIP.version, PIP.sha256)];
        Self { folder, pins, variables }
    }

    /// Puts a package on the shelf and into the lockfile.
    pub(crate) fn with(mut self, name: &str, version: &str, tag: &str) -> Self {
        let (file, bytes) = wheels::wheel(name, version, tag);
        self.pins.push(pin(&name.replace('_', "-"), version, &sha256_hex(&bytes)));
        fs::write(self.folder.path().join(file), bytes).expect("a file");
        self
    }

    pub(crate) fn demo() -> Self {
        Self::new().with("demo_pkg", "1.2", "py3-none-any")
    }

    pub(crate) fn set(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.retain(|(other, _)| *other != name);
        self.variables.push((name, value.into()));
        self
    }

    pub(crate) fn unset(mut self, name: &'static str) -> Self {
        self.variables.retain(|(other, _)| *other != name);
        self
    }

    pub(crate) fn request(&self, world: &World, spec: EnvironmentSpec) -> BuildRequest {
        request(world, spec, &self.pins, &self.variables)
    }
}

pub(crate) fn request(
    world: &World,
    spec: EnvironmentSpec,
    pins: &[String],
    variables: &[(&'static str, String)],
) -> BuildRequest {
    let inputs = spec.inputs_digest().expect("a digest");
    let text = format!("# provider-lock: v1\n# provider-inputs: {inputs}\n{}", pins.concat());
    let lockfile = Lockfile::from_text(text).expect("a lockfile");
    let base = world.driver.pin_base(&spec.spec.base.name).expect("a base");
    let environment = Environment::new(spec, None).expect("an environment");
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    BuildRequest::new(environment, lockfile, base, SecretSet::new())
        .expect("a request")
        .with_installer_variables(InstallerVariables::of(variables))
}

pub(crate) fn pin(name: &str, version: &str, hash: &str) -> String {
    format!("{name}=={version} \\\n    --hash=sha256:{hash}\n")
}
