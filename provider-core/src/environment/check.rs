//! What a specification must not say, found all at once.

use std::collections::BTreeSet;

use super::{EnvironmentSpec, FileSpec, is_sha256_hex};
use crate::{contract::SANDBOX_V1, error::Code, provider::Finding};

const FILES_MAX: usize = 32;
const COMMANDS_MAX: usize = 32;
const COMMAND_BYTES_MAX: usize = 64 << 10;
const ENV_BYTES_MAX: usize = 128 << 10;
const RESERVED_NAMES: [&str; 3] = ["provider-", "kube-", "system-"];
/// Variables that the contract itself sets.
const CONTRACT_VARIABLES: [&str; 3] = ["HOME", "USER", "LOGNAME"];
/// Folders whose content is not part of an image.
const VIRTUAL_FOLDERS: [&str; 5] = ["/proc", "/sys", "/dev", "/run", "/tmp"];

impl EnvironmentSpec {
    /// Everything that is wrong with it, each with its place. Pure.
    pub fn check(&self) -> Vec<Finding> {
        let mut findings = Findings(Vec::new());
        self.check_metadata(&mut findings);
        self.check_files(&mut findings);
        self.check_env(&mut findings);
        self.check_commands(&mut findings);
        self.check_secrets(&mut findings);
        self.check_packages(&mut findings);
        self.check_options(&mut findings);
        findings.0
    }

    fn check_metadata(&self, findings: &mut Findings) {
        let name = &self.metadata.name;
        if !is_dns_label(name) {
            findings.add(
                "metadata.name",
                format!("{name:?} is not 1 to 63 lower-case letters, digits and inner hyphens"),
            );
        }
        if let Some(prefix) = RESERVED_NAMES.iter().find(|prefix| name.starts_with(**prefix)) {
            findings.add("metadata.name", format!("names with {prefix} in front are reserved"));
        }
        if self.spec.contract != SANDBOX_V1.name {
            let known = SANDBOX_V1.name;
            findings.add(
                "spec.contract",
                format!("{:?} is not known; this version knows {known}", self.spec.contract),
            );
        }
        let base = &self.spec.base.name;
        if base.is_empty() || base.len() > 255 || base.chars().any(|c| c.is_control() || c.is_whitespace()) {
            findings.add("spec.base.ref", "it is empty, too long or holds a space".to_owned());
        }
    }

    fn check_files(&self, findings: &mut Findings) {
        let files = &self.spec.files;
        if files.len() > FILES_MAX {
            findings
                .add("spec.files", format!("there are {} files, and {FILES_MAX} are allowed", files.len()));
        }
        let mut paths = BTreeSet::new();
        for (index, file) in files.iter().enumerate() {
            let place = format!("spec.files[{index}]");
            check_path(&file.path, &format!("{place}.path"), findings);
            check_content(file, &place, findings);
            if !paths.insert(file.path.as_str()) {
                findings.add(format!("{place}.path"), format!("{:?} is named twice", file.path));
            }
        }
        for path in &paths {
            if paths.iter().any(|other| other.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))) {
                findings.add("spec.files", format!("{path:?} cannot be a file and a folder"));
            }
        }
    }

    fn check_env(&self, findings: &mut Findings) {
        let total: usize = self.spec.env.iter().map(|(name, value)| name.len() + value.len()).sum();
        if total > ENV_BYTES_MAX {
            findings.add(
                "spec.env",
                format!("the variables have {total} bytes, and {ENV_BYTES_MAX} are allowed"),
            );
        }
        for (name, value) in &self.spec.env {
            let place = format!("spec.env.{name}");
            if !is_variable_name(name) {
                findings.add("spec.env", format!("{name:?} is no name for a variable"));
            } else if CONTRACT_VARIABLES.contains(&name.as_str()) || name.starts_with("PROVIDER_") {
                findings.add(&place, "the contract sets this variable itself".to_owned());
            }
            if value.chars().any(char::is_control) {
                findings.add(&place, "the value holds a control character".to_owned());
            }
            if looks_like_a_credential(value) {
                findings.add(&place, "the value looks like a credential; use spec.buildSecrets".to_owned());
            } else if names_a_credential(name, value) {
                findings.add(&place, "the name promises a credential; use spec.buildSecrets".to_owned());
            }
        }
    }

    fn check_commands(&self, findings: &mut Findings) {
        let commands = &self.spec.commands.post_install;
        let place = "spec.commands.postInstall";
        if commands.len() > COMMANDS_MAX {
            findings
                .add(place, format!("there are {} commands, and {COMMANDS_MAX} are allowed", commands.len()));
        }
        for (index, command) in commands.iter().enumerate() {
            let place = format!("{place}[{index}]");
            if command.trim().is_empty() {
                findings.add(&place, "it is empty".to_owned());
            }
            if command.len() > COMMAND_BYTES_MAX || command.contains('\0') {
                findings.add(&place, format!("it is longer than {COMMAND_BYTES_MAX} bytes or holds a NUL"));
            }
            if looks_like_a_credential(command) {
                findings
                    .add(&place, "it holds what looks like a credential; use spec.buildSecrets".to_owned());
            }
        }
    }

    fn check_secrets(&self, findings: &mut Findings) {
        let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
        for (index, secret) in self.spec.build_secrets.iter().enumerate() {
            let place = format!("spec.buildSecrets[{index}]");
            if !is_dns_label(&secret.id) {
                findings.add(
                    format!("{place}.id"),
                    format!("{:?} is not lower-case letters, digits and inner hyphens", secret.id),
                );
            }
            if !is_variable_name(&secret.name) {
                findings.add(
                    format!("{place}.name"),
                    format!("{:?} is not letters, digits and underscores", secret.name),
                );
            }
            if self.spec.env.contains_key(&secret.name) || CONTRACT_VARIABLES.contains(&secret.name.as_str())
            {
                findings.add(format!("{place}.name"), "a variable of this name exists already".to_owned());
            }
            if !ids.insert(&secret.id) || !names.insert(&secret.name) {
                findings.add(&place, "its id or name is used twice".to_owned());
            }
        }
    }
}

pub(super) struct Findings(Vec<Finding>);

impl Findings {
    pub(super) fn add(&mut self, place: impl Into<String>, words: String) {
        self.add_as(Code::SpecInvalid, place, words);
    }

    pub(super) fn add_as(&mut self, code: Code, place: impl Into<String>, words: String) {
        self.0.push(Finding::new(place, code, words));
    }
}

/// Whether it is a path below the specification's folder, as far as its text tells.
pub(super) fn is_plain_path(path: &str) -> bool {
    !path.is_empty()
        && !path.contains('\0')
        && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

fn check_path(path: &str, place: &str, findings: &mut Findings) {
    let Some(inner) = path.strip_prefix('/') else {
        return findings.add(place, format!("{path:?} is not absolute"));
    };
    if path.len() > 4000 || path.chars().any(char::is_control) {
        findings.add(place, "it is too long or holds a control character".to_owned());
    }
    if inner.split('/').any(|part| part.is_empty() || part == "." || part == ".." || part.len() > 255) {
        findings.add(place, format!("{path:?} is not a plain path to a file"));
    }
    let within =
        |folder: &str| path == folder || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    if within(SANDBOX_V1.reserved_path) {
        findings.add(place, format!("{} is reserved by the contract", SANDBOX_V1.reserved_path));
    }
    if let Some(folder) = VIRTUAL_FOLDERS.iter().find(|folder| within(folder)) {
        findings.add(place, format!("{folder} is not part of an image"));
    }
}

fn check_content(file: &FileSpec, place: &str, findings: &mut Findings) {
    match (&file.content, &file.content_ref) {
        (Some(_), None) => {}
        (None, Some(reference)) => {
            if !is_plain_path(reference) {
                findings.add(
                    format!("{place}.contentRef"),
                    format!("{reference:?} is not a plain path beside the specification"),
                );
            }
        }
        _ => findings.add(place, "exactly one of content and contentRef is needed".to_owned()),
    }
    if file.sha256.as_deref().is_some_and(|digest| !is_sha256_hex(digest)) {
        findings.add(format!("{place}.sha256"), "it is not 64 hexadecimal digits".to_owned());
    }
    if file.permissions().is_none() {
        findings.add(
            format!("{place}.mode"),
            format!("{:?} is not 3 or 4 octal digits of at most 0777", file.mode),
        );
    }
}

impl FileSpec {
    /// The permission bits, if they are well formed.
    pub fn permissions(&self) -> Option<u32> {
        let digits =
            matches!(self.mode.len(), 3 | 4) && self.mode.bytes().all(|b| (b'0'..=b'7').contains(&b));
        u32::from_str_radix(&self.mode, 8).ok().filter(|mode| digits && *mode <= 0o777)
    }
}

fn is_dns_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_variable_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.len() <= 255
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// A name that promises a credential, with a value that is long enough to be one.
fn names_a_credential(name: &str, value: &str) -> bool {
    const WORDS: [&str; 6] = ["PASSWORD", "PASSWD", "SECRET", "TOKEN", "API_KEY", "PRIVATE_KEY"];
    let name = name.to_ascii_uppercase();
    value.len() >= 8 && WORDS.iter().any(|word| name.ends_with(word))
}

/// Known forms of keys, and addresses with a password.
pub(super) fn looks_like_a_credential(text: &str) -> bool {
    const FORMS: [(&str, usize); 12] = [
        ("ghp_", 30),
        ("gho_", 30),
        ("ghs_", 30),
        ("github_pat_", 30),
        ("glpat-", 20),
        ("sk-", 32),
        ("sk_live_", 16),
        ("xoxb-", 20),
        ("xoxp-", 20),
        ("AKIA", 16),
        ("e2b_", 30),
        ("dtn_", 30),
    ];
    let is_key_character = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let has_form = |word: &str| {
        FORMS.iter().any(|(prefix, rest)| word.strip_prefix(prefix).is_some_and(|tail| tail.len() >= *rest))
    };
    text.contains("PRIVATE KEY-----")
        || text.split(|c| !is_key_character(c)).any(has_form)
        || text.split_whitespace().any(has_password_in_address)
}

fn has_password_in_address(word: &str) -> bool {
    word.split_once("://").is_some_and(|(_, rest)| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        authority.rsplit_once('@').is_some_and(|(user, _)| {
            user.split_once(':')
                .is_some_and(|(_, password)| !password.is_empty() && !password.starts_with('$'))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::{BuildSecret, SecretMount};

    fn file(path: &str) -> FileSpec {
        FileSpec {
            path: path.into(),
            content: Some(String::new()),
            content_ref: None,
            sha256: None,
            mode: "0644".into(),
        }
    }

    /// The places that are found wrong after `change`.
    fn places(change: impl FnOnce(&mut EnvironmentSpec)) -> Vec<String> {
        let mut spec = EnvironmentSpec::named("hello");
        change(&mut spec);
        spec.check().into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn a_plain_specification_is_accepted() {
        let none = places(|spec| {
            spec.spec.files.push(file("/home/sandbox/work/a b/\u{e9}.txt"));
            spec.spec.env.insert("GREETING".into(), "https://example.org/?q=a@b:c".into());
            spec.spec.commands.post_install.push("echo \"$TOKEN\" | wc -c\ntrue".into());
        });
        assert!(none.is_empty(), "{none:?}");
    }

    #[test]
    fn each_rule_finds_its_place() {
        for path in [
            "relative",
            "/a//b",
            "/a/../b",
            "/a/",
            "/",
            "/a\nb",
            "/opt/provider/x",
            "/opt/provider",
            "/proc/1",
            "/tmp/x",
        ] {
            assert!(!places(|spec| spec.spec.files.push(file(path))).is_empty(), "{path:?} was accepted");
        }
        assert_eq!(places(|spec| spec.spec.files.extend([file("/a"), file("/a")])), ["spec.files[1].path"]);
        assert_eq!(places(|spec| spec.spec.files.extend([file("/a"), file("/a/b")])), ["spec.files"]);
        assert_eq!(
            places(|spec| spec.spec.files.extend((0..33).map(|n| file(&format!("/{n}"))))),
            ["spec.files"]
        );
        for name in ["", "Upper", "-a", "a-", "a.b", "provider-x", &"a".repeat(64)] {
            assert_eq!(places(|spec| spec.metadata.name = name.into()), ["metadata.name"], "{name:?}");
        }
        for name in ["", "1A", "A-B", "A B", "HOME", "PROVIDER_X"] {
            assert_eq!(
                places(|spec| {
                    spec.spec.env.insert(name.into(), "v".into());
                })
                .len(),
                1,
                "{name:?}"
            );
        }
        for mode in ["", "7", "0888", "1777", "00644", "-644", "+644"] {
            let wrong = FileSpec { mode: mode.into(), ..file("/a") };
            assert_eq!(places(|spec| spec.spec.files.push(wrong)), ["spec.files[0].mode"], "{mode:?}");
        }
        for reference in ["", "../x", "/etc/passwd", "a//b", "a\0"] {
            let wrong = FileSpec { content: None, content_ref: Some(reference.into()), ..file("/a") };
            assert_eq!(
                places(|spec| spec.spec.files.push(wrong)),
                ["spec.files[0].contentRef"],
                "{reference:?}"
            );
        }
        let secret = |id: &str, name: &str| BuildSecret {
            id: id.into(),
            mount_as: SecretMount::Env,
            name: name.into(),
        };
        assert_eq!(
            places(|spec| spec.spec.build_secrets.push(secret("A", "A"))),
            ["spec.buildSecrets[0].id"]
        );
        assert_eq!(
            places(|spec| spec.spec.build_secrets.push(secret("a", "../a"))),
            ["spec.buildSecrets[0].name"]
        );
        assert_eq!(
            places(|spec| spec.spec.build_secrets.extend([secret("a", "A"), secret("a", "B")])),
            ["spec.buildSecrets[1]"]
        );
    }

    #[test]
    fn values_that_look_like_credentials_are_refused_and_not_quoted() {
        for (name, value) in [
            ("A", "ghp_0123456789abcdefghijABCDEFGHIJ456789"),
            ("A", "key=AKIAIOSFODNN7EXAMPLE!"),
            ("A", "https://user:hunter22@example.org/x"),
            ("A", "-----BEGIN PRIVATE KEY-----"),
            ("DB_PASSWORD", "correct horse"),
        ] {
            let mut spec = EnvironmentSpec::named("hello");
            spec.spec.env.insert(name.into(), value.into());
            let findings = spec.check();
            assert_eq!(findings.len(), 1, "{value:?} was accepted");
            assert!(findings[0].words.contains("buildSecrets") && !findings[0].words.contains(value));
        }
    }
}
