//! Resolving with a runner that answers what the test says.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use super::*;
use crate::{
    environment::{Language, PIP},
    error::{Code, Error},
};

/// Answers a fixed text, and remembers what it was asked.
#[derive(Debug, Default)]
pub(super) struct Answers {
    text: String,
    calls: AtomicUsize,
    asked: Mutex<ResolveInputs>,
}

impl Answers {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn asked(&self) -> ResolveInputs {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl ResolveRunner for Answers {
    async fn run(&self, inputs: &ResolveInputs) -> Result<String> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = inputs.clone();
        Ok(self.text.clone())
    }
}

/// A text that looks like a digest, of one digit after the other.
fn hash(seed: u64) -> String {
    format!("{:064x}", 0x1234_5678_9abc_def0_u64.wrapping_mul(seed + 1))
}

/// A line of an answer, as `uv` writes it.
pub(super) fn line(pin: &str, seeds: &[u64]) -> String {
    let hashes: String = seeds.iter().map(|seed| format!(" \\\n    --hash=sha256:{}", hash(*seed))).collect();
    format!("{pin}{hashes}\n")
}

pub(super) fn pip() -> String {
    format!("pip=={} \\\n    --hash=sha256:{}\n", PIP.version, PIP.sha256)
}

pub(super) fn spec(dependencies: &[&str]) -> EnvironmentSpec {
    let mut spec = EnvironmentSpec::named("hello");
    spec.spec.language = Some(Language::python(">=3.9"));
    spec.spec.packages.python.dependencies = dependencies.iter().map(|text| (*text).to_owned()).collect();
    spec
}

pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn answered(spec: &EnvironmentSpec, text: &str) -> Result<Lockfile> {
    block_on(resolve(spec, &Answers::new(text)))
}

fn refused(spec: &EnvironmentSpec, text: &str) -> Error {
    answered(spec, text).expect_err("it was accepted")
}

#[test]
fn a77_where_nothing_is_to_be_resolved_no_runner_is_asked() {
    let runner = Answers::default();
    let none = block_on(resolve(&EnvironmentSpec::named("hello"), &runner)).unwrap();
    assert_eq!(none, Lockfile::without_packages());
    let mut constrained = spec(&[]);
    constrained.spec.packages.python.constraints.push("idna<4".into());
    for spec in [spec(&[]), constrained] {
        let lockfile = block_on(resolve(&spec, &runner)).unwrap();
        assert_eq!(lockfile, Lockfile::of_installer(&spec).unwrap());
        lockfile.check_for(&spec).unwrap();
    }
    assert_eq!(runner.calls(), 0);
}

#[test]
fn a76_what_is_protected_is_part_of_each_question() {
    let mut spec = spec(&["Packaging==24.2", "idna"]);
    spec.spec.language = Some(Language::python(">=3.10,<3.14"));
    spec.spec.packages.python.constraints.push("idna<4".into());
    spec.spec.packages.python.indexes.push("https://index.example/simple".into());
    let runner = Answers::new(line("idna==3.1", &[1]) + &line("packaging==24.2", &[2]) + &pip());
    block_on(resolve(&spec, &runner)).unwrap();
    let expected = ResolveInputs {
        requirements: ["Packaging==24.2", "idna", "pip==26.0.1"].map(str::to_owned).into(),
        constraints: vec!["idna<4".into()],
        indexes: vec!["https://index.example/simple".into()],
        python: Some("3.10".into()),
        apt: Vec::new(),
    };
    assert_eq!((runner.asked(), runner.calls()), (expected, 1));
}

#[test]
fn a28_equal_answers_are_the_same_bytes_and_our_own_form() {
    let spec = spec(&["packaging==24.2"]);
    let tidy = line("packaging==24.2", &[1, 2]) + &pip();
    let annotated = format!(
        "# This file was written by a tool\n\n{}    # via -r requirements.in\n{}",
        pip(),
        line("Packaging==24.2", &[2, 1, 2]).replace("24.2 ", "24.2  ").replace("  \\", " \\")
    );
    let one = answered(&spec, &tidy).unwrap();
    let other = answered(&spec, &annotated).unwrap();
    assert_eq!(one.text(), other.text());
    assert_eq!(one, Lockfile::from_file_text(&one.to_file_text()).unwrap());
    one.check_for(&spec).unwrap();
    let inputs = spec.inputs_digest().unwrap();
    let header =
        format!("# provider-lock: v1\n# provider-inputs: {inputs}\n# provider-protected: pip==26.0.1\n");
    assert!(one.text().starts_with(&header), "{}", one.text());
    assert_eq!(one.packages()[0].hashes.len(), 2);
}

#[test]
fn a77_an_answer_that_is_not_pinned_with_hashes_is_refused_with_its_line() {
    let spec = spec(&["packaging==24.2"]);
    for (text, words) in [
        ("packaging==24.2\n".to_owned(), "line 1: packaging has no hash"),
        (line("packaging>=24.2", &[1]), "pinned"),
        (line("packaging==24.2", &[1]).replace("sha256", "md5"), "SHA-256"),
        (line("packaging @ https://example.org/a==1", &[1]), "name"),
        (
            format!("--index-url https://example.org\n{}", line("packaging==24.2", &[1])),
            "line 1: it is not pinned",
        ),
        ("packaging==24.2 \\\n".to_owned(), "behind the end"),
        (line("packaging[x]==24.2", &[1]), "name"),
        ("packaging==24.2\t--hash\n".to_owned(), "control"),
        (line("packaging==24.2", &[1]), "answered none"),
        (pip(), "does not have packaging==24.2"),
        (pip() + &line("packaging==24.1", &[1]), "packaging 24.1, which is not packaging==24.2"),
        (pip() + &line("packaging==24.2", &[1]) + &line("packaging==24.2", &[1]), "both for one Python"),
        (
            pip()
                + &line("packaging==24.2", &[1])
                + &line("a==1", &[1])
                + &line("a==2 ; os_name == 'nt'", &[1]),
            "both",
        ),
        ("x".repeat(Lockfile::TEXT_MAX + 1), "bytes"),
    ] {
        let error = refused(&spec, &text);
        assert!(error.message().contains(words), "{words:?} is not in {error}");
        assert!(!error.to_string().contains('\n'));
    }
}

#[test]
fn requirements_count_where_their_markers_say() {
    let spec = spec(&[
        "numpy<2 ; python_version < '3.10'",
        "numpy>=2 ; python_version >= '3.10'",
        "tomli ; python_version < '3.8'",
    ]);
    let old = line("numpy==1.26 ; python_full_version < '3.10'", &[1]);
    let new = line("numpy==2.2 ; python_full_version >= '3.10'", &[2]);
    let lockfile = answered(&spec, &(old.clone() + &new + &pip())).unwrap();
    assert_eq!(lockfile.by_name()["numpy"].len(), 2);
    assert!(refused(&spec, &(old.clone() + &pip())).message().contains("numpy>=2"));
    let wrong = old.replace("1.26", "2.0");
    assert!(refused(&spec, &(wrong + &new + &pip())).message().contains("numpy 2.0"));
}

#[test]
fn a76_an_answer_with_another_protected_version_names_the_supported_range() {
    let spec = spec(&["packaging==24.2"]);
    let packaging = line("packaging==24.2", &[1]);
    for pins in [
        line("pip==25.0", &[1]),
        line("pip==26.0.1 ; python_full_version >= '3.10'", &[1]),
        line("pip==26.0.1 ; python_full_version >= '3.10'", &[1])
            + &line("pip==24.0 ; python_full_version < '3.10'", &[1]),
    ] {
        let error = refused(&spec, &(packaging.clone() + &pins));
        assert_eq!(error.code(), Code::ProtectedPackage, "{error}");
        assert!(error.message().contains("the supported range is pip==26.0.1"), "{error}");
    }
}

#[test]
fn packages_of_the_distribution_must_be_answered() {
    let mut spec = EnvironmentSpec::named("hello");
    spec.spec.packages.system.apt.extend(["git".to_owned(), "jq=1.6-2".to_owned()]);
    let good = "# provider-apt: jq=1.6-2\n# provider-apt: git=1:2.39.5-0\n";
    let lockfile = answered(&spec, good).unwrap();
    assert!(lockfile.text().ends_with("# provider-apt: git=1:2.39.5-0\n# provider-apt: jq=1.6-2\n"));
    for text in [
        "",
        "# provider-apt: git=1\n",
        "# provider-apt: git\n",
        "# provider-apt: git=1\n# provider-apt: jq=2\n",
    ] {
        assert!(refused(&spec, text).is_unmapped(), "{text:?}");
    }
}

#[test]
fn a25_a77_a_wrong_specification_never_reaches_the_runner() {
    type Change = fn(&mut EnvironmentSpec);
    let changes: [Change; 7] = [
        |spec| spec.spec.packages.python.indexes.push("https://user:hunter22@index.example/simple".into()),
        |spec| spec.spec.packages.python.indexes.push("--config-file=/tmp/x".into()),
        |spec| spec.spec.packages.python.constraints.push("-r /etc/passwd".into()),
        |spec| spec.spec.packages.python.constraints.push("pip<20".into()),
        |spec| spec.spec.packages.system.apt.push("--allow-unauthenticated".into()),
        |spec| spec.spec.language = None,
        |spec| spec.spec.language = Some(Language::python("3.9; id")),
    ];
    let with = |text: &str| spec(&[text]);
    let texts = [
        "a; rm -rf /",
        "$(id)",
        "`id`",
        "a && id",
        "a | id",
        "a\nb",
        "a; sys_platform == '${SECRET}'",
        "--index-url=https://example.org",
        "-e .",
        "../a",
        "a @ file:///etc/passwd",
        "git+https://ghp_0123456789abcdefghijABCDEFGHIJ456789@example.org/a",
        "pip==20.0",
    ];
    let changed = changes.iter().map(|change| {
        let mut spec = spec(&["packaging"]);
        change(&mut spec);
        spec
    });
    for spec in changed.chain(texts.iter().map(|text| with(text))) {
        let runner = Answers::default();
        let error = block_on(resolve(&spec, &runner)).expect_err("it was accepted");
        assert!(matches!(error.code(), Code::SpecInvalid | Code::ProtectedPackage), "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter22"), "{error}");
        assert_eq!(runner.calls(), 0, "{:?}", spec.spec.packages);
    }
}
