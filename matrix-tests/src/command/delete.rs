//! `matrix delete`

use std::{path::Path, sync::Arc};

use provider_core::{
    config::Settings,
    error::{Code, Error, Result},
    lifecycle::{DeleteOptions, ResourceRef, delete_kept, ledger::StateFolder},
};

use super::record;
use crate::{cli::Delete, exit::Exit, providers::Entrant, show};

pub(super) async fn delete(options: &Delete) -> Result<Exit> {
    let settings = Settings::from_env()?;
    let folder = settings.state_folder()?;
    let (what, things) = match kept(&folder, &options.artifact)? {
        Some(things) => (options.artifact.clone(), things),
        None => {
            let artifact = record::read(Path::new(&options.artifact))?;
            (artifact.to_string(), artifact.things())
        }
    };
    let owner = settings.known_owner()?.ok_or_else(|| {
        let words = format!("no owner is known in {}", folder.path().display());
        Error::new(Code::SpecInvalid, words).with_advice("set PROVIDER_OWNER to the owner who built it")
    })?;
    let Some(first) = things.first() else {
        return Err(Error::new(Code::SpecInvalid, format!("{what} names nothing that could be deleted")));
    };
    let provider = Arc::clone(&Entrant::open(first.provider.as_str(), &[])?.provider);
    let how = DeleteOptions::default().deadline(options.within);
    let report = delete_kept(folder, owner, provider, things, how).await?;
    show::print(&show::deleted(&what, &report));
    Ok(if report.is_clean() { Exit::Passed } else { Exit::LeftBehind })
}

/// The thing that a sweep lists as kept under this id, and what was kept together with it.
fn kept(folder: &StateFolder, id: &str) -> Result<Option<Vec<ResourceRef>>> {
    let (kept, _) = folder.kept()?;
    let Some(named) = kept.iter().find(|kept| kept.thing.id == id) else { return Ok(None) };
    let together = kept.iter().filter(|it| (&it.run, it.at) == (&named.run, named.at));
    Ok(Some(together.map(|it| it.thing.clone()).collect()))
}
