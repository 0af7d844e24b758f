//! The root file system of a box: turns a plan into the actions of the helper.
//!
//! Two layouts. *Whole*: one overlay is the root; from bottom to top it has the base, a mask that hides and
//! replaces parts of it, the layers, and the box's own upper folder. *Split*: an overlay for each folder of
//! the root, and one more for the root itself; needed for this machine's root in a user namespace, where the
//! kernel refuses to take a folder with other mounts below it as a layer, and where `/usr` or `/var` are file
//! systems of their own.

mod accounts;
mod host;
mod inputs;
mod inside;
mod mask;
mod mounts;
mod network;
mod program;

pub(crate) use program::Program;

use super::EngineError;
use super::facts::Facts;
use super::plan::{Base, BoxPlan, EngineConfig, Fault, Purpose};
use crate::helper::plan::{Flags, Header, IdMaps, Owner};
use crate::store::{Layer, Layout, make_dir, make_dir_with_mode};
use host::Folder;
use inputs::Inputs;
use inside::Supplies;
use mask::Mask;
use program::OverlaySpec;
use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};

/// Docker's default set: enough for package managers, nothing that reaches out of the box. CHOWN,
/// DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, NET_RAW, SYS_CHROOT, MKNOD,
/// AUDIT_WRITE, SETFCAP.
const BUILD_CAPABILITIES: &[u64] = &[0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31];

/// Paths with a life of their own in every box: a mount point must be there.
const MOUNT_POINTS: &[(&str, u32)] =
    &[("dev", 0o755), ("proc", 0o555), ("run", 0o755), ("sys", 0o555), ("tmp", 0o1777)];

/// Where the parts of one box lie.
struct Places<'a> {
    /// The folder of the box.
    folder: &'a Path,
    /// A tmpfs of the box's own, for the mask and for mount points.
    scratch: PathBuf,
}

/// The finished plan and what it means for a layer built with it.
pub(crate) struct Prepared {
    pub(crate) program: Program,
    pub(crate) layout: Layout,
}

/// Makes the folders of the box and writes its plan. `layers` has the lowest first.
pub(crate) fn prepare(
    config: &EngineConfig,
    facts: &Facts,
    plan: &BoxPlan,
    layers: &[Layer],
    folder: &Path,
    state: &Path,
) -> Result<Prepared, EngineError> {
    let places = Places { folder, scratch: folder.join("root") };
    make_dir(&places.scratch)?;
    let mut program = begin(config, facts, plan)?;
    program.tmpfs(&places.scratch, "mode=0755", Flags::default())?;
    let supplies = Supplies::take(&mut program, &places.scratch)?;
    let inputs = Inputs::take(&mut program, &plan.inputs, state)?;
    let builder = Builder { facts, plan, layers, places: &places, supplies: &supplies };
    let layout = match &plan.base {
        Base::Dir(path) => builder.on_folder(&mut program, path, state)?,
        Base::Host => builder.on_host(&mut program, config, state)?,
    };
    if let Some(layer) = layers.iter().find(|layer| layer.layout() != layout) {
        return Err(EngineError::ForeignLayer { key: layer.key().to_string() });
    }
    inside::write_last(&mut program, facts, plan, &supplies)?;
    inputs.write(&mut program)?;
    Ok(Prepared { program, layout })
}

fn begin(config: &EngineConfig, facts: &Facts, plan: &BoxPlan) -> Result<Program, EngineError> {
    let hostname = CString::new(plan.hostname.as_str()).unwrap_or_default();
    let map = |inside: u32, outside: u32| match config.fault {
        Some(Fault::BadMap) => "nonsense".to_owned(),
        _ => format!("{inside} {outside} 1"),
    };
    let users = map(plan.identity.uid, facts.uid);
    let groups = map(plan.identity.gid, facts.gid);
    let maps = IdMaps { users: users.as_bytes(), groups: groups.as_bytes() };
    let build = plan.purpose == Purpose::Build;
    let capabilities = BUILD_CAPABILITIES.iter().fold(0, |set, bit| set | 1 << bit);
    let mut program = Program::new(&Header {
        user_namespace: facts.user_namespace().then_some(maps),
        no_new_privileges: !build,
        capabilities: if build { capabilities } else { 0 },
        hostname: &hostname,
    })?;
    program.fail_at = match config.fault {
        Some(Fault::AtAction(number)) => Some(number),
        _ => None,
    };
    Ok(program)
}

struct Builder<'a> {
    facts: &'a Facts,
    plan: &'a BoxPlan,
    layers: &'a [Layer],
    places: &'a Places<'a>,
    supplies: &'a Supplies,
}

impl Builder<'_> {
    fn flags(&self) -> Flags {
        let mut flags = Flags::NO_DEV;
        if self.facts.user_marks() {
            flags = flags.and(Flags::USER_MARKS);
        }
        if self.plan.purpose == Purpose::Run {
            flags = flags.and(Flags::NO_SUID).and(Flags::VOLATILE);
        }
        flags
    }

    fn on_folder(&self, program: &mut Program, base: &Path, state: &Path) -> Result<Layout, EngineError> {
        let base = fs::canonicalize(base)
            .and_then(|base| fs::read_dir(&base).map(|_| base))
            .map_err(|source| EngineError::Base { path: base.to_owned(), source })?;
        let mut mask = Mask::new(&base);
        for (path, mode) in MOUNT_POINTS {
            mask.dir(path, *mode);
        }
        network::describe(&mut mask, &base, &self.plan.hostname);
        self.whole(program, &mask, &base)?;
        if let Ok(inside) = state.strip_prefix(&base) {
            program.hide(&Path::new("/").join(inside))?;
        }
        Ok(Layout::Whole)
    }

    fn on_host(
        &self,
        program: &mut Program,
        config: &EngineConfig,
        state: &Path,
    ) -> Result<Layout, EngineError> {
        let host = host::Host::look(self.facts)?;
        let mut mask = Mask::new(Path::new("/"));
        host.fill(&mut mask, self.facts, self.plan.purpose);
        network::describe(&mut mask, Path::new("/"), &self.plan.hostname);
        let layout = if host.must_split { Layout::Split } else { Layout::Whole };
        match layout {
            Layout::Whole => self.whole(program, &mask, Path::new("/"))?,
            Layout::Split => self.split(program, &mask, &host)?,
        }
        host::hide_private(program)?;
        program.hide(state)?;
        for path in &config.hidden {
            program.hide(path)?;
        }
        Ok(layout)
    }

    /// Makes `up/<name>` and `work/<name>` of the box.
    fn upper(&self, name: &str, mode: u32) -> Result<(PathBuf, PathBuf), EngineError> {
        let upper = self.places.folder.join("up").join(name);
        let work = self.places.folder.join("work").join(name);
        make_dir_with_mode(&upper, mode)?;
        make_dir(&work)?;
        Ok((upper, work))
    }

    fn whole(&self, program: &mut Program, mask: &Mask, base: &Path) -> Result<(), EngineError> {
        let scratch = &self.places.scratch;
        let (upper, work) = self.upper("", 0o755)?;
        for name in ["mask", "stage", "new"] {
            program.dir(&scratch.join(name), Owner::mode(0o755))?;
        }
        mask.write(program, &scratch.join("mask"), self.facts.user_marks())?;
        program.overlay(&OverlaySpec {
            target: scratch.join("new"),
            layers: self.layers.iter().rev().map(Layer::files).collect(),
            mask: Some(scratch.join("mask")),
            base: Some(base.to_owned()),
            upper,
            work,
            stage: Some(scratch.join("stage")),
            flags: self.flags(),
        })?;
        self.enter(program)
    }

    fn enter(&self, program: &mut Program) -> Result<(), EngineError> {
        program.enter(&self.places.scratch.join("new"))?;
        inside::write_first(program, self.facts, self.supplies)
    }

    fn split(&self, program: &mut Program, mask: &Mask, host: &host::Host) -> Result<(), EngineError> {
        let scratch = &self.places.scratch;
        for part in ["up", "work"] {
            make_dir(&self.places.folder.join(part))?;
            make_dir(&self.places.folder.join(part).join("top"))?;
        }
        for name in ["mask", "stage", "new"] {
            program.dir(&scratch.join(name), Owner::mode(0o755))?;
        }
        mask.write(program, &scratch.join("mask"), self.facts.user_marks())?;
        let (upper, work) = self.upper("rest", 0o755)?;
        program.overlay(&OverlaySpec {
            target: scratch.join("new"),
            layers: self.layers.iter().rev().map(|layer| layer.files().join("rest")).collect(),
            mask: Some(scratch.join("mask")),
            upper,
            work,
            flags: self.flags(),
            ..OverlaySpec::default()
        })?;
        for folder in host.overlaid() {
            self.split_folder(program, mask, folder)?;
        }
        let mut bound = Vec::new();
        for folder in host.bound() {
            let path = Path::new("/").join(&folder.name);
            bound.push((program.take(&path, Flags::RECURSIVE)?, path));
        }
        self.enter(program)?;
        for (taken, path) in bound {
            program.bind(&taken, &path, Flags::READ_ONLY.and(Flags::NO_SUID))?;
        }
        Ok(())
    }

    fn split_folder(&self, program: &mut Program, mask: &Mask, folder: &Folder) -> Result<(), EngineError> {
        let name = &folder.name;
        let scratch = &self.places.scratch;
        let (upper, work) = self.upper(&format!("top/{name}"), folder.mode)?;
        let stage = scratch.join("stage").join(name);
        program.dir(&stage, Owner::mode(0o755))?;
        let layers = self.layers.iter().rev().map(|layer| layer.files().join("top").join(name));
        program.overlay(&OverlaySpec {
            target: scratch.join("new").join(name),
            layers: layers.filter(|path| path.is_dir()).collect(),
            mask: mask.has(name).then(|| scratch.join("mask").join(name)),
            base: (!folder.copied).then(|| Path::new("/").join(name)),
            upper,
            work,
            stage: Some(stage),
            flags: self.flags(),
        })
    }
}
