//! Amounts, each in a type that carries its unit.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Code, Error, Result};

macro_rules! amount {
    ($(#[$doc:meta])* $name:ident, $unit:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{} ", $unit), self.0)
            }
        }

        impl From<$name> for u64 {
            fn from(amount: $name) -> u64 {
                amount.0
            }
        }
    };
}

amount!(
    /// Thousandths of a processor.
    MilliCpu,
    "mCPU"
);
amount!(
    /// Mebibytes (1,048,576 bytes).
    MiB,
    "MiB"
);

/// How a provider counts an amount: in steps, between two ends, all in the amount's own unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantum {
    /// The smallest amount.
    pub min: u64,
    /// The largest amount.
    pub max: u64,
    /// The step. Amounts are rounded up to it.
    pub step: u64,
}

impl Quantum {
    /// The smallest amount that the provider gives and that is at least `wanted`.
    ///
    /// # Errors
    /// [`Code::CapabilityUnsupported`] naming the largest amount, if `wanted` is more than that.
    pub fn round_up(&self, what: &str, wanted: u64) -> Result<u64> {
        let step = self.step.max(1);
        let steps = wanted.max(self.min).div_ceil(step);
        match steps.checked_mul(step) {
            Some(amount) if amount <= self.max => Ok(amount),
            _ => Err(Error::new(
                Code::CapabilityUnsupported,
                format!("{what} of {wanted} is more than the provider's {}", self.max),
            )),
        }
    }
}

/// What a sandbox asks for. An absent amount is the provider's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Processor time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<MilliCpu>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MiB>,
    /// Writable disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<MiB>,
}

impl Resources {
    /// Whether nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_up_or_refused() {
        let quantum = Quantum { min: 512, max: 8192, step: 256 };
        for (wanted, given) in [(1, 512), (512, 512), (513, 768), (8192, 8192)] {
            assert_eq!(quantum.round_up("memory", wanted).unwrap(), given);
        }
        for wanted in [8193, u64::MAX] {
            let error = quantum.round_up("memory", wanted).unwrap_err();
            assert!(error.message().contains("8192"), "{error}");
        }
    }
}
