//! `matrix list`

use std::fmt::Write as _;

use provider_core::contract::{SANDBOX_V1, checks::CORE_TIER};

use crate::{exit::Exit, providers, show};

pub(super) fn list() -> Exit {
    let mut text = format!("checks of {}:\n", SANDBOX_V1.name);
    for check in CORE_TIER {
        let note = if check.needs_language { "  (with a language)" } else { "" };
        let _ = writeln!(text, "  {:16}  {}{note}", check.id, check.question);
    }
    text += "\nproviders:\n";
    for id in providers::IDS {
        let _ = writeln!(text, "  {id}");
    }
    show::print(&text);
    Exit::Passed
}
