//! `matrix build`

use std::{fs, path::Path, time::Duration};

use provider_core::{
    environment::Artifact,
    error::{Code, Error, Result},
    lifecycle::{Clock as _, Lifetime, Outcome, Owned, Session, SystemClock},
};

use super::{record::Place, run::session_config};
use crate::{
    cli::Build,
    exit::Exit,
    leg::{build_watched, refuse_machine, refuse_recipe},
    recipe, show,
    signals::Signals,
};

/// How long an artifact is kept, unless something else is said.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

pub(super) async fn build(options: &Build, verbose: bool) -> Result<Exit> {
    let place = options.out.as_deref().map(Place::find).transpose()?;
    let signals = Signals::listen();
    let Some(prepared) = signals.unless(recipe::prepare(&options.source)).await else {
        return Ok(signals.exit());
    };
    let prepared = prepared?;
    let provider = &prepared.entrant.provider;
    let config = session_config(options.kill_at);
    refuse_recipe(provider, &prepared.recipe)?;
    refuse_machine(provider, config.budget).await?;
    let reason = options.reason.as_deref().unwrap_or("kept by matrix build");
    let mut request = prepared.recipe.request(&prepared.secrets)?;
    if options.keep {
        let now = SystemClock::new().now();
        let lifetime = match options.unbounded {
            true => Lifetime::Unbounded { reason: reason.to_owned() },
            false => Lifetime::Until(now.after(options.lifetime.unwrap_or(WEEK))),
        };
        request = request.with_lifetime(lifetime, now)?;
    }
    let session = Session::open(config)?;
    let work = async {
        let screen = show::Screen::new(provider.id().as_str(), verbose);
        let artifact = build_watched(&session, provider, request, &screen).await?;
        drop(screen);
        match (place, &options.out) {
            (Some(place), Some(out)) => keep(artifact, place, out, reason).await.map(Some),
            _ => artifact.close().await.map(|()| None),
        }
    };
    let (primary, was_interrupted) = tokio::select! {
        biased;
        () = signals.first() => (Err(Error::new(Code::Cancelled, "the build was interrupted")), true),
        ended = work => (ended, false),
    };
    let outcome = Outcome { primary, cleanup: session.close(options.close_within).await };
    show::print(&show::build(&outcome, options.out.as_deref()));
    Ok(match &outcome.primary {
        _ if !outcome.cleanup.is_clean() => Exit::LeftBehind,
        Err(_) if was_interrupted => signals.exit(),
        Err(_) => Exit::Failed,
        Ok(_) => Exit::Passed,
    })
}

/// The record first: without it, nobody could launch or delete what is kept.
async fn keep(artifact: Owned<Artifact>, place: Place, out: &Path, reason: &str) -> Result<Artifact> {
    place.write(&artifact)?;
    artifact.keep(reason).await.inspect_err(|_| {
        let _ = fs::remove_file(out);
    })
}
