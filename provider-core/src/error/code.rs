//! The codes: what can go wrong, whether asking again can help, and what to do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

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
    Cancelled = "CANCELLED", No, "nothing to do";
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
}
