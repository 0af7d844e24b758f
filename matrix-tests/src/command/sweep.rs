//! `matrix sweep`

use std::sync::Arc;

use provider_core::{
    config::Settings,
    error::Result,
    lifecycle::sweep::{SweepOptions, sweep as sweep_all},
    provider::Registry,
};

use super::write_json;
use crate::{cli::Sweep, exit::Exit, providers, show};

pub(super) async fn sweep(options: &Sweep) -> Result<Exit> {
    let settings = Settings::from_env()?;
    let (folder, owner) = (settings.state_folder()?, settings.known_owner()?);
    let (entrants, unusable) = providers::for_sweep();
    for (id, error) in &unusable {
        show::note(&format!("{id} cannot be swept: {error}"));
    }
    let mut registry = Registry::new();
    entrants.iter().for_each(|entrant| registry.insert(Arc::clone(&entrant.provider)));
    let how = if options.delete { SweepOptions::delete() } else { SweepOptions::look() };
    let report = sweep_all(folder, owner, registry, how.deadline(options.within)).await?;
    show::print(&show::sweep(&report));
    if let Some(path) = &options.json {
        write_json(path, &report)?;
    }
    let mut tidied = true;
    for entrant in entrants.iter().filter(|_| options.delete) {
        match entrant.tidy() {
            Ok(0) => {}
            Ok(number) => show::note(&format!("{number} scratch folders of killed processes removed")),
            Err(error) => {
                tidied = false;
                show::note(&format!("error: {error}"));
            }
        }
    }
    let clean = tidied && unusable.is_empty() && (report.is_clean() || !options.delete);
    Ok(if clean { Exit::Passed } else { Exit::LeftBehind })
}
