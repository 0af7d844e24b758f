//! `CONTRACT.md`, generated from the contract.

use std::fmt::Write;

use super::{
    Architecture, Contract, Row, SANDBOX_V1,
    checks::CORE_TIER,
    doctor::{EXIT_FAIL, EXIT_PASS, EXIT_USAGE},
    probe::fingerprint::PRIME,
};

/// The whole text of `CONTRACT.md`.
pub fn contract_md() -> String {
    let contract = &SANDBOX_V1;
    let mut page = String::new();
    // Writing to a String does not fail.
    let _ = write_page(&mut page, contract);
    page
}

fn write_page(page: &mut String, contract: &Contract) -> std::fmt::Result {
    writeln!(page, "# {}\n", contract.name)?;
    writeln!(
        page,
        "What every sandbox provides, whichever provider runs it. This page is generated from \
         `provider-core/src/contract/`;\na test compares the two. Change the data, not the page.\n"
    )?;
    writeln!(page, "| what | value |\n|---|---|")?;
    for (what, value) in facts(contract) {
        writeln!(page, "| {what} | {value} |")?;
    }
    writeln!(page, "\n## Variables\n")?;
    writeln!(page, "Every command starts with these, before those of the Environment and of the caller.\n")?;
    writeln!(page, "| variable | value |\n|---|---|")?;
    for (name, value) in contract.base_env_vars() {
        writeln!(page, "| `{name}` | `{value}` |")?;
    }
    writeln!(page, "\n## The doctor\n")?;
    writeln!(
        page,
        "`{}` is a POSIX shell script in every artifact. It prints one JSON document with all rows, in this order. The\n\
         rows marked with * are only asked of an Environment that names a language. With `--rows` it lists the rows \
         and\nchecks nothing; with `--help` it explains itself.\n",
        contract.doctor_path
    )?;
    writeln!(page, "| row | expected | how it is answered |\n|---|---|---|")?;
    for row in Row::ALL {
        let mark = if row.needs_language() { " *" } else { "" };
        writeln!(page, "| `{row}`{mark} | {} | {} |", row.expected(contract), row.question())?;
    }
    writeln!(
        page,
        "\n```json\n{{\"contract\":\"{}\",\"version\":{},\"rows\":[{{\"row\":\"{}\",\"status\":\"pass | fail | \
         not_asked\",\"expected\":\"..\",\"found\":\"..\"}}],\"first_failed\":null}}\n```\n",
        contract.name,
        contract.version,
        Row::ALL[0]
    )?;
    writeln!(page, "| exit code | meaning |\n|---|---|")?;
    writeln!(page, "| {EXIT_PASS} | every asked row passes |")?;
    writeln!(page, "| {EXIT_FAIL} | a row fails; `first_failed` names the first |")?;
    writeln!(page, "| {EXIT_USAGE} | wrong usage |")?;
    writeln!(page, "\n## The core tier\n")?;
    writeln!(
        page,
        "Each check is asked inside a running sandbox, in this order, and has a stable id. Those marked with * are only \
         asked\nof an Environment that names a language.\n"
    )?;
    writeln!(page, "| n | id | question |\n|---|---|---|")?;
    for (number, check) in CORE_TIER.iter().enumerate() {
        let mark = if check.needs_language { " *" } else { "" };
        writeln!(page, "| {} | `{}`{mark} | {} |", number + 1, check.id, check.question)?;
    }
    writeln!(
        page,
        "\nThe search for secrets is told of each value only its length, its SHA-256 and a fingerprint modulo {PRIME}, \
         which\nlets a window be moved along a file. It finds values as they are, in text and in binary files; encoded, \
         compressed or\nsplit values it does not find. It reads what its user may read, of files that changed since \
         the build began, and says\nwhat it did not search."
    )
}

fn facts(contract: &Contract) -> Vec<(&'static str, String)> {
    let Architecture { platform, machine } = contract.architecture;
    let arm = Architecture::ARM64;
    let code = |text: &str| format!("`{text}`");
    vec![
        ("system", format!("{}, of the {} family", contract.os, contract.os_family)),
        (
            "processor",
            format!(
                "{platform} (`{machine}`); on this machine alone also {} (`{}`)",
                arm.platform, arm.machine
            ),
        ),
        ("user", code(contract.user_name)),
        ("uid and gid", code(&contract.user.to_string())),
        ("supplementary groups", "none".to_owned()),
        ("home", code(contract.home)),
        ("working directory", format!("`{}`, writable", contract.workdir)),
        (
            "reserved path",
            format!("`{}`, which the user can neither change nor replace", contract.reserved_path),
        ),
        ("doctor", code(contract.doctor_path)),
        ("lockfile", code(contract.lockfile_path)),
        (
            "description of the image",
            format!("`{}`, with the lockfile's digest in `lockfile_digest`", contract.description_path),
        ),
        (
            "language, where the Environment names one",
            format!("`{}` and one of `{}` on `PATH`", contract.python, contract.installers.join("`, `")),
        ),
        (
            "packages of the language",
            format!(
                "in the virtual environment `{}`, which belongs to the user and is in front on `PATH`",
                contract.venv
            ),
        ),
        ("PID 1", format!("reaps orphans within {} s and passes SIGTERM on", contract.reap_within.as_secs())),
        ("stop", format!("within {} s of SIGTERM", contract.stop_within.as_secs())),
        ("locale", code(contract.locale)),
        ("time zone", contract.timezone.to_owned()),
        ("certificates", code(contract.ca_bundle)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a03_every_row_and_check_is_on_the_page() {
        let page = contract_md();
        for row in Row::ALL {
            assert!(page.contains(&format!("| {} |", row.expected(&SANDBOX_V1))), "{row}");
        }
        for check in CORE_TIER {
            assert!(page.contains(check.id) && page.contains(check.question), "{}", check.id);
        }
    }
}
