//! The paths that a file names, with the trees of `use` taken apart.

use crate::source::Token;

/// Every path that starts from a word: `use a::{b, c::d}` gives `a::b` and `a::c::d`.
pub(crate) fn paths(tokens: &[Token]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let after_join = index > 0 && tokens[index - 1] == Token::Join;
        let is_from_root = after_join && (index < 2 || !continues(&tokens[index - 2]));
        let is_start = tokens[index].word().is_some() && (!after_join || is_from_root);
        if is_start {
            let used = tree(&tokens[index..], &[], &mut found);
            index += used.max(1);
        } else {
            index += 1;
        }
    }
    found
}

/// Whether a `::` after this token goes on with what stands before it.
fn continues(token: &Token) -> bool {
    token.word().is_some() || token.is('>') || token.is('{')
}

/// Reads one path or tree, adds what it names and returns how many tokens it took.
fn tree(tokens: &[Token], prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut path = prefix.to_vec();
    let mut index = 0;
    while let Some(word) = tokens.get(index).and_then(Token::word) {
        path.push(word.to_owned());
        index += 1;
        if tokens.get(index) != Some(&Token::Join) {
            break;
        }
        index += 1;
        if tokens.get(index).is_some_and(|token| token.is('{')) {
            return index + group(&tokens[index..], &path, found);
        }
    }
    if path.len() > prefix.len() {
        found.push(path);
    }
    index
}

/// Reads `{a, b::c, *}` after a prefix.
fn group(tokens: &[Token], prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut index = 1;
    while let Some(token) = tokens.get(index) {
        if token.is('}') {
            return index + 1;
        }
        if token.word() == Some("as") {
            index += 2;
            continue;
        }
        index += tree(&tokens[index..], prefix, found).max(1);
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tokens;

    fn named(text: &str) -> Vec<String> {
        paths(&tokens(text)).iter().map(|path| path.join("::")).filter(|path| path.contains("::")).collect()
    }

    #[test]
    fn trees_of_use_are_taken_apart() {
        let text =
            "use crate::{domain::{Ticket, ids::EventId as Id}, queue::*, store};\nuse std::{env, fs::File};";

        assert_eq!(
            named(text),
            [
                "crate::domain::Ticket",
                "crate::domain::ids::EventId",
                "crate::queue",
                "crate::store",
                "std::env",
                "std::fs::File"
            ]
        );
    }

    #[test]
    fn paths_inside_code_and_attributes_are_found() {
        let text = "#[tokio::test] fn f(x: &::axum::Body) { let y = Vec::<reqwest::Client>::new(); a.b(sqlx::query!()) }";

        assert_eq!(named(text), ["tokio::test", "axum::Body", "reqwest::Client", "sqlx::query"]);
    }
}
