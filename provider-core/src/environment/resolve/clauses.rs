//! The facts in an explanation of `uv`: who asks for what.

use std::{collections::BTreeSet, fmt};

use crate::environment::normalised;

/// One fact: somebody asks for a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Demand {
    /// A package that depends on it; absent means the Environment itself.
    pub(super) who: Option<String>,
    /// The requirement, such as `urllib3>=1.25.4,<2.1`.
    pub(super) what: String,
}

impl Demand {
    /// The package that is asked for.
    pub(super) fn name(&self) -> &str {
        name_of(&self.what)
    }
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.who {
            Some(who) => write!(f, "{} (of {who})", self.what),
            None => f.write_str(&self.what),
        }
    }
}

fn name_of(requirement: &str) -> &str {
    let end = requirement.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
    requirement.get(..end.unwrap_or(requirement.len())).unwrap_or_default()
}

/// The facts of all sentences, without what is concluded from them.
pub(super) fn demands(text: &str) -> Vec<Demand> {
    let text = without_braces(text);
    let mut demands = Vec::new();
    for sentence in sentences(&text) {
        let premises = sentence.split(", we can conclude").next().unwrap_or(sentence);
        let premises = premises.split(", which are incompatible").next().unwrap_or(premises);
        let mut you_ask = false;
        for fact in premises.split(" and ") {
            let fact = fact.trim().trim_end_matches([',', '.']);
            let depends = fact.split_once(" depends on ").or_else(|| fact.split_once(" depend on "));
            let asked =
                fact.strip_prefix("you require ").or_else(|| fact.strip_prefix("your project depends on "));
            let (who, what) = match (depends, asked) {
                (_, Some(what)) => (None, what),
                (Some((who, what)), None) => {
                    (Some(who.trim_start_matches("all versions of ").to_owned()), what)
                }
                // `you require a and b`, or a constraint, which stands alone.
                (None, None) if you_ask || fact.contains(['=', '<', '>']) => (None, fact),
                (None, None) => continue,
            };
            you_ask = who.is_none();
            let is_requirement =
                !what.contains(' ') && !name_of(what).is_empty() && name_of(what) != "Python";
            if is_requirement {
                demands.push(Demand { who, what: what.to_owned() });
            }
        }
    }
    demands
}

/// The parts of the text behind each `Because`, or all of it.
fn sentences(text: &str) -> Vec<&str> {
    let start = text.find("ecause ").map_or(0, |at| at + "ecause ".len());
    let start = match start {
        // Behind what is said in front of the only sentence.
        0 => text.find("you require ").unwrap_or(0),
        start => start,
    };
    text.get(start..).unwrap_or_default().split(". And because ").collect()
}

/// Markers behind names, such as `{python_full_version >= '3.10'}`, hold words that are none of ours.
fn without_braces(text: &str) -> String {
    let mut depth = 0_u32;
    text.chars()
        .filter(|c| {
            depth += u32::from(*c == '{');
            let outside = depth == 0;
            depth = depth.saturating_sub(u32::from(*c == '}'));
            outside
        })
        .collect()
}

/// Who asks for this package, in words.
pub(super) fn requirers(text: &str, name: &str) -> Option<String> {
    let all = demands(text).into_iter().filter(|demand| normalised(demand.name()) == normalised(name));
    let who: BTreeSet<String> = all.filter_map(|demand| demand.who).collect();
    (!who.is_empty()).then(|| who.into_iter().collect::<Vec<_>>().join(" and "))
}

/// Whether this requirement, as written, is one of the facts.
pub(super) fn names_requirement(text: &str, requirement: &str) -> bool {
    demands(text).iter().any(|demand| demand.what == requirement)
}

/// Two facts about one package that differ: the last such pair, since an explanation ends with what cannot be.
pub(super) fn pair(text: &str) -> Option<(Demand, Demand)> {
    let demands = demands(text);
    let named = |demand: &Demand| normalised(demand.name());
    let versions = |demand: &Demand| demand.what.contains(['=', '<', '>']);
    demands.iter().enumerate().rev().find_map(|(index, other)| {
        let mut earlier = demands.get(..index)?.iter();
        let one = earlier.find(|one| {
            named(one) == named(other) && one.what != other.what && versions(one) && versions(other)
        })?;
        Some((one.clone(), other.clone()))
    })
}

/// What is asked for where `uv` says only which versions there are.
pub(super) fn beyond_available(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("ecause only ")?;
    let (available, rest) = rest.split_once(' ')?;
    rest.starts_with("is available").then_some(())?;
    let name = normalised(name_of(available));
    let demand = demands(text)
        .into_iter()
        .find(|demand| normalised(demand.name()) == name && demand.what != available)?;
    Some(demand.what)
}
