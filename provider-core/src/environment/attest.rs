//! Whether an artifact still is what its record says, as far as its lockfile tells.

use super::{Artifact, Lockfile, sha256_hex};
use crate::{
    contract::Contract,
    error::{Code, Result},
    provider::{Finding, Inspection},
    sandbox::{Command, Sandbox, read_all},
};

/// Under which key a driver's inspection shows the lockfile's digest.
pub const LOCKFILE_DIGEST: &str = "lockfile digest";
/// A description of an image is no longer than this, in bytes.
const DESCRIPTION_MAX: usize = 1 << 20;

/// Compares each place that carries an artifact's lockfile digest with the record's: the lockfile inside a sandbox of
/// it, whose digest is computed there and here; the description beside it; and what the provider says about it.
/// Answers what differs, with both digests.
///
/// Cancel safe: dropping the future stops reading.
///
/// # Errors
/// [`Code::SandboxGone`](Code::SandboxGone) and errors of the connection. A file that is missing is a finding.
pub async fn verify_lockfile(
    artifact: &Artifact,
    contract: &Contract,
    inspection: &Inspection,
    sandbox: &dyn Sandbox,
) -> Result<Vec<Finding>> {
    let mut attest = Attest { wanted: &artifact.lockfile_digest, findings: Vec::new() };
    let path = contract.lockfile_path;
    let text = attest.file(sandbox, path, Lockfile::TEXT_MAX).await?;
    attest.compare(path, text.as_ref().map(|text| format!("sha256:{}", sha256_hex(text))));
    let inside = sandbox.exec(Command::argv(["sha256sum", path])).await?;
    let sum = inside.stdout_text().split_whitespace().next().map(|sum| format!("sha256:{sum}"));
    attest.compare(&format!("{path}, computed inside"), sum.filter(|_| inside.status.success()));
    if let Some(content) = attest.file(sandbox, contract.description_path, DESCRIPTION_MAX).await? {
        let description = serde_json::from_slice::<serde_json::Value>(&content).ok();
        let digest = description.and_then(|it| it["lockfile_digest"].as_str().map(str::to_owned));
        attest.compare(contract.description_path, digest);
    }
    if let Some(digest) = inspection.get(LOCKFILE_DIGEST) {
        attest.compare("the provider's record", Some(digest.clone()));
    }
    Ok(attest.findings)
}

struct Attest<'a> {
    wanted: &'a str,
    findings: Vec<Finding>,
}

impl Attest<'_> {
    fn compare(&mut self, place: &str, found: Option<String>) {
        match found {
            Some(found) if found == self.wanted => {}
            Some(found) => {
                self.add(
                    place,
                    format!("the lockfile's digest is {found}, and the artifact's is {}", self.wanted),
                );
            }
            None => self.add(place, format!("it gives no digest, and the artifact's is {}", self.wanted)),
        }
    }

    /// The content of a file; a file that cannot be read is a finding.
    async fn file(&mut self, sandbox: &dyn Sandbox, path: &str, max: usize) -> Result<Option<Vec<u8>>> {
        let read = match sandbox.read(path).await {
            Ok(stream) => read_all(stream, max).await,
            Err(error) => Err(error),
        };
        match read {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.code() == Code::FileError => {
                self.add(path, format!("it cannot be read: {}", error.message()));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn add(&mut self, place: &str, words: String) {
        self.findings.push(Finding::new(place, Code::SmokeTestFailed, words));
    }
}
