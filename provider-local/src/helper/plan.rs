//! The plan of a box: what the helper does between its birth and "ready", as data that the driver writes.
//!
//! The driver decides everything (which mounts, which masks, which files); the helper only carries it out,
//! one [`Action`] after the other. Paths before [`Action::Enter`] are this machine's; after it they are the
//! box's own, and nothing of this machine can be reached by any path, so that no link inside a base or a
//! layer leads out of the box.

use super::codec::{Reader, Sink};
use core::ffi::CStr;

/// How the box is isolated and what its processes may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header<'a> {
    /// A user namespace of its own, with these maps.
    pub(crate) user_namespace: Option<IdMaps<'a>>,
    /// `PR_SET_NO_NEW_PRIVS` for every command.
    pub(crate) no_new_privileges: bool,
    /// The capabilities that a command of user 0 keeps, one bit each; other users keep none.
    pub(crate) capabilities: u64,
    /// The host name inside the box.
    pub(crate) hostname: &'a CStr,
}

/// Lines for `/proc/<pid>/uid_map` and `gid_map`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdMaps<'a> {
    /// The map of users.
    pub(crate) users: &'a [u8],
    /// The map of groups.
    pub(crate) groups: &'a [u8],
}

/// Owner and permissions of something that the plan makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Permission bits.
    pub(crate) mode: u32,
    /// User, as the box numbers it; [`Owner::KEEP`] leaves it.
    pub(crate) uid: u32,
    /// Group, as the box numbers it; [`Owner::KEEP`] leaves it.
    pub(crate) gid: u32,
}

impl Owner {
    /// "Leave the owner as it is made."
    pub(crate) const KEEP: u32 = u32::MAX;

    /// These permission bits, and the owner that creation gives.
    pub(crate) const fn mode(mode: u32) -> Self {
        Self { mode, uid: Self::KEEP, gid: Self::KEEP }
    }
}

/// Several texts, one behind the other, as they were encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Texts<'a> {
    encoded: &'a [u8],
}

impl<'a> Texts<'a> {
    /// Wraps what [`Sink::text`] wrote.
    pub(crate) fn new(encoded: &'a [u8]) -> Self {
        Self { encoded }
    }

    /// One after the other; ends at the first that makes no sense.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a CStr> + use<'a> {
        let mut reader = Reader::new(self.encoded);
        core::iter::from_fn(move || reader.text())
    }
}

/// What a mount may not do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(pub u32);

impl Flags {
    /// No writes.
    pub(crate) const READ_ONLY: Flags = Flags(1);
    /// Set-user-id bits have no effect.
    pub(crate) const NO_SUID: Flags = Flags(2);
    /// Device files cannot be opened.
    pub(crate) const NO_DEV: Flags = Flags(4);
    /// Nothing can be executed.
    pub(crate) const NO_EXEC: Flags = Flags(8);
    /// With everything mounted below.
    pub(crate) const RECURSIVE: Flags = Flags(16);
    /// Skipped when the path does not exist.
    pub(crate) const OPTIONAL: Flags = Flags(32);
    /// Overlay: marks are kept in `user.*` attributes, as a user namespace needs it.
    pub(crate) const USER_MARKS: Flags = Flags(64);
    /// Overlay: nothing is synced, since the upper layer will be thrown away.
    pub(crate) const VOLATILE: Flags = Flags(128);

    /// Both.
    pub(crate) const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether all of `other` is set.
    pub(crate) const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// An overlay: `layers` (the newest first) over `mask` over `base`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overlay<'a> {
    /// Where it is mounted; a real directory, never a link.
    pub(crate) target: &'a CStr,
    /// Read-only layers, the newest first.
    pub(crate) layers: Texts<'a>,
    /// Lies on the base and hides parts of it; empty for none.
    pub(crate) mask: &'a CStr,
    /// The lowest layer; empty for none.
    pub(crate) base: &'a CStr,
    /// Takes the writes; empty for a read-only overlay.
    pub(crate) upper: &'a CStr,
    /// The overlay's own folder beside `upper`.
    pub(crate) work: &'a CStr,
    /// An empty folder where mask and base are mounted as one, when layers lie below the base.
    pub(crate) stage: &'a CStr,
    /// NO_SUID, NO_DEV, USER_MARKS, VOLATILE.
    pub(crate) flags: Flags,
}

/// One action of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action<'a> {
    /// A tmpfs with these options.
    Tmpfs { target: &'a CStr, options: &'a CStr, flags: Flags },
    /// A directory; an existing one is kept, with its contents.
    Dir { path: &'a CStr, owner: Owner },
    /// A new file.
    File { path: &'a CStr, owner: Owner, data: &'a [u8] },
    /// A symbolic link.
    Link { path: &'a CStr, target: &'a CStr },
    /// A whiteout.
    Whiteout { path: &'a CStr },
    /// Marks a directory as opaque, in `user.*` or `trusted.*` attributes.
    Opaque { path: &'a CStr, user_marks: bool },
    /// An overlay.
    Overlay(Overlay<'a>),
    /// A path of this machine is kept at hand, as number `slot`, for a later [`Action::Bind`].
    Take { source: &'a CStr, slot: u8, flags: Flags },
    /// The directory becomes the root and the old root disappears; from here on paths are the box's own.
    Enter { root: &'a CStr },
    /// What was taken appears in the box.
    Bind { slot: u8, target: &'a CStr, flags: Flags },
    /// A fresh procfs.
    Proc { target: &'a CStr },
    /// Fresh pseudo terminals.
    Devpts { target: &'a CStr, options: &'a CStr },
    /// The path seems empty; skipped when it does not exist.
    Hide { path: &'a CStr },
    /// The path cannot be written; skipped when it does not exist.
    ReadOnly { path: &'a CStr },
    /// The path exists, cannot be written, and with `parents` neither it nor a folder above it can be moved
    /// away.
    Reserve { path: &'a CStr, parents: bool },
}

impl Header<'_> {
    /// Appends the header.
    pub(crate) fn encode(&self, sink: &mut impl Sink) -> Option<()> {
        sink.u8(u8::from(self.user_namespace.is_some()))?;
        sink.u8(u8::from(self.no_new_privileges))?;
        sink.u64(self.capabilities)?;
        sink.text(self.hostname)?;
        let maps = self.user_namespace.unwrap_or(IdMaps { users: &[], groups: &[] });
        sink.bytes(maps.users)?;
        sink.bytes(maps.groups)
    }
}

impl<'a> Header<'a> {
    /// The header at the front of a plan; the actions follow it.
    pub(crate) fn decode(reader: &mut Reader<'a>) -> Option<Self> {
        let mapped = flag(reader)?;
        let no_new_privileges = flag(reader)?;
        let capabilities = reader.u64()?;
        let hostname = reader.text()?;
        let maps = IdMaps { users: reader.bytes()?, groups: reader.bytes()? };
        Some(Self { user_namespace: mapped.then_some(maps), no_new_privileges, capabilities, hostname })
    }
}

impl<'a> Action<'a> {
    /// Appends the action.
    pub(crate) fn encode(&self, sink: &mut impl Sink) -> Option<()> {
        match *self {
            Action::Tmpfs { target, options, flags } => {
                tagged(sink, 1, &[target, options])?;
                sink.u32(flags.0)
            }
            Action::Dir { path, owner } => {
                tagged(sink, 2, &[path])?;
                owner.encode(sink)
            }
            Action::File { path, owner, data } => {
                tagged(sink, 3, &[path])?;
                owner.encode(sink)?;
                sink.bytes(data)
            }
            Action::Link { path, target } => tagged(sink, 4, &[path, target]),
            Action::Whiteout { path } => tagged(sink, 5, &[path]),
            Action::Opaque { path, user_marks } => {
                tagged(sink, 6, &[path])?;
                sink.u8(u8::from(user_marks))
            }
            Action::Overlay(overlay) => {
                tagged(sink, 7, &[overlay.target, overlay.mask, overlay.base])?;
                sink.text(overlay.upper)?;
                sink.text(overlay.work)?;
                sink.text(overlay.stage)?;
                sink.bytes(overlay.layers.encoded)?;
                sink.u32(overlay.flags.0)
            }
            Action::Enter { root } => tagged(sink, 8, &[root]),
            Action::Bind { slot, target, flags } => {
                tagged(sink, 9, &[target])?;
                sink.u8(slot)?;
                sink.u32(flags.0)
            }
            Action::Proc { target } => tagged(sink, 10, &[target]),
            Action::Devpts { target, options } => tagged(sink, 11, &[target, options]),
            Action::Hide { path } => tagged(sink, 12, &[path]),
            Action::ReadOnly { path } => tagged(sink, 13, &[path]),
            Action::Reserve { path, parents } => {
                tagged(sink, 14, &[path])?;
                sink.u8(u8::from(parents))
            }
            Action::Take { source, slot, flags } => {
                tagged(sink, 15, &[source])?;
                sink.u8(slot)?;
                sink.u32(flags.0)
            }
        }
    }

    /// The next action; `None` when the bytes make no sense.
    pub(crate) fn decode(reader: &mut Reader<'a>) -> Option<Self> {
        Some(match reader.u8()? {
            1 => {
                Action::Tmpfs { target: reader.text()?, options: reader.text()?, flags: Flags(reader.u32()?) }
            }
            2 => Action::Dir { path: reader.text()?, owner: Owner::decode(reader)? },
            3 => Action::File { path: reader.text()?, owner: Owner::decode(reader)?, data: reader.bytes()? },
            4 => Action::Link { path: reader.text()?, target: reader.text()? },
            5 => Action::Whiteout { path: reader.text()? },
            6 => Action::Opaque { path: reader.text()?, user_marks: flag(reader)? },
            7 => Action::Overlay(Overlay {
                target: reader.text()?,
                mask: reader.text()?,
                base: reader.text()?,
                upper: reader.text()?,
                work: reader.text()?,
                stage: reader.text()?,
                layers: Texts::new(reader.bytes()?),
                flags: Flags(reader.u32()?),
            }),
            8 => Action::Enter { root: reader.text()? },
            9 => Action::Bind { target: reader.text()?, slot: reader.u8()?, flags: Flags(reader.u32()?) },
            10 => Action::Proc { target: reader.text()? },
            11 => Action::Devpts { target: reader.text()?, options: reader.text()? },
            12 => Action::Hide { path: reader.text()? },
            13 => Action::ReadOnly { path: reader.text()? },
            14 => Action::Reserve { path: reader.text()?, parents: flag(reader)? },
            15 => Action::Take { source: reader.text()?, slot: reader.u8()?, flags: Flags(reader.u32()?) },
            _ => return None,
        })
    }
}

impl Owner {
    fn encode(self, sink: &mut impl Sink) -> Option<()> {
        sink.u32(self.mode)?;
        sink.u32(self.uid)?;
        sink.u32(self.gid)
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self { mode: reader.u32()?, uid: reader.u32()?, gid: reader.u32()? })
    }
}

fn tagged(sink: &mut impl Sink, tag: u8, texts: &[&CStr]) -> Option<()> {
    sink.u8(tag)?;
    texts.iter().try_for_each(|text| sink.text(text))
}

fn flag(reader: &mut Reader<'_>) -> Option<bool> {
    match reader.u8()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}
