//! The variables of an installer: what decides that nothing but the lockfile counts.

use std::collections::BTreeMap;

use provider_core::contract::SANDBOX_V1;

use super::install::FOLDER;

/// What pip is told to read instead of settings of the base.
pub(super) const NO_SETTINGS: &str = "/dev/null";

/// What an installer is run with: what the caller passes on, and what decides that nothing else counts.
pub(super) fn env_vars(
    passed: BTreeMap<String, String>,
    own_path: Option<&String>,
) -> BTreeMap<String, String> {
    let mut env_vars = SANDBOX_V1.base_env_vars();
    for (name, value) in [("UV_INDEX_STRATEGY", "unsafe-best-match"), ("PIP_CONFIG_FILE", NO_SETTINGS)] {
        // With hashes, each index is as good as the others.
        env_vars.insert(name.to_owned(), value.to_owned());
    }
    if !passed.contains_key("UV_CONFIG_FILE") {
        env_vars.insert("UV_NO_CONFIG".to_owned(), "1".to_owned());
    }
    env_vars.extend(passed);
    let fixed = [
        ("HOME", FOLDER),
        ("USER", "root"),
        ("LOGNAME", "root"),
        ("NO_COLOR", "1"),
        ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
        ("PIP_NO_CACHE_DIR", "1"),
        ("PIP_NO_INPUT", "1"),
        ("PIP_PROGRESS_BAR", "off"),
        ("PIP_ROOT_USER_ACTION", "ignore"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PYTHONNOUSERSITE", "1"),
        // For the archives that a source distribution is built into: no moment, but one that zip can hold.
        ("SOURCE_DATE_EPOCH", "315532800"),
        ("UV_LINK_MODE", "copy"),
        ("UV_NO_CACHE", "1"),
        ("UV_NO_PROGRESS", "1"),
        ("UV_PYTHON_DOWNLOADS", "never"),
        ("UV_VENV_CLEAR", "1"),
    ];
    env_vars.extend(fixed.map(|(name, value)| (name.to_owned(), value.to_owned())));
    // The Environment's own path may lead to another Python, and need not lead to all that a build needs.
    let path = own_path.map(|path| ("PATH".to_owned(), format!("{path}:{}", SANDBOX_V1.path)));
    env_vars.extend(path);
    env_vars
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_caller_passes_on_changes_nothing_that_is_fixed() {
        let passed =
            [("UV_LINK_MODE", "symlink"), ("PIP_CONFIG_FILE", "/run/secrets/pip.conf"), ("PATH", "/x")];
        let passed = passed.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let env_vars = env_vars(passed, Some(&"/own".to_owned()));
        assert_eq!(env_vars["UV_LINK_MODE"], "copy");
        assert_eq!(env_vars["PIP_CONFIG_FILE"], "/run/secrets/pip.conf");
        assert_eq!(env_vars["PATH"], format!("/own:{}", SANDBOX_V1.path));
    }
}
