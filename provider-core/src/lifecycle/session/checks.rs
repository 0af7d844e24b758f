//! What is refused before anything is sent.

use std::sync::Arc;

use super::Core;
use crate::{
    environment::BuildRequest,
    error::{Code, Error, Result},
    lifecycle::Lifetime,
    provider::{Finding, LaunchOptions, Provider},
};

/// Refuses a build before anything is sent.
pub(super) fn check_request(provider: &Arc<dyn Provider>, request: &BuildRequest) -> Result<()> {
    let mut findings = provider.validate(request.spec(), request.lockfile());
    if !request.base().is_pinned() && !provider.capabilities().unpinned_base {
        findings.push(Finding::new(
            "spec.base",
            Code::SpecInvalid,
            format!(
                "base {} is not pinned by a digest, and {} takes no other",
                request.base(),
                provider.id()
            ),
        ));
    }
    if *request.lifetime() != Lifetime::Session && !provider.capabilities().artifact_keep {
        findings.push(Finding::new(
            "lifetime",
            Code::CapabilityUnsupported,
            format!("artifacts on {} do not outlive their session", provider.id()),
        ));
    }
    Finding::refuse_all(&findings).map_err(|error| error.with_provider(provider.id()).with_operation("build"))
}

impl Core {
    /// The options with a lifetime, if they can be honoured.
    pub(super) fn checked_options(
        &self,
        provider: &dyn Provider,
        options: LaunchOptions,
    ) -> Result<LaunchOptions> {
        let capabilities = provider.capabilities();
        let refuse = |code, words: String| {
            Err(Error::new(code, words).with_provider(provider.id()).with_operation("launch"))
        };
        let longest = capabilities.sandbox_lifetime_max;
        let lifetime = match options.lifetime {
            Some(asked) if asked > longest => {
                return refuse(
                    Code::CapabilityUnsupported,
                    format!("a life of {asked:?} is more than its {longest:?}"),
                );
            }
            Some(asked) if asked.is_zero() => return refuse(Code::SpecInvalid, "a life of nothing".into()),
            Some(asked) => asked,
            None if self.expires <= self.clock.now() => {
                return refuse(Code::LimitReached, "the session's budget of time is used up".into());
            }
            None => self.expires.since(self.clock.now()).min(longest),
        };
        let wanted = &options.resources;
        for (what, amount, quantum) in [
            ("cpu", wanted.cpu.map(u64::from), capabilities.cpu),
            ("memory", wanted.memory.map(u64::from), capabilities.memory),
            ("disk", wanted.disk.map(u64::from), capabilities.disk),
        ] {
            match (amount, quantum) {
                (Some(amount), Some(quantum)) => {
                    quantum.round_up(what, amount).map_err(|error| error.with_provider(provider.id()))?;
                }
                (Some(_), None) => {
                    return refuse(
                        Code::CapabilityUnsupported,
                        format!("{what} cannot be chosen; leave it out"),
                    );
                }
                (None, _) => {}
            }
        }
        Ok(LaunchOptions { lifetime: Some(lifetime), ..options })
    }
}
