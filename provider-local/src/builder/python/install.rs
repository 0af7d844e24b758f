//! The work in the build box.

use std::{collections::BTreeMap, sync::Arc};

use provider_core::{
    contract::SANDBOX_V1,
    environment::PIP,
    error::{Code, Error, Result},
    identity::User,
    lifecycle::Progress,
    sandbox::{Command, ExitStatus},
    secret::SecretSet,
};

use super::{
    Installation, UV_INPUT,
    base::{MODULE_OF_UV, MODULES, Python},
    failure,
    fixed::{NO_SETTINGS, env_vars},
    own::own,
    variables::{INPUTS, Supplies},
};
use crate::{
    blocking::blocking,
    builder::{
        log::{self, Log},
        process,
        tree::Tree,
    },
    config::InstallerWay,
    engine::RunningBox,
    errors::error,
};

const PROBE: &str = include_str!("probe.py");
const FETCH: &str = include_str!("fetch.py");
const FINISH: &str = include_str!("finish.py");

/// In memory, and no part of the layer.
pub(super) const FOLDER: &str = "/run/provider";
const REQUIREMENTS: &str = "/run/provider/requirements.txt";
/// Where large files are unpacked: on the disk, below the environment, and removed at the end.
const WORK: &str = ".provider-work";
/// An installation in one box.
pub(super) struct Work<'a> {
    pub(super) installation: &'a Installation,
    real_ids: bool,
    running: &'a RunningBox,
    progress: &'a Progress,
    hidden: SecretSet,
    env_vars: Arc<BTreeMap<String, String>>,
    has_no_index: bool,
    notes: Vec<String>,
}

/// How a command ended, and the end of what it said.
pub(super) struct Said {
    pub(super) status: ExitStatus,
    pub(super) lines: Vec<String>,
}

impl Said {
    /// The last line, which is the answer of our own scripts.
    fn answer(&self) -> &str {
        self.lines.iter().rev().map(|line| line.trim()).find(|line| !line.is_empty()).unwrap_or_default()
    }
}

/// A way that cannot be gone here, with the reason; or a failure of the build.
enum Stop {
    NextWay(String),
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

impl<'a> Work<'a> {
    pub(super) fn new(
        installation: &'a Installation,
        real_ids: bool,
        running: &'a RunningBox,
        progress: &'a Progress,
        passed: Supplies,
    ) -> Self {
        let has_no_index = passed.has_no_index();
        let mut hidden = log::hidden(&installation.request);
        for (name, secret) in passed.hidden.iter() {
            let _ = hidden.insert(name, secret.expose());
        }
        let own_path = installation.request.spec().spec.env.get("PATH");
        let env_vars = Arc::new(env_vars(passed.env_vars, own_path));
        Self {
            installation,
            real_ids,
            running,
            progress,
            hidden,
            env_vars,
            has_no_index,
            notes: passed.notes,
        }
    }

    pub(super) async fn run(mut self) -> Result<()> {
        self.notes.iter().for_each(|note| self.progress.log(format!("python: {note}")));
        self.put_requirements().await?;
        let python = self.python().await?;
        self.check_version(&python)?;
        self.trust(&python);
        let mut reasons = Vec::new();
        for way in &self.installation.choice.ways {
            match self.try_way(*way, &python).await {
                Ok(()) => return self.finish(&python).await,
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::NextWay(reason)) => {
                    self.progress.log(format!("python: {way} is not used: {reason}"));
                    reasons.push(format!("{way}: {reason}"));
                }
            }
        }
        Err(failure::no_way(self.base(), &reasons, &python.missing))
    }

    pub(super) fn base(&self) -> &str {
        self.installation.request.base().name()
    }

    /// Whether the caller gave a file with settings of an installer.
    pub(super) fn has_settings(&self) -> bool {
        let given = |name: &str| self.env_vars.get(name).is_some_and(|path| path != NO_SETTINGS);
        given("PIP_CONFIG_FILE") || given("UV_CONFIG_FILE")
    }

    /// The hashes of all versions of a package in the lockfile.
    pub(super) fn hashes_of(&self, name: &str) -> Vec<String> {
        let locked = self.installation.request.lockfile().by_name();
        let packages = locked.get(name).map(Vec::as_slice).unwrap_or_default();
        packages.iter().flat_map(|package| package.hashes.iter().cloned()).collect()
    }

    async fn put_requirements(&self) -> Result<()> {
        let (running, real_ids) = (self.running.clone(), self.real_ids);
        let text = self.installation.request.lockfile().text().to_owned();
        blocking(move || {
            let tree = Tree { running: &running, real_ids };
            tree.folder(FOLDER, 0o755, User::ROOT)?;
            tree.put(REQUIREMENTS, text.as_bytes(), 0o644, User::ROOT)
        })
        .await
    }

    async fn python(&self) -> Result<Python> {
        let mut words = vec!["python3", "-I", "-B", "-c", PROBE, SANDBOX_V1.ca_bundle];
        words.extend(MODULES);
        let said = match self.ask(Command::argv(words)).await {
            Ok(said) => said,
            Err(error) if error.code() == Code::ExecFailed => return Err(failure::no_python(self.base())),
            Err(error) => return Err(error),
        };
        let python = Python::of(&said.lines);
        if !said.status.success() || python.version.is_empty() {
            let words =
                format!("python3 of base {:?} does not work: it ended with {}", self.base(), said.status);
            return Err(failure::with_log(error(Code::BuildFailed, words), &said.lines));
        }
        Ok(python)
    }

    fn check_version(&self, python: &Python) -> Result<()> {
        let Some(language) = &self.installation.request.spec().spec.language else { return Ok(()) };
        let specifiers = language.specifiers().map_err(|words| error(Code::SpecInvalid, words))?;
        if python.version.parse().is_ok_and(|version| specifiers.contains(&version)) {
            return Ok(());
        }
        let words = format!(
            "base {:?} has Python {}, and spec.language.version asks for {:?}",
            self.base(),
            python.version,
            language.version
        );
        Err(error(Code::SpecInvalid, words)
            .with_advice("ask for a range that has it, or choose another base"))
    }

    /// Where the caller names no certificates, those of the base are trusted, by each tool alike.
    fn trust(&mut self, python: &Python) {
        let names = ["SSL_CERT_FILE", "SSL_CERT_DIR", "PIP_CERT"];
        if !python.has_certificates || names.iter().any(|name| self.env_vars.contains_key(*name)) {
            return;
        }
        let env_vars = Arc::make_mut(&mut self.env_vars);
        for name in ["SSL_CERT_FILE", "PIP_CERT"] {
            env_vars.insert(name.to_owned(), SANDBOX_V1.ca_bundle.to_owned());
        }
    }

    async fn try_way(&self, way: InstallerWay, python: &Python) -> Result<(), Stop> {
        let needed = |name: &&String| way != InstallerWay::Uv || **name == MODULE_OF_UV;
        let missing: Vec<&str> = python.missing.iter().filter(needed).map(String::as_str).collect();
        if !missing.is_empty() {
            return Err(Stop::NextWay(format!("python3 of the base lacks {}", missing.join(", "))));
        }
        let install = match way {
            InstallerWay::Uv => self.uv(python).await?,
            InstallerWay::BasePip => self.base_pip(python).await?,
            InstallerWay::PinnedPip => self.pinned_pip(python).await?,
        };
        let said = self.work(install).await?;
        if said.status.success() {
            return Ok(());
        }
        Err(failure::of_installer(self, python, way, &said).await.into())
    }

    async fn uv(&self, python: &Python) -> Result<Vec<String>, Stop> {
        let uv = format!("{INPUTS}/{UV_INPUT}");
        let version = match self.ask(Command::argv([uv.as_str(), "--version"])).await {
            Ok(said) if said.status.success() => said.answer().to_owned(),
            Ok(said) => {
                let words =
                    format!("it cannot run in base {:?}: {} {}", self.base(), said.status, said.answer());
                return Err(Stop::NextWay(words));
            }
            Err(error) if error.code() == Code::ExecFailed => {
                return Err(Stop::NextWay(format!("it cannot run in base {:?}", self.base())));
            }
            Err(error) => return Err(error.into()),
        };
        self.tell(&version, python);
        let make = [uv.as_str(), "venv", "--python", &python.executable, SANDBOX_V1.venv];
        self.make_environment(Command::argv(make)).await?;
        let python = python_of_environment();
        let words = [uv.as_str(), "pip", "install", "--python", &python, "--require-hashes", "--no-deps"];
        let mut words: Vec<String> = words.map(str::to_owned).to_vec();
        // Of uv, this is no variable.
        words.extend(self.has_no_index.then(|| "--no-index".to_owned()));
        words.extend(["-r", REQUIREMENTS].map(str::to_owned));
        Ok(words)
    }

    async fn base_pip(&self, python: &Python) -> Result<Vec<String>, Stop> {
        if let Some(reason) = python.lacks_pip() {
            return Err(Stop::NextWay(reason));
        }
        self.make_environment_with_python(python).await?;
        let interpreter = python_of_environment();
        let pip = [python.executable.as_str(), "-m", "pip", "--python", &interpreter];
        let said = self.ask(Command::argv(pip.into_iter().chain(["--version"]))).await?;
        if !said.status.success() {
            let words = format!("it cannot install into an environment: {}", said.answer());
            return Err(Stop::NextWay(words));
        }
        let version = python.pip.as_deref().unwrap_or_default();
        self.tell(&format!("pip {version} of the base"), python);
        Ok(install_with_pip(&pip))
    }

    async fn pinned_pip(&self, python: &Python) -> Result<Vec<String>, Stop> {
        let fetch = [&*python.executable, "-I", "-B", "-c", FETCH, "get", FOLDER, PIP.file, PIP.sha256];
        let said = self.ask(Command::argv(fetch)).await?;
        if said.answer() != format!("done {}", PIP.file) {
            return Err(failure::of_fetch(said.answer(), &said.lines).into());
        }
        self.make_environment_with_python(python).await?;
        self.tell(&format!("the pinned pip {}", PIP.version), python);
        Ok(install_with_pip(&[&python_of_environment(), &format!("{FOLDER}/{}/pip", PIP.file)]))
    }

    fn tell(&self, installer: &str, python: &Python) {
        let count = self.installation.request.lockfile().packages().len();
        self.progress
            .log(format!("python: {installer} installs {count} packages for Python {}", python.version));
    }

    async fn make_environment_with_python(&self, python: &Python) -> Result<()> {
        let make = [&*python.executable, "-m", "venv", "--without-pip", "--clear", SANDBOX_V1.venv];
        self.make_environment(Command::argv(make)).await
    }

    async fn make_environment(&self, command: Command) -> Result<()> {
        let said = self.run_logged(command).await?;
        if !said.status.success() {
            return Err(failure::of_environment(self.base(), &said));
        }
        let (running, real_ids) = (self.running.clone(), self.real_ids);
        blocking(move || Tree { running: &running, real_ids }.folder(&work_folder(), 0o755, User::ROOT)).await
    }

    /// Runs the installer, whose output is in the log.
    async fn work(&self, words: Vec<String>) -> Result<Said> {
        self.run_logged(Command::argv(words).env_var("TMPDIR", work_folder())).await
    }

    async fn finish(&self, python: &Python) -> Result<()> {
        let work = work_folder();
        let words = [&*python.executable, "-I", "-B", "-c", FINISH, SANDBOX_V1.venv, &work];
        let said = self.ask(Command::argv(words)).await?;
        if said.status.success() {
            return own(self.running, self.real_ids, &python.executable, self.progress).await;
        }
        let words = format!("the environment was not finished: {}", said.answer());
        Err(failure::with_log(error(Code::BuildFailed, words), &said.lines))
    }

    /// Which files of a version there are: the answer of our own script.
    pub(super) async fn look_for(&self, python: &Python, name: &str, version: &str) -> Result<String> {
        let words = [&*python.executable, "-I", "-B", "-c", FETCH, "look", name, version];
        Ok(self.ask(Command::argv(words)).await?.answer().to_owned())
    }

    /// The digest of a file of a package, as it is where the installer found it; `None` if it is not there any more.
    pub(super) async fn digest_of(&self, python: &Python, name: &str, file: &str) -> Result<Option<String>> {
        let words = [&*python.executable, "-I", "-B", "-c", FETCH, "digest", name, file];
        let said = self.ask(Command::argv(words)).await?;
        Ok(said.answer().strip_prefix("digest ").map(str::to_owned))
    }

    /// Runs a command whose output is only for us.
    async fn ask(&self, command: Command) -> Result<Said> {
        self.run_with(command, &Progress::none()).await
    }

    async fn run_logged(&self, command: Command) -> Result<Said> {
        self.run_with(command, self.progress).await
    }

    async fn run_with(&self, command: Command, progress: &Progress) -> Result<Said> {
        let log = Log::of_installer(progress, &self.hidden);
        let status = process::run(self.running, &command.cwd(FOLDER), &self.env_vars, &log).await?;
        Ok(Said { status, lines: log.tail() })
    }
}

fn python_of_environment() -> String {
    format!("{}/bin/python3", SANDBOX_V1.venv)
}

fn work_folder() -> String {
    format!("{}/{WORK}", SANDBOX_V1.venv)
}

fn install_with_pip(pip: &[&str]) -> Vec<String> {
    let options = ["install", "--require-hashes", "--no-deps", "--no-compile", "--no-warn-script-location"];
    let words = pip.iter().chain(&options).chain(&["-r", REQUIREMENTS]);
    words.map(|word| (*word).to_owned()).collect()
}
