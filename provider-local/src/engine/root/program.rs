//! Writes the plan that the helper carries out.

use crate::engine::EngineError;
use crate::helper::codec::Sink;
use crate::helper::plan::{Action, Flags, Header, Overlay, Owner, Texts};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.extend_from_slice(bytes);
        Some(())
    }
}

/// An encoded plan. Its bytes are overwritten when it is dropped, since it may hold secrets.
#[derive(Debug, Default)]
pub(crate) struct Program {
    bytes: Vec<u8>,
    actions: usize,
    taken: u8,
    /// For tests: the action with this number is replaced by one that fails.
    pub(crate) fail_at: Option<usize>,
}

/// A path of this machine that was taken.
#[derive(Debug)]
pub(crate) struct Taken {
    slot: u8,
    flags: Flags,
}

/// An overlay with owned paths.
#[derive(Debug, Default)]
pub(crate) struct OverlaySpec {
    pub(crate) target: PathBuf,
    /// The newest first.
    pub(crate) layers: Vec<PathBuf>,
    pub(crate) mask: Option<PathBuf>,
    pub(crate) base: Option<PathBuf>,
    pub(crate) upper: PathBuf,
    pub(crate) work: PathBuf,
    pub(crate) stage: Option<PathBuf>,
    pub(crate) flags: Flags,
}

impl Program {
    pub(crate) fn new(header: &Header<'_>) -> Result<Self, EngineError> {
        let mut program = Self::default();
        header.encode(&mut program.bytes).ok_or_else(too_long)?;
        Ok(program)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn push(&mut self, action: &Action<'_>) -> Result<(), EngineError> {
        let broken = Action::Link { path: c"/proc/no/such/place", target: c"" };
        let action = if self.fail_at == Some(self.actions) { &broken } else { action };
        self.actions += 1;
        action.encode(&mut self.bytes).ok_or_else(too_long)
    }

    pub(crate) fn tmpfs(&mut self, target: &Path, options: &str, flags: Flags) -> Result<(), EngineError> {
        let (target, options) = (text(target)?, c_text(options)?);
        self.push(&Action::Tmpfs { target: &target, options: &options, flags })
    }

    pub(crate) fn dir(&mut self, path: &Path, owner: Owner) -> Result<(), EngineError> {
        self.push(&Action::Dir { path: &text(path)?, owner })
    }

    pub(crate) fn file(&mut self, path: &Path, owner: Owner, data: &[u8]) -> Result<(), EngineError> {
        self.push(&Action::File { path: &text(path)?, owner, data })
    }

    pub(crate) fn link(&mut self, path: &Path, target: &Path) -> Result<(), EngineError> {
        self.push(&Action::Link { path: &text(path)?, target: &text(target)? })
    }

    pub(crate) fn whiteout(&mut self, path: &Path) -> Result<(), EngineError> {
        self.push(&Action::Whiteout { path: &text(path)? })
    }

    pub(crate) fn opaque(&mut self, path: &Path, user_marks: bool) -> Result<(), EngineError> {
        self.push(&Action::Opaque { path: &text(path)?, user_marks })
    }

    pub(crate) fn overlay(&mut self, spec: &OverlaySpec) -> Result<(), EngineError> {
        let mut layers = Vec::new();
        for layer in &spec.layers {
            layers.text(&text(layer)?).ok_or_else(too_long)?;
        }
        let optional = |path: &Option<PathBuf>| path.as_deref().map_or(Ok(CString::default()), text);
        self.push(&Action::Overlay(Overlay {
            target: &text(&spec.target)?,
            layers: Texts::new(&layers),
            mask: &optional(&spec.mask)?,
            base: &optional(&spec.base)?,
            upper: &text(&spec.upper)?,
            work: &text(&spec.work)?,
            stage: &optional(&spec.stage)?,
            flags: spec.flags,
        }))
    }

    pub(crate) fn enter(&mut self, root: &Path) -> Result<(), EngineError> {
        self.push(&Action::Enter { root: &text(root)? })
    }

    /// Keeps a path of this machine at hand, before the root is entered.
    pub(crate) fn take(&mut self, source: &Path, flags: Flags) -> Result<Taken, EngineError> {
        let slot = self.taken;
        self.taken = slot.checked_add(1).ok_or_else(too_long)?;
        self.push(&Action::Take { source: &text(source)?, slot, flags })?;
        Ok(Taken { slot, flags })
    }

    /// Lets it appear in the box, after the root is entered, with its flags and these.
    pub(crate) fn bind(&mut self, taken: &Taken, target: &Path, flags: Flags) -> Result<(), EngineError> {
        let flags = taken.flags.and(flags);
        self.push(&Action::Bind { slot: taken.slot, target: &text(target)?, flags })
    }

    pub(crate) fn proc(&mut self, target: &Path) -> Result<(), EngineError> {
        self.push(&Action::Proc { target: &text(target)? })
    }

    pub(crate) fn devpts(&mut self, target: &str, options: &str) -> Result<(), EngineError> {
        self.push(&Action::Devpts { target: &c_text(target)?, options: &c_text(options)? })
    }

    pub(crate) fn hide(&mut self, path: &Path) -> Result<(), EngineError> {
        self.push(&Action::Hide { path: &text(path)? })
    }

    pub(crate) fn read_only(&mut self, path: &Path) -> Result<(), EngineError> {
        self.push(&Action::ReadOnly { path: &text(path)? })
    }

    pub(crate) fn reserve(&mut self, path: &Path, parents: bool) -> Result<(), EngineError> {
        self.push(&Action::Reserve { path: &text(path)?, parents })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.bytes.fill(0);
        std::hint::black_box(&self.bytes);
    }
}

fn text(path: &Path) -> Result<CString, EngineError> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| EngineError::BadInput { what: format!("the path {path:?} contains a NUL") })
}

fn c_text(value: &str) -> Result<CString, EngineError> {
    CString::new(value)
        .map_err(|_| EngineError::BadInput { what: format!("the text {value:?} contains a NUL") })
}

fn too_long() -> EngineError {
    EngineError::BadInput { what: "the plan of the box is longer than 4 GiB".to_owned() }
}
