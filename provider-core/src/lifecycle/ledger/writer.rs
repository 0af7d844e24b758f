//! Writing a ledger: a thread that commits waiting rows in groups, with one sync for all of them.

use std::{
    fs::File,
    io::{self, Write as _},
    path::PathBuf,
    sync::{Arc, mpsc},
};

use tokio::sync::oneshot;

use super::{Row, StateFolder, VERSION, file::Opened};
use crate::{
    error::{Code, Error, Result},
    lifecycle::Clock,
    names::{Owner, RunId},
};

/// The writing end of a session's ledger. Dropping it ends the thread and frees the lock.
#[derive(Debug)]
pub(crate) struct Ledger {
    jobs: mpsc::Sender<Job>,
    path: PathBuf,
    clock: Arc<dyn Clock>,
}

enum Job {
    Append {
        line: Vec<u8>,
        sync: bool,
        answer: oneshot::Sender<Result<(), Failure>>,
    },
    /// Ends the thread; the file stays for a sweep, or goes.
    End {
        remove: bool,
        answer: oneshot::Sender<Result<(), Failure>>,
    },
}

/// A line, whether it must be on the disk, and who waits.
type Append = (Vec<u8>, bool, oneshot::Sender<Result<(), Failure>>);

/// One failure is the answer to each row of a group.
type Failure = Arc<io::Error>;

impl Ledger {
    /// Creates the ledger of a new run: aside, locked, renamed, the folder synced. Blocks for as long as the disk
    /// needs.
    pub(crate) fn create(
        folder: &StateFolder,
        owner: &Owner,
        run: &RunId,
        tool: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let first = Row::Open {
            version: VERSION,
            owner: owner.clone(),
            run: run.clone(),
            tool: tool.to_owned(),
            at: clock.now(),
        };
        let opened = Opened::create(folder, run, &line_of(&first)?)?;
        let path = opened.path.clone();
        Self::write_on(opened, clock).inspect_err(|_| {
            let _ = std::fs::remove_file(&path);
        })
    }

    /// Goes on with a ledger that a sweep has taken.
    pub(crate) fn write_on(opened: Opened, clock: Arc<dyn Clock>) -> Result<Self> {
        let (jobs, waiting) = mpsc::channel();
        let path = opened.path.clone();
        let writer = Writer { file: opened.file, path: opened.path, good_len: opened.good_len, broken: None };
        std::thread::Builder::new()
            .name("provider-ledger".into())
            .spawn(move || writer.run(&waiting))
            .map_err(|source| unavailable(&path, "its writer thread cannot start").with_source(source))?;
        Ok(Self { jobs, path, clock })
    }

    /// Appends a row and waits until it is written; with `sync` until it is on the disk. Cancel safe in so far as
    /// the row is written whether or not the answer is awaited.
    pub(crate) async fn append(&self, row: &Row, sync: bool) -> Result<()> {
        let line = line_of(row)?;
        self.ask("a row cannot be written", |answer| Job::Append { line, sync, answer }).await
    }

    /// Removes the file. Nothing can be appended afterwards.
    pub(crate) async fn remove(&self) -> Result<()> {
        self.ask("it cannot be removed", |answer| Job::End { remove: true, answer }).await
    }

    /// Frees the lock and leaves the file to a sweep. Nothing can be appended afterwards.
    pub(crate) async fn release(&self) -> Result<()> {
        self.ask("it cannot be released", |answer| Job::End { remove: false, answer }).await
    }

    async fn ask(
        &self,
        what: &str,
        job: impl FnOnce(oneshot::Sender<Result<(), Failure>>) -> Job,
    ) -> Result<()> {
        let (answer, answered) = oneshot::channel();
        let _busy = self.clock.busy();
        // A job that nobody takes comes back, with the sender of its answer; then there is no answer to wait for.
        let is_sent = self.jobs.send(job(answer)).is_ok();
        let failure = match if is_sent { answered.await.ok() } else { None } {
            Some(Ok(())) => return Ok(()),
            Some(Err(failure)) => failure,
            None => Arc::new(io::Error::other("the writer thread has ended")),
        };
        Err(unavailable(&self.path, &format!("{what}: {failure}")).with_source(failure))
    }
}

fn unavailable(path: &std::path::Path, what: &str) -> Error {
    Error::new(Code::LedgerUnavailable, format!("ledger {}: {what}", path.display()))
}

fn line_of(row: &Row) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(row)
        .map_err(|source| Error::new(Code::Internal, "a ledger row has no JSON form").with_source(source))?;
    line.push(b'\n');
    Ok(line)
}

struct Writer {
    file: File,
    path: PathBuf,
    /// How much of the file holds whole rows.
    good_len: u64,
    /// Why nothing can be appended any more.
    broken: Option<Failure>,
}

impl Writer {
    fn run(mut self, waiting: &mpsc::Receiver<Job>) {
        while let Ok(first) = waiting.recv() {
            let mut appends = Vec::new();
            let mut end = None;
            for job in std::iter::once(first).chain(waiting.try_iter()) {
                match job {
                    Job::Append { line, sync, answer } => appends.push((line, sync, answer)),
                    Job::End { remove, answer } => end = Some((remove, answer)),
                }
            }
            self.commit(appends);
            if let Some((remove, answer)) = end {
                let ended = if remove { self.remove() } else { Ok(()) };
                // The lock must be free when the caller goes on.
                drop(self);
                let _ = answer.send(ended);
                return;
            }
        }
    }

    /// Writes a group with one sync, and gives each row of it the same answer.
    fn commit(&mut self, appends: Vec<Append>) {
        if appends.is_empty() {
            return;
        }
        let lines: Vec<u8> = appends.iter().flat_map(|(line, ..)| line).copied().collect();
        let sync = appends.iter().any(|(_, sync, _)| *sync);
        let appended = self.append(&lines, sync);
        for (.., answer) in appends {
            // Whoever no longer waits does not need the answer.
            let _ = answer.send(appended.clone());
        }
    }

    fn append(&mut self, lines: &[u8], sync: bool) -> Result<(), Failure> {
        if let Some(failure) = &self.broken {
            return Err(Arc::clone(failure));
        }
        if let Err(failure) = self.file.write_all(lines) {
            let failure = Arc::new(failure);
            // A part of a row must not stand before the next one.
            if self.file.set_len(self.good_len).is_err() {
                self.broken = Some(Arc::clone(&failure));
            }
            return Err(failure);
        }
        if sync && let Err(failure) = self.file.sync_data() {
            // After a failed sync nobody knows what the disk holds.
            let failure = Arc::new(failure);
            self.broken = Some(Arc::clone(&failure));
            return Err(failure);
        }
        self.good_len += lines.len() as u64;
        Ok(())
    }

    fn remove(&self) -> Result<(), Failure> {
        match std::fs::remove_file(&self.path) {
            Err(failure) if failure.kind() != io::ErrorKind::NotFound => Err(Arc::new(failure)),
            _ => Ok(()),
        }
    }
}
