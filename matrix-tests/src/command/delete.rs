//! `matrix delete`

use std::sync::Arc;

use provider_core::{
    config::Settings,
    error::{Code, Error, Result},
    lifecycle::{DeleteOptions, delete_kept},
};

use super::record;
use crate::{cli::Delete, exit::Exit, providers::Entrant, show};

pub(super) async fn delete(options: &Delete) -> Result<Exit> {
    let artifact = record::read(&options.artifact)?;
    let settings = Settings::from_env()?;
    let folder = settings.state_folder()?;
    let owner = match settings.owner {
        Some(owner) => owner,
        None => folder.owner()?.ok_or_else(|| {
            let words = format!("no owner is known in {}", folder.path().display());
            Error::new(Code::SpecInvalid, words).with_advice("set PROVIDER_OWNER to the owner who built it")
        })?,
    };
    let entrant = Entrant::open(artifact.provider.as_str(), &[])?;
    let how = DeleteOptions::default().deadline(options.within);
    let report = delete_kept(folder, owner, Arc::clone(&entrant.provider), &artifact, how).await?;
    show::print(&show::deleted(&artifact, &report));
    Ok(if report.is_clean() { Exit::Passed } else { Exit::LeftBehind })
}
