//! The steps of a build, each of which makes a layer.

use std::sync::Arc;

use provider_core::{
    contract::{Contract, Row, SANDBOX_V1, doctor},
    environment::{BuildRequest, SecretMount, sha256_hex},
    error::{Code, Result},
    identity::User,
    lifecycle::Progress,
    secret::Secret,
};
use serde_json::json;

use super::{
    accounts, commands,
    python::{self, Installation, Supplies},
    tree::Tree,
};
use crate::{blocking::blocking, driver::Inner, engine::RunningBox, errors::error};

/// Where a system has its time zones, and the one of the contract under its full name.
const ZONE_INFO: &str = "/usr/share/zoneinfo";
const LOCAL_TIME: &str = "/etc/localtime";
const TIME_ZONE: &str = "/etc/timezone";

/// One layer of an image.
pub(super) enum Step {
    /// The contract's user, folders and files.
    Contract(Vec<(String, u32, String)>),
    /// The Python of the Environment, with its packages.
    Python(Installation),
    /// The files of the Environment.
    Files(Arc<BuildRequest>),
    /// The commands of the Environment.
    Commands(Arc<BuildRequest>),
}

impl Step {
    /// The steps that an Environment needs, in order. Blocks for a moment.
    ///
    /// # Errors
    /// Those of [`Installation::of`]; [`Code::Internal`] if the description has no form, which does not happen.
    pub(super) fn of(inner: &Inner, request: &Arc<BuildRequest>) -> Result<Vec<Step>> {
        let mut steps = vec![Step::Contract(reserved_files(request)?)];
        // Before the commands, which see it on their path.
        steps.extend(Installation::of(inner, request)?.map(Step::Python));
        if !request.environment().files().is_empty() {
            steps.push(Step::Files(Arc::clone(request)));
        }
        if !request.spec().spec.commands.post_install.is_empty() {
            steps.push(Step::Commands(Arc::clone(request)));
        }
        Ok(steps)
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Step::Contract(_) => "contract",
            Step::Python(_) => "python",
            Step::Files(_) => "files",
            Step::Commands(_) => "commands",
        }
    }

    /// What the layer's content depends on, beside what is below it.
    pub(super) fn parts(&self) -> serde_json::Value {
        match self {
            Step::Contract(reserved) => {
                let files: Vec<_> = reserved
                    .iter()
                    .map(|(path, mode, text)| json!([path, mode, sha256_hex(text.as_bytes())]))
                    .collect();
                json!({ "contract": SANDBOX_V1.name, "files": files })
            }
            Step::Python(installation) => installation.parts(),
            Step::Files(request) => {
                let files: Vec<_> = request
                    .environment()
                    .files()
                    .iter()
                    .map(|file| json!([file.path, file.mode, sha256_hex(&file.bytes)]))
                    .collect();
                json!({ "files": files })
            }
            Step::Commands(request) => {
                let spec = &request.spec().spec;
                json!({
                    "commands": spec.commands.post_install,
                    "env": spec.env,
                    "secrets": spec.build_secrets,
                    "only for build": self.is_private().then(|| request.id()),
                })
            }
        }
    }

    /// Whether the layer may hold what came of a secret. It is then no cache: no other build uses it, since that
    /// would be certified against secrets that it was not built with, and it goes with its artifact.
    pub(super) fn is_private(&self) -> bool {
        match self {
            Step::Contract(_) | Step::Python(_) | Step::Files(_) => false,
            Step::Commands(request) => !request.spec().spec.build_secrets.is_empty(),
        }
    }

    /// What the box of the step is given. Blocks for a moment.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] naming a variable that names a file which is not there.
    pub(super) fn supplies(&self) -> Result<Supplies> {
        match self {
            Step::Contract(_) | Step::Files(_) => Ok(Supplies::default()),
            Step::Python(installation) => installation.prepare(),
            Step::Commands(request) => Ok(Supplies::of_secrets(secrets(request, SecretMount::File))),
        }
    }

    /// Makes the content of the layer in a build box.
    ///
    /// # Errors
    /// [`Code::BuildFailed`] naming what failed.
    pub(super) async fn run(
        &self,
        inner: &Inner,
        running: &RunningBox,
        progress: &Progress,
        supplies: Supplies,
    ) -> Result<()> {
        let (running, real_ids) = (running.clone(), inner.real_ids);
        match self {
            Step::Python(installation) => installation.run(inner, &running, progress, supplies).await,
            Step::Contract(reserved) => {
                let reserved = reserved.clone();
                blocking(move || put_contract(Tree { running: &running, real_ids }, &reserved)).await
            }
            Step::Files(request) => {
                let request = Arc::clone(request);
                blocking(move || put_files(Tree { running: &running, real_ids }, &request)).await
            }
            Step::Commands(request) => {
                commands::run(running.clone(), request, progress).await?;
                python::own_what_commands_left(request, inner, &running, progress).await
            }
        }
    }
}

/// The secrets that commands get in this way, by the name under which they get them.
pub(super) fn secrets(request: &BuildRequest, mount: SecretMount) -> Vec<(String, Secret)> {
    let wanted = request.spec().spec.build_secrets.iter();
    wanted
        .filter(|secret| secret.mount_as == mount)
        .filter_map(|secret| Some((secret.name.clone(), request.secrets().get(&secret.id)?.clone())))
        .collect()
}

/// What lies in the reserved path: path, mode and text.
fn reserved_files(request: &BuildRequest) -> Result<Vec<(String, u32, String)>> {
    let contract = SANDBOX_V1.on_this_machine();
    let asked = Row::asked(request.spec().names_language());
    let description = json!({
        "contract": contract.name,
        "environment": request.spec().metadata.name,
        "provider": "local",
        "base": { "name": request.base().name(), "fingerprint": request.base().fingerprint() },
        "lockfile_digest": request.lockfile().digest(),
    });
    let description = serde_json::to_string_pretty(&description)
        .map_err(|source| error(Code::Internal, "the description has no form").with_source(source))?;
    Ok(vec![
        (contract.doctor_path.to_owned(), 0o755, doctor::script(&contract, &asked)),
        (contract.lockfile_path.to_owned(), 0o644, request.lockfile().text().to_owned()),
        (contract.description_path.to_owned(), 0o644, description + "\n"),
    ])
}

fn put_contract(tree: Tree<'_>, reserved: &[(String, u32, String)]) -> Result<()> {
    let contract = &SANDBOX_V1;
    type Change = fn(&str, &Contract) -> String;
    let accounts: [(&str, bool, Change); 3] = [
        ("/etc/passwd", true, accounts::passwd),
        ("/etc/group", true, accounts::group),
        ("/etc/shadow", false, accounts::shadow),
    ];
    tree.folders_above("/etc/passwd", |_| User::ROOT)?;
    for (path, needed, change) in accounts {
        match tree.read(path)? {
            Some(found) => {
                let text = change(&String::from_utf8_lossy(&found.bytes), contract);
                tree.put(path, text.as_bytes(), found.mode, found.owner)?;
            }
            None if needed => tree.put(path, change("", contract).as_bytes(), 0o644, User::ROOT)?,
            None => {}
        }
    }
    tree.folders_above(contract.home, |_| User::ROOT)?;
    tree.folder(contract.home, 0o755, contract.user)?;
    tree.folders_above(contract.workdir, |_| contract.user)?;
    tree.folder(contract.workdir, 0o755, contract.user)?;
    tree.folders_above(contract.reserved_path, |_| User::ROOT)?;
    tree.folder(contract.reserved_path, 0o755, User::ROOT)?;
    for (path, mode, text) in reserved {
        tree.put(path, text.as_bytes(), *mode, User::ROOT)?;
    }
    put_time_zone(tree, contract)
}

/// For programs that do not ask the variable.
fn put_time_zone(tree: Tree<'_>, contract: &Contract) -> Result<()> {
    let zone = contract.timezone;
    tree.put(TIME_ZONE, format!("{zone}\n").as_bytes(), 0o644, User::ROOT)?;
    match tree.read(&format!("{ZONE_INFO}/{zone}"))? {
        Some(found) => tree.put(LOCAL_TIME, &found.bytes, 0o644, User::ROOT),
        // Without the file, the zone is UTC.
        None => tree.remove(LOCAL_TIME),
    }
}

fn put_files(tree: Tree<'_>, request: &BuildRequest) -> Result<()> {
    let contract = &SANDBOX_V1;
    let owner_of = |folder: &str| {
        let rest = folder.strip_prefix(contract.home);
        let in_home = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if in_home { contract.user } else { User::ROOT }
    };
    for file in request.environment().files() {
        tree.folders_above(&file.path, owner_of)?;
        tree.put(&file.path, &file.bytes, file.mode, contract.user)?;
    }
    Ok(())
}
