//! Whether a layer is still what was built.

use super::listing::Listing;
use super::manifest::{Entry, Head, Reader, order, shown};
use super::{Layer, Store, StoreError, files};
use rustix::fs::{Mode, OFlags};
use std::cmp::Ordering;
use std::fmt;
use std::fs::File;

/// How many differences are listed.
const LISTED: usize = 20;

/// One thing that is not as it was built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// What differs: a path from the layer's root, in which bytes that are not printed are `%` and two hexadecimal
    /// digits; or `manifest` or `meta.json`, the files beside it.
    pub path: String,
    /// How, in words: `content is ..., was ...`, `is missing`, `was added`, ...
    pub words: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.words)
    }
}

/// What of a layer differs from what was built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Differences {
    /// The first ones, at most 20: those of the manifest itself, and then in the order of the paths.
    pub listed: Vec<Difference>,
    /// How many there are.
    pub total: u64,
}

impl Differences {
    /// Whether the layer is as it was built.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    fn add(&mut self, path: impl Into<String>, words: impl Into<String>) {
        self.total += 1;
        if self.listed.len() < LISTED {
            self.listed.push(Difference { path: path.into(), words: words.into() });
        }
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.listed.first() {
            None => f.write_str("nothing differs"),
            Some(first) if self.total == 1 => first.fmt(f),
            Some(first) => write!(f, "{first} (and {} more)", self.total - 1),
        }
    }
}

impl Store {
    /// Compares a layer with its manifest, and the manifest with its digest. Reads all of the layer, and changes
    /// nothing.
    ///
    /// The content of a file that its own owner may not read is not compared, nor is what is in such a folder; only
    /// an ordinary user's layers can have these.
    ///
    /// # Errors
    /// The layer cannot be walked. One file that cannot be read is a difference.
    pub fn verify_layer(&self, layer: &Layer) -> Result<Differences, StoreError> {
        let mut differences = Differences::default();
        let path = layer.manifest_path();
        let unreadable = |error| StoreError::io("read", &path, error);
        let Some(file) = open(&path).map_err(unreadable)? else {
            differences.add("manifest", "is missing");
            return Ok(differences);
        };
        let mut manifest = Reader::new(file);
        let digest = manifest.digest().map_err(unreadable)?;
        if digest != layer.digest() {
            differences.add("manifest", format!("content is sha256 {digest}, was {}", layer.digest()));
        }
        match manifest.next::<Head>() {
            Ok(Some(head)) if head == layer.head() => {}
            Ok(_) => differences.add("meta.json", "does not say what the manifest says"),
            Err(reason) => differences.add("manifest", reason),
        }
        let files = layer.files();
        if !files::is_there(&files) {
            differences.add(".", "is missing");
            return Ok(differences);
        }
        let unlisted = |error| StoreError::io("list the layer", &files, error);
        let listing = Listing::of(&files).map_err(unlisted)?;
        compare(&mut manifest, listing, &mut differences).map_err(unlisted)?;
        Ok(differences)
    }
}

fn open(path: &std::path::Path) -> std::io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => Ok(Some(File::from(file))),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// One pass over both, side by side.
fn compare(
    manifest: &mut Reader,
    mut listing: Listing,
    differences: &mut Differences,
) -> std::io::Result<()> {
    let mut was = next_entry(manifest, differences);
    let mut is = listing.next()?;
    loop {
        let next = match (&was, &is) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(was), Some((path, _))) => order(&was.path, path),
        };
        match next {
            Ordering::Less => {
                differences.add(shown(&was.map(|was| was.path).unwrap_or_default()), "is missing");
                was = next_entry(manifest, differences);
            }
            Ordering::Greater => {
                differences.add(shown(&is.map(|(path, _)| path).unwrap_or_default()), "was added");
                is = listing.next()?;
            }
            Ordering::Equal => {
                if let (Some(was), Some((path, entry))) = (was, is) {
                    match entry {
                        Ok(is) => compare_entries(&was, &is, differences),
                        Err(error) => differences.add(shown(&path), format!("cannot be read: {error}")),
                    }
                }
                was = next_entry(manifest, differences);
                is = listing.next()?;
            }
        }
    }
}

/// A line that makes no sense counts as a difference, and its entry as missing.
fn next_entry(manifest: &mut Reader, differences: &mut Differences) -> Option<Entry> {
    loop {
        match manifest.next() {
            Ok(entry) => return entry,
            Err(reason) => differences.add("manifest", reason),
        }
    }
}

fn compare_entries(was: &Entry, is: &Entry, differences: &mut Differences) {
    if was == is {
        return;
    }
    let path = shown(&is.path);
    if was.kind != is.kind {
        differences.add(path, format!("is a {:?}, was a {:?}", is.kind, was.kind).to_lowercase());
        return;
    }
    let mut tell = |what: &str, is: String, was: String| {
        if is != was {
            differences.add(path.as_str(), format!("{what} is {is}, was {was}"));
        }
    };
    let number = |size: Option<u64>| size.map_or_else(|| "unknown".to_owned(), |size| size.to_string());
    let digest = |digest: &Option<String>| match digest {
        Some(digest) => format!("sha256 {digest}"),
        None => "unreadable".to_owned(),
    };
    let link = |target: &Option<Vec<u8>>| target.as_deref().map(shown).unwrap_or_default();
    tell("content", digest(&is.sha256), digest(&was.sha256));
    tell("size", number(is.size), number(was.size));
    tell("mode", is.mode.clone(), was.mode.clone());
    tell("owner", format!("{}:{}", is.uid, is.gid), format!("{}:{}", was.uid, was.gid));
    tell("link", link(&is.target), link(&was.target));
    let device = |device: &Option<String>| device.clone().unwrap_or_default();
    tell("device", device(&is.device), device(&was.device));
    let attributes = |entry: &Entry| format!("{:?}", entry.attributes);
    tell("attributes", attributes(is), attributes(was));
}
