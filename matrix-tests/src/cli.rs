//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::exit;

/// Build one environment on each provider, certify it, and leave nothing behind.
#[derive(Debug, Parser)]
#[command(name = "matrix", version, after_help = exit::HELP)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Show the logs of builds and what is created and deleted; twice for details. RUST_LOG overrides it.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Build, launch, certify and delete.
    Run(Run),
    /// Resolve the packages of an environment into a lockfile.
    Resolve(Resolve),
    /// Build an artifact, and keep it for later runs on request.
    Build(Build),
    /// Compare a kept artifact with its record: its content, and the lockfile inside it.
    Verify(Verify),
    /// Delete a kept artifact.
    Delete(Delete),
    /// List the checks and the providers. Nothing else happens.
    List,
    /// Show what this machine could still own of runs that died, and delete it on request.
    Sweep(Sweep),
    /// Remove cached layers that no artifact needs and nobody uses.
    Gc(Gc),
}

/// What is built, and where.
#[derive(Args, Debug)]
pub struct Source {
    /// The specification of the environment (.toml or .json). Default: the matrix's own.
    #[arg(long, value_name = "FILE")]
    pub env: Option<PathBuf>,
    /// The lockfile of its packages. Default: the file beside the specification that ends in .lock; without one, the
    /// packages are resolved with uv.
    #[arg(long, value_name = "FILE")]
    pub lock: Option<PathBuf>,
    /// The provider.
    #[arg(long, value_name = "ID", default_value = "local")]
    pub provider: String,
    /// Take a build secret's value from a variable of the environment.
    #[arg(long = "secret", value_name = "ID=VARIABLE", value_parser = pair)]
    pub secrets: Vec<(String, String)>,
    /// Make a folder with a root file system known as a base of provider local.
    #[arg(long = "base", value_name = "NAME=FOLDER", value_parser = pair)]
    pub bases: Vec<(String, String)>,
}

/// Options of `matrix run`.
#[derive(Args, Debug)]
pub struct Run {
    /// What is built, and where.
    #[command(flatten)]
    pub source: Source,
    /// Launch this kept artifact instead of building one. It stays.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["env", "lock", "provider"])]
    pub artifact: Option<PathBuf>,
    /// Write the report as JSON too.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as JUnit XML too.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// How long cleaning up may take.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    pub close_within: Duration,
    /// Kill this process at the n-th step of the lifecycle, for tests of the clean-up.
    #[arg(long, value_name = "N", hide = true)]
    pub kill_at: Option<usize>,
}

/// Options of `matrix resolve`.
#[derive(Args, Debug)]
pub struct Resolve {
    /// The specification of the environment (.toml or .json).
    #[arg(long, value_name = "FILE")]
    pub env: PathBuf,
    /// Where the lockfile is written. Default: beside the specification, ending in .lock; - is standard output.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Options of `matrix build`.
#[derive(Args, Debug)]
pub struct Build {
    /// What is built, and where.
    #[command(flatten)]
    pub source: Source,
    /// Keep the artifact, and write its record to --out. Without this, it is built, deleted, and seen to be gone.
    #[arg(long, requires = "out")]
    pub keep: bool,
    /// Where the record of a kept artifact is written. A file that is there already is not replaced.
    #[arg(long, value_name = "FILE", requires = "keep")]
    pub out: Option<PathBuf>,
    /// How long it is kept; then any sweep deletes it. Default: 7d.
    #[arg(long = "for", value_name = "TIME", requires = "keep", value_parser = some_time)]
    pub lifetime: Option<Duration>,
    /// Keep it until somebody deletes it.
    #[arg(long, requires = "keep", conflicts_with = "lifetime")]
    pub unbounded: bool,
    /// Why it is kept, for people who see it in a sweep.
    #[arg(long, value_name = "TEXT", requires = "keep")]
    pub reason: Option<String>,
    /// How long cleaning up may take.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    pub close_within: Duration,
    /// Kill this process at the n-th step of the lifecycle, for tests of the clean-up.
    #[arg(long, value_name = "N", hide = true)]
    pub kill_at: Option<usize>,
}

/// Options of `matrix verify`.
#[derive(Args, Debug)]
pub struct Verify {
    /// The record of the artifact, as `matrix build --keep --out` wrote it.
    #[arg(value_name = "FILE")]
    pub artifact: PathBuf,
    /// How long cleaning up may take.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    pub close_within: Duration,
}

/// Options of `matrix delete`.
#[derive(Args, Debug)]
pub struct Delete {
    /// The record of the artifact, as `matrix build --keep --out` wrote it; or its id, as `matrix sweep` lists it.
    #[arg(value_name = "FILE|ID")]
    pub artifact: String,
    /// How long it may take.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    pub within: Duration,
}

/// Options of `matrix sweep`.
#[derive(Args, Debug)]
pub struct Sweep {
    /// Delete what is found. Without this, nothing is changed anywhere.
    #[arg(long)]
    pub delete: bool,
    /// Write the report as JSON too.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// How long the sweep may take.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    pub within: Duration,
}

/// Options of `matrix gc`.
#[derive(Args, Debug)]
pub struct Gc {
    /// Only layers that nobody used for this long.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub older_than: Option<Duration>,
    /// Say what would be removed, and remove nothing.
    #[arg(long)]
    pub dry_run: bool,
}

fn some_time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time.is_zero() => Err("it must be longer than nothing".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("two parts are needed, with = between them".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        for wrong in [
            &["run", "--secret", "no-equals"][..],
            &["sweep", "--within", "5 parsecs"],
            &["build", "--keep"],
            &["build", "--out", "a.json"],
            &["build", "--unbounded"],
            &["build", "--for", "1h"],
            &["build", "--keep", "--out", "a.json", "--for", "0s"],
            &["run", "--artifact", "a.json", "--env", "b.toml"],
            &["verify"],
        ] {
            let arguments = std::iter::once("matrix").chain(wrong.iter().copied());
            assert!(Cli::try_parse_from(arguments).is_err(), "{wrong:?}");
        }
    }
}
