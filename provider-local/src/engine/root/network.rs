//! What a box needs to use this machine's network: names, hosts, certificates.

use super::mask::Mask;
use crate::helper::plan::Owner;
use std::fs;
use std::path::Path;

/// Where distributions keep the bundle of certificate authorities.
const BUNDLES: &[&str] = &[
    "etc/ssl/certs/ca-certificates.crt",
    "etc/pki/tls/certs/ca-bundle.crt",
    "etc/ssl/cert.pem",
    "etc/ssl/ca-bundle.pem",
];

const READABLE: Owner = Owner { mode: 0o644, uid: 0, gid: 0 };

/// Puts resolv.conf, hosts, hostname and, where the base has none, the certificates of this machine into the
/// mask.
pub(crate) fn describe(mask: &mut Mask, base: &Path, hostname: &str) {
    if let Ok(text) = fs::read("/etc/resolv.conf") {
        mask.file("etc/resolv.conf", READABLE, text);
    }
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_else(|_| "127.0.0.1 localhost\n".to_owned());
    mask.file("etc/hosts", READABLE, with_host(&hosts, hostname));
    mask.file("etc/hostname", READABLE, format!("{hostname}\n"));
    let base_has_some = BUNDLES.iter().any(|path| base.join(path).exists());
    if !base_has_some && base != Path::new("/") {
        let bundle = BUNDLES.iter().find_map(|path| fs::read(Path::new("/").join(path)).ok());
        if let (Some(bundle), Some(place)) = (bundle, BUNDLES.first()) {
            mask.file(place, READABLE, bundle);
        }
    }
}

/// The host table, with a line for the box itself.
fn with_host(hosts: &str, hostname: &str) -> String {
    let named = hosts.lines().any(|line| {
        let line = line.split('#').next().unwrap_or_default();
        line.split_whitespace().skip(1).any(|name| name == hostname)
    });
    let mut text = hosts.to_owned();
    if !named {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("127.0.0.1 {hostname}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::with_host;

    #[test]
    fn the_box_finds_itself() {
        assert_eq!(with_host("127.0.0.1 localhost", "box"), "127.0.0.1 localhost\n127.0.0.1 box\n");
        assert_eq!(with_host("127.0.0.1 a box # x\n", "box"), "127.0.0.1 a box # x\n");
        assert_eq!(with_host("127.0.0.1 a # box\n", "box"), "127.0.0.1 a # box\n127.0.0.1 box\n");
    }
}
