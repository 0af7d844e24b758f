//! `matrix run`

use std::{path::Path, sync::Arc};

use provider_core::{
    error::{Code, Error, Result},
    lifecycle::SessionConfig,
    secret::SecretSet,
};
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
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<&'a str>,
    legs: &'a [&'a LegReport],
    /// Why nothing was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) async fn run(options: &Run, verbose: bool) -> Result<Exit> {
    // A report that cannot be written is found out before the work, not after it.
    let not_yet = Error::new(Code::Cancelled, "the run has not come to its end");
    write_reports(options, None, &[], Some(&not_yet))?;
    let ended = run_one(options, verbose).await;
    if let Err(error) = &ended {
        told(write_reports(options, None, &[], Some(error)));
    }
    ended
}

/// Writes the reports that were asked for.
fn write_reports(
    options: &Run,
    environment: Option<&str>,
    legs: &[&LegReport],
    refused: Option<&Error>,
) -> Result<()> {
    if let Some(path) = &options.json {
        let error = refused.map(ToString::to_string);
        write_json(path, &MatrixReport { version: 1, environment, legs, error })?;
    }
    match &options.junit {
        Some(path) => junit::write(path, legs, refused),
        None => Ok(()),
    }
}

/// The run's own outcome is what counts.
fn told(written: Result<()>) {
    if let Err(error) = written {
        show::note(&format!("error: {error}"));
    }
}

async fn run_one(options: &Run, verbose: bool) -> Result<Exit> {
    let signals = Signals::listen();
    let (entrant, start, secrets) = match &options.artifact {
        Some(path) => from_artifact(path, options)?,
        None => {
            let Some(prepared) = signals.unless(recipe::prepare(&options.source)).await else {
                return Ok(signals.exit());
            };
            let Prepared { entrant, recipe, secrets } = prepared?;
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
    let report = {
        let screen = show::Screen::new(plan.entrant.provider.id().as_str(), verbose);
        run_leg(&plan, &screen, signals.first()).await?
    };
    let name = plan.start.environment();
    show::print(&show::leg(&report, name, plan.entrant.cache().as_deref()));
    told(write_reports(options, Some(name), &[&report], None));
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
