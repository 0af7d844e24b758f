//! The legs of the matrix as trials: `<provider>::<row>`.
//!
//! A leg runs once, in order, on a thread of its own, and only if one of its trials is run; each trial waits for its
//! row, so that a filter selects rows and what they need runs all the same. Listing does nothing else.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use matrix_tests::{
    leg::{LegPlan, LegReport, RowReport, RowStatus, Watch, run_leg},
    providers::{self, Entrant},
    settings,
};
use provider_core::{
    environment::{Environment, EnvironmentSpec, Format, Lockfile},
    error::{Code, Error},
    lifecycle::{Event, SessionConfig},
};

/// The rows of a leg as they come.
#[derive(Default)]
struct Board {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    started: bool,
    rows: Vec<RowReport>,
    /// How the leg ended: by its end, or refused before anything was created.
    ended: Option<Result<(), Error>>,
}

impl Board {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.news.notify_all();
    }
}

impl Watch for Board {
    fn event(&self, _event: &Event) {}

    fn row(&self, row: &RowReport) {
        self.change(|state| state.rows.push(row.clone()));
    }
}

fn run(provider: &str, board: &Board) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| Error::new(Code::MachineUnsuitable, source.to_string()))?;
    let spec = EnvironmentSpec::parse(include_str!("../fixtures/environment.toml"), Format::Toml)?;
    let secrets = settings::secrets(&spec, &[])?;
    let plan = LegPlan {
        entrant: Entrant::open(provider, &[])?,
        environment: Environment::new(spec, None)?,
        lockfile: Lockfile::without_packages(),
        secrets,
        session: SessionConfig::new("matrix-tests"),
        close_within: std::time::Duration::from_secs(60),
    };
    runtime.block_on(run_leg(&plan, board, std::future::pending())).map(|_| ())
}

/// Waits for a row; the first to wait starts the leg.
fn row_of(provider: &'static str, id: &str, board: &Arc<Board>) -> Result<Completion, Failed> {
    let mut state = board.state.lock().unwrap_or_else(PoisonError::into_inner);
    if !state.started {
        state.started = true;
        let board = Arc::clone(board);
        std::thread::spawn(move || {
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(provider, &board)));
            let ended = ended.unwrap_or_else(|_| Err(Error::new(Code::Internal, "the leg panicked")));
            board.change(|state| state.ended = Some(ended));
        });
    }
    loop {
        if let Some(row) = state.rows.iter().find(|row| row.id == id) {
            return match row.status {
                RowStatus::Passed => Ok(Completion::Completed),
                RowStatus::NotAsked => Ok(Completion::ignored_with(row.summary.clone())),
                _ => Err(format!("{}: {}\n{}", row.status, row.summary, row.details.join("\n")).into()),
            };
        }
        match &state.ended {
            Some(Err(error)) if error.code() == Code::MachineUnsuitable && !settings::requires(provider) => {
                return Ok(Completion::ignored_with(error.to_string().replace('\n', " ")));
            }
            Some(Err(error)) => return Err(error.to_string().into()),
            Some(Ok(())) => return Err("the leg has no such row".into()),
            None => state = board.news.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for provider in providers::IDS {
        let board = Arc::new(Board::default());
        for id in LegReport::row_ids() {
            let board = Arc::clone(&board);
            trials.push(Trial::ignorable_test(format!("{provider}::{id}"), move || {
                row_of(provider, id, &board)
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}
