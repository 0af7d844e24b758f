//! Takes values of secrets out of words.

use crate::secret::{Secret, SecretSet};

/// What stands in place of a value.
const MARK: &str = "[secret]";

/// The text with each value of a secret replaced, also where it is escaped as Rust and JSON escape text.
pub(super) fn scrub(secrets: &SecretSet, text: &str) -> String {
    let mut forms: Vec<String> = secrets.iter().flat_map(|(_, secret)| forms(secret)).collect();
    // The longest first, so that a secret inside another leaves no rest of the other.
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms.iter().fold(text.to_owned(), |text, form| text.replace(form, MARK))
}

/// Whether the value is in the text, plain or escaped.
pub(super) fn holds(secret: &Secret, text: &str) -> bool {
    forms(secret).iter().any(|form| text.contains(form))
}

/// The value as it can look in a text.
fn forms(secret: &Secret) -> Vec<String> {
    let value = secret.expose();
    let quoted = format!("{value:?}");
    let debug = quoted[1..quoted.len() - 1].to_owned();
    let twice = format!("{debug:?}");
    let mut forms = vec![
        value.to_owned(),
        // An escaped text in a quoted text.
        twice[1..twice.len() - 1].to_owned(),
        debug,
        value.escape_default().to_string(),
        value.replace('\\', "\\\\").replace('"', "\\\""),
        // White space is folded where a text is put on one line.
        value.split_whitespace().collect::<Vec<_>>().join(" "),
    ];
    // Folding may leave nothing, which is in every text.
    forms.retain(|form| form.len() >= 4);
    forms.dedup();
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(values: &[&str]) -> SecretSet {
        let mut set = SecretSet::new();
        for (number, value) in values.iter().enumerate() {
            set.insert(number.to_string(), *value).unwrap();
        }
        set
    }

    #[test]
    fn a75_a_value_is_taken_out_however_it_is_escaped() {
        let value = "ca\"na\\ry  é'4711";
        let set = secrets(&[value]);
        let json = serde_json::to_string(value).unwrap();
        let folded = "ca\"na\\ry é'4711";
        for text in [
            value.to_owned(),
            format!("{value:?}"),
            format!("{:?}", format!("{value:?}")),
            value.escape_default().to_string(),
            json,
            folded.to_owned(),
        ] {
            let clean = scrub(&set, &format!("x{text}y"));
            assert!(!clean.contains("4711") && clean.contains(MARK), "{text} -> {clean}");
            assert!(holds(set.get("0").unwrap(), &text), "{text}");
        }
        assert!(!holds(set.get("0").unwrap(), "canary 4711"));
    }

    #[test]
    fn a_secret_inside_another_leaves_no_rest() {
        let clean = scrub(&secrets(&["canary-1", "my-canary-1-long"]), "a my-canary-1-long b canary-1");
        assert_eq!(clean, "a [secret] b [secret]");
    }

    #[test]
    fn blank_secrets_leave_text_as_it_is() {
        assert_eq!(scrub(&secrets(&["          "]), "a b"), "a b");
    }
}
