//! Files and folders of this machine that a build may read.

use super::program::{Program, Taken};
use crate::engine::EngineError;
use crate::engine::plan::BuildInput;
use crate::helper::plan::{Flags, Owner};
use std::fs;
use std::path::Path;

/// Where they are in the box.
const FOLDER: &str = "/run/inputs";

/// The inputs, taken from this machine's own view, before any of it is hidden.
#[derive(Debug)]
pub(crate) struct Inputs(Vec<Input>);

#[derive(Debug)]
struct Input {
    name: String,
    is_folder: bool,
    taken: Taken,
}

impl Inputs {
    pub(crate) fn take(
        program: &mut Program,
        inputs: &[BuildInput],
        state: &Path,
    ) -> Result<Self, EngineError> {
        let take = |input: &BuildInput| {
            let refused = |reason: String| EngineError::BadInput {
                what: format!(
                    "the build input {:?} cannot be used: {}: {reason}",
                    input.name,
                    input.path.display()
                ),
            };
            let path = fs::canonicalize(&input.path).map_err(|error| refused(error.to_string()))?;
            let kind = fs::metadata(&path).map_err(|error| refused(error.to_string()))?.file_type();
            if !kind.is_file() && !kind.is_dir() {
                return Err(refused("it is neither a file nor a folder".to_owned()));
            }
            if state.starts_with(&path) {
                // With it, the box would see itself and all others.
                return Err(refused("it has the state folder in it".to_owned()));
            }
            // As an ordinary user, a folder can only be taken with all that is mounted below it.
            let flags = if kind.is_dir() { Flags::RECURSIVE } else { Flags::default() };
            let taken = program.take(&path, flags)?;
            Ok(Input { name: input.name.clone(), is_folder: kind.is_dir(), taken })
        };
        inputs.iter().map(take).collect::<Result<_, _>>().map(Self)
    }

    /// Lets them appear in the box.
    pub(crate) fn write(&self, program: &mut Program) -> Result<(), EngineError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let folder = Path::new(FOLDER);
        program.dir(folder, Owner::mode(0o755))?;
        program.tmpfs(folder, "mode=0755", Flags::NO_EXEC)?;
        for input in &self.0 {
            let target = folder.join(&input.name);
            if input.is_folder {
                program.dir(&target, Owner::mode(0o755))?;
            } else {
                program.file(&target, Owner::mode(0o644), b"")?;
            }
            program.bind(&input.taken, &target, Flags::READ_ONLY.and(Flags::NO_SUID).and(Flags::NO_DEV))?;
        }
        program.read_only(folder)
    }
}
