//! The commands of `matrix`.

mod build;
mod delete;
mod gc;
mod list;
mod record;
mod resolve;
mod run;
mod sweep;
mod verify;

use std::{io::IsTerminal as _, path::Path, process::ExitCode};

use clap::Parser as _;
use provider_core::error::{Code, Error, Result};
use serde::Serialize;
use tracing_subscriber::EnvFilter;

use crate::{
    cli::{Cli, Command},
    exit::Exit,
    show,
};

/// Runs the command line of the process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    start_log(cli.verbose);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            show::note(&format!("error: this machine gives no event queue: {error}"));
            return Exit::Refused.into();
        }
    };
    let ended = runtime.block_on(async {
        match &cli.command {
            Command::Run(options) => run::run(options, cli.verbose > 0).await,
            Command::Resolve(options) => resolve::resolve(options).await,
            Command::Build(options) => build::build(options, cli.verbose > 0).await,
            Command::Verify(options) => verify::verify(options).await,
            Command::Delete(options) => delete::delete(options).await,
            Command::Gc(options) => gc::gc(options),
            Command::List => Ok(list::list()),
            Command::Sweep(options) => sweep::sweep(options).await,
        }
    });
    // What still blocks, such as a file system that does not answer, must not keep the process from its end.
    runtime.shutdown_background();
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            show::note(&format!("error: {error}"));
            Exit::Refused.into()
        }
    }
}

/// What the programs of this workspace say, not those that they use, unless RUST_LOG asks for more.
fn start_log(verbose: u8) {
    let level = match verbose {
        0 => "error",
        1 => "info",
        _ => "debug",
    };
    let default = format!("{level},provider_core={level},provider_local={level},matrix_tests={level}");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .with_target(false);
    let _ = log.try_init();
}

/// Writes a report as JSON.
fn write_json(path: &Path, report: &impl Serialize) -> Result<()> {
    let cannot = |source: std::io::Error| {
        Error::new(Code::FileError, format!("the report cannot be written to {}: {source}", path.display()))
    };
    let text = serde_json::to_vec_pretty(report).map_err(|source| cannot(source.into()))?;
    std::fs::write(path, text).map_err(cannot)
}
