//! `matrix run`

use std::{path::Path, sync::Arc};

use provider_core::{error::Result, lifecycle::SessionConfig, secret::SecretSet};
use serde::Serialize;

use super::{record, write_json};
use crate::{
    cli::Run,
    exit::Exit,
    junit,
    leg::{LegPlan, LegReport, Start, run_leg},
    providers::Entrant,
    recipe::{self, Prepared},
    settings, show,
    signals::Signals,
};

#[derive(Serialize)]
struct MatrixReport<'a> {
    version: u32,
    environment: &'a str,
    legs: [&'a LegReport; 1],
}

pub(super) async fn run(options: &Run, verbose: bool) -> Result<Exit> {
    // A report that cannot be written is found out before the work, not after it.
    if let Some(path) = &options.json {
        write_json(path, &serde_json::json!({ "version": 1, "legs": [] }))?;
    }
    if let Some(path) = &options.junit {
        junit::write(path, &[])?;
    }
    let (entrant, start, secrets) = match &options.artifact {
        Some(path) => from_artifact(path, options)?,
        None => {
            let Prepared { entrant, recipe, secrets } = recipe::prepare(&options.source).await?;
            (entrant, Start::Build(Box::new(recipe)), secrets)
        }
    };
    let plan = LegPlan {
        entrant,
        start,
        secrets,
        session: session_config(options.kill_at),
        close_within: options.close_within,
    };
    let signals = Signals::listen();
    let report = {
        let screen = show::Screen::new(plan.entrant.provider.id().as_str(), verbose);
        run_leg(&plan, &screen, signals.first()).await?
    };
    let name = plan.start.environment();
    show::print(&show::leg(&report, name, plan.entrant.cache().as_deref()));
    // The run's own outcome is what counts.
    let mut written = Vec::new();
    if let Some(path) = &options.json {
        written.push(write_json(path, &MatrixReport { version: 1, environment: name, legs: [&report] }));
    }
    if let Some(path) = &options.junit {
        written.push(junit::write(path, &[&report]));
    }
    written.into_iter().filter_map(Result::err).for_each(|error| show::note(&format!("error: {error}")));
    Ok(match report.exit() {
        Exit::Interrupted => signals.exit(),
        exit => exit,
    })
}

fn from_artifact(path: &Path, options: &Run) -> Result<(Entrant, Start, SecretSet)> {
    let artifact = record::read(path)?;
    let secrets = settings::secrets_of(&artifact.build_secrets, &options.source.secrets)?;
    let entrant = Entrant::open(artifact.provider.as_str(), &options.source.bases)?;
    Ok((entrant, Start::Artifact(Box::new(artifact)), secrets))
}

pub(super) fn session_config(kill_at: Option<usize>) -> SessionConfig {
    let config = SessionConfig::new("matrix");
    #[cfg(unix)]
    if let Some(nth) = kill_at {
        return config.gate(Arc::new(crate::leg::KillAt::new(nth)));
    }
    #[cfg(not(unix))]
    let _ = kill_at;
    config
}
