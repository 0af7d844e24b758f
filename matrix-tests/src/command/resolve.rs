//! `matrix resolve`

use std::{io::Write as _, path::Path};

use provider_core::error::{Code, Error, Result};

use super::record;
use crate::{cli::Resolve, exit::Exit, recipe, show};

pub(super) async fn resolve(options: &Resolve) -> Result<Exit> {
    let environment = recipe::environment(Some(&options.env))?;
    let lockfile = recipe::resolve(&environment).await?;
    let text = lockfile.to_file_text();
    let out = options.out.clone().unwrap_or_else(|| recipe::lockfile_path(&options.env));
    if out == Path::new("-") {
        let written = std::io::stdout().write_all(text.as_bytes()).and_then(|()| std::io::stdout().flush());
        return written.map(|()| Exit::Passed).map_err(|source| {
            Error::new(
                Code::FileError,
                format!("the lockfile cannot be written to standard output: {source}"),
            )
        });
    }
    write(&out, &text)?;
    show::print(&format!(
        "{}: {} packages with hashes, digest {}\n",
        out.display(),
        lockfile.packages().len(),
        lockfile.digest()
    ));
    Ok(Exit::Passed)
}

/// Whole, or not at all: a build beside this must not read half a lockfile.
fn write(out: &Path, text: &str) -> Result<()> {
    let cannot = |source: std::io::Error| {
        Error::new(
            Code::FileError,
            format!("the lockfile cannot be written to {}: {}", out.display(), source.kind()),
        )
    };
    // A rename would put a file in the place of a device or a link.
    if out.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return Err(cannot(std::io::ErrorKind::InvalidInput.into()).with_advice("name a regular file, or -"));
    }
    let mut aside = record::aside(out).map_err(cannot)?;
    aside.write_all(text.as_bytes()).and_then(|()| aside.as_file().sync_all()).map_err(cannot)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let readable = std::fs::Permissions::from_mode(0o644);
        aside.as_file().set_permissions(readable).map_err(cannot)?;
    }
    aside.persist(out).map_err(|refused| cannot(refused.error))?;
    Ok(())
}
