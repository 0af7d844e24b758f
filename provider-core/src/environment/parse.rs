//! Reading a specification strictly: one clear error that names the place.

use serde::de::DeserializeOwned;

use crate::error::{Code, Error, Result};

/// The longest specification, in bytes. Content belongs into files beside it.
pub const SPEC_MAX: usize = 1 << 20;

/// The notation of a specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

impl Format {
    /// The notation that a file's name promises.
    ///
    /// # Errors
    /// [`Code::SpecInvalid`] for any other ending than `.toml` and `.json`.
    pub fn of_path(path: &std::path::Path) -> Result<Self> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("toml") => Ok(Format::Toml),
            Some("json") => Ok(Format::Json),
            _ => Err(Error::new(
                Code::SpecInvalid,
                format!("{} is neither a .toml nor a .json file", path.display()),
            )),
        }
    }
}

/// Reads `what`, such as `the specification`.
pub(super) fn parse<T: DeserializeOwned>(what: &str, text: &str, format: Format) -> Result<T> {
    if text.len() > SPEC_MAX {
        return Err(too_long(what, text.len() as u64));
    }
    match format {
        Format::Json => {
            let mut reader = serde_json::Deserializer::from_str(text);
            let read = deserialize(what, &mut reader, |error: &serde_json::Error| error.to_string())?;
            // What follows the document would otherwise be passed over.
            reader.end().map_err(|error| invalid(what, &error.to_string()))?;
            Ok(read)
        }
        Format::Toml => {
            let reader =
                toml::Deserializer::parse(text).map_err(|error| invalid(what, &with_line(text, &error)))?;
            deserialize(what, reader, |error: &toml::de::Error| with_line(text, error))
        }
    }
}

pub(super) fn too_long(what: &str, len: u64) -> Error {
    Error::new(Code::SpecInvalid, format!("{what} has {len} bytes, and {SPEC_MAX} are allowed"))
        .with_advice("a specification's content belongs into files beside it, which contentRef names")
}

fn deserialize<'de, T, D>(what: &str, reader: D, words: impl Fn(&D::Error) -> String) -> Result<T>
where
    T: DeserializeOwned,
    D: serde::Deserializer<'de>,
{
    serde_path_to_error::deserialize(reader).map_err(|error| {
        let path = error.path().to_string();
        let words = words(error.inner());
        match path.as_str() {
            "." => invalid(what, &words),
            _ => invalid(what, &format!("{path}: {words}")),
        }
    })
}

fn invalid(what: &str, words: &str) -> Error {
    Error::new(Code::SpecInvalid, format!("{what} cannot be read: {words}"))
}

/// The library's own text spans several lines and quotes the input, which may hold a secret.
fn with_line(text: &str, error: &toml::de::Error) -> String {
    let place = error.span().map(|span| {
        let before = text.get(..span.start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        format!(" at line {line} column {column}")
    });
    format!("{}{}", error.message(), place.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::EnvironmentSpec;

    const GOOD: &str = "[metadata]\nname = \"hello\"\n[spec.env]\nGREETING = \"hi\"\n";

    fn error(text: &str, format: Format) -> Error {
        EnvironmentSpec::parse(text, format).expect_err("it was accepted")
    }

    #[test]
    fn the_same_specification_in_both_notations_has_the_same_digest() {
        let toml = EnvironmentSpec::parse(GOOD, Format::Toml).unwrap();
        let crlf = EnvironmentSpec::parse(&GOOD.replace('\n', "\r\n"), Format::Toml).unwrap();
        let json = r#"{"spec":{"env":{"GREETING":"hi"}},"metadata":{"name":"hello"}}"#;
        let json = EnvironmentSpec::parse(json, Format::Json).unwrap();
        assert_eq!(toml, json);
        assert_eq!(toml.digest().unwrap(), crlf.digest().unwrap());
        let written = serde_json::to_string(&toml).unwrap();
        assert_eq!(EnvironmentSpec::parse(&written, Format::Json).unwrap(), toml);
    }

    #[test]
    fn each_wrong_input_is_refused_with_its_place() {
        let nested = |open: &str| open.repeat(10_000);
        let cases = [
            (Format::Toml, format!("{GOOD}[surprise]\n"), "surprise"),
            (Format::Toml, GOOD.replace("GREETING = \"hi\"", "GREETING = 7"), "spec.env.GREETING"),
            (Format::Toml, format!("{GOOD}GREETING = \"again\"\n"), "line 5"),
            (Format::Toml, format!("x = {}", nested("[")), "line 1"),
            (Format::Toml, GOOD.replace("hello", "hel\0lo"), "line 2"),
            (Format::Toml, "a".repeat(SPEC_MAX + 1), "bytes"),
            (Format::Toml, String::new(), "metadata"),
            (Format::Json, r#"{"metadata":{"name":"a"},"metadata":{"name":"b"}}"#.into(), "duplicate field"),
            (
                Format::Json,
                r#"{"metadata":{"name":"a"},"spec":{"env":{"A":"1","A":"2"}}}"#.into(),
                "duplicate key \"A\"",
            ),
            (Format::Json, r#"{"metadata":{"name":"a","extra":1}}"#.into(), "extra"),
            (Format::Json, r#"{"metadata":{"name":["a"]}}"#.into(), "metadata.name"),
            (Format::Json, r#"{"metadata":{"name":"a"}} x"#.into(), "trailing"),
            (Format::Json, nested("["), "column"),
            (Format::Json, format!(r#"{{"metadata":{}"#, nested("{\"a\":")), "column"),
            (Format::Json, r#"{"metadata":{"name":"a"},"spec":{"env":{"A":"\u0000"}}}"#.into(), "spec.env.A"),
        ];
        for (format, text, place) in cases {
            let error = error(&text, format);
            assert_eq!(error.code(), Code::SpecInvalid);
            assert!(error.message().contains(place), "{place:?} is not in: {error}");
            assert!(!error.to_string().contains('\n') && error.to_string().len() < 600, "{error}");
        }
    }
}
