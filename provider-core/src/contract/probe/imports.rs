//! The probe of `core.imports`: which packages are installed, and whether their modules can be imported.

use std::time::Duration;

use super::{
    Probe,
    answer::{Answer, render},
};
use crate::{
    contract::{Contract, LanguageFacts},
    error::Result,
    hex::hex,
    sandbox::{Command, Output},
};

/// Large packages take minutes on a slow disk.
const LIMIT: Duration = Duration::from_secs(1800);

/// What is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imports {
    /// Whether markers were evaluated. If not, each is taken to hold.
    pub judged: bool,
    /// The packages that were asked about, in order.
    pub packages: Vec<ImportedPackage>,
}

/// What is true of one package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedPackage {
    /// Its name, as it was asked.
    pub name: String,
    /// The places of those versions of the lockfile whose marker holds here.
    pub holding: Vec<usize>,
    /// The installed version.
    pub version: Option<String>,
    /// Its modules.
    pub modules: Vec<ImportedModule>,
}

/// What became of one import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedModule {
    /// The module's name.
    pub name: String,
    /// What speaks against it; empty if it was imported.
    pub trouble: String,
}

impl Imports {
    /// The command that asks about the direct dependencies.
    pub fn command(contract: &Contract, facts: &LanguageFacts) -> Command {
        let packages = facts.packages.iter().map(|(name, locked)| {
            let versions: Vec<_> = locked.iter().map(|it| (&it.version, &it.marker)).collect();
            serde_json::json!({ "name": name, "versions": versions }).to_string()
        });
        Probe::Imports.python_command(contract, packages, LIMIT)
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// [`Code::SmokeTestFailed`](crate::error::Code::SmokeTestFailed) if it is not exactly one whole answer.
    pub fn parse(output: &Output) -> Result<Self> {
        let mut answer = Answer::open(Probe::Imports, output)?;
        let judged = answer.take_either("judge", "yes", "no")?;
        let mut packages = Vec::new();
        while answer.has_more() {
            packages.push(ImportedPackage::read(&mut answer)?);
        }
        answer.close()?;
        Ok(Self { judged, packages })
    }

    /// The answer that says this.
    pub fn render(&self) -> Output {
        let yes = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
        let mut lines = vec![("judge", yes(self.judged))];
        for package in &self.packages {
            let holding: Vec<String> = package.holding.iter().map(usize::to_string).collect();
            lines.extend([
                ("package", hex(&package.name)),
                ("holding", hex(holding.join(" "))),
                ("installed", yes(package.version.is_some())),
                ("version", hex(package.version.as_deref().unwrap_or_default())),
                ("modules", package.modules.len().to_string()),
            ]);
            for module in &package.modules {
                lines.extend([("module", hex(&module.name)), ("trouble", hex(&module.trouble))]);
            }
        }
        render(Probe::Imports, &lines)
    }
}

impl ImportedPackage {
    fn read(answer: &mut Answer) -> Result<Self> {
        let name = answer.take_text("package")?;
        let places = answer.take_text("holding")?;
        let holding = places.split(' ').filter(|place| !place.is_empty());
        let holding = holding.map(|place| answer.number(place)).collect::<Result<_>>()?;
        let is_installed = answer.take_either("installed", "yes", "no")?;
        let version = Some(answer.take_text("version")?).filter(|_| is_installed);
        let mut modules = Vec::new();
        for _ in 0..answer.take_number::<u32>("modules")? {
            modules.push(ImportedModule {
                name: answer.take_text("module")?,
                trouble: answer.take_text("trouble")?,
            });
        }
        Ok(Self { name, holding, version, modules })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{LockedVersion, SANDBOX_V1};

    #[test]
    fn an_answer_is_read_as_it_is_written() {
        let modules = vec![
            ImportedModule { name: "yaml".into(), trouble: String::new() },
            ImportedModule { name: "_yaml".into(), trouble: "ImportError: \nend=imports/1".into() },
        ];
        let package = ImportedPackage {
            name: "pyyaml".into(),
            holding: vec![0, 2],
            version: Some("6.0".into()),
            modules,
        };
        let absent = ImportedPackage { name: "x".into(), holding: vec![], version: None, modules: vec![] };
        let seen = Imports { judged: true, packages: vec![package, absent] };
        assert_eq!(Imports::parse(&seen.render()).unwrap(), seen);
        let text = seen.render().stdout_text().replace("modules=2", "modules=3");
        assert!(Imports::parse(&Output::new(crate::sandbox::ExitStatus::Code(0), text, "")).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_script_finds_versions_markers_and_modules() {
        use crate::contract::host;
        if !host::has_python() {
            return;
        }
        let folder = host::Folder::new();
        let add = |name: &str, content: &str| folder.add(&format!("site/{name}"), content, 0o644);
        let dist = |name: &str, version: &str, files: &str| {
            let info = format!("{name}-{version}.dist-info");
            add(
                &format!("{info}/METADATA"),
                &format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"),
            );
            let record = files
                .split(' ')
                .chain([format!("{info}/METADATA").as_str()])
                .map(|f| format!("{f},,\n"))
                .collect::<String>();
            add(&format!("{info}/RECORD"), &record);
        };
        dist(
            "Good.Name",
            "1.0",
            "good/__init__.py good/part.py ns/inner/__init__.py single.py __pycache__/x.pyc ../bin/tool.py",
        );
        for module in ["good/__init__.py", "good/part.py", "ns/inner/__init__.py", "single.py"] {
            add(module, "print('noise')\n");
        }
        dist("bad", "2.0", "bad/__init__.py quits.py");
        add("bad/__init__.py", "raise ValueError('no \\u00e9')\n");
        add("quits.py", "import os; os._exit(0)\n");
        dist("data-only", "3.0", "data/table.csv");
        // What lies in the working directory does not count.
        folder.add("cwd/missing.py", "", 0o644);
        let mut facts = LanguageFacts::default();
        let never = LockedVersion { version: "9".into(), marker: Some("os_name == 'nt'".into()) };
        for name in ["good-name", "bad", "data-only", "missing"] {
            facts.packages.insert(name.into(), vec![LockedVersion::always("1.0"), never.clone()]);
        }
        let command = Imports::command(&SANDBOX_V1, &facts)
            .cwd(format!("{}/cwd", folder.path()))
            .env_var("PYTHONPATH", format!("{}/site", folder.path()));
        let seen = Imports::parse(&host::run(&command)).unwrap();
        let by_name = |name: &str| seen.packages.iter().find(|package| package.name == name).unwrap();
        let good = by_name("good-name");
        assert_eq!(good.version.as_deref(), Some("1.0"));
        let modules: Vec<_> = good.modules.iter().map(|it| (it.name.as_str(), it.trouble.as_str())).collect();
        assert_eq!(modules, [("good", ""), ("ns.inner", ""), ("single", "")]);
        let troubles: Vec<_> = by_name("bad").modules.iter().map(|it| it.trouble.as_str()).collect();
        assert_eq!(troubles, ["ValueError: no é", "ended with 0, without a word"]);
        assert_eq!(by_name("data-only").modules, []);
        assert_eq!(by_name("missing").version, None);
        let holding = if seen.judged { vec![0] } else { vec![0, 1] };
        assert_eq!(good.holding, holding);
    }
}
