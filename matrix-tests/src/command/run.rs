//! `matrix run`

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use provider_core::{
    environment::{Environment, EnvironmentSpec, Format, Lockfile},
    error::Result,
    lifecycle::{Clock, SessionConfig, SystemClock, timeout},
};
use serde::Serialize;

use super::write_json;
use crate::{
    cli::Run,
    exit::Exit,
    leg::{LegPlan, LegReport, run_leg},
    providers::Entrant,
    settings, show,
};

/// The matrix's own environment.
pub(crate) const OWN_ENVIRONMENT: &str = include_str!("../../fixtures/environment.toml");

#[derive(Serialize)]
struct MatrixReport<'a> {
    version: u32,
    environment: &'a str,
    legs: [&'a LegReport; 1],
}

pub(super) async fn run(options: &Run, verbose: bool) -> Result<Exit> {
    let environment = environment(options.env.as_deref())?;
    let name = environment.spec().metadata.name.clone();
    if let Some(path) = &options.json {
        // A report that cannot be written is found out before the work, not after it.
        write_json(path, &serde_json::json!({ "version": 1, "legs": [] }))?;
    }
    let secrets = settings::secrets(environment.spec(), &options.secrets)?;
    let plan = LegPlan {
        entrant: Entrant::open(&options.provider, &options.bases)?,
        environment,
        lockfile: Lockfile::without_packages(),
        secrets,
        session: session_config(options),
        close_within: options.close_within,
    };
    let signals = Signals::listen();
    let report = {
        let screen = show::Screen::new(&options.provider, verbose);
        run_leg(&plan, &screen, signals.first()).await?
    };
    show::print(&show::leg(&report, &name, plan.entrant.cache().as_deref()));
    if let Some(path) = &options.json {
        // The run's own outcome is what counts.
        if let Err(error) =
            write_json(path, &MatrixReport { version: 1, environment: &name, legs: [&report] })
        {
            show::note(&format!("error: {error}"));
        }
    }
    Ok(match report.exit() {
        Exit::Interrupted if signals.terminated.load(Ordering::SeqCst) => Exit::Terminated,
        exit => exit,
    })
}

fn environment(path: Option<&Path>) -> Result<Environment> {
    match path {
        Some(path) => Environment::load(path),
        None => Environment::new(EnvironmentSpec::parse(OWN_ENVIRONMENT, Format::Toml)?, None),
    }
}

fn session_config(options: &Run) -> SessionConfig {
    let config = SessionConfig::new("matrix");
    #[cfg(unix)]
    if let Some(nth) = options.kill_at {
        return config.gate(Arc::new(crate::leg::KillAt::new(nth)));
    }
    #[cfg(not(unix))]
    let _ = options;
    config
}

/// Signals within this time belong to one request.
const SAME_REQUEST: std::time::Duration = std::time::Duration::from_secs(1);

/// Ctrl-C and SIGTERM: the first ends the leg and lets it clean up, the second ends the process at once.
struct Signals {
    first: Arc<tokio::sync::Notify>,
    terminated: Arc<AtomicBool>,
}

impl Signals {
    fn listen() -> Self {
        let signals = Self { first: Arc::default(), terminated: Arc::default() };
        let (first, terminated) = (Arc::clone(&signals.first), Arc::clone(&signals.terminated));
        let listening = async move {
            let exit = next_signal().await;
            terminated.store(exit == Exit::Terminated, Ordering::SeqCst);
            show::note(
                "interrupted: cleaning up; once more ends at once and leaves the rest to `matrix sweep --delete`",
            );
            first.notify_one();
            // What asks once may send the same signal to the process and to its group.
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
            while timeout(&clock, SAME_REQUEST, next_signal()).await.is_ok() {}
            let exit = next_signal().await;
            show::note("ended at once; `matrix sweep --delete` deletes what is left");
            std::process::exit(i32::from(exit.code()));
        };
        #[expect(clippy::disallowed_methods, reason = "it creates nothing at any provider")]
        tokio::spawn(listening);
        signals
    }

    async fn first(&self) {
        self.first.notified().await;
    }
}

#[cfg(unix)]
async fn next_signal() -> Exit {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => Exit::Interrupted,
        _ = terminate.recv() => Exit::Terminated,
    }
}

#[cfg(not(unix))]
async fn next_signal() -> Exit {
    match tokio::signal::ctrl_c().await {
        Ok(()) => Exit::Interrupted,
        Err(_) => std::future::pending().await,
    }
}
