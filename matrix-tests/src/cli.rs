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
    /// List the checks and the providers. Nothing else happens.
    List,
    /// Show what this machine could still own of runs that died, and delete it on request.
    Sweep(Sweep),
}

/// Options of `matrix run`.
#[derive(Args, Debug)]
pub struct Run {
    /// The specification of the environment (.toml or .json). Default: the matrix's own.
    #[arg(long, value_name = "FILE")]
    pub env: Option<PathBuf>,
    /// Run the leg of this provider.
    #[arg(long, value_name = "ID", default_value = "local")]
    pub provider: String,
    /// Take a build secret's value from a variable of the environment.
    #[arg(long = "secret", value_name = "ID=VARIABLE", value_parser = pair)]
    pub secrets: Vec<(String, String)>,
    /// Make a folder with a root file system known as a base of provider local.
    #[arg(long = "base", value_name = "NAME=FOLDER", value_parser = pair)]
    pub bases: Vec<(String, String)>,
    /// Write the report as JSON too.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// How long cleaning up may take.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    pub close_within: Duration,
    /// Kill this process at the n-th step of the lifecycle, for tests of the clean-up.
    #[arg(long, value_name = "N", hide = true)]
    pub kill_at: Option<usize>,
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
        assert!(Cli::try_parse_from(["matrix", "run", "--secret", "no-equals"]).is_err());
        assert!(Cli::try_parse_from(["matrix", "sweep", "--within", "5 parsecs"]).is_err());
    }
}
