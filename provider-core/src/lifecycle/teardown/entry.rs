//! Deleting all that one entry of a book made.

use super::{Reclaimer, Records, Resolution};
use crate::{
    error::{Code, Error, Result},
    lifecycle::{Entry, Intent, Timestamp, ledger::Row},
};

/// What became of an open entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reclaimed {
    /// Nothing of it is left.
    All,
    /// What it may have made was looked for and not found, which is no proof.
    NotFound,
}

/// Deletes all that an open entry made; first looks it up if that is not known. One failure strands nothing else.
///
/// # Errors
/// Why something is, or may be, still there.
pub(crate) async fn reclaim_entry(
    reclaimer: &Reclaimer,
    entry: &Entry,
    until: Timestamp,
    records: &dyn Records,
) -> Result<Reclaimed> {
    let intent = &entry.intent;
    let ordinal = intent.ordinal;
    let mut things = entry.open_things();
    if entry.things.is_empty() {
        match reclaimer.resolve(intent, intent.at, until).await {
            Resolution::Things(found) => {
                let _ = records.record(Row::Acquired { ordinal, things: found.clone() }).await;
                things = found;
                things.sort_by_key(|thing| thing.kind);
            }
            Resolution::NotMade => {
                let _ = records.record(Row::NotMade { ordinal }).await;
                return Ok(Reclaimed::All);
            }
            Resolution::NotFound => return Ok(Reclaimed::NotFound),
            Resolution::Unknown(error) => return Err(error),
        }
    }
    let mut first_error = Ok(());
    for thing in things {
        match reclaimer.delete_until_gone(&thing, until).await {
            Ok(how) => {
                let _ = records
                    .record(Row::Deleted { ordinal, kind: thing.kind, id: thing.id.clone(), how })
                    .await;
                tracing::info!(session = %intent.run, ordinal, provider = %intent.provider, kind = %thing.kind, id = %thing.id, "deleted");
            }
            Err(error) => first_error = first_error.and(Err(error)),
        }
    }
    first_error.map(|()| Reclaimed::All)
}

/// What a lookup that found nothing leaves to say.
pub(crate) fn not_found(intent: &Intent) -> Error {
    Error::new(Code::NotSeenGone, format!("{intent} may have been made and was not found"))
        .with_advice("sweep again later; it ends by itself at its stamp")
}
