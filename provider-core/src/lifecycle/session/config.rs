//! How a session works.

use std::{path::PathBuf, sync::Arc, time::Duration};

use crate::{
    lifecycle::{Clock, Gate, SystemClock},
    names::Owner,
};

/// How a session works. [`SessionConfig::new`] has defaults for all but the tool's name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionConfig {
    /// The tool that opens it, for people who read the ledger.
    pub tool: String,
    /// The state folder; absent means [`Settings::from_env`](crate::config::Settings::from_env).
    pub state_folder: Option<PathBuf>,
    /// Whose things they are; absent means [`Settings::from_env`](crate::config::Settings::from_env), or else the
    /// mark stored in the state folder.
    pub owner: Option<Owner>,
    /// How long what it creates may exist, if nothing else is said. Sandboxes get it as their server-side life.
    pub budget: Duration,
    /// How many things it may create.
    pub max_things: u32,
    /// How long dropping the session may wait for what is still open.
    pub drop_grace: Duration,
    /// How long one deletion in the background may take before it is left to [`Session::close`](super::Session::close).
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
