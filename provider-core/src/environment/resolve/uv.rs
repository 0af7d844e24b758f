//! Resolving with the `uv` of this machine.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use tokio::process::Command;

use super::{
    ResolveInputs, ResolveRunner,
    process::{self, Caps},
    words::{self, Words},
};
use crate::{
    config::program_on_path,
    environment::{InstallerVariables, Lockfile},
    error::{Code, Error, Result},
    lifecycle::{Clock, SystemClock, timeout},
};

const PROGRAM: &str = if cfg!(windows) { "uv.exe" } else { "uv" };
/// How long one resolve may take.
const LIMIT: Duration = Duration::from_secs(600);
const CAPS: Caps = Caps { stdout: Lockfile::TEXT_MAX, stderr: 256 << 10 };
const REQUIREMENTS: &str = "requirements.in";
const CONSTRAINTS: &str = "constraints.in";

/// Where `uv` finds the caller's own interpreters and keeps its cache.
const FOLDERS: [&str; 3] = ["HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"];

/// Resolves with `uv pip compile` on this machine, for every Python from the oldest on and every system.
///
/// It needs `uv` and some Python 3 on the PATH. It does not resolve packages of the distribution: this machine is not
/// the base. A package that is published as source alone is built to learn what it needs, which runs its code with the
/// rights of the caller.
#[derive(Clone)]
pub struct UvRunner {
    path: OsString,
    folders: BTreeMap<&'static str, OsString>,
    variables: InstallerVariables,
    clock: Arc<dyn Clock>,
}

impl UvRunner {
    /// Looks for `uv`, and `uv` for a Python, in the folders of this PATH.
    pub fn new(path: impl Into<OsString>) -> Self {
        Self {
            path: path.into(),
            folders: BTreeMap::new(),
            variables: InstallerVariables::new(),
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// Takes PATH, and the folders in which `uv` keeps its cache and interpreters (`HOME`, `XDG_CACHE_HOME`,
    /// `XDG_DATA_HOME`), from variables, and nothing else: indexes, proxies and certificates come with
    /// [`UvRunner::with_installer_variables`]. For all that the process has, use
    /// [`Settings::resolve_runner`](crate::config::Settings::resolve_runner).
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let given = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let folders = FOLDERS.into_iter().filter_map(|name| Some((name, given(name)?))).collect();
        Self { folders, ..Self::new(given("PATH").unwrap_or_default()) }
    }

    /// Gives `uv` those of these variables that say from where and how it fetches. They never appear in an error or a
    /// log. Indexes of a specification take the place of the default index here, and are asked beside further ones.
    #[must_use]
    pub fn with_installer_variables(mut self, variables: InstallerVariables) -> Self {
        self.variables = variables;
        self
    }

    /// Lets `uv` keep what it has fetched in this folder, in place of the caller's own.
    #[must_use]
    pub fn with_cache_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folders.insert("XDG_CACHE_HOME", folder.into().into_os_string());
        self
    }

    /// Measures the limit of ten minutes with this clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Where `uv` is.
    ///
    /// # Errors
    /// [`Code::CapabilityUnsupported`] with what to do, if no folder of the PATH has it.
    pub fn program(&self) -> Result<PathBuf> {
        program_on_path(&self.path, PROGRAM).ok_or_else(|| {
            Error::new(Code::CapabilityUnsupported, "packages cannot be resolved: there is no uv on the PATH")
                .with_advice("install uv, or give a lockfile that was resolved elsewhere")
        })
    }

    fn command(&self, program: &OsStr, inputs: &ResolveInputs, folder: &OsStr) -> Command {
        let mut command = Command::new(program);
        command.args(arguments(inputs)).env_clear().env("PATH", &self.path);
        // A file with settings could change what is resolved.
        let fetches = |name: &str| !name.starts_with("PIP_") && name != "UV_CONFIG_FILE";
        let fetching = self.variables.iter().filter(|(name, _)| fetches(name));
        command.envs(fetching.map(|(name, value)| (name, value.expose())));
        command.envs(self.folders.iter().map(|(name, folder)| (*name, folder)));
        command
            .envs([
                ("UV_PYTHON_DOWNLOADS", "never"),
                ("UV_NO_PROGRESS", "1"),
                ("NO_COLOR", "1"),
                ("LC_ALL", "C.UTF-8"),
            ])
            // What a build leaves goes with the folder.
            .env("TMPDIR", folder);
        if !self.folders.contains_key("HOME") && !self.folders.contains_key("XDG_CACHE_HOME") {
            command.env("UV_NO_CACHE", "1");
        }
        command
    }
}

/// What `uv` is told. Nothing of it is read by a shell.
fn arguments(inputs: &ResolveInputs) -> Vec<String> {
    let fixed = "pip compile --universal --generate-hashes --no-header --no-annotate --no-config --no-progress \
                 --color=never";
    let mut arguments: Vec<String> = fixed.split_whitespace().map(str::to_owned).collect();
    if let Some(python) = &inputs.python {
        arguments.push(format!("--python-version={python}"));
    }
    // The default index is asked last, so that the last address takes its place.
    if let Some((last, first)) = inputs.indexes.split_last() {
        arguments.extend(first.iter().map(|index| format!("--index={index}")));
        arguments.push(format!("--default-index={last}"));
    }
    if !inputs.constraints.is_empty() {
        arguments.push(format!("--constraints={CONSTRAINTS}"));
    }
    arguments.push(REQUIREMENTS.to_owned());
    arguments
}

fn lines(texts: &[String]) -> String {
    texts.iter().map(|text| format!("{text}\n")).collect()
}

#[async_trait]
impl ResolveRunner for UvRunner {
    /// Cancel safe: dropping the future kills `uv` with all that it started and removes its files, which blocks for
    /// the moment that the kernel needs.
    async fn run(&self, inputs: &ResolveInputs) -> Result<String> {
        if !inputs.apt.is_empty() {
            let words = format!(
                "packages of the distribution ({}) cannot be resolved here: this machine is not the base image",
                inputs.apt.join(", ")
            );
            return Err(Error::new(Code::CapabilityUnsupported, words).with_advice(
                "leave out spec.packages.system.apt, or give a lockfile that was resolved in the base",
            ));
        }
        let program = self.program()?;
        let folder = process::folder()?;
        process::write(&folder, REQUIREMENTS, &lines(&inputs.requirements))?;
        if !inputs.constraints.is_empty() {
            process::write(&folder, CONSTRAINTS, &lines(&inputs.constraints))?;
        }
        let command = self.command(program.as_os_str(), inputs, folder.path().as_os_str());
        tracing::debug!(program = %program.display(), requirements = inputs.requirements.len(), "resolving with uv");
        let _busy = self.clock.busy();
        let work = process::run(command, folder, CAPS);
        let finished = timeout(&self.clock, LIMIT, work).await.map_err(|_| {
            Error::new(
                Code::Timeout,
                format!("uv did not resolve the packages within {} minutes", LIMIT.as_secs() / 60),
            )
            .with_advice("try again, or give a lockfile that was resolved elsewhere")
        })??;
        tracing::debug!(status = finished.status, "uv has ended");
        if !finished.success {
            let words = Words::of(&finished.stderr, &self.variables.hidden());
            return Err(words::explain(&words, &finished.status, inputs));
        }
        String::from_utf8(finished.stdout).map_err(|_| Error::unmapped("uv answered what is not UTF-8"))
    }
}

impl fmt::Debug for UvRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UvRunner")
            .field("path", &self.path)
            .field("variables", &self.variables)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
#[path = "uv_tests.rs"]
mod tests;
