//! Why an installation failed, in words that name the package or place and what to do.

use provider_core::{
    environment::PIP,
    error::{Code, Error, Result},
};

use super::{
    base::Python,
    errors::Cause,
    install::{Said, Work},
};
use crate::{config::InstallerWay, errors::error};

/// How much of a log an error shows, in lines.
const LINES_SHOWN: usize = 40;
const OTHER_BASE: &str = "install python3 and python3-venv in the base, or choose another base";

/// An error with the end of the log that tells of it.
pub(super) fn with_log(error: Error, lines: &[String]) -> Error {
    let shown = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
    if shown.is_empty() { error } else { error.with_context("end of its log", shown.join("\n    ")) }
}

pub(super) fn no_python(base: &str) -> Error {
    let words = format!("base {base:?} has no python3, and the Environment names the language python");
    error(Code::BuildFailed, words).with_advice(OTHER_BASE)
}

pub(super) fn no_way(base: &str, reasons: &[String], missing: &[String]) -> Error {
    let words = format!("nothing can install packages on base {base:?}: {}", reasons.join("; "));
    let advice =
        if missing.is_empty() { "allow another installer, or choose another base" } else { OTHER_BASE };
    error(Code::BuildFailed, words).with_advice(advice)
}

/// The environment itself could not be made.
pub(super) fn of_environment(base: &str, said: &Said) -> Error {
    if Cause::of(&said.lines) == Cause::DiskFull {
        return with_log(disk_full(), &said.lines);
    }
    let words = format!("the virtual environment could not be made on base {base:?}: {}", last(&said.lines));
    with_log(error(Code::BuildFailed, words).with_advice(OTHER_BASE), &said.lines)
}

/// The pinned pip could not be fetched.
pub(super) fn of_fetch(answer: &str, lines: &[String]) -> Error {
    let (word, rest) = answer.split_once(' ').unwrap_or((answer, ""));
    match word {
        "connection" | "refused" => of_place(word, rest),
        "mismatch" => {
            let (expected, actual) = rest.split_once(' ').unwrap_or((rest, ""));
            mismatch(PIP.file, &[expected.to_owned()], actual)
        }
        "none" => {
            let words = format!("{} is in no folder of links and on no index", PIP.file);
            error(Code::PackageNotFound, words)
                .with_advice("put the file there, or name an index that has it in PIP_INDEX_URL")
        }
        _ if Cause::of(lines) == Cause::DiskFull => with_log(disk_full(), lines),
        _ => {
            let words = format!("{} could not be fetched: {}", PIP.file, last(lines));
            with_log(error(Code::BuildFailed, words), lines)
        }
    }
}

/// An installer ended without success.
pub(super) async fn of_installer(work: &Work<'_>, python: &Python, way: InstallerWay, said: &Said) -> Error {
    let found = match Cause::of(&said.lines) {
        Cause::NoFileOrNotFound { package } | Cause::NotFound { package } => {
            undecided(work, python, &package).await.unwrap_or_else(|error| error)
        }
        Cause::Mismatch { package, expected, actual } => mismatch(&package, &expected, &actual),
        Cause::Broken { package, file, why } => {
            broken(work, python, &package, &file, &why).await.unwrap_or_else(|error| error)
        }
        Cause::NoFile { package, why } => no_file(&package, python, &why),
        Cause::Connection { host, why } => unreachable_place(&format!("{host}: {why}")),
        Cause::Refused { host } => unknown_caller(&host),
        Cause::DiskFull => disk_full(),
        Cause::Other => {
            let words = format!("{way} ended with {}: {}", said.status, last(&said.lines));
            error(Code::BuildFailed, words)
        }
    };
    with_log(found, &said.lines)
}

/// An installer may say alike that a version is not there, that it has no file for this Python, that nobody answered,
/// and that an index wants to know who asks.
async fn undecided(work: &Work<'_>, python: &Python, package: &str) -> Result<Error> {
    if work.has_settings() {
        // They may name indexes that only the installer knows.
        return Ok(not_found(package));
    }
    let (name, version) = package.split_once("==").unwrap_or((package, ""));
    let answer = work.look_for(python, name, version).await?;
    let (word, rest) = answer.split_once(' ').unwrap_or((&answer, ""));
    Ok(match word {
        "connection" | "refused" => of_place(word, rest),
        "files" => no_file(package, python, &format!("it has only {rest}")),
        _ => not_found(package),
    })
}

/// A file that cannot be read is most often not the one that was locked.
async fn broken(work: &Work<'_>, python: &Python, package: &str, file: &str, why: &str) -> Result<Error> {
    let name = package.split_once("==").map_or(package, |(name, _)| name);
    let locked = work.hashes_of(name);
    Ok(match work.digest_of(python, name, file).await? {
        Some(found) if !locked.contains(&found) => mismatch(package, &locked, &found),
        _ => error(Code::BuildFailed, format!("the file {file} of {package} cannot be used: {why}")),
    })
}

fn of_place(word: &str, words: &str) -> Error {
    if word == "refused" { unknown_caller(words) } else { unreachable_place(words) }
}

fn unreachable_place(words: &str) -> Error {
    error(Code::ConnectionFailed, format!("packages could not be fetched from {words}")).with_advice(
        "the packages of the lockfile must be reachable: check the network, name another index in PIP_INDEX_URL or \
         UV_INDEX_URL, or a proxy in HTTPS_PROXY",
    )
}

fn unknown_caller(words: &str) -> Error {
    error(
        Code::Unauthenticated,
        format!("packages could not be fetched from {words}, which refuses the caller"),
    )
    .with_advice("check the user and password of the index in PIP_INDEX_URL or UV_INDEX_URL")
}

fn mismatch(package: &str, expected: &[String], actual: &str) -> Error {
    let expected = expected.join(" or ");
    let words = format!(
        "{package} is not the file that was locked: expected is sha256 {expected}, and it is {actual}"
    );
    error(Code::BuildFailed, words)
        .with_advice("find out who changed the file; if it is right, resolve again: `matrix resolve`")
}

fn no_file(package: &str, python: &Python, why: &str) -> Error {
    let words = format!("no file of {package} is for Python {} on this machine: {why}", python.version);
    error(Code::BuildFailed, words).with_advice("choose another version of the package, or another base")
}

fn not_found(package: &str) -> Error {
    error(Code::PackageNotFound, format!("{package} is in no folder of links and on no index"))
        .with_advice("check the index, or resolve again: `matrix resolve`")
}

fn disk_full() -> Error {
    error(Code::MachineUnsuitable, "no space left on the disk of the state folder for the packages")
        .with_advice("free some space, or choose a state folder on another disk")
}

fn last(lines: &[String]) -> &str {
    lines.iter().rev().map(|line| line.trim()).find(|line| !line.is_empty()).unwrap_or("it said nothing")
}
