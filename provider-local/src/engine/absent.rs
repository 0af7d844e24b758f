//! The engine where it does not exist.

use super::{EngineConfig, EngineError};

/// Cannot be opened on this system.
#[derive(Clone, Debug)]
pub enum Engine {}

impl Engine {
    /// There is no engine for this system, or it was built without the feature `embedded`.
    ///
    /// # Errors
    /// Always [`EngineError::Unavailable`].
    pub fn open(_config: EngineConfig) -> Result<Self, EngineError> {
        let system = format!("{} on {}", std::env::consts::OS, std::env::consts::ARCH);
        let reason = format!(
            "{system} has no embedded engine, or provider-local was built without its feature \
             \"embedded\"; it exists for Linux on x86_64 and aarch64"
        );
        Err(EngineError::Unavailable { reason })
    }
}
