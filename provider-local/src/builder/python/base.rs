//! What the base's own Python is and has.

/// From this version on, pip installs into another environment (`--python`).
const PIP_WITH_PYTHON: (u32, u32) = (22, 3);
/// Modules that pip needs, some of which are packages of their own in a distribution.
pub(super) const MODULES: [&str; 7] =
    ["json", "venv", "ssl", "zlib", "hashlib", "urllib.request", "html.parser"];
/// The only one of them that uv needs.
pub(super) const MODULE_OF_UV: &str = "json";

/// What the base has.
#[derive(Debug, Default)]
pub(super) struct Python {
    pub(super) version: String,
    pub(super) executable: String,
    pub(super) missing: Vec<String>,
    pub(super) pip: Option<String>,
    pub(super) has_certificates: bool,
}

impl Python {
    pub(super) fn of(lines: &[String]) -> Self {
        let mut python = Self::default();
        for (word, rest) in lines.iter().filter_map(|line| line.split_once(' ')) {
            match word {
                "version" => python.version = rest.to_owned(),
                "executable" => python.executable = rest.to_owned(),
                "missing" => python.missing.push(rest.to_owned()),
                "pip" => python.pip = Some(rest.to_owned()),
                "certificates" => python.has_certificates = true,
                _ => {}
            }
        }
        python
    }

    /// Why `pip` of the base is of no use; `None` if it may be.
    pub(super) fn lacks_pip(&self) -> Option<String> {
        let Some(version) = &self.pip else { return Some("the base has none".to_owned()) };
        let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let (major, minor) = PIP_WITH_PYTHON;
        (found < PIP_WITH_PYTHON).then(|| format!("it is {version}, and {major}.{minor} is needed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(lines: &[&str]) -> Python {
        Python::of(&lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_bases_python_is_read() {
        let found = python(&["version 3.11.2", "executable /usr/bin/python3", "missing ssl", "pip 23.0.1"]);
        assert_eq!((found.version.as_str(), found.executable.as_str()), ("3.11.2", "/usr/bin/python3"));
        assert_eq!(found.missing, ["ssl"]);
        assert!(!found.has_certificates);
    }

    #[test]
    fn an_old_pip_is_not_used() {
        for (line, works) in [
            ("pip 22.3", true),
            ("pip 23.0.1", true),
            ("pip 100.0b1", true),
            ("pip 20.3.4", false),
            ("x", false),
        ] {
            assert_eq!(python(&[line]).lacks_pip().is_none(), works, "{line}");
        }
    }
}
