//! From a completion, which is untrusted text, to a classification that may be acted on.
//!
//! The layers, outermost first: a code fence around the whole text, JSON or not, cut off or wrong,
//! fields and their types, labels and ranges. Nothing is searched for inside prose and nothing is
//! guessed: what fails a layer is asked for again or goes to a person.
//!
//! **Invariants**
//! - No error repeats the completion, except for a wrong label, cleaned and capped.

use serde_json::{Map, Value};
use thiserror::Error;

use crate::domain::{Candidate, Classification, ClassificationFault, Taxonomy};
use crate::llm::Failure;

/// Why a completion cannot be used.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum CompletionFault {
    /// The JSON ends before it is complete.
    #[error("the JSON is cut off after {chars} characters")]
    CutOff {
        /// How much there is.
        chars: usize,
    },
    /// No JSON at this place.
    #[error("no JSON object (line {line}, column {column})")]
    NotJson {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// JSON, but no object.
    #[error("the JSON is {0} and no object")]
    NotObject(&'static str),
    /// A field is not there.
    #[error("field {0:?} is missing")]
    Missing(&'static str),
    /// A field has the wrong type.
    #[error("field {field:?} is {found}, expected {expected}")]
    WrongType {
        /// Its name.
        field: &'static str,
        /// What it is.
        found: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// A label that does not exist, or a confidence that is no share.
    #[error(transparent)]
    Label(#[from] ClassificationFault),
}

impl From<CompletionFault> for Failure {
    fn from(fault: CompletionFault) -> Self {
        match fault {
            CompletionFault::CutOff { .. } => Self::OutputTruncated,
            other => Self::BadOutput(other.to_string()),
        }
    }
}

/// Reads a completion against a taxonomy.
///
/// # Errors
/// The first layer at which it fails.
pub fn parse(completion: &str, taxonomy: &Taxonomy) -> Result<Classification, CompletionFault> {
    Ok(Classification::check(&candidate(completion)?, taxonomy)?)
}

/// Reads the fields of a completion without believing them.
fn candidate(completion: &str) -> Result<Candidate, CompletionFault> {
    let object = object(strip_fence(completion.trim_start_matches('\u{FEFF}').trim()))?;
    Ok(Candidate {
        category: text(&object, "category")?,
        priority: text(&object, "priority")?,
        sentiment: text(&object, "sentiment")?,
        language: text(&object, "language")?,
        summary: text(&object, "summary")?,
        confidence: number(&object, "confidence")?,
        reasons: texts(&object, "reasons")?,
    })
}

fn object(json: &str) -> Result<Map<String, Value>, CompletionFault> {
    // Models write raw line breaks into strings, which JSON forbids. Between tokens they mean as
    // much as a space, so turning all of them into spaces changes nothing but those strings.
    let json = json.replace(|c: char| c < ' ', " ");
    match serde_json::from_str(&json) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(CompletionFault::NotObject(kind(&other))),
        Err(error) if error.is_eof() && !json.is_empty() => {
            Err(CompletionFault::CutOff { chars: json.chars().count() })
        }
        Err(error) => Err(CompletionFault::NotJson { line: error.line(), column: error.column() }),
    }
}

/// Takes off a code fence that encloses the whole text, and no other.
fn strip_fence(text: &str) -> &str {
    let Some(inner) = text.strip_prefix("```") else { return text };
    // What follows the opening fence on its line is a language, and nothing else may be.
    let Some((language, rest)) = inner.split_once('\n') else { return text };
    if !language.trim().chars().all(|c| c.is_ascii_alphanumeric()) {
        return text;
    }
    // A fence that was never closed belongs to a text that was cut off.
    rest.trim_end().strip_suffix("```").unwrap_or(rest).trim()
}

fn field<'a>(object: &'a Map<String, Value>, name: &'static str) -> Result<&'a Value, CompletionFault> {
    object.get(name).ok_or(CompletionFault::Missing(name))
}

fn text(object: &Map<String, Value>, name: &'static str) -> Result<String, CompletionFault> {
    let value = field(object, name)?;
    value.as_str().map(str::to_owned).ok_or_else(|| wrong_type(name, value, "a text"))
}

fn number(object: &Map<String, Value>, name: &'static str) -> Result<f64, CompletionFault> {
    let value = field(object, name)?;
    value.as_f64().ok_or_else(|| wrong_type(name, value, "a number"))
}

/// A list of texts. Grounds are for people: a missing list is an empty one.
fn texts(object: &Map<String, Value>, name: &'static str) -> Result<Vec<String>, CompletionFault> {
    let Some(value) = object.get(name).filter(|value| !value.is_null()) else { return Ok(Vec::new()) };
    let items = value.as_array().ok_or_else(|| wrong_type(name, value, "a list of texts"))?;
    let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
    texts.collect::<Option<_>>().ok_or_else(|| wrong_type(name, value, "a list of texts"))
}

fn wrong_type(field: &'static str, value: &Value, expected: &'static str) -> CompletionFault {
    CompletionFault::WrongType { field, found: kind(value), expected }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::triage::taxonomy::default_taxonomy;

    const GOOD: &str = r#"{"category":"billing","priority":"high","sentiment":"negative","language":"en",
        "summary":"Charged twice.","confidence":0.9,"reasons":["charged twice"]}"#;

    fn fault(completion: &str) -> CompletionFault {
        match parse(completion, &default_taxonomy()) {
            Err(fault) => fault,
            Ok(classification) => panic!("expected a fault, got {classification:?}"),
        }
    }

    #[test]
    fn a_good_completion_is_read_also_in_a_fence_around_all_of_it() {
        for wrapped in [
            GOOD.to_owned(),
            format!("\u{FEFF}\n {GOOD} \n"),
            format!("```json\n{GOOD}\n```"),
            format!("```\n{GOOD}\n```\n"),
        ] {
            let read = parse(&wrapped, &default_taxonomy());
            assert_eq!(read.map(|read| read.category), Ok("billing".to_owned()), "{wrapped}");
        }
    }

    #[test]
    fn a_fence_inside_prose_is_not_dug_for() {
        let prose = format!("Here is your answer:\n```json\n{GOOD}\n```");
        assert!(matches!(fault(&prose), CompletionFault::NotJson { .. }));
        assert!(matches!(fault(&format!("{GOOD} I hope this helps!")), CompletionFault::NotJson { .. }));
    }

    #[test]
    fn a_completion_that_was_cut_off_is_told_apart_from_a_bad_one() {
        for end in [10, 40, GOOD.len() - 1] {
            assert!(matches!(fault(&GOOD[..end]), CompletionFault::CutOff { .. }), "{end}");
            let fenced = format!("```json\n{}", &GOOD[..end]);
            assert!(matches!(fault(&fenced), CompletionFault::CutOff { .. }), "{end}");
        }
        assert_eq!(Failure::from(CompletionFault::CutOff { chars: 1 }), Failure::OutputTruncated);
        assert!(matches!(fault(""), CompletionFault::NotJson { .. }));
        assert!(matches!(fault("I cannot help with that."), CompletionFault::NotJson { .. }));
    }

    #[test]
    fn a_raw_line_break_inside_a_string_is_forgiven() {
        let broken = GOOD.replace("Charged twice.", "Charged\ntwice.");
        let read = parse(&broken, &default_taxonomy());
        assert_eq!(read.map(|read| read.summary), Ok("Charged twice.".to_owned()));
    }

    #[test]
    fn every_wrong_field_is_named_with_what_it_is() {
        let table = [
            (r#""category":"billing","#, "", CompletionFault::Missing("category")),
            (
                "0.9",
                "\"high\"",
                CompletionFault::WrongType { field: "confidence", found: "a text", expected: "a number" },
            ),
            (
                r#"["charged twice"]"#,
                "[1]",
                CompletionFault::WrongType { field: "reasons", found: "a list", expected: "a list of texts" },
            ),
            ("0.9", "9", CompletionFault::Label(ClassificationFault::ConfidenceOutOfRange(9.0))),
            (
                "\"billing\"",
                "\"Billing issue\"",
                CompletionFault::Label(ClassificationFault::UnknownCategory("Billing issue".into())),
            ),
        ];
        for (from, to, expected) in table {
            assert_eq!(fault(&GOOD.replace(from, to)), expected, "{from} -> {to}");
        }
        assert_eq!(fault("[]"), CompletionFault::NotObject("a list"));
    }

    #[test]
    fn more_keys_than_asked_for_do_no_harm() {
        let more = GOOD.replacen('{', r#"{"thoughts":{"deep":[1]},"#, 1);
        assert!(parse(&more, &default_taxonomy()).is_ok());
    }

    #[test]
    fn a_lone_surrogate_or_a_nul_reaches_no_classification() {
        assert!(matches!(fault(&GOOD.replace("Charged", "\\ud800")), CompletionFault::NotJson { .. }));
        let nul = parse(&GOOD.replace("Charged", "\\u0000Charged"), &default_taxonomy());
        assert_eq!(nul.map(|read| read.summary), Ok("Charged twice.".to_owned()));
    }

    proptest! {
        #[test]
        fn no_completion_makes_the_parser_panic_or_repeat_it(text in "\\PC{0,200}") {
            if let Err(fault) = parse(&text, &default_taxonomy()) {
                prop_assert!(fault.to_string().len() < 200);
            }
        }
    }
}
