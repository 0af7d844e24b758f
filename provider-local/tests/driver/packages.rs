//! The Python of an Environment: three ways to install it, and all that can be wrong with packages.

use std::{fs, path::PathBuf};

use provider_core::{
    environment::{Artifact, BuildRequest, EnvironmentSpec, Language, PIP, sha256_hex},
    error::{Code, Error, Result},
    lifecycle::{Event, Owned, Progress, Session},
};
use provider_local::{InstallerWay, LocalConfig};

use crate::{
    common::*,
    secrets::holders_of,
    shelf::{Shelf, pin, request},
    small_base, wheels,
};

fn spec() -> EnvironmentSpec {
    let mut spec = EnvironmentSpec::named("packages");
    spec.spec.language = Some(Language::python(">=3.9"));
    spec
}

/// `uv` of whoever runs the trials.
#[expect(clippy::disallowed_methods, reason = "the caller's own installer is what is tried")]
pub(crate) fn uv() -> Option<PathBuf> {
    let lookup = |name: &str| match name {
        provider_local::config::STATE_DIR => Some("/nowhere".into()),
        name => std::env::var_os(name).filter(|_| name == "PATH"),
    };
    LocalConfig::from_lookup(lookup).expect("settings").uv
}

fn world(way: InstallerWay) -> World {
    World::with(|mut config| {
        config.uv = uv();
        config.installer = Some(way);
        config
    })
}

/// The ways that can be tried here.
fn ways() -> Vec<InstallerWay> {
    let all = [InstallerWay::Uv, InstallerWay::BasePip, InstallerWay::PinnedPip];
    let can = |way: &InstallerWay| match way {
        InstallerWay::Uv => uv().is_some(),
        InstallerWay::BasePip => base_has_pip(),
        _ => true,
    };
    all.into_iter().filter(can).collect()
}

/// Whether the base `host` has a `pip` of its own: what Python says when it knows of nothing of the user.
pub(crate) fn base_has_pip() -> bool {
    let mut program = std::process::Command::new("/bin/sh");
    let path = provider_core::contract::SANDBOX_V1.path;
    program.env_clear().env("PATH", path).args(["-c", "python3 -I -m pip --version"]);
    program.output().is_ok_and(|output| output.status.success())
}

async fn build(world: &World, session: &Session, request: BuildRequest) -> (Result<Owned<Artifact>>, String) {
    let (progress, mut events) = Progress::channel();
    let built = session.build_observed(&world.provider, request, progress).await;
    let mut log = String::new();
    while let Some(event) = events.try_next() {
        if let Event::Log(line) | Event::Stage(line) | Event::Waiting(line) = event {
            log += &format!("{line}\n");
        }
    }
    assert!(!log.contains(CANARY) && !log.contains("someuser"), "{log}");
    (built, log)
}

/// The error of a build of the shelf, after which nothing is left.
async fn refused(world: &World, shelf: &Shelf, spec: EnvironmentSpec, code: Code) -> Error {
    let session = world.session();
    let (built, log) = build(world, &session, shelf.request(world, spec)).await;
    let text = format!("{built:?}\n{log}");
    let error = assert_code(built, code);
    world.close(&session).await;
    let found = holders_of(CANARY, world.folder.path());
    assert!(found.is_empty(), "{found:?}: {text}");
    error
}

pub(crate) fn uv_installs() -> Outcome {
    installs(InstallerWay::Uv, "uv ")
}

pub(crate) fn pip_of_the_base_installs() -> Outcome {
    installs(InstallerWay::BasePip, " of the base installs 2 packages")
}

pub(crate) fn the_pinned_pip_installs() -> Outcome {
    installs(InstallerWay::PinnedPip, "the pinned pip ")
}

fn installs(way: InstallerWay, word: &str) -> Outcome {
    on_a_runtime(async {
        let world = world(way);
        installs_in(&world, spec(), word).await;
    });
    Ok(())
}

async fn installs_in(world: &World, mut spec: EnvironmentSpec, word: &str) {
    let (shelf, session) = (Shelf::demo(), world.session());
    spec.spec.commands.post_install =
        vec!["python3 -B -c 'import demo_pkg' && pip --version >/opt/said".into()];
    let (built, log) = build(world, &session, shelf.request(world, spec.clone())).await;
    let artifact = built.unwrap_or_else(|error| panic!("{error:?}\n{log}"));
    assert!(log.contains(word) && log.contains("python: PIP_FIND_LINKS names"), "{log}");
    assert_nothing_beside(world);
    let sandbox = world.launch(&session, &artifact).await;
    let sandbox = &**sandbox;
    let said = say(
        sandbox,
        "command -v python3; command -v pip; python3 -c 'import demo_pkg as it; print(it.VERSION)'",
    )
    .await;
    assert_eq!(said, "/opt/venv/bin/python3\n/opt/venv/bin/pip\n1.2\n");
    for line in ["pip --version", "python3 -m pip --version", "cat /opt/said"] {
        let said = say(sandbox, line).await;
        assert!(said.starts_with(&format!("pip {} from /opt/venv/", PIP.version)), "{line}: {said}");
    }
    let said = say(sandbox, "pip freeze --all").await;
    assert_eq!(said, format!("demo_pkg==1.2\npip=={}\n", PIP.version));
    let foreign =
        "find /opt/venv ! -uid 1000; find /opt/venv ! -gid 100; find /opt/venv ! -type l -perm /022";
    assert_eq!(say(sandbox, foreign).await, "");
    say(sandbox, "pip uninstall --yes demo-pkg && ! python3 -c 'import demo_pkg' 2>&1").await;

    // Other variables fetch the same packages, so that the layer serves them too.
    let other = shelf.set("PIP_FIND_LINKS", "/no/such/folder");
    let (built, log) = build(world, &session, other.request(world, spec)).await;
    drop(built.expect("an artifact"));
    assert!(log.contains("python: a layer that was built before is used"), "{log}");
    let metadata = serde_json::to_string(&*artifact).expect("JSON");
    assert!(!metadata.contains(CANARY), "{metadata}");
    world.close(&session).await;
    let found = holders_of(CANARY, world.folder.path());
    assert!(found.is_empty(), "{found:?}");
}

/// The layer with the packages holds nothing that only the installer needed, or that another build would have otherwise.
fn assert_nothing_beside(world: &World) {
    // Where in a layer a folder is depends on who built it.
    let (mut folders, mut all) = (Vec::new(), vec![world.store().join("layer")]);
    while let Some(folder) = all.pop() {
        if folder.join("pyvenv.cfg").exists() {
            folders.push(folder);
            continue;
        }
        let inner = names(&folder).into_iter().map(|name| folder.join(name));
        all.extend(inner.filter(|path| path.is_dir() && !path.is_symlink()));
    }
    assert_eq!(folders.len(), 1, "the packages are in one layer");
    let (mut left, mut seen) = (Vec::new(), 0);
    while let Some(folder) = folders.pop() {
        for name in names(&folder) {
            let path = folder.join(&name);
            let unwanted =
                ["__pycache__", "direct_url.json", "uv_cache.json", "pip.conf", "uv.toml", ".lock"];
            if unwanted.contains(&name.as_str()) || name.starts_with(".provider") || name.ends_with(".pyc") {
                left.push(path.clone());
            }
            seen += usize::from(name == "demo_pkg.py");
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            }
        }
    }
    assert_eq!((left, seen), (Vec::new(), 1));
}

/// A base in a folder with Python's own library alone: no pip, no ensurepip.
pub(crate) fn a_base_without_any_installer_gets_the_pinned_pip() -> Outcome {
    on_a_runtime(async {
        let folder = tempfile::tempdir().expect("a temporary folder");
        small_base::fill(folder.path());
        small_base::add_python(folder.path(), &[]);
        let world = World::with(|config| config.base("small", folder.path()));
        let mut spec = spec();
        spec.spec.base.name = "small".into();
        installs_in(&world, spec, "pip of the base is not used: the base has none").await;
    });
    Ok(())
}

/// One that cannot run there is no hindrance, if another may be taken.
pub(crate) fn an_uv_that_cannot_run_is_passed_over() -> Outcome {
    on_a_runtime(async {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let uv = folder.path().join("uv");
        fs::write(&uv, "this is no program").expect("a file");
        let set_up = |mut config: LocalConfig| {
            config.uv = Some(uv.clone());
            config
        };
        installs_in(&World::with(set_up), spec(), "uv of the caller is not used: it cannot run").await;
        let mut asks = spec();
        asks.spec.packages.python.manager = provider_core::environment::Manager::Uv;
        let error = refused(&World::with(set_up), &Shelf::demo(), asks, Code::BuildFailed).await;
        assert!(error.message().contains("uv of the caller: it cannot run in base \"host\""), "{error}");
    });
    Ok(())
}

pub(crate) fn a_changed_file_is_refused_with_both_hashes() -> Outcome {
    on_a_runtime(async {
        for way in ways() {
            let shelf = Shelf::demo();
            let (file, mut bytes) = wheels::wheel("demo_pkg", "1.2", "py3-none-any");
            let locked = sha256_hex(&bytes);
            bytes[45] ^= 1;
            fs::write(shelf.folder.path().join(file), &bytes).expect("a file");
            let error = refused(&world(way), &shelf, spec(), Code::BuildFailed).await;
            for word in ["demo-pkg==1.2", &locked, &sha256_hex(&bytes)] {
                assert!(error.message().contains(word), "{way}: {error:?}");
            }
        }
    });
    Ok(())
}

/// The pinned pip itself is not trusted before it is looked at.
pub(crate) fn a_changed_pip_is_refused_before_it_runs() -> Outcome {
    on_a_runtime(async {
        let shelf = Shelf::demo();
        fs::write(shelf.folder.path().join(PIP.file), "not pip").expect("a file");
        let error = refused(&world(InstallerWay::PinnedPip), &shelf, spec(), Code::BuildFailed).await;
        for word in [PIP.file, PIP.sha256, &sha256_hex(b"not pip")] {
            assert!(error.message().contains(word), "{error}");
        }
        fs::remove_file(shelf.folder.path().join(PIP.file)).expect("removed");
        let error = refused(&world(InstallerWay::PinnedPip), &shelf, spec(), Code::PackageNotFound).await;
        assert!(error.message().contains(PIP.file), "{error}");
    });
    Ok(())
}

pub(crate) fn what_is_not_there_is_told_from_what_does_not_fit() -> Outcome {
    on_a_runtime(async {
        for way in ways() {
            let mut shelf = Shelf::demo();
            shelf.pins.push(pin("no-such-pkg", "3.4", &"1".repeat(64)));
            let error = refused(&world(way), &shelf, spec(), Code::PackageNotFound).await;
            assert!(error.message().contains("no-such-pkg==3.4"), "{way}: {error}");
            let shelf = Shelf::new().with("odd_pkg", "1.0", "cp27-none-win32");
            let error = refused(&world(way), &shelf, spec(), Code::BuildFailed).await;
            for word in ["odd-pkg==1.0", "for Python 3."] {
                assert!(error.message().contains(word), "{way}: {error}");
            }
        }
    });
    Ok(())
}

pub(crate) fn an_index_that_does_not_answer_is_named_without_its_password() -> Outcome {
    on_a_runtime(async {
        // A port of this machine on which nobody listens.
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = taken.local_addr().expect("an address").port();
        drop(taken);
        for way in ways() {
            let mut shelf = Shelf::new()
                .unset("PIP_NO_INDEX")
                .unset("PIP_EXTRA_INDEX_URL")
                .set("PIP_INDEX_URL", format!("http://someuser:{CANARY}@127.0.0.1:{port}/simple"))
                .set("PIP_RETRIES", "0")
                .set("UV_HTTP_RETRIES", "0");
            shelf.pins.push(pin("demo-pkg", "1.2", &"1".repeat(64)));
            let error = refused(&world(way), &shelf, spec(), Code::ConnectionFailed).await;
            assert!(error.message().contains("127.0.0.1"), "{way}: {error:?}");
            assert!(error.advice().contains("PIP_INDEX_URL"), "{way}: {error}");
            assert!(!format!("{error:?}").contains("someuser"), "{way}: {error:?}");
        }
    });
    Ok(())
}

/// A server on this machine that lets nobody in. It ends with this process.
fn closed_index() -> u16 {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            // One read is enough: a request for a page is short.
            let _ = stream.read(&mut [0; 8 << 10]);
            let _ = stream.write_all(
                b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\
                  Connection: close\r\n\r\n",
            );
        }
    });
    port
}

pub(crate) fn an_index_that_refuses_the_caller_is_named() -> Outcome {
    on_a_runtime(async {
        let port = closed_index();
        for way in ways() {
            let mut shelf = Shelf::new()
                .unset("PIP_NO_INDEX")
                .unset("PIP_EXTRA_INDEX_URL")
                .set("PIP_INDEX_URL", format!("http://someuser:{CANARY}@127.0.0.1:{port}/simple"));
            shelf.pins.push(pin("demo-pkg", "1.2", &"1".repeat(64)));
            let error = refused(&world(way), &shelf, spec(), Code::Unauthenticated).await;
            assert!(error.message().contains("127.0.0.1"), "{way}: {error:?}");
            assert!(!format!("{error:?}").contains("someuser"), "{way}: {error:?}");
        }
    });
    Ok(())
}

/// Before anything is fetched or installed, so none of these needs a package.
pub(crate) fn what_the_base_lacks_is_named() -> Outcome {
    on_a_runtime(async {
        let folder = tempfile::tempdir().expect("a temporary folder");
        small_base::fill(folder.path());
        let minimal = tempfile::tempdir().expect("a temporary folder");
        small_base::fill(minimal.path());
        small_base::add_python(minimal.path(), &["json", "venv"]);
        let world = World::with(|config| config.base("bare", folder.path()).base("minimal", minimal.path()));
        let session = world.session();
        let pins = [pin(PIP.name, PIP.version, PIP.sha256)];
        let mut bare = spec();
        bare.spec.base.name = "bare".into();
        let mut small = spec();
        small.spec.base.name = "minimal".into();
        let mut later = spec();
        later.spec.language = Some(Language::python(">=3.98"));
        for (spec, code, words) in [
            (bare, Code::BuildFailed, ["\"bare\" has no python3", "choose another base"]),
            (
                small,
                Code::BuildFailed,
                ["\"minimal\": pip of the base: python3 of the base lacks json, venv", "python3-venv"],
            ),
            (later, Code::SpecInvalid, ["has Python 3.", "asks for \">=3.98\""]),
        ] {
            let (built, _) = build(&world, &session, request(&world, spec, &pins, &[])).await;
            let error = assert_code(built, code);
            words.iter().for_each(|word| assert!(error.to_string().contains(word), "{error}"));
        }
        let (built, _) = build(&world, &session, request(&world, spec(), &[], &[])).await;
        assert!(assert_code(built, Code::SpecInvalid).message().contains("does not pin pip"));
        let lost = [("SSL_CERT_FILE", format!("/no/{CANARY}"))];
        let (built, _) = build(&world, &session, request(&world, spec(), &pins, &lost)).await;
        assert!(assert_code(built, Code::SpecInvalid).message().contains("SSL_CERT_FILE"));
        world.close(&session).await;
    });
    Ok(())
}

/// The settings name the only place with packages; they hold a password, and come into the box as a secret.
pub(crate) fn a75_settings_in_a_file_stay_secret() -> Outcome {
    on_a_runtime(async {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = taken.local_addr().expect("an address").port();
        drop(taken);
        let index = format!("http://someuser:{CANARY}@127.0.0.1:{port}/simple");
        let mut shelf = Shelf::new().unset("PIP_NO_INDEX").unset("PIP_EXTRA_INDEX_URL");
        shelf.pins.push(pin("demo-pkg", "1.2", &"1".repeat(64)));
        let settings = shelf.folder.path().join("settings");
        fs::write(&settings, format!("[global]\nretries = 0\nindex-url = {index}\n")).expect("a file");
        let shelf = shelf.set("PIP_CONFIG_FILE", settings.display().to_string());
        let session_world = world(InstallerWay::PinnedPip);
        let session = session_world.session();
        let (built, log) = build(&session_world, &session, shelf.request(&session_world, spec())).await;
        let error = built.expect_err("an error");
        assert!(log.contains(&format!("[secret]@127.0.0.1:{port}")), "{log}");
        assert!(!format!("{error:?}").contains(CANARY), "{error:?}");
        session_world.close(&session).await;
    });
    Ok(())
}
