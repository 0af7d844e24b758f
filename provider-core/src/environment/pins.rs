//! Packages that every artifact with a language carries, whatever an Environment asks for.

/// One exact file of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinnedPackage {
    /// The package's normalised name.
    pub name: &'static str,
    /// The version.
    pub version: &'static str,
    /// The versions that an Environment may ask for, for the words of a refusal.
    pub supported: &'static str,
    /// The file's name on an index.
    pub file: &'static str,
    /// The file's SHA-256.
    pub sha256: &'static str,
}

/// The installer that each artifact with a language carries. It is a pure Python package for Python 3.9 and later, so
/// that one file serves everywhere, and a base without any installer can run it from its file.
pub const PIP: PinnedPackage = PinnedPackage {
    name: "pip",
    version: "26.0.1",
    supported: "==26.0.1",
    file: "pip-26.0.1-py3-none-any.whl",
    sha256: "bdb1b08f4274833d62c1aa29e20907365a2ceb950410df15fc9521bad440122b",
};

/// The packages that are pinned in every resolution.
pub const PROTECTED: [PinnedPackage; 1] = [PIP];
