//! `matrix gc`

use provider_core::error::Result;
use provider_local::CacheLimits;

use crate::{cli::Gc, exit::Exit, providers, show};

pub(super) fn gc(options: &Gc) -> Result<Exit> {
    let mut limits = CacheLimits::default();
    limits.older_than = options.older_than;
    limits.dry_run = options.dry_run;
    let (entrants, unusable) = providers::for_sweep();
    for (id, error) in &unusable {
        show::note(&format!("{id} cannot be looked at: {error}"));
    }
    for entrant in &entrants {
        if let Some(report) = entrant.collect_cache(&limits)? {
            show::print(&show::collected(entrant.provider.id(), &report));
        }
    }
    if entrants.is_empty() {
        show::print("There is no cache.\n");
    }
    Ok(if unusable.is_empty() { Exit::Passed } else { Exit::Refused })
}
