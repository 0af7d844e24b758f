//! Overlay mounts: the new interface first, `mount(2)` where it is missing or a value does not fit.

use super::mount_api as api;
use super::mounts::{attributes, copy_text};
use super::nr::{O_DIRECTORY, O_NOFOLLOW};
use super::plan::{Flags, Overlay, Texts};
use super::sys::{self, AT_CWD, Answer, Errno, Fd};
use core::ffi::CStr;

/// The kernel reads at most one page of options.
const MAX_OPTIONS: usize = 4096;

/// Marks a directory so that an overlay shows nothing of the layers below it.
pub(crate) fn mark_opaque(path: &CStr, user_marks: bool) -> Answer<()> {
    let name = if user_marks { c"user.overlay.opaque" } else { c"trusted.overlay.opaque" };
    sys::set_attribute(path, name, b"y")
}

/// Mounts an overlay.
///
/// The kernel refuses a layer that lies below another layer (ELOOP), which is the rule when the base is this
/// machine's root and the layers lie in a folder on it. Then mask and base are mounted as one overlay of
/// their own, and that mount takes the base's place.
pub(crate) fn mount(overlay: &Overlay<'_>) -> Answer<()> {
    let can_stage = !overlay.stage.is_empty() && !overlay.mask.is_empty() && !overlay.base.is_empty();
    if !can_stage || !overlaps(overlay) {
        return attempt(overlay, overlay.mask, overlay.base);
    }
    let floor = Overlay { target: overlay.stage, layers: Texts::new(&[]), upper: c"", work: c"", ..*overlay };
    attempt(&floor, floor.mask, floor.base)?;
    attempt(overlay, c"", overlay.stage)
}

/// Tries the layers without the upper folder, since a failed mount with `volatile` leaves marks in the work
/// folder that forbid the next. Where only `mount(2)` knows overlays, nothing is volatile and nothing can be
/// tried for free: there, and only there, layers always get a floor of their own.
fn overlaps(overlay: &Overlay<'_>) -> bool {
    if overlay.layers.iter().next().is_none() {
        return false;
    }
    let probe = Overlay { upper: c"", work: c"", ..*overlay };
    let Ok(context) = api::fs_open(c"overlay") else {
        return true;
    };
    let configured = configure(context, &probe, probe.mask, probe.base);
    let answer = configured.map(|()| api::fs_create(context));
    sys::close(context);
    matches!(answer, Err(_) | Ok(Err(Errno::LOOP)))
}

fn attempt(overlay: &Overlay<'_>, mask: &CStr, base: &CStr) -> Answer<()> {
    match mount_new(overlay, mask, base) {
        Err(NewError::Unsupported) => mount_old(overlay, mask, base),
        Err(NewError::Refused(errno)) => Err(errno),
        Ok(()) => Ok(()),
    }
}

fn lowers<'a>(overlay: &Overlay<'a>, mask: &'a CStr, base: &'a CStr) -> impl Iterator<Item = &'a CStr> {
    let floor = [mask, base].into_iter().filter(|path| !path.is_empty());
    overlay.layers.iter().chain(floor)
}

enum NewError {
    /// The kernel lacks the interface, or a value is too long for it.
    Unsupported,
    /// The mount itself was refused.
    Refused(Errno),
}

fn mount_new(overlay: &Overlay<'_>, mask: &CStr, base: &CStr) -> Result<(), NewError> {
    let context = api::fs_open(c"overlay").map_err(|_| NewError::Unsupported)?;
    let answer = (|| {
        configure(context, overlay, mask, base).map_err(|_| NewError::Unsupported)?;
        api::fs_create(context).map_err(NewError::Refused)?;
        let wanted = usize::try_from(attributes(mount_flags(overlay))).unwrap_or(0);
        let mount = api::fs_mount(context, wanted).map_err(NewError::Refused)?;
        let attached = attach_to_real_folder(mount, overlay.target).map_err(NewError::Refused);
        sys::close(mount);
        attached
    })();
    sys::close(context);
    answer
}

fn configure(context: Fd, overlay: &Overlay<'_>, mask: &CStr, base: &CStr) -> Answer<()> {
    api::fs_set(context, c"source", c"overlay")?;
    for lower in lowers(overlay, mask, base) {
        api::fs_set(context, c"lowerdir+", lower)?;
    }
    if !overlay.upper.is_empty() {
        api::fs_set(context, c"upperdir", overlay.upper)?;
        api::fs_set(context, c"workdir", overlay.work)?;
        if overlay.flags.has(Flags::VOLATILE) {
            api::fs_set_flag(context, c"volatile")?;
        }
    }
    if overlay.flags.has(Flags::USER_MARKS) {
        api::fs_set_flag(context, c"userxattr")?;
    }
    Ok(())
}

fn mount_flags(overlay: &Overlay<'_>) -> Flags {
    if overlay.upper.is_empty() { overlay.flags.and(Flags::READ_ONLY) } else { overlay.flags }
}

fn open_real_folder(path: &CStr) -> Answer<Fd> {
    sys::open(AT_CWD, path, sys::O_PATH | O_DIRECTORY | O_NOFOLLOW, 0)
}

fn attach_to_real_folder(mount: Fd, target: &CStr) -> Answer<()> {
    let folder = open_real_folder(target)?;
    let answer = api::attach_onto(mount, folder);
    sys::close(folder);
    answer
}

fn mount_old(overlay: &Overlay<'_>, mask: &CStr, base: &CStr) -> Answer<()> {
    sys::close(open_real_folder(overlay.target)?);
    let mut options = Options { text: [0; MAX_OPTIONS], used: 0 };
    options.put(b"lowerdir=")?;
    for (index, lower) in lowers(overlay, mask, base).enumerate() {
        if index > 0 {
            options.put(b":")?;
        }
        options.put_escaped(lower.to_bytes())?;
    }
    if !overlay.upper.is_empty() {
        options.put(b",upperdir=")?;
        options.put_escaped(overlay.upper.to_bytes())?;
        options.put(b",workdir=")?;
        options.put_escaped(overlay.work.to_bytes())?;
    }
    if overlay.flags.has(Flags::USER_MARKS) {
        options.put(b",userxattr")?;
    }
    let bits = usize::try_from(attributes(mount_flags(overlay))).unwrap_or(0);
    let mut buffer = [0_u8; MAX_OPTIONS + 1];
    let text = copy_text(&mut buffer, options.text.get(..options.used).unwrap_or(&[]))?;
    api::mount(c"overlay", overlay.target, c"overlay", bits, text)
}

struct Options {
    text: [u8; MAX_OPTIONS],
    used: usize,
}

impl Options {
    fn put(&mut self, bytes: &[u8]) -> Answer<()> {
        let end = self.used.checked_add(bytes.len()).ok_or(Errno::BIG)?;
        self.text.get_mut(self.used..end).ok_or(Errno::BIG)?.copy_from_slice(bytes);
        self.used = end;
        Ok(())
    }

    fn put_escaped(&mut self, bytes: &[u8]) -> Answer<()> {
        for byte in bytes {
            if matches!(byte, b':' | b',' | b'\\') {
                self.put(b"\\")?;
            }
            self.put(&[*byte])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_in_paths_are_escaped() {
        let mut options = Options { text: [0; MAX_OPTIONS], used: 0 };
        options.put_escaped(b"/a:b,c\\d").expect("fits");
        assert_eq!(options.text.get(..options.used), Some(&b"/a\\:b\\,c\\\\d"[..]));
    }

    #[test]
    fn options_longer_than_a_page_are_refused() {
        let mut options = Options { text: [0; MAX_OPTIONS], used: 0 };
        assert_eq!(options.put(&[b'x'; MAX_OPTIONS]), Ok(()));
        assert_eq!(options.put(b"y"), Err(Errno::BIG));
    }
}
