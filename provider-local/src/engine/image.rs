//! The helper program, ready to be executed.

use super::EngineError;
use super::wire::sealed_file;
use crate::store::{Store, is_there};
use rustix::fs::MemfdFlags;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

static PROGRAM: &[u8] = include_bytes!(env!("HELPER_PROGRAM"));

/// The program in memory; and as a file, where memory may not be executed.
#[derive(Debug, Default)]
pub(super) struct Image {
    memory: OnceLock<File>,
    file: OnceLock<PathBuf>,
}

impl Image {
    /// Starts the program with this socket as its stdin, and with the id of the box in its name, for `ps`.
    /// Without hooks between fork and exec the standard library spawns, so the caller's memory is never
    /// copied.
    pub(super) fn start(&self, store: &Store, id: &str, socket: OwnedFd) -> Result<Child, EngineError> {
        let spare = socket.try_clone().map_err(spawn_error)?;
        let outcome = match self.in_memory() {
            Ok(path) => spawn(&path, id, socket),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(child) => Ok(child),
            Err(error) if is_forbidden(&error) => {
                let path = self.on_disk(store).map_err(spawn_error)?;
                spawn(path, id, spare).map_err(spawn_error)
            }
            Err(error) => Err(spawn_error(error)),
        }
    }

    /// Whether the program can be executed from memory.
    pub(super) fn in_memory(&self) -> io::Result<PathBuf> {
        let file = match self.memory.get() {
            Some(file) => file,
            None => {
                // Newer kernels want to be told that the file will be executed; older ones do not know the
                // flag.
                let file = sealed_file("sandbox-helper", PROGRAM, MemfdFlags::EXEC)
                    .or_else(|_| sealed_file("sandbox-helper", PROGRAM, MemfdFlags::empty()))?;
                self.memory.get_or_init(|| file)
            }
        };
        Ok(PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())))
    }

    fn on_disk(&self, store: &Store) -> io::Result<&Path> {
        if let Some(path) = self.file.get() {
            return Ok(path);
        }
        let folder = store.root().join("bin");
        let path = folder.join(format!("helper-{}", digest()));
        if !is_there(&path) {
            let aside = folder.join(format!(".{}-{:?}", std::process::id(), std::thread::current().id()));
            let written = write_program(&aside).and_then(|()| fs::rename(&aside, &path));
            if written.is_err() {
                let _ = fs::remove_file(&aside);
            }
            written?;
        }
        Ok(self.file.get_or_init(|| path))
    }
}

fn write_program(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o500).open(path)?;
    file.write_all(PROGRAM)?;
    file.sync_all()
}

fn digest() -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(PROGRAM).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn spawn(path: &Path, id: &str, socket: OwnedFd) -> io::Result<Child> {
    Command::new(path)
        .arg0(format!("sandbox-helper {id}"))
        .env_clear()
        .stdin(Stdio::from(socket))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

fn is_forbidden(error: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, PermissionDenied, Unsupported};
    matches!(error.kind(), PermissionDenied | NotFound | Unsupported)
}

fn spawn_error(source: io::Error) -> EngineError {
    let advice = match source.raw_os_error() {
        Some(11) => "; raise the limit of processes (ulimit -u)",
        Some(24 | 23) => "; raise the limit of open files (ulimit -n)",
        Some(13) => "; choose a state folder that is not mounted noexec",
        _ => "",
    };
    EngineError::Spawn { source, advice }
}
