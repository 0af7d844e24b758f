//! What the words of an installer mean.

/// How much of a reason is shown, in characters.
const REASON_MAX: usize = 200;

/// Why an installer failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A file is not the one that was locked.
    Mismatch { package: String, expected: Vec<String>, actual: String },
    /// A file cannot be read as what it should be.
    Broken { package: String, file: String, why: String },
    /// No file of the version is for this Python and system.
    NoFile { package: String, why: String },
    /// Neither index nor folder has it.
    NotFound { package: String },
    /// pip does not say which of the two.
    NoFileOrNotFound { package: String },
    /// A place did not answer.
    Connection { host: String, why: String },
    /// A place wants to know who asks.
    Refused { host: String },
    /// There is no room left.
    DiskFull,
    /// Something else.
    Other,
}

impl Cause {
    /// Of an installer's output, in lines.
    pub(super) fn of(lines: &[String]) -> Self {
        let text = lines.join("\n");
        if text.contains("No space left on device") || text.contains("Disk quota exceeded") {
            return Cause::DiskFull;
        }
        mismatch_of_pip(lines)
            .or_else(|| mismatch_of_uv(lines))
            .or_else(|| refused(&text))
            .or_else(|| connection(lines))
            .or_else(|| unresolved(lines))
            .or_else(|| broken(lines))
            .unwrap_or(Cause::Other)
    }
}

fn mismatch_of_pip(lines: &[String]) -> Option<Cause> {
    let start = lines.iter().position(|line| line.contains("DO NOT MATCH THE HASHES"))?;
    let mut rest = lines[start + 1..].iter().map(|line| line.trim());
    let package = rest.next()?.split(" from ").next()?.to_owned();
    let (mut expected, mut actual) = (Vec::new(), String::new());
    for line in rest {
        let last = line.split_whitespace().next_back().unwrap_or_default().to_owned();
        if line.starts_with("Expected ") {
            expected.push(last);
        } else if line.starts_with("Got ") {
            actual = last;
            break;
        }
    }
    Some(Cause::Mismatch { package, expected, actual })
}

fn mismatch_of_uv(lines: &[String]) -> Option<Cause> {
    let start = lines.iter().position(|line| line.contains("Hash mismatch for "))?;
    let package = between(&lines[start], "`", "`")?.to_owned();
    let (mut expected, mut actual, mut is_computed) = (Vec::new(), String::new(), false);
    for line in lines[start + 1..].iter().map(|line| line.trim()) {
        is_computed |= line.starts_with("Computed");
        match line.strip_prefix("sha256:") {
            Some(hash) if is_computed => actual = hash.to_owned(),
            Some(hash) => expected.push(hash.to_owned()),
            None => {}
        }
    }
    Some(Cause::Mismatch { package, expected, actual })
}

/// uv reads an archive while it computes its hash, and may stumble first.
fn broken(lines: &[String]) -> Option<Cause> {
    let start = lines.iter().position(|line| line.contains("error: Failed to "))?;
    let package = between(&lines[start], "`", "`").filter(|name| name.contains("=="))?.to_owned();
    let words = |line: &String| Some(line.split_once("Failed to extract archive: ")?.1.trim().to_owned());
    let file = lines[start..].iter().find_map(words)?;
    let why = lines.last()?.trim().trim_start_matches("cause: ").to_owned();
    Some(Cause::Broken { package, file, why })
}

fn refused(text: &str) -> Option<Cause> {
    const WORDS: [&str; 6] = [
        "401 Unauthorized",
        "403 Forbidden",
        "401 Client Error",
        "403 Client Error",
        "lack of valid authentication credentials",
        "Credentials not correct",
    ];
    let line = text.lines().find(|line| WORDS.iter().any(|word| line.contains(word)))?;
    Some(Cause::Refused { host: host(line)? })
}

fn connection(lines: &[String]) -> Option<Cause> {
    const WORDS: [&str; 11] = [
        "after connection broken by",
        "Max retries exceeded",
        "Read timed out",
        "confirming the ssl certificate",
        "error sending request for url",
        "operation timed out",
        "status server error",
        "5xx",
        "Failed to fetch",
        "connection error",
        "request or response body error",
    ];
    let at = lines.iter().position(|line| WORDS.iter().any(|word| line.contains(word)))?;
    let host = lines[at..].iter().find_map(|line| host(line)).unwrap_or_else(|| "an index".to_owned());
    if lines.iter().any(|line| line.contains("status client error (404")) {
        return None;
    }
    let mut causes = lines[at..].iter().filter_map(|line| line.trim().strip_prefix("cause: "));
    let line = lines[at].trim();
    // pip puts the cause into the middle of a long line.
    let of_pip =
        || line.split_once("Caused by ").or(line.split_once("after connection ")).map(|(_, why)| why);
    let of_pip = between(line, "[Errno ", "'").and_then(|it| Some(it.split_once("] ")?.1)).or_else(of_pip);
    let why = causes.next_back().or(of_pip).unwrap_or(line).chars().take(REASON_MAX).collect();
    Some(Cause::Connection { host, why })
}

fn unresolved(lines: &[String]) -> Option<Cause> {
    for line in lines {
        if let Some(package) = line.trim().strip_prefix("ERROR: No matching distribution found for ") {
            let package = package.split([' ', ';']).next()?.to_owned();
            return Some(Cause::NoFileOrNotFound { package });
        }
        let words = line.trim().trim_start_matches("cause: ");
        let package = || {
            let pin = words.split([' ', ',']).find(|word| word.contains("=="));
            pin.map(|pin| pin.trim_matches(['`', '.']).to_owned())
        };
        if ["has no wheels with", "has no usable wheels", "has no source distribution", "depends on Python"]
            .iter()
            .any(|text| words.contains(text))
        {
            let why = words.split(" and you require").next()?.trim_start_matches("Because ").to_owned();
            return Some(Cause::NoFile { package: package()?, why });
        }
        if words.contains("there is no version of ") || words.contains("was not found in the ") {
            return Some(Cause::NotFound { package: package()? });
        }
    }
    None
}

/// The host of the first address in a line, or as pip writes it.
fn host(line: &str) -> Option<String> {
    let named = between(line, "host='", "'").or_else(|| {
        let (_, rest) = line.split_once("://")?;
        let end = rest.find(|c: char| c.is_whitespace() || "/?#'\"`<>,)".contains(c)).unwrap_or(rest.len());
        rest[..end].rsplit('@').next()
    })?;
    (!named.is_empty()).then(|| named.to_owned())
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(after).map(|(found, _)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(text: &str) -> Cause {
        Cause::of(&text.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_changed_file_is_told_with_its_hashes() {
        let mismatch = |expected: &[&str]| Cause::Mismatch {
            package: "a-b==1.0".into(),
            expected: expected.iter().map(|&hash| hash.to_owned()).collect(),
            actual: "22".into(),
        };
        let pip = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If\n    \
                   a-b==1.0 from file:///x/a.whl (from -r r.txt (line 1)):\n        Expected sha256 11\n        \
                   Expected     or 33\n             Got        22\n";
        assert_eq!(cause(pip), mismatch(&["11", "33"]));
        let uv = "error: Failed to download `a-b==1.0`\n  cause: Hash mismatch for `a-b==1.0`\n\n\
                  Expected:\n  sha256:11\n\nComputed:\n  sha256:22";
        assert_eq!(cause(uv), mismatch(&["11"]));
    }

    #[test]
    fn a_place_that_does_not_answer_is_told_from_a_package_that_is_not_there() {
        let uv = "error: Request failed after 3 retries\n  cause: Failed to fetch: https://h.example/simple/a/\n  \
                  cause: dns error\n  cause: Name or service not known";
        let lost = |host: &str, why: &str| Cause::Connection { host: host.into(), why: why.into() };
        assert_eq!(cause(uv), lost("h.example", "Name or service not known"));
        let pip = "WARNING: Retrying (Retry(total=0)) after connection broken by 'X': /simple/a/\n\
                   ERROR: Could not install: HTTPSConnectionPool(host='h.example', port=443): Max retries exceeded\n\
                   ERROR: No matching distribution found for a==1";
        assert!(matches!(cause(pip), Cause::Connection { host, .. } if host == "h.example"));
        let pip = "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError('<x at 0x7f>: Failed \
                   to establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/a/";
        assert_eq!(cause(pip), lost("an index", "Temporary failure in name resolution"));
        let refused = "hint: An index URL (https://h.example:8/s) could not be queried due to a lack of valid \
                       authentication credentials (401 Unauthorized)";
        assert_eq!(cause(refused), Cause::Refused { host: "h.example:8".into() });
    }

    #[test]
    fn what_cannot_be_installed_is_named() {
        let package = "a==9.9".to_owned();
        for (text, wanted) in [
            (
                "  cause: Because there is no version of a==9.9 and you require a==9.9, we",
                Cause::NotFound { package: package.clone() },
            ),
            (
                "  cause: Because a was not found in the package registry and you require a==9.9, we",
                Cause::NotFound { package: package.clone() },
            ),
            (
                "  cause: Because a==9.9 has no wheels with a matching tag (e.g., `cp311`) and you require a==9.9, we",
                Cause::NoFile {
                    package: package.clone(),
                    why: "a==9.9 has no wheels with a matching tag (e.g., `cp311`)".into(),
                },
            ),
            ("OSError: [Errno 28] No space left on device", Cause::DiskFull),
            (
                "error: Failed to download `a==9.9`\n  cause: Failed to extract archive: a.whl\n  cause: Bad CRC",
                Cause::Broken { package: package.clone(), file: "a.whl".into(), why: "Bad CRC".into() },
            ),
            ("ERROR: No matching distribution found for a==9.9", Cause::NoFileOrNotFound { package }),
            ("error: subprocess-exited-with-error", Cause::Other),
        ] {
            assert_eq!(cause(text), wanted, "{text}");
        }
    }
}
