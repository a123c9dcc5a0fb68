//! The glossary in code and SQL: one word for one thing. `docs/GLOSSARY.md` explains the words.

use crate::files::{migrations, rust_files};
use crate::source::{Token, tokens};

/// A word that is not used, the one that is, and the paths where it is the right one after all,
/// since a provider calls its own things so.
const NOT_USED: [(&str, &str, &[&str]); 10] = [
    ("issue", "ticket", &["ingest/source", "ingest/tests", "routing/github", "simulator/deliveries"]),
    ("issues", "tickets", &["ingest/source", "ingest/tests", "routing/github", "simulator/deliveries"]),
    ("redrive", "replay", &[]),
    ("dlq", "dead_letter", &[]),
    ("deadletter", "dead_letter", &[]),
    ("prediction", "classification", &[]),
    ("predicted", "classified", &[]),
    ("utils", "a name that says what it is", &[]),
    ("helper", "a name that says what it is", &[]),
    ("manager", "a name that says what it does", &[]),
];

/// The parts of a name: `openIssue_count` gives open, issue, count.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        if letter == '_' || (letter.is_uppercase() && was_lower) {
            parts.push(String::new());
        }
        was_lower = letter.is_lowercase() || letter.is_ascii_digit();
        if let Some(last) = parts.last_mut().filter(|_| letter != '_') {
            last.extend(letter.to_lowercase());
        }
    }
    parts
}

/// The words of `names` that the glossary has another one for.
fn wrong_words<'name>(path: &str, names: impl Iterator<Item = &'name str>) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        for part in parts(name) {
            let wrong = NOT_USED.iter().find(|(word, _, fine_in)| {
                *word == part && !fine_in.iter().any(|place| path.contains(place))
            });
            if let Some((word, instead, _)) = wrong {
                found.push(format!("{path}: `{name}` has the word `{word}`; the glossary says {instead}"));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The words of SQL without comments and strings.
fn sql_words(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split("--").next().unwrap_or_default());
    let code = lines.collect::<Vec<_>>().join("\n");
    let outside = code.split('\'').step_by(2).collect::<Vec<_>>().join(" ");
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    outside.split(|letter| !is_part(letter)).map(str::to_owned).collect()
}

#[test]
fn code_and_schema_use_the_words_of_the_glossary() {
    let mut found = Vec::new();
    for file in rust_files("src") {
        let code = file.code();
        found.extend(wrong_words(&file.path, code.iter().filter_map(Token::word)));
    }
    for file in migrations() {
        found.extend(wrong_words(&file.path, sql_words(&file.text).iter().map(String::as_str)));
    }

    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn names_are_taken_apart_at_underscores_and_capitals() {
    assert_eq!(parts("open_issue_count"), ["open", "issue", "count"]);
    assert_eq!(parts("OpenIssue"), ["open", "issue"]);
    assert_eq!(parts("tissue"), ["tissue"]);
}

#[test]
fn a_wrong_word_is_found_in_code_and_not_in_text_or_where_it_is_right() {
    let words = |path: &str, text: &str| {
        let tokens = tokens(text);
        wrong_words(path, tokens.iter().filter_map(Token::word)).len()
    };

    assert_eq!(words("src/queue/mod.rs", "fn redrive_dlq(issue: Issue) {}"), 4);
    assert_eq!(words("src/queue/mod.rs", "// an issue\nconst A: &str = \"issue\";"), 0);
    assert_eq!(words("src/ingest/source/github.rs", "struct Issue;"), 0);
    assert_eq!(
        wrong_words(
            "m.sql",
            sql_words("-- dlq\ncreate table dlq (x text default 'dlq')").iter().map(String::as_str)
        )
        .len(),
        1
    );
}
