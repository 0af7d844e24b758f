use super::*;
use crate::{contract::SANDBOX_V1, error::Code, sandbox::ExitStatus};

const CANARY: &str = "canary \"4711\" \\ $HOME `x` 'é' %s";

fn secrets() -> SecretSet {
    let mut set = SecretSet::new();
    set.insert("a-token", CANARY).unwrap();
    set.insert("b-token", "aaaaaaaab").unwrap();
    set.insert("c-token", "x".repeat(200)).unwrap();
    set
}

fn search() -> SecretSearch {
    SecretSearch::new(&SANDBOX_V1, &secrets())
}

#[test]
fn a75_the_command_tells_only_length_fingerprint_and_hash() {
    let command = search().command();
    let everything = format!("{:?} {:?} {:?}", command.program, command.env_vars, search());
    for (_, secret) in secrets().iter() {
        assert!(!everything.contains(secret.expose()));
        assert!(!everything.contains(&hex(secret.expose())));
        assert!(everything.contains(&Wanted::of(secret.expose().as_bytes()).sha256));
    }
    assert!(!everything.contains("canary"));
}

#[test]
fn an_answer_is_read_as_it_is_written() {
    let mut seen = SecretsAnswer {
        uid: 1000,
        hits: Vec::new(),
        tallies: BTreeMap::new(),
        partly: Vec::new(),
        unlisted: false,
    };
    assert_eq!(search().parse(&seen.render()).unwrap(), seen);
    seen.hits = vec![
        Hit { secret: 0, place: Where::Names, path: None },
        Hit { secret: 2, place: Where::Large, path: Some("/a b\nfound=1".into()) },
    ];
    let tally = Tally { searched: 3, bytes: 4, unreadable: 5, skipped: 6, skipped_bytes: 7 };
    seen.tallies.insert(Where::Files, tally);
    seen.partly = vec![("/big".into(), 1 << 40)];
    seen.unlisted = true;
    assert_eq!(search().parse(&seen.render()).unwrap(), seen);
}

#[test]
fn an_answer_that_could_hide_something_is_an_error() {
    let seen = SecretsAnswer {
        uid: 1000,
        hits: Vec::new(),
        tallies: BTreeMap::new(),
        partly: Vec::new(),
        unlisted: false,
    };
    let whole = seen.render().stdout_text();
    let parse = |text: String| search().parse(&Output::new(ExitStatus::Code(0), text, ""));
    parse(whole.clone()).unwrap();
    for (old, new) in [
        ("found=0 environment\n", ""),
        ("found=0 arguments\n", ""),
        ("found=0 names\n", ""),
        ("found=0 files\n", ""),
        ("listed=0\n", ""),
        ("listed=0\n", "listed=0\nlisted=0\n"),
        ("listed=0\n", "listed=127\n"),
        ("control=written", "control=refused"),
        ("found=0 names", "found=4 names"),
        ("found=0 names", "found=1 elsewhere"),
        ("found=0 names", "found=1 names 0g"),
        ("found=0 names", "found=-1 names"),
        ("found=0 names", "found=0 names\nnew=1"),
    ] {
        let changed = whole.replace(old, new);
        assert_ne!(changed, whole, "{old}");
        assert_eq!(parse(changed).unwrap_err().code(), Code::SmokeTestFailed, "{old} -> {new}");
    }
}

#[cfg(target_os = "linux")]
mod on_this_machine {
    use std::time::Instant;

    use super::*;
    use crate::contract::host;

    fn search_in(folder: &host::Folder) -> SecretSearch {
        let mut search = search();
        search.folders = vec![folder.path().to_owned()];
        search.control_folder = folder.path().to_owned();
        search
    }

    /// What is found of each secret besides the host's processes: place and path.
    fn found(search: &SecretSearch, command: &Command) -> Vec<(usize, Where, String)> {
        let seen = search.parse(&host::run(command)).unwrap();
        let mut found: Vec<_> =
            in_files(&seen).map(|hit| (hit.secret, hit.place, hit.path.unwrap_or_default())).collect();
        found.sort();
        found
    }

    /// Processes of other tests may hold the same texts.
    fn in_files(seen: &SecretsAnswer) -> impl Iterator<Item = Hit> {
        let hits = seen.hits.iter().filter(|hit| !matches!(hit.place, Where::Environment | Where::Arguments));
        hits.cloned()
    }

    /// Other tests have their secrets in the arguments of processes, so this one's are its own.
    #[test]
    fn nothing_is_found_where_nothing_is() {
        let folder = host::Folder::new();
        let mut secrets = SecretSet::new();
        secrets.insert("a-token", "only here: 4711 %s").unwrap();
        secrets.insert("b-token", "bbbbbbbbbbc").unwrap();
        let mut search = SecretSearch::new(&SANDBOX_V1, &secrets);
        search.folders = vec![folder.path().to_owned()];
        search.control_folder = folder.path().to_owned();
        folder.add("near miss", "only here: 4712 %s", 0o644);
        folder.add("first part", "only here: 4711 %", 0o644);
        // The two halves lie side by side when files are searched in one go.
        folder.add("a", "bbbbbbbb", 0o644);
        folder.add("b", "bbc", 0o644);
        folder.add("c", "bbbbbbbb", 0o644);
        for shell in host::shells() {
            let seen = search.parse(&host::run_with(shell, &search.command())).unwrap();
            assert_eq!(seen.hits, [], "{shell}");
            assert_eq!(seen.tallies[&Where::Files].searched, 6, "{shell}: the files and the control");
        }
        assert!(
            !std::fs::read_dir(folder.path())
                .unwrap()
                .any(|entry| { entry.unwrap().file_name().to_string_lossy().starts_with(".provider") })
        );
    }

    #[test]
    fn secrets_are_found_in_text_in_binary_in_names_and_links() {
        let folder = host::Folder::new();
        let binary: Vec<u8> =
            (0..5000u32).flat_map(|n| (n.wrapping_mul(2_654_435_761)).to_le_bytes()).collect();
        folder.add("text", format!("TOKEN={CANARY};rest\n"), 0o644);
        folder.add("deep/er/new\nline", [&binary, CANARY.as_bytes(), b"\xff\xfe", &binary].concat(), 0o600);
        folder.add("run of a", "aaaaaaaaaaaaaaaaaaaaaaaaab", 0o644);
        folder.add("whole", "x".repeat(200), 0o644);
        folder.add("short", "x".repeat(199), 0o644);
        folder.add("named-aaaaaaaab.txt", "", 0o644);
        std::os::unix::fs::symlink(
            format!("/nowhere/{}", "x".repeat(200)),
            format!("{}/link", folder.path()),
        )
        .unwrap();
        folder.add("large", [vec![b'.'; 3 << 20], CANARY.into(), vec![0; 10]].concat(), 0o644);
        let search = search_in(&folder);
        let at = |name: &str| format!("{}/{name}", folder.path());
        let expected = [
            (0, Where::Files, at("deep/er/new\nline")),
            (0, Where::Files, at("text")),
            (0, Where::Large, at("large")),
            (1, Where::Names, String::new()),
            (1, Where::Files, at("run of a")),
            (2, Where::Names, String::new()),
            (2, Where::Files, at("whole")),
        ];
        assert_eq!(found(&search, &search.command()), expected);
    }

    /// A token is searched for in runs of a token's bytes alone, which must not hide it.
    #[test]
    fn tokens_are_found_wherever_text_is() {
        const TOKEN: &str = "t0ken/with+signs=_.~%:@!-4711";
        let folder = host::Folder::new();
        let mut secrets = SecretSet::new();
        secrets.insert("token", TOKEN).unwrap();
        let mut search = SecretSearch::new(&SANDBOX_V1, &secrets);
        search.folders = vec![folder.path().to_owned()];
        search.control_folder = folder.path().to_owned();
        assert!(search.tokens);
        folder.add("quoted", format!("key = \"{TOKEN}\";\n"), 0o644);
        folder.add("inside", format!("a{TOKEN}z"), 0o644);
        folder.add("foreign", format!("\u{e9}{TOKEN}\u{e9}\0"), 0o644);
        folder.add("halves", TOKEN.replace('+', " "), 0o644);
        let hits: Vec<String> =
            found(&search, &search.command()).into_iter().map(|(_, _, path)| path).collect();
        let at = |name: &str| format!("{}/{name}", folder.path());
        assert_eq!(hits, [at("foreign"), at("inside"), at("quoted")]);
        secrets.insert("text", "two words").unwrap();
        assert!(!SecretSearch::new(&SANDBOX_V1, &secrets).tokens);
    }

    /// Other tests look at all processes too, so this one's secrets are its own.
    #[test]
    fn a_secret_in_a_variable_or_argument_is_found() {
        let folder = host::Folder::new();
        let (variable, argument) = ("in-a-variable-4711", "in-an-argument-4711");
        let mut secrets = SecretSet::new();
        secrets.insert("a-variable", variable).unwrap();
        secrets.insert("b-argument", argument).unwrap();
        let mut search = SecretSearch::new(&SANDBOX_V1, &secrets);
        search.control_folder = folder.path().to_owned();
        // A folder that does not exist is an argument like any other.
        search.folders = vec![folder.path().to_owned(), format!("/nowhere/{argument}")];
        let command = search.command().env_var("LEFT_OVER", format!("x{variable}y"));
        let seen = search.parse(&host::run(&command)).unwrap();
        let hits: Vec<_> = seen.hits.iter().map(|hit| (hit.secret, hit.place)).collect();
        assert!(hits.contains(&(0, Where::Environment)), "{hits:?}");
        assert!(hits.contains(&(1, Where::Arguments)), "{hits:?}");
        assert!(
            !hits.contains(&(1, Where::Environment)) && !hits.contains(&(0, Where::Arguments)),
            "{hits:?}"
        );
        assert!(seen.unlisted, "the missing folder is reported");
    }

    #[test]
    fn files_that_did_not_change_since_are_left_out() {
        let folder = host::Folder::new();
        folder.add("text", CANARY, 0o644);
        let mut search = search_in(&folder);
        let millis = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        let now = u64::try_from(millis).unwrap();
        search.since = Some(Timestamp::from_millis(now - 60_000));
        assert_eq!(found(&search, &search.command()).len(), 1);
        // In an hour nothing has changed yet, not even the control file: the search proves nothing.
        search.since = Some(Timestamp::from_millis(now + 3_600_000));
        let error = search.parse(&host::run(&search.command())).unwrap_err();
        assert!(error.message().contains("clock"), "{error}");
    }

    #[test]
    fn a_search_without_its_tools_is_an_error() {
        let folder = host::Folder::new();
        folder.add("text", CANARY, 0o644);
        let search = search_in(&folder);
        for missing in ["awk", "tr", "find", "xargs", "sha256sum", "head", "sort", "sed"] {
            let tools = host::Folder::new();
            for tool in [
                "awk",
                "tr",
                "find",
                "xargs",
                "sha256sum",
                "head",
                "sort",
                "sed",
                "od",
                "cat",
                "rm",
                "stat",
                "date",
                "id",
            ] {
                if tool != missing {
                    let path = host::run(&Command::shell(format!("command -v {tool}"))).stdout_text();
                    std::os::unix::fs::symlink(path.trim(), format!("{}/{tool}", tools.path())).unwrap();
                }
            }
            let output = host::run(&search.command().env_var("PATH", tools.path()));
            assert!(search.parse(&output).is_err(), "without {missing}: {}", output.stdout_text());
        }
    }

    #[test]
    fn a_search_whose_time_is_over_says_what_it_left() {
        let folder = host::Folder::new();
        for number in 0..200 {
            folder.add(&format!("file {number}"), CANARY, 0o644);
        }
        let mut search = search_in(&folder);
        search.budget = Duration::ZERO;
        let seen = search.parse(&host::run(&search.command())).unwrap();
        assert_eq!(seen.hits, []);
        assert_eq!(seen.tallies[&Where::Files].skipped, 201);
        assert_eq!(seen.tallies[&Where::Files].skipped_bytes / 200, CANARY.len() as u64);
    }

    #[test]
    fn unreadable_and_partly_searched_files_are_reported() {
        let folder = host::Folder::new();
        folder.add("closed", CANARY, 0o000);
        folder.add("huge", [vec![b'.'; 1 << 20], CANARY.into()].concat(), 0o644);
        let mut search = search_in(&folder);
        search.file_cap = 1 << 20;
        let seen = search.parse(&host::run(&search.command())).unwrap();
        assert_eq!(seen.tallies[&Where::Files].unreadable, 1);
        assert_eq!(in_files(&seen).next(), None);
        let size = (1 << 20) + CANARY.len() as u64;
        assert_eq!(seen.partly, [(format!("{}/huge", folder.path()), size)]);
    }

    #[test]
    fn the_search_is_fast_enough() {
        let folder = host::Folder::new();
        let line =
            "def walk(tree, *, depth=0):\n    return [node for node in tree.nodes if node.depth > depth]\n";
        for number in 0..300 {
            folder.add(&format!("lib/module_{number}.py"), line.repeat(70), 0o644);
        }
        folder.add("lib/large.min.js", line.replace('\n', ";").repeat(22_000), 0o644);
        let search = search_in(&folder);
        let start = Instant::now();
        let seen = search.parse(&host::run(&search.command())).unwrap();
        let took = start.elapsed();
        let bytes = seen.tallies[&Where::Files].bytes + seen.tallies[&Where::Large].bytes;
        println!("{bytes} bytes in {took:?}");
        assert!(bytes > 3_900_000, "{bytes}");
        assert!(took < Duration::from_secs(30), "{took:?}");
    }
}
