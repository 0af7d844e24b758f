//! Resolving with the `uv` of this machine, against an index on loopback. Where there is no `uv`, or no Python for
//! it, each trial shows as ignored with the reason.

mod index;

use std::{
    net::TcpListener,
    sync::{OnceLock, atomic::Ordering},
    time::{Duration, Instant},
};

use index::{Index, hash};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use provider_core::{
    config::Settings,
    environment::{EnvironmentSpec, InstallerVariables, Language, Lockfile, UvRunner, resolve},
    error::{Code, Error, Result},
};
use tempfile::TempDir;

const CANARY: &str = "canary-4711";

type Outcome = std::result::Result<(), Failed>;

/// One runtime, index and cache for all trials.
struct World {
    index: Index,
    cache: TempDir,
    runtime: tokio::runtime::Runtime,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| World {
        index: Index::start(),
        cache: tempfile::tempdir().expect("a temporary folder"),
        runtime: tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime"),
    })
}

/// The runner, which asks once and has these variables.
fn runner(variables: &[(&str, &str)]) -> UvRunner {
    let all = [("UV_HTTP_RETRIES", "0")].iter().chain(variables);
    let variables =
        InstallerVariables::of(all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    Settings::resolve_runner().with_installer_variables(variables).with_cache_folder(world().cache.path())
}

fn spec(index: &str, dependencies: &[&str]) -> EnvironmentSpec {
    let mut spec = EnvironmentSpec::named("hello");
    spec.spec.language = Some(Language::python(">=3.9"));
    let python = &mut spec.spec.packages.python;
    python.dependencies = dependencies.iter().map(|text| (*text).to_owned()).collect();
    python.indexes.extend((!index.is_empty()).then(|| index.to_owned()));
    spec
}

fn resolved(spec: &EnvironmentSpec) -> Result<Lockfile> {
    world().runtime.block_on(resolve(spec, &runner(&[])))
}

/// Resolves on an index that behaves so, which must be refused with this code and these words.
fn assert_refused(url: &str, dependencies: &[&str], code: Code, words: &[&str]) -> Error {
    let error = resolved(&spec(url, dependencies)).expect_err("it was resolved");
    assert_eq!(error.code(), code, "{error:?}");
    for words in words {
        assert!(error.message().contains(words), "{words:?} is not in {error:?}");
    }
    assert!(!error.to_string().contains('\n'), "{error}");
    error
}

fn good() -> String {
    world().index.url("good")
}

/// Why the trials cannot run here, if so.
fn cannot() -> Option<String> {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    REASON
        .get_or_init(|| match resolved(&spec(&good(), &["third"])) {
            Err(error) if matches!(error.code(), Code::CapabilityUnsupported | Code::MachineUnsuitable) => {
                Some(error.to_string())
            }
            _ => None,
        })
        .clone()
}

fn a77_packages_are_pinned_with_the_hashes_of_the_index() -> Outcome {
    let spec = spec(&good(), &["left", "some.where"]);
    let lockfile = resolved(&spec)?;
    lockfile.check_for(&spec)?;
    let pins: Vec<_> =
        lockfile.packages().iter().map(|pin| (pin.name.as_str(), pin.version.as_str())).collect();
    assert_eq!(pins, [("left", "1.0"), ("pip", "26.0.1"), ("some-where", "1.0"), ("third", "1.0")]);
    assert!(
        lockfile.packages().iter().all(|pin| pin.hashes == [hash(&pin.name, &pin.version)]),
        "{}",
        lockfile.text()
    );
    assert_eq!(resolved(&spec)?.text(), lockfile.text());
    Ok(())
}

fn a77_a_package_only_for_another_system_has_its_marker() -> Outcome {
    let lockfile = resolved(&spec(&good(), &["some-where"]))?;
    let by_name = lockfile.by_name();
    let marker = by_name.get("left").and_then(|pins| pins.first()).and_then(|pin| pin.marker.as_deref());
    assert_eq!(marker, Some("sys_platform == 'win32'"));
    Ok(())
}

fn a77_constraints_count() -> Outcome {
    let mut spec = spec(&good(), &["third"]);
    spec.spec.packages.python.constraints.push("third<2".into());
    let lockfile = resolved(&spec)?;
    assert_eq!(lockfile.by_name()["third"][0].version, "1.0");
    Ok(())
}

fn a77_what_is_not_there_is_named() -> Outcome {
    assert_refused(&good(), &["no-such-package-qzx"], Code::PackageNotFound, &["no-such-package-qzx"]);
    assert_refused(&good(), &["needsgone"], Code::PackageNotFound, &["gone-pkg", "needsgone"]);
    assert_refused(&good(), &["third==9.9"], Code::PackageNotFound, &["third==9.9"]);
    assert_refused(&good(), &["third>2"], Code::PackageNotFound, &["third>2"]);
    Ok(())
}

fn a77_a_conflict_names_the_pair() -> Outcome {
    let conflict = Code::ResolveConflict;
    assert_refused(
        &good(),
        &["third==1.0", "third==2.0"],
        conflict,
        &["third==1.0", "third==2.0", "about third"],
    );
    assert_refused(&good(), &["third<2", "third>=2"], conflict, &["third<2", "third>=2"]);
    assert_refused(&good(), &["left", "third>=2"], conflict, &["third<2 (of left)", "third>=2"]);
    assert_refused(&good(), &["left", "right"], conflict, &["third<2 (of left)", "third>=2 (of right)"]);
    assert_refused(&good(), &["later"], conflict, &["later", ">=3.30", "3.9"]);
    Ok(())
}

fn a76_a_conflict_with_a_protected_package_names_the_range() -> Outcome {
    assert_refused(
        &good(),
        &["oldie"],
        Code::ProtectedPackage,
        &["pip<20 (of oldie)", "range is pip==26.0.1"],
    );
    Ok(())
}

fn a77_an_index_that_cannot_be_used_is_named() -> Outcome {
    let index = &world().index;
    let address = index.address.as_str();
    let refused = |behaviour: &str, code, words: &[&str]| {
        assert_refused(&index.url(behaviour), &["third"], code, words)
    };
    refused("401", Code::Unauthenticated, &[address, "401"]);
    refused("403", Code::PermissionDenied, &[address, "403"]);
    refused("500", Code::ProviderError, &[address, "500"]);
    refused("garbage", Code::PackageNotFound, &[]);
    for behaviour in ["json", "text"] {
        assert!(refused(behaviour, Code::ProviderError, &[behaviour]).is_unmapped());
    }
    Ok(())
}

fn a77_a_connection_that_fails_is_named() -> Outcome {
    let closed = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let failed = Code::ConnectionFailed;
    assert_refused(&format!("http://{closed}/simple"), &["third"], failed, &[closed.as_str()]);
    let no_tls = world().index.address.as_str();
    assert_refused(&format!("https://{no_tls}/good"), &["third"], failed, &[no_tls]);
    assert_refused("https://no-such-host.invalid/simple", &["third"], failed, &["no-such-host.invalid"]);
    let offline = runner(&[("UV_OFFLINE", "1")]).with_cache_folder(world().cache.path().join("empty"));
    let error =
        world().runtime.block_on(resolve(&spec(&good(), &["third"]), &offline)).expect_err("it was resolved");
    assert_eq!(error.code(), failed, "{error:?}");
    let proxied = runner(&[("https_proxy", &format!("http://user:{CANARY}@{closed}"))]);
    let error = world()
        .runtime
        .block_on(resolve(&spec("https://index.example/simple", &["third"]), &proxied))
        .expect_err("it was resolved");
    assert_eq!(error.code(), failed, "{error:?}");
    assert!(!format!("{error} {error:?}").contains(CANARY), "{error:?}");
    Ok(())
}

fn a75_a_private_index_of_the_caller_is_asked_and_its_password_is_not_shown() -> Outcome {
    let index = world().index.url("401").replace("://", &format!("://someuser:{CANARY}@"));
    let runner = runner(&[("PIP_INDEX_URL", &index)]);
    let error =
        world().runtime.block_on(resolve(&spec("", &["third"]), &runner)).expect_err("it was resolved");
    assert_eq!(error.code(), Code::Unauthenticated, "{error:?}");
    for text in [format!("{error} {error:?}"), format!("{runner:?}")] {
        assert!(!text.contains(CANARY) && !text.contains("someuser"), "{text}");
    }
    Ok(())
}

fn a77_without_a_python_the_error_says_so() -> Outcome {
    let folder = tempfile::tempdir()?;
    std::os::unix::fs::symlink(Settings::resolve_runner().program()?, folder.path().join("uv"))?;
    let only_uv = UvRunner::from_lookup(|name| {
        matches!(name, "PATH" | "HOME").then(|| folder.path().as_os_str().to_owned())
    });
    let error =
        world().runtime.block_on(resolve(&spec(&good(), &["third"]), &only_uv)).expect_err("it was resolved");
    assert_eq!(error.code(), Code::MachineUnsuitable, "{error:?}");
    assert!(error.message().contains("published as source"), "{error}");
    Ok(())
}

fn a77_dropping_the_future_ends_the_real_uv() -> Outcome {
    let until = |counter: &std::sync::atomic::AtomicUsize, what: &str| {
        let begun = Instant::now();
        while counter.load(Ordering::SeqCst) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
            std::thread::yield_now();
        }
    };
    let index = &world().index;
    let (spec, runner) = (spec(&index.url("hang"), &["third"]), runner(&[]));
    world().runtime.block_on(async {
        let mut resolving = Box::pin(resolve(&spec, &runner));
        assert!(futures_util::poll!(&mut resolving).is_pending());
        until(&index.hanging, "uv asks the index");
        assert!(futures_util::poll!(&mut resolving).is_pending());
        drop(resolving);
    });
    until(&index.given_up, "the connection of uv ends");
    Ok(())
}

/// The one trial that needs the public index.
fn a77_the_public_index_gives_hashes() -> std::result::Result<Completion, Failed> {
    let spec = spec("", &["packaging==24.2"]);
    let runner = Settings::resolve_runner();
    match world().runtime.block_on(resolve(&spec, &runner)) {
        Err(error) if error.code() == Code::ConnectionFailed => {
            Ok(Completion::ignored_with(format!("the public index cannot be asked: {error}")))
        }
        Err(error) => Err(format!("{error:?}").into()),
        Ok(lockfile) => {
            let known = "09abb1bccd265c01f4a3aa3f7a7db064b36514d2cba19a2f694fe6150451a759";
            let packaging = lockfile.by_name()["packaging"][0];
            assert!(
                packaging.version == "24.2" && packaging.hashes.iter().any(|hash| hash == known),
                "{packaging:?}"
            );
            Ok(Completion::Completed)
        }
    }
}

/// Whether `MATRIX_REQUIRE` names it.
#[expect(clippy::disallowed_methods, reason = "a setting of the tests")]
fn is_required(what: &str) -> bool {
    std::env::var("MATRIX_REQUIRE").is_ok_and(|list| list.split(',').any(|one| one.trim() == what))
}

fn main() -> std::process::ExitCode {
    let trial = |name: &'static str, run: fn() -> std::result::Result<Completion, Failed>| {
        Trial::ignorable_test(name, move || match cannot() {
            // A lane that brings `uv` along says so, and must not pass without these trials.
            Some(reason) if is_required("uv") => Err(reason.into()),
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => run(),
        })
    };
    /// Trials by the names of their functions.
    macro_rules! trials {
        ($($name:ident),* $(,)?) => {
            vec![$(trial(stringify!($name), || $name().map(|()| Completion::Completed))),*]
        };
    }
    let mut trials = trials![
        a75_a_private_index_of_the_caller_is_asked_and_its_password_is_not_shown,
        a76_a_conflict_with_a_protected_package_names_the_range,
        a77_a_conflict_names_the_pair,
        a77_a_connection_that_fails_is_named,
        a77_a_package_only_for_another_system_has_its_marker,
        a77_an_index_that_cannot_be_used_is_named,
        a77_constraints_count,
        a77_dropping_the_future_ends_the_real_uv,
        a77_packages_are_pinned_with_the_hashes_of_the_index,
        a77_what_is_not_there_is_named,
        a77_without_a_python_the_error_says_so,
    ];
    trials.push(trial("a77_the_public_index_gives_hashes", a77_the_public_index_gives_hashes));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
