//! One error type for the whole workspace.
//!
//! An [`Error`] says what happened, to which thing, on which provider, and what to do about it. Two of its parts
//! steer the lifecycle: [`Effect`] says what a failed request may have done, and [`Code`] whether asking again
//! can help.

use std::{borrow::Cow, fmt, time::Duration};

use serde::{Deserialize, Serialize};

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

/// Whether asking again can help, as the code of an error defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// The same request will fail again.
    No,
    /// The same request may succeed soon.
    Yes,
    /// The same request may succeed once something was freed or a period has passed.
    Later,
    /// It depends on the cause, which the message names.
    Depends,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $retry:ident, $action:literal;)*) => {
        /// The stable name of what went wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl Code {
            /// Every code, in the order of the documentation.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// The code as it appears in messages and reports.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text),* }
            }

            /// Whether asking again can help.
            pub fn retry(self) -> Retry {
                match self { $(Code::$name => Retry::$retry),* }
            }

            /// What the user can do about it, in general. An error may carry a more exact advice.
            pub fn action(self) -> &'static str {
                match self { $(Code::$name => $action),* }
            }
        }
    };
}

codes! {
    /// The Environment's specification or another input is wrong.
    SpecInvalid = "SPEC_INVALID", No, "correct the named field";
    /// The provider, or this version of its driver, cannot do what was asked.
    CapabilityUnsupported = "CAPABILITY_UNSUPPORTED", No, "choose another provider or leave the option out";
    /// Two requirements exclude each other.
    ResolveConflict = "RESOLVE_CONFLICT", No, "change one of the two named requirements";
    /// A package does not exist on the index, or the index could not be asked.
    PackageNotFound = "PACKAGE_NOT_FOUND", Depends, "check the package's name and the index";
    /// A requirement contradicts a package that the contract pins.
    ProtectedPackage = "PROTECTED_PACKAGE", No, "use the named supported range";
    /// A step of the build failed.
    BuildFailed = "BUILD_FAILED", No, "read the log of the named step and correct it";
    /// The build took longer than it may.
    BuildTimeout = "BUILD_TIMEOUT", Yes, "try again, or make the build smaller";
    /// The account has no room for one more.
    QuotaExceeded = "QUOTA_EXCEEDED", Later, "delete what is no longer needed or ask the provider for more";
    /// A policy of the account forbids it.
    PolicyDenied = "POLICY_DENIED", No, "ask the owner of the policy";
    /// A scan of the artifact refused it.
    ScanBlocked = "SCAN_BLOCKED", No, "remove what the scan names";
    /// The artifact was built, but does not pass its check.
    SmokeTestFailed = "SMOKE_TEST_FAILED", No, "read the named check";
    /// The artifact or base does not exist on this provider.
    ArtifactMissing = "ARTIFACT_MISSING", Yes, "build or publish it for this provider";
    /// The provider answered in a way that no rule explains.
    ProviderError = "PROVIDER_ERROR", Yes, "try again; if it stays, report it with the message";
    /// A build secret has no value.
    BuildSecretUnavailable = "BUILD_SECRET_UNAVAILABLE", No, "supply the named secret";
    /// The artifact may not be published.
    PublicationBlocked = "PUBLICATION_BLOCKED", No, "ask the owner of the registry";
    /// The credentials are missing, wrong or revoked.
    Unauthenticated = "UNAUTHENTICATED", No, "check the credentials";
    /// The credentials are valid but may not do this.
    PermissionDenied = "PERMISSION_DENIED", No, "give the credentials the named permission";
    /// The thing does not exist, or no longer.
    NotFound = "NOT_FOUND", No, "check the name; it may have been deleted";
    /// A thing of that name exists and is not ours.
    NameTaken = "NAME_TAKEN", No, "choose another owner or delete the other thing yourself";
    /// The thing is in a state in which this cannot be done.
    WrongState = "WRONG_STATE", Yes, "wait until it settles";
    /// Too many requests.
    RateLimited = "RATE_LIMITED", Yes, "wait and try again";
    /// No answer within the time allowed.
    Timeout = "TIMEOUT", Yes, "try again, or allow more time";
    /// The connection failed.
    ConnectionFailed = "CONNECTION_FAILED", Yes, "check the network and the endpoint";
    /// The session is closing or closed.
    SessionClosed = "SESSION_CLOSED", No, "open another session";
    /// The work was cancelled.
    Cancelled = "CANCELLED", No, "nothing; it was asked for";
    /// The ledger cannot be written, so nothing may be created.
    LedgerUnavailable = "LEDGER_UNAVAILABLE", Later, "make the state folder writable and free some space";
    /// A limit of this tool was reached.
    LimitReached = "LIMIT_REACHED", No, "raise the limit or create fewer things";
    /// The sandbox is gone: stopped, replaced, expired or killed.
    SandboxGone = "SANDBOX_GONE", No, "launch another";
    /// A file of the sandbox does not exist or cannot be used so.
    FileError = "FILE_ERROR", No, "check the path and its permissions";
    /// The program cannot be started.
    ExecFailed = "EXEC_FAILED", No, "check the program's path, the working directory and the user";
    /// A stream ended before the exit status arrived.
    StreamCut = "STREAM_CUT", No, "whether the command finished is unknown; check before running it again";
    /// A deletion was asked for but not seen to be done.
    NotSeenGone = "NOT_SEEN_GONE", Later, "run a sweep later";
    /// This machine lacks something that the work needs.
    MachineUnsuitable = "MACHINE_UNSUITABLE", No, "change the named setting";
    /// An error of this software.
    Internal = "INTERNAL", No, "report it";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
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
    fn a72_every_code_has_a_name_a_retry_rule_and_an_action() {
        let mut names: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert!(Code::ALL.iter().all(|code| !code.action().is_empty()));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len(), "two codes share a name");
        let expected = [
            (Code::SpecInvalid, Retry::No),
            (Code::CapabilityUnsupported, Retry::No),
            (Code::ResolveConflict, Retry::No),
            (Code::PackageNotFound, Retry::Depends),
            (Code::ProtectedPackage, Retry::No),
            (Code::BuildFailed, Retry::No),
            (Code::BuildTimeout, Retry::Yes),
            (Code::QuotaExceeded, Retry::Later),
            (Code::PolicyDenied, Retry::No),
            (Code::ScanBlocked, Retry::No),
            (Code::SmokeTestFailed, Retry::No),
            (Code::ArtifactMissing, Retry::Yes),
            (Code::ProviderError, Retry::Yes),
            (Code::BuildSecretUnavailable, Retry::No),
            (Code::PublicationBlocked, Retry::No),
        ];
        for (code, retry) in expected {
            assert_eq!(code.retry(), retry, "{code}");
        }
    }

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
