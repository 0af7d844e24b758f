//! The probe of `core.secrets`: whether texts that must not be there are there.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::{
    Probe,
    answer::{Answer, render},
    fingerprint::{BASE, PRIME, Wanted},
};
use crate::{
    contract::Contract,
    error::Result,
    hex::hex,
    identity::User,
    lifecycle::Timestamp,
    sandbox::{Command, Output},
    secret::SecretSet,
};

/// The variable of the probe that holds the control text.
pub(crate) const CONTROL_VAR: &str = "PROVIDER_PROBE_CONTROL";
/// Files of more than this many bytes are searched one by one.
const ALONE: u64 = 1 << 20;
/// What most tokens and passwords consist of, as sets of the program `tr`, and the rest of what a secret may hold. A run
/// of the first sort is seldom long enough in other files, so that a search for tokens passes most of them over.
const TOKEN_BYTES: &str = "A-Za-z0-9+/=_.~%:@!-";
const ALL_BYTES: &str = "\\040-\\176\\200-\\377";
/// How much longer than its budget a search may take: for the batch under way, and to list folders.
const GRACE: Duration = Duration::from_secs(120);

/// A search for the values of secrets in a sandbox. The command holds no value: see
/// [`fingerprint`](super::fingerprint).
///
/// It looks at the variables and arguments of every process, at names of files and targets of links, and at the
/// content of regular files, as far as the user of the command may read them. Values that were changed (encoded,
/// compressed, split) are not found.
///
/// A random control text is searched for along with the secrets. The probe puts it where secrets could be; an answer
/// that does not report it comes from a search that does not work.
#[derive(Clone)]
#[non_exhaustive]
pub struct SecretSearch {
    /// Only files that changed after this moment are searched, by the sandbox's clock. Absent means all files.
    pub since: Option<Timestamp>,
    /// After this time no further files are searched. Those that are left are counted in the answer.
    pub budget: Duration,
    /// Of one file, so many bytes are searched: 16 MiB, unless it is set. At least 1 MiB.
    pub file_cap: u64,
    /// The folders to search, with everything in them.
    pub folders: Vec<String>,
    /// Where the control file is written; it must be in one of the folders.
    pub control_folder: String,
    /// Who searches; absent means the contract's user.
    pub user: Option<User>,
    control: String,
    wanted: Vec<Wanted>,
    /// Whether all texts consist of [`TOKEN_BYTES`]. That much the command tells about them, beside their lengths.
    tokens: bool,
}

impl SecretSearch {
    /// A search for all these secrets in the whole sandbox, for at most three minutes.
    pub fn new(contract: &Contract, secrets: &SecretSet) -> Self {
        let mut wanted: Vec<_> =
            secrets.iter().map(|(_, secret)| Wanted::of(secret.expose().as_bytes())).collect();
        // A control text of a length that is searched for anyway costs no time. It becomes part of a file's name, so
        // it cannot have any length.
        let length = wanted
            .iter()
            .map(|wanted| wanted.length)
            .find(|length| (12..=128).contains(length))
            .unwrap_or(24);
        let control: String = (0..length).map(|_| fastrand::lowercase()).collect();
        wanted.insert(0, Wanted::of(control.as_bytes()));
        Self {
            since: None,
            budget: Duration::from_secs(180),
            file_cap: 16 << 20,
            folders: vec!["/".into()],
            control_folder: contract.workdir.to_owned(),
            user: None,
            control,
            wanted,
            tokens: secrets.iter().all(|(_, secret)| secret.expose().bytes().all(is_token_byte)),
        }
    }

    /// The command that searches.
    pub fn command(&self) -> Command {
        let mut lengths = BTreeMap::<usize, Vec<String>>::new();
        for wanted in &self.wanted {
            lengths.entry(wanted.length).or_default().push(wanted.fingerprint.to_string());
        }
        let lengths: Vec<_> =
            lengths.iter().map(|(length, sums)| format!("{length}:{}", sums.join(","))).collect();
        let sums: Vec<_> = self.wanted.iter().map(|wanted| wanted.sha256.as_str()).collect();
        let batch =
            concat!(include_str!("hex.sh"), include_str!("search.sh"), include_str!("secrets_batch.sh"));
        let arguments = [
            lengths.join(" "),
            sums.join(" "),
            BASE.to_string(),
            PRIME.to_string(),
            self.budget.as_secs().to_string(),
            ALONE.to_string(),
            self.file_cap.max(ALONE).to_string(),
            // The moment itself is included: find only takes what is later.
            self.since.map_or("all".into(), |since| (since.as_millis() / 1000).saturating_sub(1).to_string()),
            self.control.clone(),
            self.control_folder.clone(),
            batch.to_owned(),
            if self.tokens { TOKEN_BYTES } else { ALL_BYTES }.to_owned(),
        ];
        let arguments = arguments.into_iter().chain(self.folders.iter().cloned());
        let command =
            Probe::Secrets.command(arguments, self.budget + GRACE).env_var(CONTROL_VAR, &self.control);
        match self.user {
            Some(user) => command.user(user),
            None => command,
        }
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// [`Code::SmokeTestFailed`](crate::error::Code::SmokeTestFailed) if it is not exactly one whole answer, or if the
    /// control text was not found everywhere and nothing else was.
    pub fn parse(&self, output: &Output) -> Result<SecretsAnswer> {
        let mut answer = Answer::open(Probe::Secrets, output)?;
        let uid = answer.take("uid")?;
        let uid = answer.number(&uid)?;
        if !answer.take_either("control", "written", "refused")? {
            return Err(
                answer.broken(format!("it could not write its control file in {}", self.control_folder))
            );
        }
        let mut reading = Reading::of(uid);
        while let Some((key, value)) = answer.take_any() {
            reading.take(&answer, self.wanted.len(), &key, &value)?;
        }
        reading.check(&answer)?;
        answer.close()?;
        Ok(reading.seen)
    }

    /// What the probe is told about the texts; the first is the control text.
    pub fn wanted(&self) -> &[Wanted] {
        &self.wanted
    }
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=_.~%:@!-".contains(&byte)
}

impl fmt::Debug for SecretSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretSearch")
            .field("since", &self.since)
            .field("budget", &self.budget)
            .field("folders", &self.folders)
            .field("user", &self.user)
            .field("secrets", &(self.wanted.len() - 1))
            .finish_non_exhaustive()
    }
}

/// What the lines that were read so far say.
struct Reading {
    seen: SecretsAnswer,
    /// Where the control text was found.
    controls: Vec<Where>,
    /// How often a list of files came to its end.
    lists: usize,
}

impl Reading {
    fn of(uid: u32) -> Self {
        let seen = SecretsAnswer {
            uid,
            hits: Vec::new(),
            tallies: BTreeMap::new(),
            partly: Vec::new(),
            unlisted: false,
        };
        Self { seen, controls: Vec::new(), lists: 0 }
    }

    /// Takes in a line of an answer to a search for so many texts.
    fn take(&mut self, answer: &Answer, texts: usize, key: &str, value: &str) -> Result<()> {
        let words: Vec<&str> = value.split(' ').collect();
        match (key, words.as_slice()) {
            ("found", ["0", place]) => self.controls.push(Where::of(answer, place)?),
            ("found", [text, place, path @ ..]) if path.len() <= 1 => {
                let text: usize = answer.number(text)?;
                let place = Where::of(answer, place)?;
                let path = path.first().map(|digits| answer.bytes(digits)).transpose()?;
                if text == 0 || text >= texts {
                    return Err(answer.broken("it found a text that was not asked for".into()));
                }
                let path = path.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                self.seen.hits.push(Hit { secret: text - 1, place, path });
            }
            ("searched", [place, files, bytes, unreadable]) => {
                let (files, bytes) = (answer.number::<u64>(files)?, answer.number::<u64>(bytes)?);
                let unreadable = answer.number::<u64>(unreadable)?;
                let tally = self.seen.tallies.entry(Where::of(answer, place)?).or_default();
                tally.searched = tally.searched.saturating_add(files);
                tally.bytes = tally.bytes.saturating_add(bytes);
                tally.unreadable = tally.unreadable.saturating_add(unreadable);
            }
            ("skipped", [place, files, bytes]) => {
                let (files, bytes) = (answer.number::<u64>(files)?, answer.number::<u64>(bytes)?);
                let tally = self.seen.tallies.entry(Where::of(answer, place)?).or_default();
                tally.skipped = tally.skipped.saturating_add(files);
                tally.skipped_bytes = tally.skipped_bytes.saturating_add(bytes);
            }
            ("partly", [_, bytes, path]) => {
                let path = String::from_utf8_lossy(&answer.bytes(path)?).into_owned();
                self.seen.partly.push((path, answer.number(bytes)?));
            }
            ("listed", [status]) => {
                self.lists += 1;
                match *status {
                    "0" => {}
                    // Folders that cannot be entered, or files that went away meanwhile.
                    "1" => self.seen.unlisted = true,
                    _ => return Err(answer.broken("the files could not be listed".into())),
                }
            }
            _ => return Err(answer.broken("it has an unknown line".into())),
        }
        Ok(())
    }

    /// Refuses what comes from a search that did not work.
    fn check(&self, answer: &Answer) -> Result<()> {
        if self.lists != 1 {
            return Err(answer.broken("the files were not listed to their end".into()));
        }
        let missed = |place: &Where| {
            // Where time ran out, the control may be among what was left.
            let skipped = self.seen.tallies.get(place).is_some_and(|tally| tally.skipped > 0);
            !skipped && !self.controls.contains(place)
        };
        let places = [Where::Environment, Where::Arguments, Where::Names, Where::Files];
        if let Some(place) = places.iter().find(|place| missed(place))
            && self.seen.hits.is_empty()
        {
            let why = format!(
                "the search does not find its own control text in {place}; a tool is missing or does not work, or the \
                 sandbox's clock is behind the start of the search"
            );
            return Err(answer.broken(why));
        }
        Ok(())
    }
}

/// Where something was searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Where {
    /// The variables of a process.
    Environment,
    /// The arguments of a process.
    Arguments,
    /// The name of a file or the target of a link.
    Names,
    /// The content of a file.
    Files,
    /// The content of a large file.
    Large,
}

impl Where {
    const ALL: [Where; 5] = [Self::Environment, Self::Arguments, Self::Names, Self::Files, Self::Large];

    fn word(self) -> &'static str {
        match self {
            Where::Environment => "environment",
            Where::Arguments => "arguments",
            Where::Names => "names",
            Where::Files => "files",
            Where::Large => "large",
        }
    }

    fn of(answer: &Answer, word: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|place| place.word() == word);
        known.ok_or_else(|| answer.broken("it names an unknown place".into()))
    }
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Where::Environment => "the variables of processes",
            Where::Arguments => "the arguments of processes",
            Where::Names => "the names of files",
            Where::Files => "files",
            Where::Large => "large files",
        })
    }
}

/// What the probe of secrets saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretsAnswer {
    /// Who searched.
    pub uid: u32,
    /// The secrets that were found. A secret that is in very many files is not named for each.
    pub hits: Vec<Hit>,
    /// How much was searched, by place.
    pub tallies: BTreeMap<Where, Tally>,
    /// Files of which only the first [`SecretSearch::file_cap`] bytes were searched, with their sizes in bytes.
    pub partly: Vec<(String, u64)>,
    /// Some folders could not be entered, or changed while they were listed.
    pub unlisted: bool,
}

/// A secret that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Which one, in the order of [`SecretSet::iter`].
    pub secret: usize,
    /// Where.
    pub place: Where,
    /// In which file; absent for [`Where::Names`]. It may contain a secret itself.
    pub path: Option<String>,
}

/// How much was searched in one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Files.
    pub searched: u64,
    /// Their size in bytes, where the system tells one.
    pub bytes: u64,
    /// Files that the user may not read.
    pub unreadable: u64,
    /// Files that were left when the time was over.
    pub skipped: u64,
    /// Their size in bytes.
    pub skipped_bytes: u64,
}

impl SecretsAnswer {
    /// The answer that says this, with the control text found everywhere.
    pub fn render(&self) -> Output {
        let mut lines = vec![("uid", self.uid.to_string()), ("control", "written".into())];
        for place in [Where::Environment, Where::Arguments, Where::Names, Where::Files] {
            lines.push(("found", format!("0 {}", place.word())));
        }
        for hit in &self.hits {
            let path = hit.path.as_ref().map(|path| format!(" {}", hex(path))).unwrap_or_default();
            lines.push(("found", format!("{} {}{path}", hit.secret + 1, hit.place.word())));
        }
        for (place, tally) in &self.tallies {
            let Tally { searched, bytes, unreadable, skipped, skipped_bytes } = tally;
            lines.push(("searched", format!("{} {searched} {bytes} {unreadable}", place.word())));
            if *skipped > 0 {
                lines.push(("skipped", format!("{} {skipped} {skipped_bytes}", place.word())));
            }
        }
        for (path, bytes) in &self.partly {
            lines.push(("partly", format!("large {bytes} {}", hex(path))));
        }
        lines.push(("listed", u8::from(self.unlisted).to_string()));
        render(Probe::Secrets, &lines)
    }
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
