//! A child process of its own group, with a folder of its own. Both end with the future that runs it.

use std::{fs, io, path::Path, process::Stdio, time::Duration};

use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
};

use crate::{
    error::{Code, Error, Result},
    lifecycle::control,
};

/// How long the end of a killed child is waited for before its folder is removed. The kernel needs a moment for it.
const KILLED_WITHIN: Duration = Duration::from_secs(1);

/// What a finished child said.
pub(super) struct Finished {
    pub(super) success: bool,
    /// The exit status in words.
    pub(super) status: String,
    pub(super) stdout: Vec<u8>,
    /// The end of it.
    pub(super) stderr: Vec<u8>,
}

/// How much of the child's output is kept, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Caps {
    /// More than this is an error.
    pub(super) stdout: usize,
    /// The end of this length is kept.
    pub(super) stderr: usize,
}

/// A fresh folder that only this user can enter. It is removed when it is dropped.
pub(super) fn folder() -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("provider-resolve-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir().map_err(|source| {
        Error::new(Code::MachineUnsuitable, format!("no temporary folder can be made: {source}"))
            .with_advice("make room in the folder for temporary files, or name another in TMPDIR")
            .with_source(source)
    })
}

/// Writes a file of the folder.
pub(super) fn write(folder: &TempDir, name: &str, text: &str) -> Result<()> {
    fs::write(folder.path().join(name), text).map_err(|source| {
        Error::new(Code::MachineUnsuitable, format!("{name} cannot be written for the resolver: {source}"))
            .with_source(source)
    })
}

/// Runs a command in `folder` to its end. Its standard input is empty.
///
/// When the future is dropped, the child's whole process group is killed and the folder is removed before the drop
/// returns. It runs on any executor: the pipes belong to the control runtime.
///
/// # Errors
/// [`Code::ExecFailed`] if it does not start; [`Code::ProviderError`] if it writes more than is allowed.
pub(super) async fn run(mut command: Command, folder: TempDir, caps: Caps) -> Result<Finished> {
    command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    let program = command.as_std().get_program().to_owned();
    let child = {
        let control = control::handle()?;
        let _on_control = control.enter();
        command.spawn()
    };
    let mut running =
        Running { child: child.map_err(|source| cannot_start(&program, source))?, folder: Some(folder) };
    let (stdout, stderr) = (running.child.stdout.take(), running.child.stderr.take());
    let whole = async {
        let (bytes, all) = read(stdout, caps.stdout, Keep::Start).await?;
        match all {
            true => Ok(bytes),
            false => Err(too_much(caps.stdout)),
        }
    };
    let end = async { Ok(read(stderr, caps.stderr, Keep::End).await?.0) };
    // To the end of both before the child is reaped: until then its group's number cannot be another's.
    let (stdout, stderr) = tokio::try_join!(whole, end)?;
    let status = running.child.wait().await.map_err(cannot_read)?;
    Ok(Finished { success: status.success(), status: status.to_string(), stdout, stderr })
}

fn cannot_start(program: &std::ffi::OsStr, source: io::Error) -> Error {
    let program = Path::new(program).display();
    Error::new(Code::ExecFailed, format!("{program} cannot be started: {source}")).with_source(source)
}

fn cannot_read(source: io::Error) -> Error {
    Error::new(Code::StreamCut, format!("the resolver's output cannot be read: {source}")).with_source(source)
}

fn too_much(cap: usize) -> Error {
    Error::unmapped(format!("the resolver wrote more than {cap} bytes")).with_advice("name fewer packages")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Start,
    End,
}

/// Reads up to the end, or up to `cap`; says whether nothing was left out.
async fn read(pipe: Option<impl AsyncRead + Unpin>, cap: usize, keep: Keep) -> Result<(Vec<u8>, bool)> {
    let (mut bytes, mut all) = (Vec::new(), true);
    let Some(mut pipe) = pipe else { return Ok((bytes, all)) };
    let mut buffer = vec![0; 16 << 10];
    loop {
        let count = pipe.read(&mut buffer).await.map_err(cannot_read)?;
        bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
        if count == 0 {
            return Ok((bytes, all));
        }
        if bytes.len() > cap {
            all = false;
            match keep {
                Keep::Start => return Ok((bytes, all)),
                Keep::End => drop(bytes.drain(..bytes.len() - cap)),
            }
        }
    }
}

/// A child that may run still, and its folder.
struct Running {
    child: Child,
    folder: Option<TempDir>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // A child that was waited for has no number any more.
        if let Some(number) = self.child.id() {
            kill_group(number);
            let _ = self.child.start_kill();
            let killed = std::time::Instant::now();
            // What is still being killed could write into the folder while it is removed.
            while matches!(self.child.try_wait(), Ok(None)) && killed.elapsed() < KILLED_WITHIN {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let Some(folder) = self.folder.take() else { return };
        let path = folder.path().to_owned();
        if let Err(error) = folder.close() {
            // A grandchild may have written a last file.
            if fs::remove_dir_all(&path).is_err() && path.exists() {
                tracing::warn!(folder = %path.display(), %error, "a temporary folder of the resolver is left");
            }
        }
    }
}

#[cfg(unix)]
fn kill_group(number: u32) {
    let group = i32::try_from(number).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill_group(_number: u32) {}
