//! The session: the owner of all that a run creates.

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Book, Clock, Entry, Gate, Lifetime, Owned, Progress, ResourceKind, SystemClock, TeardownReport,
    Timestamp, Verb, control,
    creator::{Scope, closed},
    gate::Gates,
    lease::Lease,
    ledger::{Ledger, Row, StateFolder},
    owned::Deed,
    sweep::{reclaim_entry, share_of_time},
    teardown::Reclaimer,
    timeout,
};
use crate::{
    config::Settings,
    environment::{Artifact, BuildRequest},
    error::{Code, Error, Result},
    names::{Owner, RunId},
    provider::{Built, Finding, LaunchOptions, Launched, Provider},
    sandbox::Sandbox,
};

/// How a session works. [`SessionConfig::new`] has defaults for all but the tool's name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionConfig {
    /// The tool that opens it, for people who read the ledger.
    pub tool: String,
    /// The state folder; absent means [`Settings::from_env`].
    pub state_folder: Option<PathBuf>,
    /// Whose things they are; absent means [`Settings::from_env`], or else the mark stored in the state folder.
    pub owner: Option<Owner>,
    /// How long what it creates may exist, if nothing else is said. Sandboxes get it as their server-side life.
    pub budget: Duration,
    /// How many things it may create.
    pub max_things: u32,
    /// How long dropping the session may wait for what is still open.
    pub drop_grace: Duration,
    /// How long one deletion in the background may take before it is left to [`Session::close`].
    pub background_deadline: Duration,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where a test stops the lifecycle.
    pub gate: Option<Arc<dyn Gate>>,
}

impl SessionConfig {
    /// The defaults: one hour of life, 1,000 things, 10 s of grace.
    pub fn new(tool: impl Into<String>) -> Self {
        Self {
            tool: tool.into(),
            state_folder: None,
            owner: None,
            budget: Duration::from_secs(3600),
            max_things: 1000,
            drop_grace: Duration::from_secs(10),
            background_deadline: Duration::from_secs(600),
            clock: Arc::new(SystemClock::new()),
            gate: None,
        }
    }

    /// Sets the state folder.
    #[must_use]
    pub fn state_folder(mut self, path: impl Into<PathBuf>) -> Self {
        self.state_folder = Some(path.into());
        self
    }

    /// Sets whose things they are.
    #[must_use]
    pub fn owner(mut self, owner: Owner) -> Self {
        self.owner = Some(owner);
        self
    }

    /// Sets how long what it creates may exist.
    #[must_use]
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    /// Sets how many things it may create.
    #[must_use]
    pub fn max_things(mut self, number: u32) -> Self {
        self.max_things = number;
        self
    }

    /// Sets how long dropping the session may wait.
    #[must_use]
    pub fn drop_grace(mut self, grace: Duration) -> Self {
        self.drop_grace = grace;
        self
    }

    /// Sets where time comes from.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets where a test stops the lifecycle.
    #[must_use]
    pub fn gate(mut self, gate: Arc<dyn Gate>) -> Self {
        self.gate = Some(gate);
        self
    }
}

/// The owner of all that a run creates. Without one nothing can be created.
///
/// Call [`Session::close`] at the end: it deletes what is still there and tells what became of everything.
/// Dropping the session does the same with a bounded wait and only logs the report. When the process dies, the
/// session's ledger remains for a [sweep](super::sweep).
///
/// All methods can be called on any runtime, or on none.
pub struct Session {
    core: Arc<Core>,
}

/// The part of a session that its tasks and guards share.
pub(crate) struct Core {
    pub(crate) owner: Owner,
    pub(crate) run: RunId,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) gates: Gates,
    pub(crate) control: Handle,
    pub(crate) expires: Timestamp,
    pub(crate) closing: CancellationToken,
    /// Door calls, builds, launches and deletions under way.
    pub(crate) tasks: TaskTracker,
    config: SessionConfig,
    folder: StateFolder,
    ledger: Ledger,
    /// Ends loops that outlast the session's close.
    stop: CancellationToken,
    state: Mutex<State>,
    next_ordinal: AtomicU32,
    dropped: mpsc::UnboundedSender<u32>,
    close_report: Mutex<Option<watch::Receiver<Option<TeardownReport>>>>,
}

#[derive(Default)]
struct State {
    book: Book,
    beside: BTreeMap<u32, Beside>,
    notes: Vec<String>,
}

/// What is known of an entry beside its rows.
struct Beside {
    driver: Arc<dyn Provider>,
    /// The handle that a caller has on it.
    lease: Option<Lease>,
    /// Whose turn it is to delete it.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Why the last deletion did not succeed.
    reason: Option<String>,
}

impl Session {
    /// Opens a session: its ledger stands on the disk when this returns.
    ///
    /// # Errors
    /// [`Code::LedgerUnavailable`] if the state folder cannot be written; [`Code::SpecInvalid`] if a setting is
    /// wrong; [`Code::MachineUnsuitable`] if no thread can be started.
    pub fn open(config: SessionConfig) -> Result<Self> {
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
        Ok(Self { core })
    }

    /// The run's id, as it appears in each name.
    pub fn run(&self) -> &RunId {
        &self.core.run
    }

    /// Whose things they are.
    pub fn owner(&self) -> &Owner {
        &self.core.owner
    }

    /// Builds an artifact.
    ///
    /// Cancel safe: dropping the future cancels the build and deletes what it made.
    ///
    /// # Errors
    /// What [`Builder::validate`](crate::provider::Builder::validate) finds, before anything is sent;
    /// [`Code::BuildFailed`], [`Code::BuildTimeout`] and what the provider answers; [`Code::SessionClosed`];
    /// [`Code::LedgerUnavailable`].
    #[track_caller]
    pub fn build(
        &self,
        provider: &Arc<dyn Provider>,
        request: BuildRequest,
    ) -> impl Future<Output = Result<Owned<Artifact>>> + Send + use<> {
        self.build_observed(provider, request, Progress::none())
    }

    /// As [`Session::build`], and tells its progress.
    #[track_caller]
    pub fn build_observed(
        &self,
        provider: &Arc<dyn Provider>,
        request: BuildRequest,
        progress: Progress,
    ) -> impl Future<Output = Result<Owned<Artifact>>> + Send + use<> {
        let (core, provider) = (Arc::clone(&self.core), Arc::clone(provider));
        let site = std::panic::Location::caller();
        async move {
            check_request(&provider, &request)?;
            let lifetime = request.lifetime().clone();
            let scope =
                Scope::new(&core, &provider, core.expiry_of(&lifetime), lifetime, site, progress.clone());
            let limit = provider.capabilities().build_deadline;
            let driver = Arc::clone(&provider);
            let work = move |creator| async move { driver.build(Arc::new(request), creator, progress).await };
            let finish = move |built: Built| {
                let deeds = built.owned.into_iter().flat_map(Owned::into_deeds).collect();
                Owned::new(built.artifact, deeds)
            };
            let late = Error::new(Code::BuildTimeout, format!("the build was not done within {limit:?}"));
            scope.run(Verb::Build, "build", limit, late, work, finish).await
        }
    }

    /// Launches a sandbox from an artifact, which stays whoever's it is.
    ///
    /// Cancel safe: dropping the future cancels the launch and deletes what it made.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] if the artifact is another provider's or account's, before anything is sent;
    /// [`Code::CapabilityUnsupported`] if the options cannot be honoured; [`Code::ArtifactMissing`] and what the
    /// provider answers; [`Code::SessionClosed`]; [`Code::LedgerUnavailable`].
    #[track_caller]
    pub fn launch(
        &self,
        provider: &Arc<dyn Provider>,
        artifact: &Artifact,
        options: LaunchOptions,
    ) -> impl Future<Output = Result<Owned<Arc<dyn Sandbox>>>> + Send + use<> {
        let (core, provider, artifact) = (Arc::clone(&self.core), Arc::clone(provider), artifact.clone());
        let site = std::panic::Location::caller();
        async move {
            artifact.check_for(&*provider)?;
            let options = core.checked_options(&*provider, options)?;
            let life = options.lifetime.unwrap_or_default();
            let expires = core.clock.now().after(life);
            let lifetime = Lifetime::Until(expires);
            let scope = Scope::new(&core, &provider, Some(expires), lifetime, site, Progress::none());
            let limit = provider.capabilities().build_deadline;
            let driver = Arc::clone(&provider);
            let work = move |creator| async move { driver.launch(&artifact, options, creator).await };
            let leasing = Arc::clone(&core);
            let finish = move |launched: Launched| {
                let deeds: Vec<Deed> = launched.owned.into_iter().flat_map(Owned::into_deeds).collect();
                let lease = Lease::new(launched.sandbox);
                for deed in &deeds {
                    leasing.beside(deed.ordinal, |beside| beside.lease = Some(lease.clone()));
                }
                let sandbox: Arc<dyn Sandbox> = Arc::new(lease);
                Owned::new(sandbox, deeds)
            };
            let late = Error::new(Code::Timeout, format!("the launch was not done within {limit:?}"));
            scope.run(Verb::Launch, "launch", limit, late, work, finish).await
        }
    }

    /// Everything that the session has tried to create so far, and where it stands.
    pub fn entries(&self) -> Vec<Entry> {
        self.core.state().book.entries().cloned().collect()
    }

    /// Shuts the door, cancels what is under way, deletes everything that is still there, children before
    /// parents, and tells what became of it. What is not done within `deadline` is reported as stuck and stays
    /// in the ledger.
    ///
    /// Cancel safe: dropping the future changes nothing, and calling again joins the same close (whose deadline
    /// is then that of the first call).
    pub fn close(&self, deadline: Duration) -> impl Future<Output = TeardownReport> + Send + use<> {
        let mut report = self.core.start_close(deadline);
        async move {
            match report.wait_for(Option::is_some).await {
                Ok(report) => report.clone().unwrap_or_default(),
                Err(_) => TeardownReport {
                    notes: vec!["the close ended without a report; run a sweep".into()],
                    ..TeardownReport::default()
                },
            }
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("run", &self.core.run)
            .field("owner", &self.core.owner)
            .finish_non_exhaustive()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let grace = self.core.config.drop_grace;
        let mut report = self.core.start_close(grace);
        if report.borrow_and_update().is_some() {
            return;
        }
        let (done, wait) = std::sync::mpsc::channel();
        control::spawn(&self.core.control, async move {
            let _ = report.wait_for(Option::is_some).await;
            let _ = done.send(());
        });
        if wait.recv_timeout(grace).is_err() {
            tracing::warn!(session = %self.core.run, "the session was dropped before everything was seen to be gone; its ledger remains for a sweep");
        }
    }
}

/// Refuses a build before anything is sent.
fn check_request(provider: &Arc<dyn Provider>, request: &BuildRequest) -> Result<()> {
    let mut findings = provider.validate(request.spec(), request.lockfile());
    if !request.base().is_pinned() && !provider.capabilities().unpinned_base {
        findings.push(Finding::new(
            "spec.base",
            Code::SpecInvalid,
            format!(
                "base {} is not pinned by a digest, and {} takes no other",
                request.base(),
                provider.id()
            ),
        ));
    }
    if *request.lifetime() != Lifetime::Session && !provider.capabilities().artifact_keep {
        findings.push(Finding::new(
            "lifetime",
            Code::CapabilityUnsupported,
            format!("artifacts on {} do not outlive their session", provider.id()),
        ));
    }
    Finding::refuse_all(&findings).map_err(|error| error.with_provider(provider.id()).with_operation("build"))
}

/// Deletes what guards were dropped, for as long as the session lives.
async fn delete_dropped(core: Arc<Core>, mut to_delete: mpsc::UnboundedReceiver<u32>) {
    loop {
        let ordinal = tokio::select! {
            biased;
            () = core.closing.cancelled() => return,
            ordinal = to_delete.recv() => ordinal,
        };
        let Some(ordinal) = ordinal else { return };
        let task = Arc::clone(&core);
        let deadline = core.background_deadline();
        core.spawn(async move {
            let _ = task.tear_down(ordinal, deadline).await;
        });
    }
}

impl Core {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a task that [`Session::close`] waits for.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        control::spawn(&self.control, self.tasks.track_future(task));
    }

    fn expiry_of(&self, lifetime: &Lifetime) -> Option<Timestamp> {
        match lifetime {
            Lifetime::Session => Some(self.expires),
            Lifetime::Until(moment) => Some(*moment),
            Lifetime::Unbounded { .. } => None,
        }
    }

    fn checked_options(&self, provider: &dyn Provider, options: LaunchOptions) -> Result<LaunchOptions> {
        let capabilities = provider.capabilities();
        let refuse = |code, words: String| {
            Err(Error::new(code, words).with_provider(provider.id()).with_operation("launch"))
        };
        let longest = capabilities.sandbox_lifetime_max;
        let lifetime = match options.lifetime {
            Some(asked) if asked > longest => {
                return refuse(
                    Code::CapabilityUnsupported,
                    format!("a life of {asked:?} is more than its {longest:?}"),
                );
            }
            Some(asked) if asked.is_zero() => return refuse(Code::SpecInvalid, "a life of nothing".into()),
            Some(asked) => asked,
            None => self.expires.since(self.clock.now()).min(longest),
        };
        let wanted = &options.resources;
        for (what, amount, quantum) in [
            ("cpu", wanted.cpu.map(u64::from), capabilities.cpu),
            ("memory", wanted.memory.map(u64::from), capabilities.memory),
            ("disk", wanted.disk.map(u64::from), capabilities.disk),
        ] {
            match (amount, quantum) {
                (Some(amount), Some(quantum)) => {
                    quantum.round_up(what, amount).map_err(|error| error.with_provider(provider.id()))?;
                }
                (Some(_), None) => {
                    return refuse(
                        Code::CapabilityUnsupported,
                        format!("{what} cannot be chosen; leave it out"),
                    );
                }
                (None, _) => {}
            }
        }
        Ok(LaunchOptions { lifetime: Some(lifetime), ..options })
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
        let written = self.gates.around(verb, self.ledger.append(&row, sync)).await;
        if written.is_ok() || !matches!(row, Row::Intent(_)) {
            self.state().book.apply(&row);
        }
        written
    }

    /// Remembers which driver an entry belongs to, from before its row is written.
    pub(crate) fn remember_driver(&self, ordinal: u32, provider: &Arc<dyn Provider>) {
        let driver = Arc::clone(provider);
        self.state()
            .beside
            .insert(ordinal, Beside { driver, lease: None, turn: Arc::default(), reason: None });
    }

    fn beside(&self, ordinal: u32, change: impl FnOnce(&mut Beside)) {
        if let Some(beside) = self.state().beside.get_mut(&ordinal) {
            change(beside);
        }
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

    /// Whether the ledger still answers to anybody.
    pub(crate) fn enqueue(&self, ordinal: u32) -> bool {
        self.dropped.send(ordinal).is_ok()
    }

    pub(crate) fn folder(&self) -> &StateFolder {
        &self.folder
    }

    pub(crate) fn reclaimer(&self, provider: &Arc<dyn Provider>) -> Reclaimer {
        Reclaimer::new(Arc::clone(provider), Arc::clone(&self.clock), self.gates.clone(), self.stop.clone())
    }

    /// Deletes all that an entry made, until it is seen to be gone. Two calls for one entry run one after the
    /// other; the second finds nothing left to do.
    pub(crate) async fn tear_down(&self, ordinal: u32, until: Timestamp) -> Result<()> {
        let turn = self.state().beside.get(&ordinal).map(|beside| Arc::clone(&beside.turn));
        let Some(turn) = turn else { return Ok(()) };
        let _turn = turn.lock().await;
        if self.stop.is_cancelled() {
            return Err(closed());
        }
        let (entry, provider, lease) = {
            let state = self.state();
            let found = state.book.get(ordinal).zip(state.beside.get(&ordinal));
            let Some((entry, beside)) = found else {
                return Ok(());
            };
            (entry.clone(), Arc::clone(&beside.driver), beside.lease.clone())
        };
        if !entry.is_open() {
            return Ok(());
        }
        if let Some(lease) = lease {
            lease.end();
        }
        let result = reclaim_entry(&self.reclaimer(&provider), &entry, until, self).await;
        if let Err(error) = &result {
            tracing::warn!(session = %self.run, ordinal, "{error}");
            self.beside(ordinal, |beside| beside.reason = Some(error.to_string()));
        }
        result
    }

    /// Starts the close, or joins the one that was started.
    fn start_close(self: &Arc<Self>, deadline: Duration) -> watch::Receiver<Option<TeardownReport>> {
        let mut started = self.close_report.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(report) = &*started {
            return report.clone();
        }
        let (tell, report) = watch::channel(None);
        *started = Some(report.clone());
        let core = Arc::clone(self);
        control::spawn(&self.control, async move {
            let closed = core.close(deadline).await;
            let _ = tell.send(Some(closed));
        });
        report
    }

    async fn close(self: &Arc<Self>, deadline: Duration) -> TeardownReport {
        let until = self.clock.now().after(deadline);
        self.closing.cancel();
        self.tasks.close();
        let _ = timeout(&self.clock, deadline, self.tasks.wait()).await;
        let kinds = self.state().book.open_by_kind();
        for (done, (_, ordinals)) in kinds.iter().enumerate() {
            let until = share_of_time(&self.clock, until, kinds.len() - done);
            let teardowns = ordinals.iter().map(|ordinal| self.tear_down_by(*ordinal, until));
            futures_util::future::join_all(teardowns).await;
        }
        self.stop.cancel();
        self.finish().await
    }

    /// The row's turn may be taken by a deletion that does not end.
    async fn tear_down_by(&self, ordinal: u32, until: Timestamp) {
        let left = until.since(self.clock.now());
        let _ = timeout(&self.clock, left, self.tear_down(ordinal, until)).await;
    }

    async fn finish(&self) -> TeardownReport {
        let (mut report, settled) = {
            let state = self.state();
            let mut report = TeardownReport { notes: state.notes.clone(), ..TeardownReport::default() };
            for entry in state.book.entries() {
                report.add(
                    entry,
                    state.beside.get(&entry.intent.ordinal).and_then(|beside| beside.reason.as_deref()),
                );
            }
            (report, state.book.is_settled())
        };
        if let Err(error) = if settled { self.ledger.remove().await } else { self.ledger.release().await } {
            report.notes.push(error.to_string());
        }
        for line in report.stuck.iter().chain(&report.unresolved).chain(&report.undeletable) {
            tracing::info!(session = %self.run, "left: {line}");
        }
        report
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("run", &self.run).finish_non_exhaustive()
    }
}
