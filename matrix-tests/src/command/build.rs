//! `matrix build`

use std::{fs, path::Path, sync::Arc, time::Duration};

use provider_core::{
    environment::Artifact,
    error::{Code, Error, Result},
    lifecycle::{Clock as _, Event, Lifetime, Outcome, Owned, Progress, Session, SystemClock},
    provider::{Finding, Plan},
};

use super::{record::Place, run::session_config};
use crate::{
    cli::Build,
    exit::Exit,
    leg::Watch as _,
    recipe::{self, Prepared},
    show,
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
    Finding::refuse_all(&provider.validate(prepared.recipe.environment.spec(), &prepared.recipe.lockfile))?;
    let config = session_config(options.kill_at);
    Finding::refuse_all(&provider.preflight(&Plan::new(config.budget)).await?)
        .map_err(|error| error.with_provider(provider.id()).with_operation("preflight"))?;
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
        let artifact = observed(&session, &prepared, request, verbose).await?;
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

async fn observed(
    session: &Session,
    prepared: &Prepared,
    request: provider_core::environment::BuildRequest,
    verbose: bool,
) -> Result<Owned<Artifact>> {
    let screen = show::Screen::new(prepared.entrant.provider.id().as_str(), verbose);
    let (progress, mut events) = Progress::channel();
    let mut build =
        std::pin::pin!(session.build_observed(&Arc::clone(&prepared.entrant.provider), request, progress));
    loop {
        let event: Event = tokio::select! {
            built = &mut build => return built,
            Some(event) = events.next() => event,
        };
        screen.event(&event);
    }
}

/// The record first: without it, nobody could launch or delete what is kept.
async fn keep(artifact: Owned<Artifact>, place: Place, out: &Path, reason: &str) -> Result<Artifact> {
    place.write(&artifact)?;
    artifact.keep(reason).await.inspect_err(|_| {
        let _ = fs::remove_file(out);
    })
}
