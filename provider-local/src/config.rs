//! Settings of the driver.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

use provider_core::{
    config::{Settings, program_on_path},
    error::{Code, Error, Result},
};

/// The variable that names the state folder of this driver.
pub const STATE_DIR: &str = "PROVIDER_LOCAL_STATE_DIR";

/// The base that is always there: this machine's own root.
pub const HOST: &str = "host";

/// The simple API (PEP 503 and 691) that is asked where neither the Environment nor the caller names an index. It is
/// the one that pip and uv ask by themselves.
pub const PUBLIC_INDEX: &str = "https://pypi.org/simple";

/// How the driver works.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalConfig {
    /// Where layers, records and boxes lie; absolute, one for each user, on a real file system.
    pub state_dir: PathBuf,
    /// Folders that hold the root of a system, by the name under which an Environment asks for them. Nobody may
    /// change such a folder while it is used. [`HOST`] is always there and cannot be named here.
    pub bases: BTreeMap<String, PathBuf>,
    /// Further paths of this machine that sandboxes on [`HOST`] must not see.
    pub hidden: Vec<PathBuf>,
    /// The program `uv` of the caller, absolute. Builds read it in their boxes and run it there to install packages;
    /// outside of a box it is only asked for its version. Without one, or where it cannot run in a base, `pip` installs.
    pub uv: Option<PathBuf>,
    /// What installs packages, if it is to be this and nothing else. By default it is the first that can.
    pub installer: Option<InstallerWay>,
}

/// What installs the packages of an Environment, in a build box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum InstallerWay {
    /// `uv` of the caller: [`LocalConfig::uv`].
    Uv,
    /// `pip` of the base, from version 22.3 on.
    BasePip,
    /// `pip` in the version that every artifact carries, run from its file.
    PinnedPip,
}

impl fmt::Display for InstallerWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InstallerWay::Uv => "uv of the caller",
            InstallerWay::BasePip => "pip of the base",
            InstallerWay::PinnedPip => "the pinned pip",
        })
    }
}

impl LocalConfig {
    /// The defaults, with this state folder.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            state_dir: state_dir.into(),
            bases: BTreeMap::new(),
            hidden: Vec::new(),
            uv: None,
            installer: None,
        }
    }

    /// Adds a folder as a base.
    #[must_use]
    pub fn base(mut self, name: impl Into<String>, folder: impl Into<PathBuf>) -> Self {
        self.bases.insert(name.into(), folder.into());
        self
    }

    /// Reads the environment of the process: [`STATE_DIR`], or else `local` in the state folder of
    /// [`Settings`], which sandboxes then do not see; and the first `uv` on `PATH`.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] naming the variable, if one is set to what it cannot be or none says where.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
    pub fn from_env() -> Result<Self> {
        Self::from_lookup(|name| env::var_os(name))
    }

    /// Reads the settings from another source than the process, for tests and for tools with settings of their own.
    ///
    /// # Errors
    /// As for [`LocalConfig::from_env`].
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let settings = Settings::from_lookup(&lookup)?;
        let own = lookup(STATE_DIR).filter(|value| !value.is_empty()).map(PathBuf::from);
        let state_dir = match own {
            Some(path) if path.is_relative() => {
                let shown = path.display().to_string();
                let words = format!("{STATE_DIR} is {shown:?}, which is not an absolute path");
                return Err(Error::new(Code::SpecInvalid, words));
            }
            Some(path) => path,
            None => settings.state_folder()?.path().join("local"),
        };
        let mut config = Self::new(state_dir);
        config.hidden.extend(settings.state_dir);
        config.uv = lookup("PATH").and_then(|path| program_on_path(&path, "uv"));
        Ok(config)
    }

    /// Refuses settings that cannot work. Looks at no file.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] naming the setting.
    pub fn check(&self) -> Result<()> {
        let refuse = |words: String| Err(Error::new(Code::SpecInvalid, words));
        if !self.state_dir.is_absolute() {
            let path = shown(&self.state_dir);
            return refuse(format!("the state folder {path} is not an absolute path"));
        }
        for (name, folder) in &self.bases {
            if name == HOST {
                return refuse(format!("a base cannot be named {HOST:?}: that is this machine itself"));
            }
            if name.is_empty()
                || name.len() > 255
                || name.contains(|c: char| c.is_control() || c.is_whitespace())
            {
                return refuse(format!(
                    "{name:?} is no name for a base: it is empty, too long or holds a space"
                ));
            }
            if !folder.is_absolute() {
                let path = shown(folder);
                return refuse(format!("the folder {path} of base {name:?} is not an absolute path"));
            }
        }
        if let Some(uv) = self.uv.as_ref().filter(|path| !path.is_absolute()) {
            return refuse(format!("the path {} of uv is not absolute", shown(uv)));
        }
        match self.hidden.iter().find(|path| !path.is_absolute()) {
            Some(path) => refuse(format!("the hidden path {} is not absolute", shown(path))),
            None => Ok(()),
        }
    }
}

fn shown(path: &Path) -> String {
    format!("{:?}", path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<LocalConfig> {
        LocalConfig::from_lookup(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_own_variable_counts_before_the_common_folder() {
        let common = read(&[("PROVIDER_STATE_DIR", "/s")]).unwrap();
        assert_eq!(common.state_dir, Path::new("/s/local"));
        assert_eq!(common.hidden, [Path::new("/s")]);
        let own = read(&[("PROVIDER_STATE_DIR", "/s"), (STATE_DIR, "/own")]).unwrap();
        assert_eq!(own.state_dir, Path::new("/own"));
        assert_eq!(read(&[(STATE_DIR, "/own")]).unwrap().hidden, Vec::<PathBuf>::new());
    }

    #[cfg(unix)]
    #[test]
    fn uv_is_the_first_program_of_that_name_on_the_path() {
        use std::{fs, os::unix::fs::PermissionsExt as _};
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name).join("uv");
        for (name, mode) in [("plain", 0o644), ("good", 0o755), ("later", 0o755)] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(place(name), "").unwrap();
            fs::set_permissions(place(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let folders = ["none", "plain", "good", "later"].map(|name| folder.path().join(name));
        let path = env::join_paths(folders).unwrap().into_string().unwrap();
        assert_eq!(read(&[(STATE_DIR, "/own"), ("PATH", &path)]).unwrap().uv, Some(place("good")));
        assert_eq!(read(&[(STATE_DIR, "/own"), ("PATH", "relative:")]).unwrap().uv, None);
    }

    #[test]
    fn a_wrong_setting_is_named() {
        assert!(read(&[(STATE_DIR, "here")]).unwrap_err().message().contains(STATE_DIR));
        assert!(read(&[]).is_err());
        for (config, word) in [
            (LocalConfig::new("here"), "here"),
            (LocalConfig::new("/s").base(HOST, "/b"), HOST),
            (LocalConfig::new("/s").base("a b", "/b"), "a b"),
            (LocalConfig::new("/s").base("b", "b/c"), "b/c"),
        ] {
            let error = config.check().unwrap_err();
            assert_eq!(error.code(), Code::SpecInvalid);
            assert!(error.message().contains(word), "{error}");
        }
        LocalConfig::new("/s").base("b", "/b").check().unwrap();
    }
}
