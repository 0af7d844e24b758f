//! What a provider still has of a run.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use provider_core::{
    error::{Code, Error},
    lifecycle::{Session, timeout},
    names::ThingName,
    provider::{Provider, State},
};

use super::LegPlan;

fn late(provider: &Arc<dyn Provider>, limit: Duration) -> Error {
    Error::new(Code::Timeout, format!("no answer within {limit:?}")).with_provider(provider.id())
}

/// The things of this run that the provider lists and that exist by their own read, since a list may lag behind; and
/// the first error on the way.
pub(super) async fn things_of_run(plan: &LegPlan, session: &Session) -> (Vec<String>, Option<Error>) {
    let provider = &plan.entrant.provider;
    let limit = provider.capabilities().request_deadline;
    let mut listed = provider.list(session.owner());
    let mut existing = Vec::new();
    loop {
        let next = async { listed.next().await.transpose() };
        let thing = match timeout(&plan.session.clock, limit, next)
            .await
            .unwrap_or_else(|_| Err(late(provider, limit)))
        {
            Ok(Some(thing)) => thing,
            Ok(None) => return (existing, None),
            Err(error) => return (existing, Some(error)),
        };
        let name = thing.name.as_deref().and_then(|name| name.parse::<ThingName>().ok());
        if name.is_some_and(|name| name.run == *session.run()) {
            let observed = timeout(&plan.session.clock, limit, provider.observe(&thing)).await;
            match observed.unwrap_or_else(|_| Err(late(provider, limit))) {
                Ok(State::Absent) => {}
                Ok(state) => existing.push(format!("{thing} is {state:?}")),
                Err(error) => return (existing, Some(error)),
            }
        }
    }
}
