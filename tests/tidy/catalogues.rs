//! The lists in the documents against the code: error codes, settings, metrics.

use std::collections::BTreeSet;

use crate::files::{SourceFile, document, rust_files};
use crate::source::Token;

/// The code of one file; nothing while the service does not have that part.
fn code_of(path: &str) -> Vec<Token> {
    let found = rust_files("src").iter().find(|file| file.path == path).map(SourceFile::code);
    found.unwrap_or_else(|| panic!("{path} is where a catalogue is looked for; if it moved, say so here"))
}

/// The words of the stable error codes: what an arm of a match gives first.
fn error_codes(code: &[Token]) -> BTreeSet<String> {
    let is_word = |text: &str| {
        !text.is_empty() && text.split('-').all(|part| part.bytes().all(|letter| letter.is_ascii_lowercase()))
    };
    let arms = code.windows(2).enumerate().filter(|(_, pair)| pair[0].is('=') && pair[1].is('>'));
    let firsts =
        arms.filter_map(|(at, _)| code[at + 2..].iter().find(|token| !token.is('{') && !token.is('(')));
    let texts = firsts.filter_map(|token| match token {
        Token::Text(text) if is_word(text) => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

/// The names in the table of settings: the strings in capitals.
fn settings(code: &[Token]) -> BTreeSet<String> {
    let is_name = |text: &str| {
        text.contains('_')
            && text.bytes().all(|letter| matches!(letter, b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'<' | b'>'))
    };
    let texts = code.iter().filter_map(|token| match token {
        Token::Text(text) if is_name(text) => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

fn needed(path: &str) -> String {
    document(path).unwrap_or_else(|| panic!("{path} is missing: it has to list what the code has"))
}

/// The headings below the title, without back-ticks.
fn headings(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| line.starts_with("##"));
    lines.map(|line| line.trim_start_matches('#').trim().trim_matches('`').to_owned()).collect()
}

/// Every word of a text that starts so, in its letters, digits and underscores.
fn words_with(text: &str, start: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_part(letter));
    words.filter(|word| word.starts_with(start) && word.len() > start.len()).map(str::to_owned).collect()
}

/// The names that metrics macros are given.
fn metric_names(code: &[Token]) -> BTreeSet<String> {
    let is_macro = |token: &Token| {
        token.word().is_some_and(|word| {
            let kind = word.trim_start_matches("describe_");
            matches!(kind, "counter" | "gauge" | "histogram")
        })
    };
    let named = code.windows(4).filter_map(|window| match window {
        [name, Token::Sign('!'), Token::Sign('('), Token::Text(text)] if is_macro(name) => Some(text.clone()),
        _ => None,
    });
    named.collect()
}

/// Whether a name is one of the settings, whose `<NAME>` stands for anything; `_FILE` names a file
/// that holds the value.
fn is_setting(name: &str, settings: &BTreeSet<String>) -> bool {
    let fits = |name: &str| {
        settings.iter().any(|setting| match setting.split_once('<') {
            None => name == setting,
            Some((start, _)) => name.starts_with(start) && name.len() > start.len(),
        })
    };
    fits(name) || name.strip_suffix("_FILE").is_some_and(fits)
}

#[test]
fn every_error_code_has_a_section_and_every_section_a_code() {
    let code = code_of("src/http/problem.rs");
    let codes = error_codes(&code);
    assert!(codes.len() > 3, "the codes are not where they are looked for: {codes:?}");

    let sections = headings(&needed("docs/ERRORS.md"));

    let is_code = |heading: &&String| !heading.contains(' ') && heading.to_lowercase() == **heading;
    assert_eq!(codes.difference(&sections).collect::<Vec<_>>(), [""; 0], "codes without a section");
    let strays: Vec<_> =
        sections.iter().filter(is_code).filter(|heading| !codes.contains(*heading)).collect();
    assert_eq!(strays, [""; 0], "sections without a code");
}

#[test]
fn every_setting_is_in_the_documents_and_the_documents_name_no_other() {
    let code = code_of("src/config/variables.rs");
    let settings = settings(&code);
    assert!(settings.len() > 3, "the settings are not where they are looked for: {settings:?}");

    for path in ["docs/CONFIGURATION.md", ".env.example"] {
        let text = needed(path);
        let missing: Vec<&String> = settings.iter().filter(|name| !mentions(&text, name)).collect();
        assert_eq!(missing, [""; 0], "not in {path}");
    }
    for path in ["docs/CONFIGURATION.md", ".env.example", "README.md"] {
        let named = words_with(&needed(path), "HOOKTRIAGE_");
        let unknown: Vec<&String> =
            named.iter().filter(|name| !name.ends_with('_') && !is_setting(name, &settings)).collect();
        assert_eq!(unknown, [""; 0], "named in {path}, but not a setting");
    }
}

/// Whether a text names a setting: as it is, or, where `<NAME>` stands for anything, an example.
fn mentions(text: &str, name: &str) -> bool {
    let start = name.split('<').next().unwrap_or(name);
    text.contains(name) || (start != name && !words_with(text, start).is_empty())
}

#[test]
fn every_metric_is_in_the_document_and_the_document_names_no_other() {
    let in_code: BTreeSet<String> =
        rust_files("src").iter().flat_map(|file| metric_names(&file.code())).collect();

    assert!(in_code.len() > 3, "the metrics are not where they are looked for: {in_code:?}");
    let text = needed("docs/METRICS.md");

    let in_text = words_with(&text, "hooktriage_");
    assert_eq!(in_code.difference(&in_text).collect::<Vec<_>>(), [""; 0], "not in docs/METRICS.md");
    let is_known = |name: &String| {
        let parts = ["_bucket", "_sum", "_count"].into_iter().filter_map(|part| name.strip_suffix(part));
        in_code.contains(name) || parts.into_iter().any(|whole| in_code.contains(whole))
    };
    let unknown: Vec<_> = in_text.iter().filter(|name| !is_known(name)).collect();
    assert_eq!(unknown, [""; 0], "in docs/METRICS.md, but not in the code");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tokens;

    #[test]
    fn the_names_of_metrics_are_those_that_the_macros_get() {
        let text = "metrics::counter!(\"hooktriage_a_total\", \"k\" => \"hooktriage_x\"); gauge!(\n\"hooktriage_b\");
                    describe_histogram!(\"hooktriage_c\"); const CHANNEL: &str = \"hooktriage_wake\";";

        let names = metric_names(&tokens(text));
        assert_eq!(
            names.into_iter().collect::<Vec<_>>(),
            ["hooktriage_a_total", "hooktriage_b", "hooktriage_c"]
        );
    }

    #[test]
    fn headings_are_read_without_their_marks() {
        let found = headings("# Errors\n## `body-invalid`\ntext\n### job-unknown\n## How to read this\n");

        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            ["How to read this", "body-invalid", "job-unknown"]
        );
    }

    #[test]
    fn error_codes_are_what_the_arms_give_first() {
        let text =
            "match self { Self::A => { (\"body-invalid\", X, \"The body\") } Self::B => (\"internal\", Y),
                    Self::C => \"job-unknown\", Self::D => \"Not a code\", _ => other(\"stray\") }";

        let codes = error_codes(&tokens(text));
        assert_eq!(codes.into_iter().collect::<Vec<_>>(), ["body-invalid", "internal", "job-unknown"]);
    }

    #[test]
    fn a_setting_is_known_by_name_by_pattern_or_as_a_file() {
        let table = "const T: &[V] = &[plain(\"HOOKTRIAGE_LISTEN\", \"127.0.0.1\"), V { name: \"HOOKTRIAGE_SECRET_<NAME>\" }];";
        let settings = settings(&tokens(table));

        for name in ["HOOKTRIAGE_LISTEN", "HOOKTRIAGE_SECRET_GITHUB", "HOOKTRIAGE_SECRET_GITHUB_FILE"] {
            assert!(is_setting(name, &settings), "{name}");
        }
        for name in ["HOOKTRIAGE_LISTENER", "HOOKTRIAGE_SECRET", "HOOKTRIAGE_SECRET_"] {
            assert!(!is_setting(name, &settings), "{name}");
        }
    }

    #[test]
    fn a_pattern_is_mentioned_by_itself_or_by_an_example() {
        assert!(mentions("set HOOKTRIAGE_SECRET_GITHUB=…", "HOOKTRIAGE_SECRET_<NAME>"));
        assert!(mentions("`HOOKTRIAGE_SECRET_<NAME>`", "HOOKTRIAGE_SECRET_<NAME>"));
        assert!(!mentions("HOOKTRIAGE_LISTEN", "HOOKTRIAGE_SECRET_<NAME>"));
    }
}

/// The classes of failures that are made where they happen: `JobError::new("class", …)` and its sibling.
fn job_error_classes(code: &[Token]) -> BTreeSet<String> {
    let made = code.windows(5).filter_map(|window| match window {
        [name, Token::Join, new, Token::Sign('('), Token::Text(class)]
            if name.word() == Some("JobError") && matches!(new.word(), Some("new" | "caused_by")) =>
        {
            Some(class.clone())
        }
        _ => None,
    });
    made.collect()
}

#[test]
fn every_error_class_has_a_section() {
    let mut classes: BTreeSet<String> =
        rust_files("src").iter().flat_map(|file| job_error_classes(&file.code())).collect();
    assert!(classes.len() > 3, "the classes are not where they are looked for: {classes:?}");
    classes.extend(hooktriage::llm::CLASSES.iter().map(|class| (*class).to_owned()));

    let text = needed("docs/ERRORS.md");
    let without: Vec<&String> =
        classes.iter().filter(|class| !text.contains(&format!("### Class `{class}`"))).collect();
    assert_eq!(without, [""; 0], "classes without a section in docs/ERRORS.md");
}
