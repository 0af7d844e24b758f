//! The contract of a sandbox: what every artifact provides, as data in one place.
//!
//! [`SANDBOX_V1`] is the only place that holds these numbers, names and paths. The [doctor] script is rendered
//! from it, the [checks] compare with it, `CONTRACT.md` is [generated](docs) from it, and drivers read it.

use std::{collections::BTreeMap, time::Duration};

use crate::identity::User;

pub mod checks;
pub mod docs;
pub mod doctor;
#[cfg(any(test, feature = "memory"))]
pub mod fixtures;
#[cfg(test)]
#[cfg(unix)]
pub(crate) mod host;
mod language;
pub mod probe;
mod row;

pub use language::{LanguageFacts, LockedVersion};
pub use row::Row;

/// A processor architecture, under its two names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// The name in image indexes, such as `linux/amd64`.
    pub platform: &'static str,
    /// The name that `uname -m` answers.
    pub machine: &'static str,
}

impl Architecture {
    /// 64-bit x86.
    pub const AMD64: Architecture = Architecture { platform: "linux/amd64", machine: "x86_64" };
    /// 64-bit Arm. Only this machine's own sandboxes have it.
    pub const ARM64: Architecture = Architecture { platform: "linux/arm64", machine: "aarch64" };

    /// The architecture that `uname -m` calls so.
    pub fn of_machine(machine: &str) -> Option<Architecture> {
        [Self::AMD64, Self::ARM64].into_iter().find(|known| known.machine == machine)
    }
}

/// What a sandbox provides. All paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    /// Its name, as an Environment and the doctor's report give it.
    pub name: &'static str,
    /// The version of the doctor's report.
    pub version: u32,
    /// The kernel, in small letters.
    pub os: &'static str,
    /// What `ID` or `ID_LIKE` of `/etc/os-release` holds.
    pub os_family: &'static str,
    /// The processor.
    pub architecture: Architecture,
    /// The user's name.
    pub user_name: &'static str,
    /// The user's and the group's number.
    pub user: User,
    /// The user's home.
    pub home: &'static str,
    /// Where commands start; the user can write there.
    pub workdir: &'static str,
    /// A directory that the user can neither change nor replace.
    pub reserved_path: &'static str,
    /// Where the doctor is, in the reserved path.
    pub doctor_path: &'static str,
    /// Where the lockfile is, in the reserved path.
    pub lockfile_path: &'static str,
    /// Where the description of the image is, in the reserved path: a JSON object with the lockfile's digest.
    pub description_path: &'static str,
    /// The virtual environment with the Environment's packages, where it names a language. It belongs to the user.
    pub venv: &'static str,
    /// The interpreter that is on `PATH` where the Environment names a language.
    pub python: &'static str,
    /// Of these, one is on `PATH` where the Environment names a language.
    pub installers: &'static [&'static str],
    /// The value of [`Contract::LOCALE_VAR`].
    pub locale: &'static str,
    /// The time zone.
    pub timezone: &'static str,
    /// The file with the certificates that programs trust.
    pub ca_bundle: &'static str,
    /// The search path for programs.
    pub path: &'static str,
    /// Within this time PID 1 takes the status of a process whose parent has ended.
    pub reap_within: Duration,
    /// Within this time a sandbox stops after SIGTERM, which PID 1 passes on.
    pub stop_within: Duration,
}

/// The contract `sandbox-contract/v1`.
pub const SANDBOX_V1: Contract = Contract {
    name: "sandbox-contract/v1",
    version: 1,
    os: "linux",
    os_family: "debian",
    architecture: Architecture::AMD64,
    user_name: "sandbox",
    user: User { uid: 1000, gid: 100 },
    home: "/home/sandbox",
    workdir: "/home/sandbox/work",
    reserved_path: "/opt/provider",
    doctor_path: "/opt/provider/doctor",
    lockfile_path: "/opt/provider/lockfile",
    description_path: "/opt/provider/environment.json",
    venv: "/opt/venv",
    python: "python3",
    installers: &["uv", "pip"],
    locale: "C.UTF-8",
    timezone: "UTC",
    ca_bundle: "/etc/ssl/certs/ca-certificates.crt",
    path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    reap_within: Duration::from_secs(5),
    stop_within: Duration::from_secs(10),
};

impl Contract {
    /// The variable that sets the locale.
    pub const LOCALE_VAR: &'static str = "LANG";

    /// The same contract on another processor.
    #[must_use]
    pub fn on(&self, architecture: Architecture) -> Contract {
        Contract { architecture, ..self.clone() }
    }

    /// The same contract on this machine's processor, for sandboxes that run here. A processor that has no
    /// [`Architecture`] leaves the contract as it is, and its architecture row will fail.
    #[must_use]
    pub fn on_this_machine(&self) -> Contract {
        Architecture::of_machine(std::env::consts::ARCH).map_or_else(|| self.clone(), |here| self.on(here))
    }

    /// The variables that every command of a sandbox starts with, before those of the Environment and the caller.
    pub fn base_env_vars(&self) -> BTreeMap<String, String> {
        [
            ("HOME", self.home),
            ("USER", self.user_name),
            ("LOGNAME", self.user_name),
            (Self::LOCALE_VAR, self.locale),
            ("TZ", self.timezone),
            ("PATH", self.path),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
    }

    /// The variables of an Environment's sandboxes beside [`Contract::base_env_vars`]: its own, and with a language
    /// the virtual environment in front of the search path.
    pub fn env_vars_of(
        &self,
        own: &BTreeMap<String, String>,
        names_language: bool,
    ) -> BTreeMap<String, String> {
        let mut env_vars = own.clone();
        if names_language {
            let path = own.get("PATH").map_or(self.path, String::as_str);
            env_vars.insert("PATH".to_owned(), format!("{}/bin:{path}", self.venv));
            env_vars.insert("VIRTUAL_ENV".to_owned(), self.venv.to_owned());
        }
        env_vars
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a03_the_contract_is_the_written_one() {
        let Contract { user, home, workdir, reserved_path, doctor_path, .. } = SANDBOX_V1;
        assert_eq!(user.to_string(), "1000:100");
        assert_eq!((home, workdir), ("/home/sandbox", "/home/sandbox/work"));
        assert_eq!((reserved_path, doctor_path), ("/opt/provider", "/opt/provider/doctor"));
        assert_eq!(SANDBOX_V1.stop_within, Duration::from_secs(10));
    }

    #[test]
    fn a03_no_other_source_of_this_crate_repeats_a_path_of_the_contract() {
        let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let (mut folders, mut read) = (vec![sources], 0);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                if path.to_string_lossy().ends_with("tests.rs") {
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                let (code, _tests) = text.split_once("#[cfg(test)]\nmod tests").unwrap_or((&text, ""));
                let repeats = [SANDBOX_V1.home, SANDBOX_V1.doctor_path, SANDBOX_V1.ca_bundle]
                    .iter()
                    .any(|value| code.contains(&format!("\"{value}")));
                assert!(
                    !repeats || path.ends_with("contract/mod.rs"),
                    "{} repeats the contract",
                    path.display()
                );
                read += 1;
            }
        }
        assert!(read > 10, "only {read} files were read");
    }

    #[test]
    fn a_machine_has_its_own_architecture() {
        assert_eq!(Architecture::of_machine("x86_64"), Some(SANDBOX_V1.architecture));
        assert_eq!(Architecture::of_machine("aarch64").map(|it| it.platform), Some("linux/arm64"));
        assert_eq!(Architecture::of_machine("riscv64"), None);
        let on_arm = SANDBOX_V1.on(Architecture::ARM64);
        assert_eq!((on_arm.architecture.machine, on_arm.name), ("aarch64", SANDBOX_V1.name));
    }
}
