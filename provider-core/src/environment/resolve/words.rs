//! What `uv` says when it cannot resolve, as an error of ours.
//!
//! `uv` explains a failure in sentences: `Because <fact> and <fact>, we can conclude that <conclusion>.`, several of
//! them where one builds on another. Older versions draw a tree of lines around them.

use super::{ResolveInputs, clauses};
use crate::{
    environment::PROTECTED,
    error::{Code, Error},
    secret::SecretSet,
};

/// How much of a text is shown, in characters.
const SHOWN_MAX: usize = 600;
const LAST_LINES: usize = 6;

/// The words of `uv`, without credentials.
pub(super) struct Words {
    /// As it was said, line by line.
    lines: Vec<String>,
    /// In one line, without hints and the decoration of lines.
    text: String,
    /// What it gave as hints, in one line.
    hints: String,
}

impl Words {
    /// Reads what a failed `uv` wrote.
    pub(super) fn of(stderr: &[u8], secrets: &SecretSet) -> Self {
        let all = secrets.redact(&String::from_utf8_lossy(stderr));
        let plain =
            |line: &str| line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
        let lines: Vec<String> = all.lines().map(|line| without_credentials(&plain(line))).collect();
        let (mut text, mut hints, mut in_hint) = (String::new(), String::new(), false);
        for line in &lines {
            let words = undecorated(line);
            in_hint = words.starts_with("hint:") || in_hint && !words.is_empty();
            let part = if in_hint { &mut hints } else { &mut text };
            if !words.is_empty() && !words.starts_with("warning:") {
                *part += if part.is_empty() { "" } else { " " };
                *part += words;
            }
        }
        Self { lines: lines.into_iter().filter(|line| !line.trim().is_empty()).collect(), text, hints }
    }

    fn last_lines(&self) -> String {
        let first = self.lines.len().saturating_sub(LAST_LINES);
        self.lines.get(first..).unwrap_or_default().join("\n")
    }
}

/// A line without what older versions draw in front of it.
fn undecorated(line: &str) -> &str {
    let mut words = line.trim_matches(|c: char| c.is_whitespace() || "×╰─▶├│".contains(c));
    for prefix in ["error: ", "cause: ", "Caused by: "] {
        words = words.strip_prefix(prefix).unwrap_or(words);
    }
    words
}

/// Addresses without user, password, query and fragment.
fn without_credentials(line: &str) -> String {
    let mut parts = line.split("://");
    let mut safe = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| c.is_whitespace() || "`'\"<>)".contains(c)).unwrap_or(part.len());
        let (address, rest) = part.split_at(end);
        let (authority, path) = address.split_at(address.find('/').unwrap_or(address.len()));
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let path = path.split(['?', '#']).next().unwrap_or_default();
        safe += &format!("://{}{path}{rest}", host.split(['?', '#']).next().unwrap_or_default());
    }
    safe
}

/// The error that these words mean.
pub(super) fn explain(words: &Words, status: &str, inputs: &ResolveInputs) -> Error {
    let known = [
        no_python,
        no_network,
        status_of_index,
        no_access,
        not_found,
        protected,
        python_range,
        no_version,
        pair,
    ];
    let found = known.iter().find_map(|rule| rule(words, inputs));
    let error = found.unwrap_or_else(|| {
        let last = words.last_lines();
        let said = if last.is_empty() { "and said nothing".to_owned() } else { format!("and said: {last}") };
        Error::unmapped(format!("uv ended with {status} {}", shown(&said)))
    });
    error.with_context("uv", words.last_lines())
}

/// At most so much that a line stays readable.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{} ...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn no_python(words: &Words, _: &ResolveInputs) -> Option<Error> {
    let missing = [
        "No interpreter found",
        "No Python at",
        "Could not find a suitable Python",
        "Failed to inspect Python",
    ];
    let said = missing.iter().find_map(|start| words.text.find(start))?;
    let words = format!(
        "uv has no Python to work with, which it needs to read packages that are published as source: {}",
        shown(words.text.get(said..)?)
    );
    Some(
        Error::new(Code::MachineUnsuitable, words)
            .with_advice("install Python 3 on the PATH, or give a lockfile that was resolved elsewhere"),
    )
}

fn no_network(words: &Words, _: &ResolveInputs) -> Option<Error> {
    if words.hints.contains("network was disabled") || words.text.contains("Network connectivity is disabled")
    {
        let words =
            "uv was told not to use the network (UV_OFFLINE), and its cache does not have all packages";
        return Some(Error::new(Code::ConnectionFailed, words).with_advice("unset UV_OFFLINE and try again"));
    }
    const TRANSPORT: [&str; 9] = [
        "error sending request",
        "client error (",
        "dns error",
        "tunnel error",
        "invalid peer certificate",
        "connection closed",
        "error decoding response body",
        "request or response body error",
        "operation timed out",
    ];
    let fetching = ["Failed to fetch", "Failed to download"].iter().any(|start| words.text.contains(start));
    if !fetching
        || words.text.contains("HTTP status")
        || !TRANSPORT.iter().any(|sign| words.text.contains(sign))
    {
        return None;
    }
    let host = host(&words.text).unwrap_or("the index");
    // The last of the causes is the first in time.
    let cause =
        words.lines.iter().rev().map(|line| undecorated(line)).find(|line| !line.starts_with("hint:"));
    let message = format!("no answer from {host}: {}", shown(cause.unwrap_or_default()));
    Some(
        Error::new(Code::ConnectionFailed, message)
            .with_advice("check the network, the proxy and the address of the index, and try again"),
    )
}

/// The host, with its port, of the first address.
fn host(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("://")?;
    let end =
        rest.find(|c: char| c == '/' || c.is_whitespace() || "`'\"<>)".contains(c)).unwrap_or(rest.len());
    rest.get(..end).filter(|host| !host.is_empty())
}

fn status_of_index(words: &Words, _: &ResolveInputs) -> Option<Error> {
    let (_, rest) = words.text.split_once("HTTP status ")?;
    let status = rest.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(status, _)| status)?;
    let code = match status.get(..3)? {
        "401" => Code::Unauthenticated,
        "403" => Code::PermissionDenied,
        "429" => Code::RateLimited,
        _ => Code::ProviderError,
    };
    let host = host(&words.text).unwrap_or("the index");
    Some(Error::new(code, format!("{host} answered {}", shown(status))))
}

/// An index that does not let us in looks to `uv` like one that has no package.
fn no_access(words: &Words, _: &ResolveInputs) -> Option<Error> {
    missing_package(words)?;
    let refusal = [("401 Unauthorized", Code::Unauthenticated), ("403 Forbidden", Code::PermissionDenied)];
    let (status, code) = refusal.into_iter().find(|(status, _)| words.hints.contains(status))?;
    let host = host(&words.hints).unwrap_or("the index");
    Some(
        Error::new(code, format!("{host} answered {status}")).with_advice(
            "give the index's credentials in the variables of the installer, such as UV_INDEX_URL",
        ),
    )
}

fn missing_package(words: &Words) -> Option<&str> {
    let (before, _) = words.text.split_once(" was not found in ")?;
    let name = before.rsplit(' ').next()?.trim_matches('`');
    let name = name.split(['{', '[']).next()?;
    (!name.is_empty()).then_some(name)
}

fn not_found(words: &Words, inputs: &ResolveInputs) -> Option<Error> {
    let name = missing_package(words)?;
    let host = inputs.indexes.iter().find_map(|index| host(index)).unwrap_or("the index");
    let who = clauses::requirers(&words.text, name);
    let who = who.map(|who| format!("; it is asked for by {who}")).unwrap_or_default();
    let message = format!("package {name} is not on {host}{who}");
    Some(Error::new(Code::PackageNotFound, message))
}

fn is_conflict(words: &Words) -> bool {
    words.text.contains("No solution found")
        || words.text.contains("unsatisfiable")
        || words.text.contains("incompatible")
}

fn protected(words: &Words, _: &ResolveInputs) -> Option<Error> {
    let pinned = PROTECTED.iter().find(|pin| {
        let text = format!("{}=={}", pin.name, pin.version);
        let missing = words.text.contains(&format!("no version of {text}"));
        is_conflict(words) && !missing && clauses::names_requirement(&words.text, &text)
    })?;
    let (name, version, supported) = (pinned.name, pinned.version, pinned.supported);
    let own = format!("{name}{supported}");
    let other =
        clauses::demands(&words.text).into_iter().find(|demand| demand.name() == name && demand.what != own);
    let other = other.map_or_else(|| shown(&words.text), |demand| demand.to_string());
    let message = format!(
        "{other} excludes {name} {version}, which every artifact carries; the supported range is {name}{supported}"
    );
    Some(Error::new(Code::ProtectedPackage, message))
}

fn python_range(words: &Words, inputs: &ResolveInputs) -> Option<Error> {
    let (_, rest) = words.text.split_once(" does not satisfy Python")?;
    let needed = rest.split([' ', ',']).next()?.trim_end_matches('.');
    let needed = if needed.is_empty() { rest.split([',', ' ']).nth(1)? } else { needed };
    let package = words
        .text
        .split_once(&format!(" depends on Python{needed}"))
        .or_else(|| words.text.split_once(&format!(" depend on Python{needed}")));
    let package = package.and_then(|(before, _)| before.rsplit(' ').next()).unwrap_or("a package");
    let python = inputs.python.as_deref().unwrap_or("3");
    let message =
        format!("{package} needs Python {needed}, and spec.language.version begins with Python {python}");
    Some(
        Error::new(Code::ResolveConflict, message)
            .with_advice("choose another version of the package, or leave older versions of Python out"),
    )
}

/// A version that does not exist. As a step of a longer explanation it is not the cause.
fn no_version(words: &Words, _: &ResolveInputs) -> Option<Error> {
    if words.text.matches("we can conclude").count() > 2 {
        return None;
    }
    let wanted = ["there is no version of ", "there are no versions of "].iter().find_map(|start| {
        words.text.split_once(start).and_then(|(_, rest)| rest.split([' ', ',']).next()).map(str::to_owned)
    });
    let wanted = wanted.or_else(|| clauses::beyond_available(&words.text))?;
    let wanted = wanted.trim_end_matches([',', '.']);
    Some(
        Error::new(Code::PackageNotFound, format!("there is no version {wanted} on the index"))
            .with_advice("check the package's name and version, and the index"),
    )
}

fn pair(words: &Words, _: &ResolveInputs) -> Option<Error> {
    if !is_conflict(words) {
        return None;
    }
    let message = match clauses::pair(&words.text) {
        Some((one, other)) => format!("{one} and {other} exclude each other: both are about {}", one.name()),
        None => format!("the requirements exclude each other: {}", shown(&words.text)),
    };
    Some(Error::new(Code::ResolveConflict, message))
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
