//! What an installer is given in its variables, and what it may read of this machine.
//!
//! Variables that say where packages come from and how they are fetched are passed on; no other is, since the layer
//! is used again by builds with other variables, so none may change what is installed.

use std::{collections::BTreeMap, path::Path};

use provider_core::{
    environment::InstallerVariables,
    error::{Code, Result},
    secret::{Secret, SecretSet},
};

use crate::{config::PUBLIC_INDEX, engine::BuildInput, errors::error};

/// Where inputs and secrets are in a build box.
pub(super) const INPUTS: &str = "/run/inputs";
const SECRETS: &str = "/run/secrets";
/// The variable of our own script with all indexes, in the order in which they are asked.
const ALL_INDEXES: &str = "PROVIDER_INDEXES";

/// Each names one file that must be there.
const CERTIFICATES: [&str; 3] = ["SSL_CERT_FILE", "PIP_CERT", "PIP_CLIENT_CERT"];
/// Lists of indexes: name, what separates its words, and whether what is not there can be left out.
const INDEXES: [(&str, char, bool); 6] = [
    ("PIP_INDEX_URL", ' ', false),
    ("PIP_EXTRA_INDEX_URL", ' ', true),
    ("UV_DEFAULT_INDEX", ' ', false),
    ("UV_INDEX", ' ', true),
    ("UV_INDEX_URL", ' ', false),
    ("UV_EXTRA_INDEX_URL", ' ', true),
];
const LINKS: [(&str, char); 2] = [("PIP_FIND_LINKS", ' '), ("UV_FIND_LINKS", ',')];
/// Settings in a file: the variable, and the file's name in the box.
const SETTINGS: [(&str, &str); 2] = [("PIP_CONFIG_FILE", "pip.conf"), ("UV_CONFIG_FILE", "uv.toml")];

/// What is passed on. It has no `Debug`, since its values may hold passwords.
#[derive(Default)]
pub(in crate::builder) struct Supplies {
    pub(super) env_vars: BTreeMap<String, String>,
    pub(in crate::builder) inputs: Vec<BuildInput>,
    pub(in crate::builder) secrets: Vec<(String, Secret)>,
    /// What must not be shown beyond what the variables themselves hold.
    pub(super) hidden: SecretSet,
    /// For the log: what was left out.
    pub(super) notes: Vec<String>,
}

impl Supplies {
    /// These files alone.
    pub(in crate::builder) fn of_secrets(secrets: Vec<(String, Secret)>) -> Self {
        Self { secrets, ..Self::default() }
    }

    /// Of these variables, for an Environment with these indexes. Looks at files, so it blocks.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] naming the variable that names a file which must be there and is not.
    pub(super) fn of(variables: &InstallerVariables, indexes: &[String]) -> Result<Self> {
        let mut passed = Self::default();
        let set =
            |name: &str| variables.get(name).map(Secret::expose).filter(|value| !value.trim().is_empty());
        for (name, value) in variables.iter() {
            if is_plain(name) && !value.expose().is_empty() {
                passed.env_vars.insert(name.to_owned(), value.expose().to_owned());
            }
        }
        for name in CERTIFICATES {
            if let Some(value) = set(name) {
                let inside = passed.input(name, Path::new(value)).ok_or_else(|| missing(name))?;
                passed.env_vars.insert(name.to_owned(), inside);
            }
        }
        if let Some(value) = set("SSL_CERT_DIR") {
            passed.list("SSL_CERT_DIR", value.split(':'), ":", true)?;
        }
        for (name, between) in LINKS {
            if let Some(value) = set(name) {
                // One folder whose name has a space in it is one folder.
                let whole = Path::new(value).exists();
                let words = value.split(move |c: char| !whole && (c.is_whitespace() || c == ','));
                passed.list(name, words, &between.to_string(), true)?;
            }
        }
        for (name, between, can_miss) in INDEXES {
            if let Some(value) = set(name) {
                passed.list(name, value.split_whitespace(), &between.to_string(), can_miss)?;
            }
        }
        for (name, file) in SETTINGS {
            if let Some(value) = set(name) {
                passed.settings(name, file, value);
            }
        }
        passed.put_indexes(indexes);
        Ok(passed)
    }

    /// A variable with a list, in which what is of this machine is where it is in the box.
    fn list<'a>(
        &mut self,
        name: &str,
        words: impl Iterator<Item = &'a str>,
        between: &str,
        can_miss: bool,
    ) -> Result<()> {
        let mut inside = Vec::new();
        for word in words.filter(|word| !word.is_empty()) {
            match self.word(name, word) {
                Some(word) => inside.push(word),
                None if can_miss => {
                    self.notes.push(format!(
                        "{name} names a file or folder that is not there or that no box can have; it is left out"
                    ));
                }
                None => return Err(missing(name)),
            }
        }
        if !inside.is_empty() {
            self.env_vars.insert(name.to_owned(), inside.join(between));
        }
        Ok(())
    }

    /// What a word of a list is in the box; `None` if it names nothing.
    fn word(&mut self, name: &str, word: &str) -> Option<String> {
        // An index of uv may have a name in front.
        let (label, address) = match word.split_once('=') {
            Some((label, address)) if address.contains("://") && !label.contains([':', '/']) => {
                (Some(label), address)
            }
            _ => (None, word),
        };
        let inside = match address.strip_prefix("file://") {
            Some(path) => {
                let path = path.strip_prefix("localhost").unwrap_or(path);
                let path = path.split(['#', '?']).next().unwrap_or_default();
                format!("file://{}", self.input(name, Path::new(&percent_decoded(path)))?)
            }
            None if address.contains("://") => address.to_owned(),
            None => self.input(name, Path::new(address))?,
        };
        Some(label.map(|label| format!("{label}={inside}")).unwrap_or(inside))
    }

    /// Where a file or folder of this machine is in the box; `None` if there is none.
    fn input(&mut self, variable: &str, path: &Path) -> Option<String> {
        let path = std::path::absolute(path).ok()?;
        let metadata = std::fs::metadata(&path).ok().filter(|it| it.is_file() || it.is_dir())?;
        let known = self.inputs.iter().find(|input| input.path == path).map(|input| input.name.clone());
        let name = known.unwrap_or_else(|| {
            let name = self.name_for(variable, &path, metadata.is_file());
            self.inputs.push(BuildInput::new(&name, &path));
            name
        });
        Some(format!("{INPUTS}/{name}"))
    }

    /// The name of a package's file says what it is, so it keeps it; any other name is nobody's business.
    fn name_for(&self, variable: &str, path: &Path, is_file: bool) -> String {
        let kept = path.file_name().and_then(|name| name.to_str()).filter(|name| {
            let is_free = self.inputs.iter().all(|input| input.name != *name);
            is_file && is_free && !name.starts_with('.') && (name.ends_with(".whl") || name.ends_with(".gz"))
        });
        let number = self.inputs.len();
        kept.map_or_else(|| format!("{}-{number}", variable.to_ascii_lowercase()), str::to_owned)
    }

    /// A file with settings, which may hold passwords.
    fn settings(&mut self, variable: &str, file: &str, path: &str) {
        if path == "/dev/null" || path == "os.devnull" {
            return;
        }
        let Ok(text) = std::fs::read_to_string(path) else {
            self.notes.push(format!("{variable} names no file that can be read; it is left out"));
            return;
        };
        for (name, secret) in InstallerVariables::credentials_in(&text).iter() {
            let _ = self.hidden.insert(format!("{variable} {name}"), secret.expose());
        }
        self.secrets.push((file.to_owned(), Secret::new(text)));
        self.env_vars.insert(variable.to_owned(), format!("{SECRETS}/{file}"));
    }

    /// The Environment's indexes before the caller's, and all of them for our own script.
    fn put_indexes(&mut self, indexes: &[String]) {
        let mut words = |name: &str| -> Vec<String> {
            let value = self.env_vars.remove(name).unwrap_or_default();
            value.split_whitespace().map(str::to_owned).collect()
        };
        let pip = [words("PIP_INDEX_URL"), words("PIP_EXTRA_INDEX_URL")];
        let (default, named) = (words("UV_DEFAULT_INDEX"), words("UV_INDEX"));
        let (url, extra) = (words("UV_INDEX_URL"), words("UV_EXTRA_INDEX_URL"));
        let plain = |words: &[String]| -> Vec<String> {
            words.iter().map(|word| without_label(word).to_owned()).collect()
        };
        // Who has set up only what uv calls by other names has set up pip too.
        let pip = match &pip[0][..] {
            [] => [plain(&default), [&pip[1][..], &plain(&named)].concat()],
            _ => pip,
        };
        let mut put = |name: &str, words: &[String]| {
            if !words.is_empty() {
                self.env_vars.insert(name.to_owned(), words.join(" "));
            }
        };
        let mut all: Vec<String> = indexes.to_vec();
        all.extend(pip.concat().into_iter().chain(url.clone()).chain(extra.clone()));
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|index| seen.insert(index.clone()));
        if indexes.is_empty() && pip[0].is_empty() && url.is_empty() {
            all.push(PUBLIC_INDEX.to_owned());
        }
        put(ALL_INDEXES, &all);
        if let [first, others @ ..] = indexes {
            let first = std::slice::from_ref(first);
            put("PIP_INDEX_URL", first);
            put("PIP_EXTRA_INDEX_URL", &[others, &pip.concat()].concat());
            put("UV_DEFAULT_INDEX", first);
            put("UV_INDEX", &[others, &named, &default].concat());
            put("UV_EXTRA_INDEX_URL", &[extra, url].concat());
        } else {
            put("PIP_INDEX_URL", &pip[0]);
            put("PIP_EXTRA_INDEX_URL", &pip[1]);
            put("UV_DEFAULT_INDEX", &default);
            put("UV_INDEX", &named);
            put("UV_INDEX_URL", &url);
            put("UV_EXTRA_INDEX_URL", &extra);
        }
    }

    /// Whether nothing is to be asked for on an index.
    pub(super) fn has_no_index(&self) -> bool {
        let value = self.env_vars.get("UV_NO_INDEX").map(|value| value.to_ascii_lowercase());
        value.is_some_and(|value| !["", "0", "false", "no", "off", "n", "f"].contains(&value.as_str()))
    }
}

/// Whether its value means the same in a build box. What a key ring of the caller knows is not there.
fn is_plain(name: &str) -> bool {
    const ON_THIS_MACHINE: [&str; 3] = ["SSL_CERT_DIR", "PIP_KEYRING_PROVIDER", "UV_KEYRING_PROVIDER"];
    let listed = INDEXES.iter().map(|(name, ..)| *name).chain(LINKS.iter().map(|(name, _)| *name));
    !listed
        .chain(SETTINGS.iter().map(|(name, _)| *name))
        .chain(CERTIFICATES)
        .chain(ON_THIS_MACHINE)
        .any(|other| other == name)
}

fn without_label(word: &str) -> &str {
    match word.split_once('=') {
        Some((label, address)) if address.contains("://") && !label.contains([':', '/']) => address,
        _ => word,
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn missing(name: &str) -> provider_core::error::Error {
    error(Code::SpecInvalid, format!("the variable {name} names a file that is not on this machine"))
        .with_advice(format!("correct {name}, or unset it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(pairs: &[(&str, &str)], indexes: &[&str]) -> Result<Supplies> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let indexes: Vec<String> = indexes.iter().map(|index| (*index).to_owned()).collect();
        Supplies::of(&InstallerVariables::of(pairs), &indexes)
    }

    #[test]
    fn only_what_fetching_needs_is_passed_on() {
        let passed = passed(
            &[
                ("PIP_COMPILE", "1"),
                ("UV_COMPILE_BYTECODE", "1"),
                ("PIP_RETRIES", "2"),
                ("https_proxy", "http://p"),
            ],
            &[],
        )
        .unwrap();
        let names: Vec<&str> = passed.env_vars.keys().map(String::as_str).collect();
        assert_eq!(names, ["PIP_RETRIES", ALL_INDEXES, "https_proxy"]);
        assert_eq!(passed.env_vars[ALL_INDEXES], PUBLIC_INDEX);
    }

    #[test]
    fn the_environments_indexes_come_before_the_callers() {
        let caller = [("PIP_INDEX_URL", "https://c/s"), ("UV_INDEX", "x=https://n/s")];
        let both = passed(&caller, &["https://a/s", "https://b/s"]).unwrap().env_vars;
        assert_eq!(both["PIP_INDEX_URL"], "https://a/s");
        assert_eq!(both["PIP_EXTRA_INDEX_URL"], "https://b/s https://c/s");
        assert_eq!(both["UV_DEFAULT_INDEX"], "https://a/s");
        assert_eq!(both["UV_INDEX"], "https://b/s x=https://n/s");
        assert_eq!(both["UV_EXTRA_INDEX_URL"], "https://c/s");
        assert_eq!(both[ALL_INDEXES], "https://a/s https://b/s https://c/s");
        let own = passed(&[("UV_DEFAULT_INDEX", "x=https://n/s")], &[]).unwrap().env_vars;
        assert_eq!(own["UV_DEFAULT_INDEX"], "x=https://n/s");
        assert_eq!(own["PIP_INDEX_URL"], "https://n/s");
        assert_eq!(own[ALL_INDEXES], "https://n/s");
    }

    #[test]
    fn what_is_of_this_machine_is_where_it_is_in_the_box() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(place("a-1.0-py3-none-any.whl"), "").unwrap();
        std::fs::write(place("ca.pem"), "").unwrap();
        std::fs::create_dir(place("my wheels")).unwrap();
        std::fs::write(place("conf"), "[global]\nindex-url=https://me:canary-4711@a/s\n").unwrap();
        let list =
            format!("{} {}/none https://a/links file://{}", place("a-1.0-py3-none-any.whl"), place("x"), {
                place("my%20wheels")
            });
        let pairs = [
            ("PIP_FIND_LINKS", &*list),
            ("SSL_CERT_FILE", &place("ca.pem")),
            ("PIP_CONFIG_FILE", &place("conf")),
        ];
        let passed = passed(&pairs, &[]).unwrap();
        let wanted =
            ["/run/inputs/a-1.0-py3-none-any.whl", "https://a/links", "file:///run/inputs/pip_find_links-2"];
        assert_eq!(passed.env_vars["PIP_FIND_LINKS"], wanted.join(" "));
        assert_eq!(passed.env_vars["UV_FIND_LINKS"], wanted.join(","));
        assert_eq!(passed.env_vars["PIP_CERT"], passed.env_vars["SSL_CERT_FILE"]);
        assert_eq!(passed.inputs.len(), 3);
        assert_eq!(passed.notes.len(), 2, "{:?}", passed.notes);
        assert_eq!(passed.env_vars["PIP_CONFIG_FILE"], "/run/secrets/pip.conf");
        assert_eq!(passed.hidden.redact("canary-4711"), "[secret]");
        let values: Vec<&String> = passed.env_vars.values().collect();
        let shown = format!("{values:?} {:?}", passed.notes);
        assert!(!shown.contains(&folder.path().display().to_string()), "{shown}");
    }

    #[test]
    fn a_file_that_must_be_there_is_named_by_its_variable_alone() {
        for name in ["SSL_CERT_FILE", "PIP_CLIENT_CERT", "PIP_INDEX_URL"] {
            let error = passed(&[(name, "file:///no/canary-4711")], &[]).err().unwrap();
            assert!(error.message().contains(name), "{error}");
            assert!(!format!("{error:?}").contains("canary"), "{error:?}");
        }
        passed(&[("PIP_FIND_LINKS", "/no/such/folder"), ("SSL_CERT_DIR", "/no:/such")], &[]).unwrap();
    }
}
