//! `matrix verify`

use std::time::Instant;

use provider_core::{
    environment::{Artifact, verify_lockfile},
    error::{Code, Error, Result},
    lifecycle::{Outcome, Session},
    provider::{Finding, LaunchOptions},
};

use super::{record, run::session_config};
use crate::{cli::Verify, exit::Exit, providers::Entrant, show, signals::Signals};

pub(super) async fn verify(options: &Verify) -> Result<Exit> {
    let artifact = record::read(&options.artifact)?;
    let entrant = Entrant::open(artifact.provider.as_str(), &[])?;
    artifact.check_for(&*entrant.provider).map_err(|error| error.with_operation("verify"))?;
    let began = Instant::now();
    let signals = Signals::listen();
    let Some(findings) = signals.unless(entrant.provider.verify(&artifact)).await else {
        return Ok(signals.exit());
    };
    let mut findings = findings?;
    let session = Session::open(session_config(None))?;
    let work = async {
        if findings.is_empty() {
            inside(&session, &entrant, &artifact).await
        } else {
            // What is stored differs already; what a sandbox of it says would prove nothing.
            Ok(Vec::new())
        }
    };
    let (primary, was_interrupted) = tokio::select! {
        biased;
        () = signals.first() => (Err(Error::new(Code::Cancelled, "it was interrupted")), true),
        found = work => (found, false),
    };
    let outcome = Outcome { primary, cleanup: session.close(options.close_within).await };
    let refused = match &outcome.primary {
        Ok(found) => {
            findings.extend(found.iter().cloned());
            Finding::refuse_all(&findings).err().map(|error| error.with_provider(&artifact.provider))
        }
        Err(_) => None,
    };
    show::print(&show::verified(&artifact, &findings, &outcome, began.elapsed()));
    Ok(match (&outcome.primary, refused) {
        _ if !outcome.cleanup.is_clean() => Exit::LeftBehind,
        (Err(_), _) if was_interrupted => signals.exit(),
        (Err(_), _) | (_, Some(_)) => Exit::Failed,
        (Ok(_), None) => Exit::Passed,
    })
}

/// What a sandbox of the artifact says against it.
async fn inside(session: &Session, entrant: &Entrant, artifact: &Artifact) -> Result<Vec<Finding>> {
    let inspection = entrant.provider.inspect(artifact).await?;
    let sandbox = session.launch(&entrant.provider, artifact, LaunchOptions::default()).await?;
    let found = verify_lockfile(artifact, &entrant.contract, &inspection, &**sandbox).await?;
    sandbox.close().await?;
    Ok(found)
}
