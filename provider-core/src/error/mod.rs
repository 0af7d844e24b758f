//! One error type for the whole workspace.
//!
//! An [`Error`] says what happened, to which thing, on which provider, and what to do about it. Two of its parts
//! steer the lifecycle: [`Effect`] says what a failed request may have done, and [`Code`] whether asking again
//! can help.

mod code;

use std::{borrow::Cow, fmt, time::Duration};

use serde::{Deserialize, Serialize};

pub use self::code::{Code, Retry};
use crate::names::ProviderId;

/// The result of most calls in this workspace.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// What a failed request may have done on the provider's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The request changed nothing.
    None,
    /// The request did what it was asked to do, although the caller got an error.
    Done,
    /// It cannot be known from the answer; the thing must be looked up.
    Unknown,
}

/// What went wrong. `Display` is one line; `Debug` has everything, over several lines. Neither contains a secret.
pub struct Error(Box<Parts>);

struct Parts {
    code: Code,
    effect: Effect,
    wait: Option<Duration>,
    unmapped: bool,
    provider: Option<ProviderId>,
    operation: Cow<'static, str>,
    message: String,
    advice: Option<String>,
    context: Vec<(&'static str, String)>,
    source: Option<BoxError>,
}

impl Error {
    /// An error of `code` with a message that says what happened to which thing. Its effect is [`Effect::None`].
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            code,
            effect: Effect::None,
            wait: None,
            unmapped: false,
            provider: None,
            operation: Cow::Borrowed(""),
            message: one_line(message.into()),
            advice: None,
            context: Vec::new(),
            source: None,
        }))
    }

    /// A provider's answer that no rule explains: [`Code::ProviderError`], marked as unmapped.
    pub fn unmapped(message: impl Into<String>) -> Self {
        let mut error = Self::new(Code::ProviderError, message);
        error.0.unmapped = true;
        error
    }

    /// Sets what the failed request may have done.
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.0.effect = effect;
        self
    }

    /// Sets how long the provider asked us to wait.
    ///
    /// It is ignored on a code that denies any retry, so that an error cannot claim what its code refuses.
    #[must_use]
    pub fn with_wait(mut self, wait: Duration) -> Self {
        if self.0.code.retry() != Retry::No {
            self.0.wait = Some(wait);
        }
        self
    }

    /// Names the provider, unless one is named already.
    #[must_use]
    pub fn with_provider(mut self, provider: &ProviderId) -> Self {
        self.0.provider.get_or_insert_with(|| provider.clone());
        self
    }

    /// Names the operation, unless one is named already.
    #[must_use]
    pub fn with_operation(mut self, operation: impl Into<Cow<'static, str>>) -> Self {
        if self.0.operation.is_empty() {
            self.0.operation = operation.into();
        }
        self
    }

    /// Says what to do, more exactly than the code's own [`Code::action`].
    #[must_use]
    pub fn with_advice(mut self, advice: impl Into<String>) -> Self {
        self.0.advice = Some(one_line(advice.into()));
        self
    }

    /// Adds a fact that helps to find the cause. Never pass a secret.
    #[must_use]
    pub fn with_context(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.0.context.push((key, value.into()));
        self
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// The stable name of what went wrong.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What the failed request may have done.
    pub fn effect(&self) -> Effect {
        self.0.effect
    }

    /// How long the provider asked us to wait.
    pub fn wait(&self) -> Option<Duration> {
        self.0.wait
    }

    /// Whether no rule explains the provider's answer.
    pub fn is_unmapped(&self) -> bool {
        self.0.unmapped
    }

    /// The provider, where one was involved.
    pub fn provider(&self) -> Option<&ProviderId> {
        self.0.provider.as_ref()
    }

    /// The operation that failed, such as `create sandbox`; empty where none was named.
    pub fn operation(&self) -> &str {
        &self.0.operation
    }

    /// What happened, without provider, operation and advice.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What to do about it.
    pub fn advice(&self) -> &str {
        self.0.advice.as_deref().unwrap_or_else(|| self.0.code.action())
    }

    /// The added facts.
    pub fn context(&self) -> &[(&'static str, String)] {
        &self.0.context
    }
}

/// `Display` promises one line, and messages may quote what came from outside.
fn one_line(text: String) -> String {
    if text.contains(|c: char| c.is_control()) {
        text.chars()
            .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
            .collect()
    } else {
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(provider) = &self.0.provider {
            write!(f, "{provider}: ")?;
        }
        if !self.0.operation.is_empty() {
            write!(f, "{}: ", self.0.operation)?;
        }
        write!(f, "{} ({}); {}", self.0.message, self.0.code, self.advice())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}\n  effect: {:?}", self.0.effect)?;
        if let Some(wait) = self.0.wait {
            write!(f, "\n  wait: {wait:?}")?;
        }
        if self.0.unmapped {
            write!(f, "\n  unmapped: no rule explains this answer")?;
        }
        for (key, value) in &self.0.context {
            write!(f, "\n  {key}: {value}")?;
        }
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            write!(f, "\n  caused by: {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a72_an_error_cannot_claim_a_retry_that_its_code_denies() {
        let error = Error::new(Code::SpecInvalid, "x").with_wait(Duration::from_secs(1));
        assert_eq!(error.wait(), None);
        let error = Error::new(Code::RateLimited, "x").with_wait(Duration::from_secs(1));
        assert_eq!(error.wait(), Some(Duration::from_secs(1)));
    }

    #[test]
    fn a72_an_unknown_answer_is_a_flagged_provider_error() {
        let error = Error::unmapped("status 418: short and stout");
        assert_eq!((error.code(), error.is_unmapped()), (Code::ProviderError, true));
    }

    #[test]
    fn display_is_one_line_and_names_all_parts() {
        let provider = ProviderId::new("local").unwrap();
        let error = Error::new(Code::BuildFailed, "step 2 exited with 1:\nno such file")
            .with_provider(&provider)
            .with_operation("build");
        let text = error.to_string();
        assert_eq!(
            text,
            "local: build: step 2 exited with 1:\\nno such file (BUILD_FAILED); \
             read the log of the named step and correct it"
        );
    }
}
