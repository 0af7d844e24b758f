//! The legs of the matrix as trials: `<provider>::<row>`.
//!
//! A leg runs once, in order, on a thread of its own, and only if one of its trials is run; each trial waits for its
//! row, so that a filter selects rows and what they need runs all the same. Listing does nothing else.

#[path = "../../provider-local/tests/driver/wheels.rs"]
mod wheels;

use std::{
    fs,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use matrix_tests::{
    leg::{LegKind, LegPlan, LegReport, Recipe, RowReport, RowStatus, Start, Watch, run_leg},
    providers::{self, Entrant},
    settings,
};
use provider_core::{
    environment::{
        ApprovedBases, BasePin, Environment, EnvironmentSpec, Format, InstallerVariables, Lockfile, PIP,
        Resolution, pin_bases, sha256_hex,
    },
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

/// The matrix's own environment, with a package that is made here in place of the real one, so that no index is asked.
fn packaged() -> Result<(Recipe, EnvironmentSpec, tempfile::TempDir), Error> {
    let name = "matrix_trial";
    let toml = include_str!("../fixtures/environment.toml").replace("packaging==24.2", "matrix-trial==1.0");
    let spec = EnvironmentSpec::parse(&toml, Format::Toml)?;
    let pip = wheels::pip().map_err(|why| Error::new(Code::MachineUnsuitable, why))?;
    let (file, bytes) = wheels::wheel(name, "1.0", "py3-none-any");
    let cannot = |source: std::io::Error| Error::new(Code::FileError, source.to_string());
    let folder = tempfile::tempdir().map_err(cannot)?;
    fs::write(folder.path().join(file), &bytes).map_err(cannot)?;
    fs::copy(pip, folder.path().join(PIP.file)).map_err(cannot)?;
    let lockfile = format!(
        "# provider-lock: v1\n# provider-inputs: {}\n# provider-protected: {}=={}\n\
         matrix-trial==1.0 \\\n    --hash=sha256:{}\n{}=={} \\\n    --hash=sha256:{}\n",
        spec.inputs_digest()?,
        PIP.name,
        PIP.version,
        sha256_hex(&bytes),
        PIP.name,
        PIP.version,
        PIP.sha256,
    );
    let variables = [
        ("PIP_FIND_LINKS", folder.path().display().to_string()),
        ("PIP_NO_INDEX", "1".to_owned()),
        ("UV_FIND_LINKS", folder.path().display().to_string()),
        ("UV_NO_INDEX", "1".to_owned()),
    ];
    let recipe = Recipe {
        environment: Environment::new(spec.clone(), None)?,
        lockfile: Lockfile::from_text(lockfile)?,
        base: BasePin::unpinned("none", "none")?,
        variables: InstallerVariables::of(variables.map(|(name, value)| (name.to_owned(), value))),
    };
    Ok((recipe, spec, folder))
}

fn run(provider: &str, board: &Board) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| Error::new(Code::MachineUnsuitable, source.to_string()))?;
    let (mut recipe, spec, _folder) = packaged()?;
    let entrant = Entrant::open(provider, &[])?;
    runtime.block_on(async {
        let bases = pin_bases(&spec, &[Arc::clone(&entrant.provider)], &ApprovedBases::default()).await?;
        recipe.base = Resolution::new(recipe.lockfile.clone(), bases).request_parts(entrant.provider.id())?.1;
        let plan = LegPlan {
            entrant,
            start: Start::Build(Box::new(recipe)),
            secrets: settings::secrets(&spec, &[])?,
            session: SessionConfig::new("matrix-tests"),
            close_within: std::time::Duration::from_secs(60),
        };
        run_leg(&plan, board, std::future::pending()).await.map(|_| ())
    })
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
        for id in LegReport::row_ids(LegKind::Build) {
            let board = Arc::clone(&board);
            trials.push(Trial::ignorable_test(format!("{provider}::{id}"), move || {
                row_of(provider, id, &board)
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}
