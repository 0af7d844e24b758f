//! Taking back: what there is, by name, and its end.
//!
//! Everything of one intent carries its name: a box, a record, and what a killed process left of either on the way in
//! or out. The lock of a box, which driver and helper share, tells whether somebody still uses it.

use std::{path::Path, sync::Arc};

use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use provider_core::{
    error::{Code, Result},
    lifecycle::{Intent, ResourceKind, ResourceRef},
    names::{Owner, ThingName},
    provider::{Deletion, Found, State},
};

use crate::{
    blocking::blocking,
    boxes::{Held, Standing},
    driver::Inner,
    errors::{ID, error, from_engine, from_store},
    keeper::GRACE,
    layers,
    store::Removal,
};

/// Cancel safe.
pub(crate) async fn find(inner: &Arc<Inner>, intent: &Intent) -> Result<Found> {
    let name = intent.name().to_string();
    let thing = intent.made(&name);
    Ok(match observe(inner, &thing).await? {
        State::Absent => Found::Absent,
        _ => Found::Things(vec![thing]),
    })
}

/// Cancel safe.
pub(crate) async fn observe(inner: &Arc<Inner>, thing: &ResourceRef) -> Result<State> {
    let sort = sort_of(inner, thing)?;
    let (inner, id) = (Arc::clone(inner), thing.id.clone());
    blocking(move || match sort {
        Sort::Box => state_of_box(&inner, &id),
        Sort::Record => match inner.engine.store().record(&id) {
            Ok(None) if !has_remains(&inner, &id)? => Ok(State::Absent),
            Ok(None) => Ok(State::Stopped),
            // One that cannot be read is there all the same.
            Ok(Some(_)) => Ok(State::Ready),
            Err(crate::store::StoreError::Unreadable { .. }) => Ok(State::Failed),
            Err(source) => Err(from_store(source)),
        },
    })
    .await
}

/// Cancel safe: once begun, it goes on.
pub(crate) async fn delete(inner: &Arc<Inner>, thing: &ResourceRef) -> Result<Deletion> {
    let sort = sort_of(inner, thing)?;
    let (inner, id) = (Arc::clone(inner), thing.id.clone());
    blocking(move || {
        let was_there = match sort {
            Sort::Box => delete_box(&inner, &id)?,
            Sort::Record => inner.engine.store().remove_record(&id).map_err(from_store)?,
        };
        let has_remains = has_remains(&inner, &id)?;
        if has_remains {
            inner.engine.reap().map_err(from_engine)?;
        }
        // The thing is gone all the same; the next deletion tries again.
        if let Err(error) = layers::remove_private(inner.engine.store()) {
            tracing::warn!(provider = %*ID, "layers that may hold secrets are left for now: {error}");
        }
        Ok(if was_there || has_remains { Deletion::Accepted } else { Deletion::AlreadyGone })
    })
    .await
}

/// Everything that carries the owner's mark.
pub(crate) fn list<'a>(inner: &Arc<Inner>, owner: &'a Owner) -> BoxStream<'a, Result<ResourceRef>> {
    let inner = Arc::clone(inner);
    let listed = async move {
        let wanted = owner.clone();
        let things = blocking(move || listed(&inner, &wanted)).await;
        match things {
            Ok(things) => stream::iter(things.into_iter().map(Ok).collect::<Vec<_>>()),
            Err(error) => stream::iter(vec![Err(error)]),
        }
    };
    stream::once(listed).flatten().boxed()
}

/// How a thing lies in the store.
#[derive(Clone, Copy)]
enum Sort {
    Box,
    Record,
}

fn sort_of(inner: &Inner, thing: &ResourceRef) -> Result<Sort> {
    if thing.provider != *ID || !inner.is_here(&thing.account, &thing.endpoint) {
        let words = format!("{thing} belongs to account {} at {}", thing.account, thing.endpoint);
        return Err(error(Code::SpecInvalid, words));
    }
    match thing.kind {
        ResourceKind::Sandbox | ResourceKind::Intermediate => Ok(Sort::Box),
        ResourceKind::Artifact => Ok(Sort::Record),
        kind => Err(error(Code::SpecInvalid, format!("this driver makes no {kind}"))),
    }
}

fn state_of_box(inner: &Inner, id: &str) -> Result<State> {
    match inner.boxes.standing(id) {
        Standing::Starting => return Ok(State::Pending),
        Standing::Held(held) if held.running.is_alive() => return Ok(State::Ready),
        Standing::Held(_) => return Ok(State::Stopped),
        Standing::None => {}
    }
    match inner.engine.store().find_box(id).map_err(from_store)? {
        Some(entry) if entry.busy => Ok(State::Ready),
        Some(_) => Ok(State::Stopped),
        None if has_remains(inner, id)? => Ok(State::Stopped),
        None => Ok(State::Absent),
    }
}

/// Whether it was there.
fn delete_box(inner: &Inner, id: &str) -> Result<bool> {
    let busy = |words: &str| Err(error(Code::WrongState, format!("the box {id} {words}")));
    let held = match inner.boxes.standing(id) {
        Standing::Starting => return busy("is being started"),
        Standing::Held(held) => Some(held),
        Standing::None => None,
    };
    if let Some(Held { running, thing, .. }) = &held
        && thing.kind == ResourceKind::Sandbox
        && running.is_alive()
    {
        // What works in a sandbox may end by itself. A build that is given up is killed.
        running.stop(GRACE).map_err(from_engine)?;
    }
    match inner.engine.remove_box(id).map_err(from_engine)? {
        Removal::Busy => busy("is used by another process"),
        removal => {
            inner.boxes.forget(id);
            Ok(held.is_some() || removal == Removal::Removed)
        }
    }
}

/// Whether a killed process left something of this name on the way in or out of the store.
fn has_remains(inner: &Inner, id: &str) -> Result<bool> {
    let prefix = format!("{id}.");
    for folder in ["tmp", "trash"] {
        let names = names_in(&inner.engine.store().root().join(folder))?;
        if names.iter().any(|name| name.starts_with(&prefix)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn names_in(folder: &Path) -> Result<Vec<String>> {
    let unreadable = |source: std::io::Error| {
        let words = format!("the folder {} cannot be read", folder.display());
        error(Code::MachineUnsuitable, words).with_source(source)
    };
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    entries.map(|entry| Ok(entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned())).collect()
}

fn listed(inner: &Inner, owner: &Owner) -> Result<Vec<ResourceRef>> {
    let store = inner.engine.store();
    let mut things = Vec::new();
    for entry in store.boxes().map_err(from_store)? {
        let kind = serde_json::from_value(entry.journal["kind"].clone()).unwrap_or(ResourceKind::Sandbox);
        things.push((kind, entry.id));
    }
    // By the names of the files, since a damaged record is to be found as well.
    let records = names_in(&store.root().join("art"))?;
    let records = records.iter().filter_map(|file| file.strip_suffix(".json"));
    things.extend(records.map(|name| (ResourceKind::Artifact, name.to_owned())));
    let marked = things
        .into_iter()
        .filter(|(_, name)| name.parse::<ThingName>().is_ok_and(|parsed| parsed.owner == *owner));
    Ok(marked.map(|(kind, name)| inner.reference(kind, name)).collect())
}
