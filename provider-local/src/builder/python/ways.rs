//! What can install packages, and what of it is wanted.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{OnceLock, mpsc},
    time::Duration,
};

use provider_core::{
    environment::{Manager, PIP},
    error::{Code, Result},
};

use crate::{LocalConfig, config::InstallerWay, errors::error};

/// How long `uv` may take to say its version.
const VERSION_LIMIT: Duration = Duration::from_secs(5);

/// The installers of the caller.
#[derive(Debug)]
pub(crate) struct Installers {
    uv: Option<PathBuf>,
    only: Option<InstallerWay>,
    uv_version: OnceLock<Option<String>>,
}

impl Installers {
    pub(crate) fn of(config: &LocalConfig) -> Self {
        Self { uv: config.uv.clone(), only: config.installer, uv_version: OnceLock::new() }
    }

    /// Why this manager cannot be had, in words with what to do; `None` if it can. Looks at nothing.
    pub(crate) fn refuses(&self, manager: Manager) -> Option<(String, &'static str)> {
        let have = self.ways(manager);
        if !have.is_empty() {
            return None;
        }
        Some(match self.only {
            Some(only) if self.uv.is_some() || only != InstallerWay::Uv => (
                format!("the driver is set up to install with {only} alone"),
                "change spec.packages.python.manager",
            ),
            _ => ("there is no uv on the caller's PATH".to_owned(), "install uv, or choose auto or pip"),
        })
    }

    /// The ways that may be tried, the first first.
    fn ways(&self, manager: Manager) -> Vec<InstallerWay> {
        let all: &[InstallerWay] = match manager {
            Manager::Auto => &[InstallerWay::Uv, InstallerWay::BasePip, InstallerWay::PinnedPip],
            Manager::Uv => &[InstallerWay::Uv],
            Manager::Pip => &[InstallerWay::BasePip, InstallerWay::PinnedPip],
            Manager::Conda => &[],
        };
        let wanted = |way: &InstallerWay| self.only.is_none_or(|only| only == *way);
        let there = |way: &InstallerWay| *way != InstallerWay::Uv || self.uv.is_some();
        all.iter().copied().filter(wanted).filter(there).collect()
    }

    /// What a build with this manager tries. Blocks: the first call asks `uv` for its version.
    ///
    /// # Errors
    /// [`Code::CapabilityUnsupported`] if there is nothing to try.
    pub(super) fn choose(&self, manager: Manager) -> Result<Choice> {
        if let Some((words, advice)) = self.refuses(manager) {
            return Err(error(Code::CapabilityUnsupported, words).with_advice(advice));
        }
        let ways = self.ways(manager);
        let uv = self.uv.as_ref().filter(|_| ways.contains(&InstallerWay::Uv)).map(|path| {
            let version = self.uv_version.get_or_init(|| ask_version(path));
            Uv { path: path.clone(), version: version.clone() }
        });
        Ok(Choice { ways, uv })
    }
}

/// `uv` of the caller.
#[derive(Clone, Debug)]
pub(super) struct Uv {
    pub(super) path: PathBuf,
    /// `None` if it did not say.
    version: Option<String>,
}

/// What is tried, decided before a box starts.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) ways: Vec<InstallerWay>,
    pub(super) uv: Option<Uv>,
}

impl Choice {
    /// For the key of the layer. With the base, which has its own part of the key, it says what will install.
    pub(super) fn key(&self) -> Vec<String> {
        let name = |way: &InstallerWay| match way {
            InstallerWay::Uv => {
                let version = self.uv.as_ref().and_then(|uv| uv.version.as_deref());
                format!("uv {}", version.unwrap_or("of an unknown version"))
            }
            InstallerWay::BasePip => "pip of the base".to_owned(),
            InstallerWay::PinnedPip => format!("pip {}", PIP.version),
        };
        self.ways.iter().map(name).collect()
    }
}

fn ask_version(uv: &Path) -> Option<String> {
    let mut asked = Command::new(uv);
    asked.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = asked.spawn().ok()?;
    let stdout = child.stdout.take()?;
    let (answer, answered) = mpsc::channel();
    let read = move || {
        let mut text = String::new();
        if stdout.take(4096).read_to_string(&mut text).is_ok() {
            let _ = answer.send(text);
        }
    };
    let reads = std::thread::Builder::new().name("provider-local-uv".into()).spawn(read).is_ok();
    let text = reads.then(|| answered.recv_timeout(VERSION_LIMIT).ok()).flatten();
    let _ = child.kill();
    let _ = child.wait();
    text?.split_whitespace().nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installers(uv: Option<&Path>, only: Option<InstallerWay>) -> Installers {
        let mut config = LocalConfig::new("/s");
        config.uv = uv.map(Path::to_owned);
        config.installer = only;
        Installers::of(&config)
    }

    #[test]
    fn the_manager_and_the_settings_restrict_the_ways() {
        use InstallerWay::{BasePip, PinnedPip, Uv};
        let uv = Path::new("/no/uv");
        for (manager, there, only, ways) in [
            (Manager::Auto, Some(uv), None, &[Uv, BasePip, PinnedPip][..]),
            (Manager::Auto, None, None, &[BasePip, PinnedPip]),
            (Manager::Auto, Some(uv), Some(PinnedPip), &[PinnedPip]),
            (Manager::Uv, Some(uv), None, &[Uv]),
            (Manager::Pip, Some(uv), None, &[BasePip, PinnedPip]),
        ] {
            assert_eq!(installers(there, only).choose(manager).unwrap().ways, ways);
        }
        for (manager, only, word) in [
            (Manager::Uv, None, "PATH"),
            (Manager::Auto, Some(Uv), "PATH"),
            (Manager::Uv, Some(BasePip), "pip of the base alone"),
        ] {
            let error = installers(None, only).choose(manager).unwrap_err();
            assert_eq!(error.code(), Code::CapabilityUnsupported);
            assert!(error.message().contains(word), "{error}");
        }
    }

    #[test]
    fn the_version_of_uv_is_asked_once_and_is_in_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let (uv, count) = (folder.path().join("uv"), folder.path().join("count"));
        let script = format!("#!/bin/sh\necho x >>'{}'\necho 'uv 1.2.3 (some machine)'\n", count.display());
        // Written by another process: a file that this one has open for writing cannot be run by a fork of another test.
        let write = "printf %s \"$0\" >\"$1\" && chmod 755 \"$1\"";
        let mut written = Command::new("sh");
        written.args(["-c", write, &script]).arg(&uv);
        assert!(written.status().unwrap().success());
        let installers = installers(Some(&uv), None);
        for _ in 0..2 {
            let key = installers.choose(Manager::Auto).unwrap().key();
            assert_eq!(key, ["uv 1.2.3", "pip of the base", &format!("pip {}", PIP.version)]);
        }
        assert_eq!(std::fs::read_to_string(count).unwrap(), "x\n");
    }
}
