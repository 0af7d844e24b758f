//! The part of a session that its tasks and guards share.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use async_trait::async_trait;
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{SessionConfig, close::delete_dropped};
use crate::{
    config::Settings,
    error::{Code, Error, Result},
    lifecycle::{
        Book, Clock, Entry, Lifetime, ResourceKind, TeardownReport, Timestamp, Verb, control,
        gate::Gates,
        lease::Lease,
        ledger::{Ledger, Row, StateFolder},
        teardown::{Reclaimer, Records, verb_of},
    },
    names::{Owner, RunId},
    provider::Provider,
};

/// The part of a session that its tasks and guards share.
pub(crate) struct Core {
    pub(crate) owner: Owner,
    pub(crate) run: RunId,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) gates: Gates,
    pub(crate) control: Handle,
    pub(crate) expires: Timestamp,
    pub(crate) closing: CancellationToken,
    /// Door calls, builds and launches under way: whatever may still create something.
    pub(crate) tasks: TaskTracker,
    pub(super) config: SessionConfig,
    folder: StateFolder,
    pub(super) ledger: Ledger,
    /// Ends loops that outlast the session's close.
    pub(super) stop: CancellationToken,
    state: Mutex<State>,
    next_ordinal: AtomicU32,
    dropped: mpsc::UnboundedSender<u32>,
    pub(super) close_report: Mutex<Option<watch::Receiver<Option<TeardownReport>>>>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) book: Book,
    pub(super) beside: BTreeMap<u32, Beside>,
    pub(super) notes: Vec<String>,
}

/// What is known of an entry beside its rows.
pub(super) struct Beside {
    pub(super) driver: Arc<dyn Provider>,
    /// The handle that a caller has on it.
    pub(super) lease: Option<Lease>,
    /// Whose turn it is to delete it.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    /// Why the last deletion did not succeed.
    pub(super) reason: Option<String>,
}

impl Core {
    /// See [`Session::open`](super::Session::open).
    pub(super) fn open(config: SessionConfig) -> Result<Arc<Self>> {
        let settings = Settings::from_env()?;
        let folder = match &config.state_folder {
            Some(path) => StateFolder::at(path),
            None => settings.state_folder()?,
        };
        folder.create()?;
        let owner = match config.owner.clone().or(settings.owner) {
            Some(owner) => owner,
            None => folder.owner_or_new()?,
        };
        let control = control::handle()?;
        let run = RunId::random();
        let clock = Arc::clone(&config.clock);
        let ledger = Ledger::create(&folder, &owner, &run, &config.tool, Arc::clone(&clock))?;
        let (dropped, to_delete) = mpsc::unbounded_channel();
        let core = Arc::new(Core {
            owner,
            run,
            gates: Gates(config.gate.clone()),
            control,
            expires: clock.now().after(config.budget),
            clock,
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            config,
            folder,
            ledger,
            stop: CancellationToken::new(),
            state: Mutex::default(),
            next_ordinal: AtomicU32::new(1),
            dropped,
            close_report: Mutex::new(None),
        });
        control::spawn(&core.control, delete_dropped(Arc::clone(&core), to_delete));
        tracing::debug!(session = %core.run, owner = %core.owner, folder = %core.folder.path().display(), "session opened");
        Ok(core)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a task that [`Session::close`](super::Session::close) waits for.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        control::spawn(&self.control, self.tasks.track_future(task));
    }

    pub(super) fn expiry_of(&self, lifetime: &Lifetime) -> Option<Timestamp> {
        match lifetime {
            Lifetime::Session => Some(self.expires),
            Lifetime::Until(moment) => Some(*moment),
            Lifetime::Unbounded { .. } => None,
        }
    }

    /// The number of the next thing.
    pub(crate) fn next_ordinal(&self) -> Result<u32> {
        let taken = self.next_ordinal.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
            (next <= self.config.max_things).then_some(next + 1)
        });
        taken.map_err(|_| {
            let limit = self.config.max_things;
            Error::new(Code::LimitReached, format!("this session may create {limit} things, and did"))
        })
    }

    /// Appends a row between its gates and takes it into the book. A row about something that has happened is
    /// taken in even if it cannot be written.
    pub(crate) async fn write(&self, verb: Verb, row: Row, sync: bool) -> Result<()> {
        let append = async {
            let written = self.ledger.append(&row, sync).await;
            if written.is_ok() || !matches!(row, Row::Intent(_)) {
                self.state().book.apply(&row);
            }
            written
        };
        self.gates.around(verb, append).await
    }

    /// Remembers which driver an entry belongs to, from before its row is written.
    pub(crate) fn remember_driver(&self, ordinal: u32, provider: &Arc<dyn Provider>) {
        let driver = Arc::clone(provider);
        self.state()
            .beside
            .insert(ordinal, Beside { driver, lease: None, turn: Arc::default(), reason: None });
    }

    pub(super) fn beside(&self, ordinal: u32, change: impl FnOnce(&mut Beside)) {
        if let Some(beside) = self.state().beside.get_mut(&ordinal) {
            change(beside);
        }
    }

    /// The right to delete or keep what an entry made.
    pub(crate) fn turn_of(&self, ordinal: u32) -> Option<Arc<tokio::sync::Mutex<()>>> {
        self.state().beside.get(&ordinal).map(|beside| Arc::clone(&beside.turn))
    }

    /// Whether the driver lets a thing of this entry's kind outlive the session.
    pub(crate) fn may_keep(&self, ordinal: u32) -> Result<()> {
        let state = self.state();
        let Some((entry, beside)) = state.book.get(ordinal).zip(state.beside.get(&ordinal)) else {
            return Ok(());
        };
        let capabilities = beside.driver.capabilities();
        let (kind, provider) = (entry.intent.kind, beside.driver.id());
        let may = match kind {
            ResourceKind::Sandbox => capabilities.sandbox_keep,
            _ => capabilities.artifact_keep,
        };
        if may {
            return Ok(());
        }
        let words = format!("a {kind} on {provider} does not outlive the process that made it");
        Err(Error::new(Code::CapabilityUnsupported, words).with_provider(provider).with_operation("keep"))
    }

    /// Until when a deletion in the background goes on.
    pub(crate) fn background_deadline(&self) -> Timestamp {
        self.clock.now().after(self.config.background_deadline)
    }

    pub(crate) fn entry(&self, ordinal: u32) -> Option<Entry> {
        self.state().book.get(ordinal).cloned()
    }

    pub(crate) fn note(&self, note: String) {
        tracing::warn!(session = %self.run, "{note}");
        self.state().notes.push(note);
    }

    /// Has an entry deleted in the background. `false` if nobody does so any more.
    pub(crate) fn enqueue(&self, ordinal: u32) -> bool {
        self.dropped.send(ordinal).is_ok()
    }

    pub(crate) fn folder(&self) -> &StateFolder {
        &self.folder
    }

    /// Whether the close has ended: nothing may be created any more, whoever was just about to.
    pub(crate) fn has_ended(&self) -> bool {
        self.stop.is_cancelled()
    }

    pub(crate) fn reclaimer(&self, provider: &Arc<dyn Provider>) -> Reclaimer {
        Reclaimer::new(Arc::clone(provider), Arc::clone(&self.clock), self.gates.clone(), self.stop.clone())
    }
}

#[async_trait]
impl Records for Core {
    async fn record(&self, row: Row) -> Result<()> {
        let written = self.write(verb_of(&row), row, false).await;
        if let Err(error) = &written {
            self.note(format!("a deletion could not be written down: {error}"));
        }
        written
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("run", &self.run).finish_non_exhaustive()
    }
}
