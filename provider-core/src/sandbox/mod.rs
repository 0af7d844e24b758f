//! The verbs of a running sandbox: commands and files.

mod child;
mod command;
mod files;
mod output;

use std::{fmt, pin::Pin};

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};

pub use self::{
    child::{Child, ChildControl, Scope},
    command::{Command, Program, Stdin},
    files::{FileKind, FileStat},
    output::{ExitStatus, Output},
};
use crate::{
    error::{Code, Error, Result},
    lifecycle::ResourceRef,
};

/// A stream of bytes that comes out of a sandbox.
pub type ByteReader = Pin<Box<dyn AsyncRead + Send>>;
/// A stream of bytes that goes into a sandbox.
pub type ByteWriter = Pin<Box<dyn AsyncWrite + Send>>;

/// A running machine made from an artifact.
///
/// Paths are absolute, or relative to the contract's working directory. Files are used as the contract's user: its
/// permissions hold. Memory does not grow with a file's size.
#[async_trait]
pub trait Sandbox: fmt::Display + fmt::Debug + Send + Sync + 'static {
    /// What it is on its provider.
    fn reference(&self) -> &ResourceRef;

    /// Runs a command to its end. A command's own failure is no error: see [`Output::status`].
    ///
    /// Not cancel safe: dropping the future asks for the command to be killed, and its output is lost.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] before anything is sent; [`Code::ExecFailed`] if the program cannot be started;
    /// [`Code::StreamCut`] if its end cannot be known; [`Code::SandboxGone`].
    async fn exec(&self, command: Command) -> Result<Output>;

    /// Starts a command and leaves its streams to the caller. Dropping the [`Child`] does not end it.
    ///
    /// # Errors
    /// As for [`Sandbox::exec`].
    async fn spawn(&self, command: Command) -> Result<Child>;

    /// Opens a file for reading.
    ///
    /// # Errors
    /// [`Code::FileError`] if it is missing, a directory or not readable; [`Code::SandboxGone`].
    async fn read(&self, path: &str) -> Result<ByteReader>;

    /// Writes a file from a stream: a new one with permissions `mode`, or over the content of an old one. The
    /// folder must exist.
    ///
    /// Not cancel safe: the file may be left with a part of the content.
    ///
    /// # Errors
    /// [`Code::FileError`] if it cannot be written; [`Code::SandboxGone`].
    async fn write(&self, path: &str, content: ByteReader, mode: u32) -> Result<()>;

    /// Facts about a path, or `None` where nothing is.
    ///
    /// # Errors
    /// [`Code::FileError`] if it cannot be looked at; [`Code::SandboxGone`].
    async fn stat(&self, path: &str) -> Result<Option<FileStat>>;

    /// The names in a directory, sorted, without `.` and `..`.
    ///
    /// # Errors
    /// [`Code::FileError`] if it is no directory or cannot be read; [`Code::SandboxGone`].
    async fn list(&self, path: &str) -> Result<Vec<String>>;

    /// Removes a file, a link or an empty directory.
    ///
    /// # Errors
    /// [`Code::FileError`] if nothing is there or it cannot be removed; [`Code::SandboxGone`].
    async fn remove(&self, path: &str) -> Result<()>;
}

/// Reads a stream to its end, for content that is known to be small.
///
/// # Errors
/// [`Code::FileError`] if it is longer than `cap` bytes or cannot be read.
pub async fn read_all(stream: ByteReader, cap: usize) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    let read = stream.take(cap as u64 + 1).read_to_end(&mut content).await;
    match read {
        Ok(_) if content.len() <= cap => Ok(content),
        Ok(_) => Err(Error::new(Code::FileError, format!("the content is longer than {cap} bytes"))),
        Err(source) => Err(Error::new(Code::FileError, "the content cannot be read").with_source(source)),
    }
}

/// A stream of these bytes.
pub fn reader_of(bytes: impl Into<Vec<u8>>) -> ByteReader {
    Box::pin(std::io::Cursor::new(bytes.into()))
}
