//! How a secret is looked for without being sent.
//!
//! A probe is told of a text only its length, its SHA-256, and a polynomial fingerprint modulo a prime below 2^26. The
//! fingerprint can be moved along a file byte by byte, which a SHA-256 cannot; a window that has it is confirmed by
//! the SHA-256. It tells 26 bits about a text, and the SHA-256 lets a guess be confirmed: who reads the probe can
//! test guesses of a short secret, and cannot read a long one.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::hex::hex;

/// The modulus, a prime just below 2^26. Products of two residues stay below 2^53, which awk's numbers hold exactly.
pub const PRIME: u64 = (1 << 26) - 5;
/// The factor by which a byte counts more than the next one. Small, since awk's remainder is slow for large products.
pub const BASE: u64 = 29_713;

const _: () = assert!(BASE < PRIME && PRIME * PRIME < 1 << 53, "the fingerprint does not fit awk's numbers");

/// The fingerprint of these bytes.
pub fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| (sum * BASE + u64::from(*byte)) % PRIME)
}

/// What a probe is told about a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its length in bytes.
    pub length: usize,
    /// Its [`fingerprint`].
    pub fingerprint: u64,
    /// Its SHA-256, as small hexadecimal digits.
    pub sha256: String,
}

impl Wanted {
    /// What a probe is told about this text.
    pub fn of(text: &[u8]) -> Self {
        Self { length: text.len(), fingerprint: fingerprint(text), sha256: hex(Sha256::digest(text)) }
    }

    /// Whether the text is somewhere in these bytes, as the probe's search would find it.
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        let Some(last) = bytes.len().checked_sub(self.length) else {
            return false;
        };
        if self.length == 0 {
            return true;
        }
        let leaving = (1..self.length).fold(1, |power, _| power * BASE % PRIME);
        let mut sum = fingerprint(&bytes[..self.length]);
        for start in 0..=last {
            let window = &bytes[start..start + self.length];
            if sum == self.fingerprint && hex(Sha256::digest(window)) == self.sha256 {
                return true;
            }
            if let Some(entering) = bytes.get(start + self.length) {
                sum = (sum + PRIME * 256 - u64::from(window[0]) * leaving % PRIME) * BASE
                    + u64::from(*entering);
                sum %= PRIME;
            }
        }
        false
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.length, self.fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_modulus_is_a_prime() {
        assert!((2..9000).all(|factor| !PRIME.is_multiple_of(factor)));
    }

    #[test]
    fn a_text_is_known_by_length_fingerprint_and_hash() {
        let wanted = Wanted::of(b"abc");
        assert_eq!(wanted.fingerprint, ((97 * BASE + 98) * BASE + 99) % PRIME);
        assert_eq!(wanted.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(wanted.to_string(), format!("3:{}", wanted.fingerprint));
    }

    #[test]
    fn an_equal_fingerprint_alone_is_no_match() {
        let mut wanted = Wanted::of(b"abcdefgh");
        assert!(wanted.is_in(b"..abcdefgh.."));
        wanted.sha256 = Wanted::of(b"other").sha256;
        assert!(!wanted.is_in(b"..abcdefgh.."));
    }

    proptest! {
        #[test]
        fn the_rolling_search_agrees_with_a_plain_one(
            text in proptest::collection::vec(0u8..4, 1..6),
            bytes in proptest::collection::vec(0u8..4, 0..200),
        ) {
            let plain = bytes.windows(text.len()).any(|window| window == text);
            prop_assert_eq!(Wanted::of(&text).is_in(&bytes), plain);
        }
    }
}
