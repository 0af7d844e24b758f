//! The mask: a layer made at every start that lies right on the base, and hides or replaces parts of it.

use super::program::Program;
use crate::engine::EngineError;
use crate::helper::plan::Owner;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Debug)]
enum Node {
    Dir { owner: Owner, opaque: bool },
    File { owner: Owner, data: Vec<u8> },
    Link { target: PathBuf },
    Whiteout,
}

/// What the mask holds, by path relative to the root.
#[derive(Debug)]
pub(crate) struct Mask {
    base: PathBuf,
    nodes: BTreeMap<PathBuf, Node>,
}

impl Mask {
    /// An empty mask for this base. Folders that the mask needs as parents look as they do there.
    pub(crate) fn new(base: &Path) -> Self {
        Self { base: base.to_owned(), nodes: BTreeMap::new() }
    }

    /// Whether anything lies at this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.nodes.contains_key(Path::new(path))
    }

    /// A folder as the base has it, or with this mode where the base has none.
    pub(crate) fn dir(&mut self, path: impl AsRef<Path>, mode: u32) {
        let owner = self.owner_in_base(path.as_ref()).unwrap_or(Owner { mode, uid: 0, gid: 0 });
        self.put(path.as_ref(), Node::Dir { owner, opaque: false });
    }

    /// A folder with nothing of the base in it.
    pub(crate) fn empty_dir(&mut self, path: impl AsRef<Path>, mode: u32) {
        let owner = self.owner_in_base(path.as_ref()).unwrap_or(Owner { mode, uid: 0, gid: 0 });
        self.put(path.as_ref(), Node::Dir { owner, opaque: true });
    }

    pub(crate) fn file(&mut self, path: impl AsRef<Path>, owner: Owner, data: impl Into<Vec<u8>>) {
        self.put(path.as_ref(), Node::File { owner, data: data.into() });
    }

    pub(crate) fn link(&mut self, path: impl AsRef<Path>, target: PathBuf) {
        self.put(path.as_ref(), Node::Link { target });
    }

    pub(crate) fn whiteout(&mut self, path: impl AsRef<Path>) {
        self.put(path.as_ref(), Node::Whiteout);
    }

    fn put(&mut self, path: &Path, node: Node) {
        for parent in path.ancestors().skip(1) {
            if !parent.as_os_str().is_empty() && !self.nodes.contains_key(parent) {
                let owner = self.owner_in_base(parent).unwrap_or(Owner { mode: 0o755, uid: 0, gid: 0 });
                self.nodes.insert(parent.to_owned(), Node::Dir { owner, opaque: false });
            }
        }
        self.nodes.insert(path.to_owned(), node);
    }

    fn owner_in_base(&self, path: &Path) -> Option<Owner> {
        let metadata = self.base.join(path).symlink_metadata().ok().filter(|metadata| metadata.is_dir())?;
        Some(Owner { mode: metadata.mode() & 0o7777, uid: metadata.uid(), gid: metadata.gid() })
    }

    /// Writes the mask into the folder `target`. The order of the map has every folder before its contents.
    pub(crate) fn write(
        &self,
        program: &mut Program,
        target: &Path,
        user_marks: bool,
    ) -> Result<(), EngineError> {
        for (path, node) in &self.nodes {
            let path = target.join(path);
            match node {
                Node::Dir { owner, opaque } => {
                    program.dir(&path, *owner)?;
                    if *opaque {
                        program.opaque(&path, user_marks)?;
                    }
                }
                Node::File { owner, data } => program.file(&path, *owner, data)?,
                Node::Link { target } => program.link(&path, target)?,
                Node::Whiteout => program.whiteout(&path)?,
            }
        }
        Ok(())
    }
}
