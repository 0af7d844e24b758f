//! The words of `uv`, as it said them, and what they mean.

use super::*;
use crate::{environment::InstallerVariables, error::Retry};

const WARNING: &str = "warning: The requested Python version 3.9 is not available; 3.11.7 will be used to build dependencies instead.\n";
const HEAD: &str = "error: No solution found when resolving dependencies\n  cause: ";

fn inputs() -> ResolveInputs {
    ResolveInputs { python: Some("3.9".into()), ..ResolveInputs::default() }
}

fn explained(stderr: &str) -> Error {
    let words = Words::of(format!("{WARNING}{stderr}").as_bytes(), &SecretSet::new());
    explain(&words, "exit status: 1", &inputs())
}

/// Each text, the code it must get, and words that the message must have.
fn check(cases: &[(&str, Code, &[&str])]) {
    for (stderr, code, wanted) in cases {
        for text in [(*stderr).to_owned(), as_older_versions_say(stderr)] {
            let error = explained(&text);
            assert_eq!(error.code(), *code, "{error} for {text}");
            assert!(!error.is_unmapped(), "{error}");
            for words in *wanted {
                assert!(error.message().contains(words), "{words:?} is not in {error} for {text}");
            }
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}

/// The same in the form of older versions: a tree of lines, broken at 60 characters.
fn as_older_versions_say(stderr: &str) -> String {
    let Some(explanation) = stderr.strip_prefix(HEAD) else { return stderr.to_owned() };
    let (explanation, hints) = explanation.split_once("\n\n").unwrap_or((explanation, ""));
    let mut text =
        "  \u{d7} No solution found when resolving dependencies:\n  \u{2570}\u{2500}\u{25b6} ".to_owned();
    let mut width = 0;
    for word in explanation.split_whitespace() {
        width += word.len() + 1;
        text += word;
        text += if width > 60 { "\n      " } else { " " };
        width = if width > 60 { 0 } else { width };
    }
    format!("{text}\n\n{}\n", hints.replace("hint:", "      hint:"))
}

#[test]
fn a77_a_package_that_is_not_there_is_named() {
    check(&[
        (
            "error: No solution found when resolving dependencies\n  cause: Because no-such-package-qzx was not found in \
             the package registry and you require no-such-package-qzx, we can conclude that your requirements are \
             unsatisfiable.\n",
            Code::PackageNotFound,
            &["package no-such-package-qzx is not on the index"],
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because gone-pkg was not found in the \
             package registry and all versions of needsgone depend on gone-pkg, we can conclude that all versions of \
             needsgone cannot be used.\n         And because you require needsgone, we can conclude that your \
             requirements are unsatisfiable.\n",
            Code::PackageNotFound,
            &["package gone-pkg is not on", "asked for by needsgone"],
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because there is no version of \
             packaging==99.9 and you require packaging==99.9, we can conclude that your requirements are \
             unsatisfiable.\n",
            Code::PackageNotFound,
            &["no version packaging==99.9"],
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because only third<=2.0 is available and \
             you require third>2, we can conclude that your requirements are unsatisfiable.\n",
            Code::PackageNotFound,
            &["no version third>2 "],
        ),
        (
            // An index that answers everything with what is no list of files.
            "error: No solution found when resolving dependencies\n  cause: Because there is no version of \
             pip==26.0.1 and you require pip==26.0.1, we can conclude that your requirements are unsatisfiable.\n",
            Code::PackageNotFound,
            &["pip==26.0.1"],
        ),
    ]);
}

#[test]
fn a77_two_requirements_on_one_package_are_named_as_a_pair() {
    check(&[
        (
            "error: No solution found when resolving dependencies\n  cause: Because you require packaging==24.2 and \
             packaging==23.0, we can conclude that your requirements are unsatisfiable.\n",
            Code::ResolveConflict,
            &["packaging==24.2 and packaging==23.0 exclude each other", "about packaging"],
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: you require third<2.0 and third>=2.0, \
             which are incompatible\n",
            Code::ResolveConflict,
            &["third<2.0 and third>=2.0 exclude each other"],
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because requests==2.31.0 depends on \
             urllib3>=1.21.1,<3 and you require requests==2.31.0, we can conclude that you require \
             urllib3>=1.21.1,<3.\n         And because you require urllib3<1.20, we can conclude that your \
             requirements are unsatisfiable.\n",
            Code::ResolveConflict,
            &["urllib3>=1.21.1,<3 (of requests==2.31.0) and urllib3<1.20 exclude", "about urllib3"],
        ),
        (
            "error: No solution found when resolving dependencies for split (markers: python_full_version >= '3.10')\n  \
             cause: Because botocore==1.34.0 depends on urllib3{python_full_version >= '3.10'}>=1.25.4,<2.1 and you \
             require botocore==1.34.0, we can conclude that you require urllib3>=1.25.4,<2.1.\n         And because \
             you require urllib3>=3, we can conclude that your requirements are unsatisfiable.\n",
            Code::ResolveConflict,
            &["urllib3>=1.25.4,<2.1 (of botocore==1.34.0) and urllib3>=3 exclude"],
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because all versions of right depend on \
             third>=2 and all versions of left depend on third<2, we can conclude that all versions of left and all \
             versions of right are incompatible.\n         And because you require left and right, we can conclude \
             that your requirements are unsatisfiable.\n",
            Code::ResolveConflict,
            &["third>=2 (of right) and third<2 (of left) exclude"],
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because all versions of left depend on \
             third<2 and third==2.0, we can conclude that all versions of left cannot be used.\n         And because \
             you require left, we can conclude that your requirements are unsatisfiable.\n",
            Code::ResolveConflict,
            &["third<2 (of left) and third==2.0 exclude"],
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because something new is incompatible with \
             everything, we can conclude that your requirements are unsatisfiable.\n",
            Code::ResolveConflict,
            &["something new"],
        ),
    ]);
}

#[test]
fn a76_a_conflict_with_what_is_protected_names_the_supported_range() {
    check(&[
        (
            "error: No solution found when resolving dependencies\n  cause: Because all versions of oldie depend on \
             pip<20 and you require oldie, we can conclude that you require pip<20.\n         And because you require \
             pip==26.0.1, we can conclude that your requirements are unsatisfiable.\n",
            Code::ProtectedPackage,
            &["pip<20 (of oldie) excludes pip 26.0.1", "supported range is pip==26.0.1"],
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because all versions of oldie depend on \
             pip<20 and all versions of oldie2 depend on oldie, we can conclude that all versions of oldie2 depend on \
             pip<20.\n         And because you require oldie2 and pip==26.0.1, we can conclude that your requirements \
             are unsatisfiable.\n",
            Code::ProtectedPackage,
            &["pip<20 (of oldie)", "supported range is pip==26.0.1"],
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because you require pip==20.0 and \
             pip==26.0.1, we can conclude that your requirements are unsatisfiable.\n",
            Code::ProtectedPackage,
            &["pip==20.0 excludes pip 26.0.1"],
        ),
    ]);
}

#[test]
fn a77_a_version_that_needs_a_later_python_names_both() {
    check(&[(
        "error: No solution found when resolving dependencies for split (markers: python_full_version >= '3.9' and \
         python_full_version < '3.11')\n  cause: Because the requested Python version (>=3.9) does not satisfy \
         Python>=3.11 and numpy==2.3.0 depends on Python>=3.11, we can conclude that numpy==2.3.0 cannot be used.\n         \
         And because you require numpy==2.3.0, we can conclude that your requirements are unsatisfiable.\n\nhint: While \
         the active Python version is 3.11, the resolution failed for other Python versions supported by your project.\n",
        Code::ResolveConflict,
        &["numpy==2.3.0 needs Python >=3.11", "begins with Python 3.9"],
    )]);
}

#[test]
fn a77_a_failed_connection_names_the_host_and_may_be_tried_again() {
    let fetch = "error: Request failed after 3 retries in 10.4s\n  cause: Failed to fetch: \
                 https://index.example:8443/simple/pip/\n  cause: error sending request for url \
                 (https://index.example:8443/simple/pip/)\n  cause: client error (Connect)\n";
    for causes in [
        "  cause: tcp connect error\n  cause: Connection refused (os error 111)\n",
        "  cause: dns error\n  cause: error resolving DNS\n  cause: failed to lookup address information: Name or \
         service not known\n",
        "  cause: received corrupt message of type InvalidContentType\n",
        "  cause: invalid peer certificate: UnknownIssuer\n",
        "  cause: tunnel error: failed to create underlying connection\n  cause: tcp connect error\n  cause: Connection \
         refused (os error 111)\n",
        "  cause: tunnel error: unsuccessful\n",
    ] {
        let error = explained(&format!("{fetch}{causes}"));
        assert_eq!((error.code(), error.code().retry()), (Code::ConnectionFailed, Retry::Yes), "{error}");
        let last = causes.trim_end().rsplit("cause: ").next().unwrap();
        assert!(error.message().contains("index.example:8443") && error.message().contains(last), "{error}");
    }
    let offline = explained(
        "error: No solution found when resolving dependencies\n  cause: Because tomli was not found in the cache and \
         you require tomli, we can conclude that your requirements are unsatisfiable.\n\nhint: Packages were \
         unavailable because the network was disabled. When the network is disabled, registry packages may only be \
         read from the cache.\n",
    );
    assert_eq!(offline.code(), Code::ConnectionFailed);
    assert!(offline.message().contains("UV_OFFLINE"), "{offline}");
}

#[test]
fn a77_an_index_that_refuses_is_named_with_its_status() {
    let missing = "Because pip was not found in the package registry and you require pip==26.0.1, we can conclude that \
                   your requirements are unsatisfiable.\n\n";
    let hint_401 = "hint: An index URL (http://index.example/401/) could not be queried due to a lack of valid \
                    authentication credentials (401 Unauthorized)\n";
    let hint_403 = "hint: An index (http://index.example/403/) returned a 403 Forbidden error. Check that the index URL \
                    is correct and the credentials are valid.\n";
    let failed = |status: &str| {
        format!(
            "error: Request failed after 3 retries in 6.8s\n  cause: Failed to fetch: \
             http://index.example/500/tomli/\n  cause: HTTP status {status} for url (http://index.example/500/tomli/)\n"
        )
    };
    for (text, code, status) in [
        (format!("{HEAD}{missing}{hint_401}"), Code::Unauthenticated, "401"),
        (format!("{HEAD}{missing}{hint_403}"), Code::PermissionDenied, "403"),
        (failed("client error (401 Unauthorized)"), Code::Unauthenticated, "401"),
        (failed("client error (429 Too Many Requests)"), Code::RateLimited, "429"),
        (failed("server error (500 Internal Server Error)"), Code::ProviderError, "500 Internal"),
    ] {
        let error = explained(&text);
        assert_eq!((error.code(), error.is_unmapped()), (code, false), "{error}");
        assert!(
            error.message().contains("index.example answered") && error.message().contains(status),
            "{error}"
        );
    }
}

#[test]
fn a77_a_missing_python_is_said() {
    let error = explained(
        "error: No interpreter found for Python 3.9 in virtual environments, managed installations, or search path\n",
    );
    assert_eq!(error.code(), Code::MachineUnsuitable);
    assert!(error.message().contains("source") && error.advice().contains("Python 3"), "{error}");
}

#[test]
fn a77_what_no_rule_explains_is_an_unmapped_provider_error_with_the_last_lines() {
    for text in [
        "error: Received some unexpected JSON from `http://index.example/json/pip/`\n  cause: EOF while parsing a \
         string at line 1 column 6\n",
        "error: Unsupported `Content-Type` \"text/plain\" for `http://index.example/text/pip/`. Expected JSON or HTML.\n",
        "error: unexpected argument '--universal' found\n",
        "",
        "\u{1b}[31m\0\u{7}",
    ] {
        let error = explained(text);
        assert_eq!((error.code(), error.code().retry()), (Code::ProviderError, Retry::Yes), "{error}");
        assert!(error.is_unmapped() && format!("{error:?}").contains("unmapped"), "{error:?}");
        let last = text.trim().rsplit("cause: ").next().unwrap();
        assert!(error.message().contains(last) || last.contains('\0'), "{error}");
        assert!(!error.to_string().contains(['\n', '\u{1b}', '\0']), "{error}");
    }
}

#[test]
fn a75_credentials_in_the_words_are_not_shown() {
    let variables = InstallerVariables::of([
        ("UV_INDEX_URL".to_owned(), "https://someuser:canary-4711@index.example/simple".to_owned()),
        ("UV_INDEX_OURS_PASSWORD".to_owned(), "canary-4712".to_owned()),
    ]);
    let text = "error: Failed to fetch: https://someuser:canary-4711@index.example/simple/a?token=canary-4713\n  cause: \
                error sending request: canary-4712 at http://short:pw@proxy.example\n";
    let error = explain(&Words::of(text.as_bytes(), &variables.secrets()), "exit status: 2", &inputs());
    let shown = format!("{error} {error:?}");
    for hidden in ["canary", "someuser", "short:pw"] {
        assert!(!shown.contains(hidden), "{hidden} is in {shown}");
    }
    assert!(shown.contains("index.example") && shown.contains("proxy.example"), "{shown}");
}

mod any_text {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a77_arbitrary_words_never_panic_and_stay_one_line(text in "(error: |Because |you require |a==1|, we can conclude|And because |\\{|\\}| depends on | and |://|@|\\PC|\\n){0,40}") {
            let error = explained(&text);
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}
