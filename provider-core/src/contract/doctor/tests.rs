//! Runs the rendered doctor for real, under each shell of this machine.

use super::*;
use crate::{
    contract::{SANDBOX_V1, host},
    identity::User,
    sandbox::{Command, ExitStatus, Output},
};

/// A folder with all that a sandbox has, so that every row but `init` passes on this machine: `init` depends on the
/// machine's own PID 1, and has a test of its own.
struct Place {
    folder: host::Folder,
    contract: Contract,
    env_vars: Vec<(&'static str, String)>,
}

impl Place {
    fn new() -> Self {
        let folder = host::Folder::new();
        let at = |name: &str| host::leak(&format!("{}/{name}", folder.path()));
        folder.add("home/work/.keep", "", 0o644);
        folder.add("certificates", "# comment\n-----BEGIN CERTIFICATE-----\nMII=\n", 0o644);
        folder.add("bin/python", PYTHON, 0o755);
        folder.add("bin/installer", "#!/bin/sh\necho installer 1.0\n", 0o755);
        let release = std::fs::read_to_string("/etc/os-release").unwrap();
        let family = release.lines().find_map(|line| line.strip_prefix("ID=")).unwrap().trim_matches('"');
        let contract = Contract {
            user: host::user(),
            user_name: host::leak(&host::id("-un")),
            home: at("home"),
            workdir: at("home/work"),
            reserved_path: host::REFUSES,
            doctor_path: at("doctor"),
            os_family: host::leak(family),
            python: at("bin/python"),
            installers: Box::leak(Box::new([at("bin/none"), at("bin/installer")])),
            ca_bundle: at("certificates"),
            ..SANDBOX_V1.on_this_machine()
        };
        let env_vars = vec![
            ("HOME", contract.home.to_owned()),
            (Contract::LOCALE_VAR, contract.locale.to_owned()),
            ("TZ", contract.timezone.to_owned()),
        ];
        Self { folder, contract, env_vars }
    }

    fn rows() -> Vec<Row> {
        Row::ALL.into_iter().filter(|row| *row != Row::Init).collect()
    }

    fn command(&self, contract: &Contract, asked: &[Row], arguments: &[&str]) -> Command {
        self.folder.add("doctor", script(contract, asked), 0o755);
        let words = ["/bin/sh", contract.doctor_path].into_iter().chain(arguments.iter().copied());
        let command = Command::argv(words);
        self.env_vars.iter().fold(command, |command, (name, value)| command.env_var(*name, value.clone()))
    }

    fn report(&self, contract: &Contract) -> (DoctorReport, Output) {
        let output = host::run(&self.command(contract, &Self::rows(), &[]));
        let report = DoctorReport::parse(&output.stdout);
        (report.unwrap_or_else(|error| panic!("{error}: {output:?}")), output)
    }
}

/// Stands in for an interpreter.
const PYTHON: &str = r#"#!/bin/sh
case $1 in
    --version) echo Python 3.12.1 ;;
    -c) echo 2 ;;
    *) exit 1 ;;
esac
"#;

fn failed(report: &DoctorReport) -> Vec<Row> {
    report.rows.iter().filter(|row| row.status == RowStatus::Fail).map(|row| row.row).collect()
}

#[test]
fn a04_every_row_passes_where_the_contract_is_kept() {
    let place = Place::new();
    for shell in host::shells() {
        let output = host::run_with(shell, &place.command(&place.contract, &Place::rows(), &[]));
        let report = DoctorReport::parse(&output.stdout).unwrap();
        assert_eq!(failed(&report), [], "{shell}: {report:#?}");
        assert_eq!((output.status, report.exit_code()), (ExitStatus::Code(0), 0), "{shell}");
        assert_eq!(output.stderr_text(), "", "{shell}");
        assert_eq!((report.contract.as_str(), report.version), (SANDBOX_V1.name, SANDBOX_V1.version));
        assert_eq!(report.rows.last().unwrap().status, RowStatus::NotAsked, "{shell}");
    }
    assert_eq!(std::fs::read_dir(place.contract.workdir).unwrap().count(), 1, "the doctor left something");
}

/// What must change in the contract or the place for each row to fail.
fn break_row(row: Row, place: &mut Place) {
    let contract = &mut place.contract;
    match row {
        Row::Architecture => contract.architecture.machine = "pdp11",
        Row::Os => contract.os_family = "other",
        Row::User => contract.user_name = "somebody-else",
        Row::Uid => contract.user.uid += 1,
        Row::Gid => contract.user.gid += 1,
        Row::Home => contract.home = "/root",
        Row::Workdir => contract.workdir = host::REFUSES,
        Row::Python => contract.python = "no-such-interpreter",
        Row::Pip => contract.installers = &["no-such-installer"],
        Row::Kernel => place.folder.add("bin/python", PYTHON.replace("echo 2", "echo 3"), 0o755),
        Row::ReservedPath => contract.reserved_path = contract.workdir,
        Row::Locale => contract.locale = "tlh_QO.UTF-8",
        Row::Timezone => contract.timezone = "CET",
        Row::CaCertificates => contract.ca_bundle = "/nowhere/certificates",
        Row::Init => unreachable!("tests/contract.rs has this one"),
    }
}

#[test]
fn a04_each_row_fails_alone_and_is_named() {
    for row in Place::rows() {
        let mut place = Place::new();
        break_row(row, &mut place);
        let (report, output) = place.report(&place.contract);
        // An interpreter that is not there runs no code session either.
        let expected = if row == Row::Python { vec![Row::Python, Row::Kernel] } else { vec![row] };
        assert_eq!(failed(&report), expected, "{report:#?}");
        assert_eq!(report.first_failed, Some(row));
        assert_eq!(output.status, ExitStatus::Code(EXIT_FAIL), "{row}");
        let found = &report.rows[Row::ALL.iter().position(|known| *known == row).unwrap()];
        assert_eq!(found.expected, row.expected(&place.contract));
        assert_ne!(found.found, found.expected, "{row}");
    }
}

#[test]
fn more_ways_for_a_row_to_fail() {
    let rows = |change: &dyn Fn(&mut Place)| {
        let mut place = Place::new();
        change(&mut place);
        failed(&place.report(&place.contract).0)
    };
    assert_eq!(rows(&|place| place.env_vars.push(("LC_ALL", "POSIX".into()))), [Row::Locale]);
    assert_eq!(rows(&|place| place.env_vars.retain(|var| var.0 != "LANG")), [Row::Locale]);
    assert_eq!(rows(&|place| place.env_vars.push(("TZ", "UTC-1".into()))), [Row::Timezone]);
    assert_eq!(
        rows(&|place| place.folder.add("certificates", "no certificate\n", 0o644)),
        [Row::CaCertificates]
    );
    assert_eq!(rows(&|place| place.folder.add("certificates", "", 0o000)), [Row::CaCertificates]);
    assert_eq!(rows(&|place| place.contract.os = "plan9"), [Row::Os]);
    assert_eq!(rows(&|place| place.folder.lock("home/work")), [Row::Workdir]);
    assert_eq!(rows(&|place| place.contract.reserved_path = "/nowhere"), [Row::ReservedPath]);
    // The directory refuses, and so does what is in it; but it can be moved away.
    let place = Place::new();
    let reserved = host::leak(&format!("{}/link", place.folder.path()));
    std::os::unix::fs::symlink(host::REFUSES, reserved).unwrap();
    let contract = Contract { reserved_path: reserved, ..place.contract.clone() };
    let (report, _) = place.report(&contract);
    assert_eq!(failed(&report), [Row::ReservedPath]);
    assert_eq!(report.rows[10].found, format!("{reserved} can be replaced"));
}

#[test]
fn a_row_that_is_not_asked_is_listed_and_does_not_fail() {
    let mut place = Place::new();
    place.contract.python = "no-such-interpreter";
    place.contract.installers = &[];
    let asked: Vec<_> = Row::asked(false).into_iter().filter(|row| *row != Row::Init).collect();
    let output = host::run(&place.command(&place.contract, &asked, &[]));
    let report = DoctorReport::parse(&output.stdout).unwrap();
    assert_eq!(output.status, ExitStatus::Code(EXIT_PASS), "{report:#?}");
    let not_asked: Vec<_> =
        report.rows.iter().filter(|row| row.status == RowStatus::NotAsked).map(|row| row.row).collect();
    assert_eq!(not_asked, [Row::Python, Row::Pip, Row::Kernel, Row::Init]);
}

#[test]
fn a04_only_known_arguments_are_taken() {
    let place = Place::new();
    let run = |arguments: &[&str]| host::run(&place.command(&place.contract, &Row::ALL, arguments));
    for wrong in [&["--rows", "--rows"][..], &["--json"], &[""], &["run"], &["-h"], &["os"], &["--help", "x"]]
    {
        let output = run(wrong);
        assert_eq!(output.status, ExitStatus::Code(EXIT_USAGE), "{wrong:?}");
        assert_eq!(output.stdout_text(), "", "{wrong:?}");
        assert!(output.stderr_text().starts_with("usage: "), "{wrong:?}");
    }
    let help = run(&["--help"]);
    assert_eq!(help.status, ExitStatus::Code(0));
    assert!(help.stdout_text().starts_with("usage: ") && help.stdout_text().contains("Exit status"));
}

#[test]
fn a03_the_doctor_s_table_is_the_contract_s() {
    let place = Place::new();
    let output = host::run(&place.command(&SANDBOX_V1, &Row::asked(false), &["--rows"]));
    // The contract's path is not on this machine, so that the script is called by the place's.
    assert_ne!(output.status, ExitStatus::Code(0), "the script is not where the contract says");
    place.folder.add("v1", script(&SANDBOX_V1, &Row::asked(false)), 0o755);
    let output = host::run(&Command::argv([
        "/bin/sh".to_owned(),
        format!("{}/v1", place.folder.path()),
        "--rows".into(),
    ]));
    let expected: String = Row::ALL
        .into_iter()
        .map(|row| {
            let state = if row.needs_language() { "not_asked" } else { "asked" };
            format!("{row}\t{state}\t{}\n", row.expected(&SANDBOX_V1))
        })
        .collect();
    assert_eq!(output.stdout_text(), expected);
}

#[test]
fn a_script_holds_nothing_unrendered() {
    let text = script(&SANDBOX_V1, &Row::ALL);
    assert!(text.starts_with("#!/bin/sh\n"));
    assert!(!text.contains("#@"), "a place was not filled");
    let template = include_str!("../doctor.sh");
    for value in [SANDBOX_V1.home, SANDBOX_V1.reserved_path, SANDBOX_V1.ca_bundle, "1000", "C.UTF-8"] {
        assert!(!template.contains(value), "the template repeats {value}");
        assert!(text.contains(value));
    }
}

#[test]
fn whatever_is_found_the_report_stays_whole() {
    let mut place = Place::new();
    for (number, home) in [
        "a\"b\\c\nd\te'f$(g)`h`",
        "\u{1}\u{7f}",
        "élan \u{1F600}",
        "%s%n%d",
        "",
        "\"}],\"first_failed\":null}",
    ]
    .into_iter()
    .enumerate()
    {
        place.env_vars[0].1 = home.to_owned();
        for shell in host::shells() {
            let output = host::run_with(shell, &place.command(&place.contract, &Place::rows(), &[]));
            let report = DoctorReport::parse(&output.stdout).unwrap();
            assert_eq!(report.rows[5].found, home, "{number}, {shell}");
            assert_eq!(report.first_failed, Some(Row::Home));
        }
    }
    place.env_vars[0].1 = "x".repeat(2001);
    let (report, _) = place.report(&place.contract);
    assert_eq!(report.rows[5].found, "(2001 bytes)");
}

#[test]
fn a_report_that_is_not_exactly_one_is_refused() {
    let place = Place::new();
    let whole = host::run(&place.command(&place.contract, &Place::rows(), &[])).stdout_text();
    DoctorReport::parse(whole.as_bytes()).unwrap();
    let row = whole.lines().nth(2).unwrap();
    for (old, new) in [
        ("\"version\":1,", ""),
        ("\"version\":1,", "\"version\":1,\"version\":1,"),
        ("\"version\":1,", "\"version\":1,\"more\":1,"),
        ("\"version\":1,", "\"version\":\"1\","),
        (",\"first_failed\":null", ""),
        ("\"first_failed\":null", "\"first_failed\":\"os\""),
        ("\"first_failed\":null", "\"first_failed\":\"nothing\""),
        ("\"status\":\"pass\"", "\"status\":\"fail\""),
        ("\"status\":\"pass\"", "\"status\":\"ok\""),
        (row, ""),
        (row, "{},"),
        ("\"row\":\"uid\"", "\"row\":\"gid\""),
        ("]", "]]"),
        ("{\"contract\"", "note\n{\"contract\""),
    ] {
        let broken = whole.replace(old, new);
        assert_ne!(broken, whole, "{old}");
        assert!(DoctorReport::parse(broken.as_bytes()).is_err(), "{old} -> {new}");
    }
    for length in 0..whole.trim_end().len() {
        assert!(DoctorReport::parse(&whole.as_bytes()[..length]).is_err(), "cut at {length}");
    }
    assert!(DoctorReport::parse(format!("{whole}{whole}").as_bytes()).is_err());
}

#[test]
fn a04_as_root_the_rows_differ_in_the_user_alone() {
    if host::user() != SANDBOX_V1.user || !rustix::process::geteuid().is_root() {
        println!("not run as root, so that only the one user's rows can be compared");
        let place = Place::new();
        assert_eq!(failed(&place.report(&place.contract).0), []);
        return;
    }
    let place = Place::new();
    let output = host::run_as(User::ROOT, &place.command(&place.contract, &Place::rows(), &[]));
    let as_root = DoctorReport::parse(&output.stdout).unwrap();
    let (as_user, _) = place.report(&place.contract);
    assert_eq!((failed(&as_root), failed(&as_user)), (vec![Row::User, Row::Uid, Row::Gid], vec![]));
    for (root, user) in as_root.rows.iter().zip(&as_user.rows) {
        let is_about_user = matches!(root.row, Row::User | Row::Uid | Row::Gid);
        assert_eq!(root == user, !is_about_user, "{root:?} {user:?}");
    }
    // Root may write everywhere. It must still see what the contract's user could do.
    let mut place = Place::new();
    break_row(Row::ReservedPath, &mut place);
    let output = host::run_as(User::ROOT, &place.command(&place.contract, &Place::rows(), &[]));
    assert!(failed(&DoctorReport::parse(&output.stdout).unwrap()).contains(&Row::ReservedPath));
    let mut place = Place::new();
    break_row(Row::Workdir, &mut place);
    let output = host::run_as(User::ROOT, &place.command(&place.contract, &Place::rows(), &[]));
    assert!(failed(&DoctorReport::parse(&output.stdout).unwrap()).contains(&Row::Workdir));
}
