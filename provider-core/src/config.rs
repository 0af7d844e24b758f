//! The settings that this crate reads from the environment, all of them.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use crate::{
    environment::{InstallerVariables, UvRunner},
    error::{Code, Error, Result},
    lifecycle::ledger::StateFolder,
    names::Owner,
};

/// Where the ledgers are: `PROVIDER_STATE_DIR`.
pub const STATE_DIR: &str = "PROVIDER_STATE_DIR";
/// Whose things they are: `PROVIDER_OWNER`.
pub const OWNER: &str = "PROVIDER_OWNER";

/// The first program of this name in the folders of a search path. Relative folders do not count: they would name
/// another program in each working directory.
pub fn program_on_path(path: &OsStr, name: &str) -> Option<PathBuf> {
    let folders = env::split_paths(path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|place| is_program(place))
}

fn is_program(path: &Path) -> bool {
    let Ok(metadata) = path.metadata() else { return false };
    #[cfg(unix)]
    let may_run = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may_run = true;
    metadata.is_file() && may_run
}

/// What the environment says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// `PROVIDER_STATE_DIR`, or else `provider` in the state folder of the XDG base directories.
    pub state_dir: Option<PathBuf>,
    /// `PROVIDER_OWNER`.
    pub owner: Option<Owner>,
}

impl Settings {
    /// Reads the environment of the process.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] naming the variable, if one is set to what it cannot be.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
    pub fn from_env() -> Result<Self> {
        Self::from_lookup(|name| env::var_os(name))
    }

    /// Reads the settings from another source than the process, for tests and for tools with settings of their own.
    ///
    /// # Errors
    /// As for [`Settings::from_env`].
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let given = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let xdg = || given("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || given("HOME").map(|home| PathBuf::from(home).join(".local/state"));
        let state_dir = match given(STATE_DIR).map(PathBuf::from) {
            Some(path) if path.is_relative() => {
                return Err(Error::new(
                    Code::SpecInvalid,
                    format!("{STATE_DIR} is {:?}, which is not an absolute path", path.display().to_string()),
                ));
            }
            Some(path) => Some(path),
            None => xdg().or_else(home).map(|state| state.join("provider")),
        };
        let owner = given(OWNER)
            .map(|value| Owner::new(value.to_string_lossy()))
            .transpose()
            .map_err(|error| Error::new(Code::SpecInvalid, format!("{OWNER}: {}", error.message())))?;
        Ok(Self { state_dir, owner })
    }

    /// The variables of the process that installers need; see [`InstallerVariables`].
    #[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
    pub fn installer_variables() -> InstallerVariables {
        // A value that is not UTF-8 cannot be passed on by every provider.
        let texts = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        InstallerVariables::of(texts)
    }

    /// What resolves packages on this machine: the `uv` of the process' PATH, with its variables for installers.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
    pub fn resolve_runner() -> UvRunner {
        UvRunner::from_lookup(|name| env::var_os(name)).with_installer_variables(Self::installer_variables())
    }

    /// Whose things they are: `PROVIDER_OWNER`, or else the mark that is stored in the state folder, if one is.
    ///
    /// # Errors
    /// Those of [`Settings::state_folder`] and [`StateFolder::owner`].
    pub fn known_owner(&self) -> Result<Option<Owner>> {
        match &self.owner {
            Some(owner) => Ok(Some(owner.clone())),
            None => self.state_folder()?.owner(),
        }
    }

    /// The state folder.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] if the environment names none.
    pub fn state_folder(&self) -> Result<StateFolder> {
        self.state_dir.clone().map(StateFolder::at).ok_or_else(|| {
            Error::new(Code::SpecInvalid, "there is no folder for the state: HOME is not set")
                .with_advice(format!("set {STATE_DIR} to an absolute path"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings> {
        Settings::from_lookup(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_nearest_setting_counts() {
        let state_dir = |pairs| read(pairs).unwrap().state_dir.map(|path| path.display().to_string());
        assert_eq!(state_dir(&[("HOME", "/h")]).as_deref(), Some("/h/.local/state/provider"));
        assert_eq!(state_dir(&[("HOME", "/h"), ("XDG_STATE_HOME", "/x")]).as_deref(), Some("/x/provider"));
        assert_eq!(
            state_dir(&[("HOME", "/h"), ("XDG_STATE_HOME", "relative")]).as_deref(),
            Some("/h/.local/state/provider")
        );
        assert_eq!(state_dir(&[("HOME", "/h"), (STATE_DIR, "/s")]).as_deref(), Some("/s"));
        assert_eq!(state_dir(&[]), None);
        assert!(read(&[]).unwrap().state_folder().unwrap_err().advice().contains(STATE_DIR));
    }

    #[test]
    fn a_wrong_setting_is_named() {
        assert!(read(&[(STATE_DIR, "here")]).unwrap_err().message().contains(STATE_DIR));
        assert!(read(&[(OWNER, "Me!")]).unwrap_err().message().contains(OWNER));
    }
}
