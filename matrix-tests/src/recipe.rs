//! From the command line to what is built: the Environment, its lockfile, its base, its secrets.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use provider_core::{
    config::Settings,
    environment::{
        self, ApprovedBases, Environment, EnvironmentSpec, Format, Lockfile, Resolution, pin_bases,
    },
    error::{Code, Error, Result},
    secret::SecretSet,
};

use crate::{cli::Source, leg::Recipe, providers::Entrant, settings, show};

/// The matrix's own environment.
const OWN_ENVIRONMENT: &str = include_str!("../fixtures/environment.toml");
/// Its packages, resolved by `matrix resolve`.
const OWN_LOCKFILE: &str = include_str!("../fixtures/environment.lock");

/// What is built, where, and with which secrets.
#[derive(Debug)]
pub struct Prepared {
    /// The provider.
    pub entrant: Entrant,
    /// What is built there.
    pub recipe: Recipe,
    /// The values of its build secrets.
    pub secrets: SecretSet,
}

/// The environment that the command line names, or the matrix's own.
///
/// # Errors
/// [`Code::SpecInvalid`] naming the place; [`Code::FileError`] naming the file.
pub fn environment(path: Option<&Path>) -> Result<Environment> {
    match path {
        Some(path) => Environment::load(path),
        None => Environment::new(EnvironmentSpec::parse(OWN_ENVIRONMENT, Format::Toml)?, None),
    }
}

/// Everything that a build needs. Packages are resolved last, when nothing else can be refused any more.
///
/// # Errors
/// What is wrong with an input, a setting or the machine. Nothing was created.
pub async fn prepare(source: &Source) -> Result<Prepared> {
    let environment = environment(source.env.as_deref())?;
    let secrets = settings::secrets(environment.spec(), &source.secrets)?;
    let found = stored_lockfile(source, &environment)?;
    let entrant = Entrant::open(&source.provider, &source.bases)?;
    let providers = [Arc::clone(&entrant.provider)];
    let bases = pin_bases(environment.spec(), &providers, &ApprovedBases::default()).await?;
    let lockfile = match found {
        Some(lockfile) => lockfile,
        None => resolve_now(source, &environment).await?,
    };
    let (lockfile, base) = Resolution::new(lockfile, bases).request_parts(entrant.provider.id())?;
    let recipe = Recipe { environment, lockfile, base, variables: Settings::installer_variables() };
    Ok(Prepared { entrant, recipe, secrets })
}

async fn resolve_now(source: &Source, environment: &Environment) -> Result<Lockfile> {
    let env = source.env.as_deref().unwrap_or(Path::new("FILE"));
    let beside = lockfile_path(env);
    let lockfile = resolve(environment).await.map_err(|error| match error.code() {
        Code::CapabilityUnsupported => {
            let words = format!("{}, and there is no lockfile {}", error.message(), beside.display());
            Error::new(error.code(), words).with_advice("install uv, or give a lockfile with --lock")
        }
        _ => error,
    })?;
    show::note(&format!(
        "resolved {} packages for this time only; `matrix resolve --env {}` stores them in {}",
        lockfile.packages().len(),
        env.display(),
        beside.display()
    ));
    Ok(lockfile)
}

/// The packages of an environment, resolved with the `uv` of this machine.
///
/// # Errors
/// [`Code::CapabilityUnsupported`] without `uv`; those of the resolution.
pub async fn resolve(environment: &Environment) -> Result<Lockfile> {
    environment::resolve(environment.spec(), &Settings::resolve_runner()).await
}

/// Where the lockfile of a specification is, unless another place is named: beside it, ending in `.lock`.
pub fn lockfile_path(env: &Path) -> PathBuf {
    env.with_extension("lock")
}

/// The lockfile that is there already, if one is; it must be the Environment's.
fn stored_lockfile(source: &Source, environment: &Environment) -> Result<Option<Lockfile>> {
    let spec = environment.spec();
    let beside = source.env.as_deref().map(lockfile_path);
    let path = source.lock.clone().or_else(|| beside.filter(|path| path.exists()));
    let lockfile = match (&path, &source.env) {
        (Some(path), _) => read_lockfile(path)?,
        (None, None) => Lockfile::from_file_text(OWN_LOCKFILE)?,
        (None, Some(_)) if !spec.spec.needs_packages() => Lockfile::without_packages(),
        (None, Some(_)) if spec.spec.packages == Default::default() => Lockfile::of_installer(spec)?,
        (None, Some(_)) => return Ok(None),
    };
    lockfile.check_for(spec).map_err(|error| match &path {
        Some(path) => in_file(path, &error),
        None => error,
    })?;
    Ok(Some(lockfile))
}

/// A lockfile in a file.
///
/// # Errors
/// [`Code::FileError`] if it cannot be read; [`Code::SpecInvalid`] if it is no lockfile, or was changed.
pub fn read_lockfile(path: &Path) -> Result<Lockfile> {
    let text = read_text(path, Lockfile::TEXT_MAX + 1024)?;
    Lockfile::from_file_text(&text).map_err(|error| in_file(path, &error))
}

/// The text of a regular file of at most `max` bytes.
pub(crate) fn read_text(path: &Path, max: usize) -> Result<String> {
    let cannot = |words: String| Error::new(Code::FileError, format!("{}: {words}", path.display()));
    let metadata = fs::metadata(path).map_err(|source| cannot(source.to_string()))?;
    if !metadata.is_file() || metadata.len() > max as u64 {
        return Err(cannot(format!("it is no regular file of at most {max} bytes")));
    }
    let mut text = String::new();
    let file = fs::File::open(path).map_err(|source| cannot(source.to_string()))?;
    file.take(max as u64).read_to_string(&mut text).map_err(|source| cannot(source.to_string()))?;
    Ok(text)
}

pub(crate) fn in_file(path: &Path, error: &Error) -> Error {
    Error::new(error.code(), format!("{}: {}", path.display(), error.message()))
        .with_advice(error.advice().to_owned())
}
