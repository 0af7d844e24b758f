//! The rows of the doctor: what it checks, in order.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Contract;

/// One thing that the doctor checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Row {
    /// The processor.
    Architecture,
    /// The kernel and the family of the distribution.
    Os,
    /// The user's name.
    User,
    /// The user's number.
    Uid,
    /// The group's number.
    Gid,
    /// The variable `HOME` and the directory.
    Home,
    /// The working directory, with a real write.
    Workdir,
    /// The interpreter.
    Python,
    /// The installer of packages.
    Pip,
    /// What a code session needs.
    Kernel,
    /// The directory that refuses changes.
    ReservedPath,
    /// The locale.
    Locale,
    /// The time zone.
    Timezone,
    /// The trusted certificates.
    CaCertificates,
    /// PID 1.
    Init,
}

impl Row {
    /// All rows, in the order of the report.
    pub const ALL: [Row; 15] = [
        Row::Architecture,
        Row::Os,
        Row::User,
        Row::Uid,
        Row::Gid,
        Row::Home,
        Row::Workdir,
        Row::Python,
        Row::Pip,
        Row::Kernel,
        Row::ReservedPath,
        Row::Locale,
        Row::Timezone,
        Row::CaCertificates,
        Row::Init,
    ];

    /// The rows that are asked of an Environment, in order.
    pub fn asked(names_language: bool) -> Vec<Row> {
        Self::ALL.into_iter().filter(|row| names_language || !row.needs_language()).collect()
    }

    /// Whether the row is only asked of an Environment that names a language.
    pub fn needs_language(self) -> bool {
        matches!(self, Row::Python | Row::Pip | Row::Kernel)
    }

    /// The name in the doctor's report.
    pub fn name(self) -> &'static str {
        match self {
            Row::Architecture => "architecture",
            Row::Os => "os",
            Row::User => "user",
            Row::Uid => "uid",
            Row::Gid => "gid",
            Row::Home => "home",
            Row::Workdir => "workdir",
            Row::Python => "python",
            Row::Pip => "pip",
            Row::Kernel => "kernel",
            Row::ReservedPath => "reserved_path",
            Row::Locale => "locale",
            Row::Timezone => "timezone",
            Row::CaCertificates => "ca_certificates",
            Row::Init => "init",
        }
    }

    /// What the contract says, as the report shows it.
    pub fn expected(self, contract: &Contract) -> String {
        match self {
            Row::Architecture => contract.architecture.machine.to_owned(),
            Row::Os => format!("{}, {}", contract.os, contract.os_family),
            Row::User => contract.user_name.to_owned(),
            Row::Uid => contract.user.uid.to_string(),
            Row::Gid => contract.user.gid.to_string(),
            Row::Home => contract.home.to_owned(),
            Row::Workdir => format!("{}, writable", contract.workdir),
            Row::Python => format!("{} on PATH", contract.python),
            Row::Pip => contract.installers.join(" or "),
            Row::Kernel => "a code session runs".to_owned(),
            Row::ReservedPath => format!("{}, not writable", contract.reserved_path),
            Row::Locale => contract.locale.to_owned(),
            Row::Timezone => contract.timezone.to_owned(),
            Row::CaCertificates => contract.ca_bundle.to_owned(),
            Row::Init => format!("an orphan is reaped within {} s", contract.reap_within.as_secs()),
        }
    }

    /// How the row is answered.
    pub fn question(self) -> &'static str {
        match self {
            Row::Architecture => "what `uname -m` answers",
            Row::Os => "what `uname -s` answers, and `ID` or `ID_LIKE` of `/etc/os-release`",
            Row::User => "what `id -un` answers",
            Row::Uid => "what `id -u` answers",
            Row::Gid => "what `id -g` answers",
            Row::Home => "the variable `HOME`, and that the directory is there",
            Row::Workdir => "a file is made there and removed; for root, whether the contract's user could",
            Row::Python => "it answers `--version`",
            Row::Pip => "one of them answers `--version`, or the interpreter's module `pip` does",
            Row::Kernel => "the interpreter imports `code` and evaluates an expression with it",
            Row::ReservedPath => {
                "nothing in it can be made, written or given another mode, and it cannot be moved away; for root, \
                 whether the contract's user could"
            }
            Row::Locale => "`LC_ALL`, else `LC_CTYPE`, else `LANG`; the character set is UTF-8",
            Row::Timezone => "what `date` answers as zone, with offset 0",
            Row::CaCertificates => "the file can be read and holds a certificate",
            Row::Init => "an orphan is made, ends and vanishes, and PID 1 keeps no ended child",
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a04_the_rows_are_the_fifteen_in_order() {
        let names: Vec<_> = Row::ALL.iter().map(|row| row.name()).collect();
        let written = "architecture os user uid gid home workdir python pip kernel reserved_path locale timezone \
                       ca_certificates init";
        assert_eq!(names.join(" "), written);
        for row in Row::ALL {
            assert_eq!(serde_json::to_string(&row).unwrap(), format!("\"{row}\""));
        }
    }

    #[test]
    fn rows_about_a_language_are_asked_only_with_one() {
        let left_out: Vec<_> = Row::ALL.into_iter().filter(|row| !Row::asked(false).contains(row)).collect();
        assert_eq!(left_out, [Row::Python, Row::Pip, Row::Kernel]);
        assert_eq!(Row::asked(true), Row::ALL);
    }
}
