//! A Rust file as tokens: enough of the grammar to tell code from comments, strings and tests.

use std::iter::Peekable;
use std::str::Chars;

/// A piece of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A word; a raw one without its `r#`.
    Word(String),
    /// What a string literal holds, escapes as written.
    Text(String),
    /// `::`
    Join,
    /// Anything else that is not space.
    Sign(char),
}

impl Token {
    pub(crate) fn is(&self, sign: char) -> bool {
        *self == Self::Sign(sign)
    }

    pub(crate) fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// The tokens of a file; comments are gone.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let mut rest = text.chars().peekable();
    let mut found = Vec::new();
    while let Some(letter) = rest.next() {
        match letter {
            '/' if rest.peek() == Some(&'/') => skip_line(&mut rest),
            '/' if rest.peek() == Some(&'*') => skip_block(&mut rest),
            '"' => found.push(Token::Text(quoted(&mut rest))),
            '\'' => skip_letter(&mut rest),
            ':' if rest.next_if_eq(&':').is_some() => found.push(Token::Join),
            _ if letter.is_alphanumeric() || letter == '_' => word(letter, &mut rest, &mut found),
            _ if letter.is_whitespace() => {}
            _ => found.push(Token::Sign(letter)),
        }
    }
    found
}

fn skip_line(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if(|letter| *letter != '\n').is_some() {}
}

/// Block comments nest.
fn skip_block(rest: &mut Peekable<Chars<'_>>) {
    rest.next();
    let mut depth = 1;
    while depth > 0 {
        match rest.next() {
            Some('/') if rest.next_if_eq(&'*').is_some() => depth += 1,
            Some('*') if rest.next_if_eq(&'/').is_some() => depth -= 1,
            Some(_) => {}
            None => return,
        }
    }
}

fn quoted(rest: &mut Peekable<Chars<'_>>) -> String {
    let mut text = String::new();
    while let Some(letter) = rest.next() {
        match letter {
            '"' => break,
            '\\' => {
                text.push('\\');
                text.extend(rest.next());
            }
            _ => text.push(letter),
        }
    }
    text
}

/// A letter literal such as `'"'` or `'\u{1F}'`, or the tick of a lifetime, which is a word after it.
fn skip_letter(rest: &mut Peekable<Chars<'_>>) {
    if rest.next_if_eq(&'\\').is_some() {
        rest.next();
        while rest.next_if(|letter| *letter != '\'').is_some() {}
        rest.next();
        return;
    }
    let mut ahead = rest.clone();
    ahead.next();
    if ahead.next() == Some('\'') {
        rest.next();
        rest.next();
    }
}

/// A word, or the string that `r`, `b`, `br`, `c` or `cr` begins.
fn word(first: char, rest: &mut Peekable<Chars<'_>>, found: &mut Vec<Token>) {
    let mut word = String::from(first);
    while let Some(letter) = rest.next_if(|letter| letter.is_alphanumeric() || *letter == '_') {
        word.push(letter);
    }
    let is_prefix = matches!(word.as_str(), "r" | "b" | "br" | "c" | "cr");
    if is_prefix && let Some(text) = prefixed(rest, word.contains('r')) {
        found.push(Token::Text(text));
    } else if !(word == "r" && rest.next_if_eq(&'#').is_some()) {
        found.push(Token::Word(word));
    }
}

/// The string after a prefix, if one follows: raw with any number of `#`, or with escapes.
fn prefixed(rest: &mut Peekable<Chars<'_>>, is_raw: bool) -> Option<String> {
    let mut ahead = rest.clone();
    let mut marks = 0;
    while is_raw && ahead.next_if_eq(&'#').is_some() {
        marks += 1;
    }
    ahead.next_if_eq(&'"')?;
    *rest = ahead;
    if !is_raw {
        return Some(quoted(rest));
    }
    let end = format!("\"{}", "#".repeat(marks));
    let mut text = String::new();
    while !text.ends_with(&end) {
        text.push(rest.next()?);
    }
    text.truncate(text.len() - end.len());
    Some(text)
}

/// Leaves out every item under `#[cfg(test)]`.
pub(crate) fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    let mark: Vec<Token> = crate::source::tokens("#[cfg(test)]");
    let mut kept = Vec::new();
    let mut rest = tokens.as_slice();
    while let Some((first, after)) = rest.split_first() {
        if let Some(after_mark) = rest.strip_prefix(mark.as_slice()) {
            rest = after_item(after_mark);
        } else {
            kept.push(first.clone());
            rest = after;
        }
    }
    kept
}

/// An item ends at a semicolon outside of brackets or with the bracket that closes its body.
fn after_item(tokens: &[Token]) -> &[Token] {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign('{' | '(' | '[') => depth += 1,
            Token::Sign('}') if depth == 1 => return &tokens[index + 1..],
            Token::Sign('}' | ')' | ']') => depth = depth.saturating_sub(1),
            Token::Sign(';') if depth == 0 => return &tokens[index + 1..],
            _ => {}
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        tokens(text).iter().filter_map(Token::word).map(str::to_owned).collect()
    }

    #[test]
    fn comments_are_not_code() {
        assert_eq!(words("a // sqlx\nb /* axum /* x */ y */ c //! z"), ["a", "b", "c"]);
    }

    #[test]
    fn strings_are_not_words_whatever_they_hold() {
        let text = r####"a "x \" // y" b r"\" c r#"q " z"# d b"k" e br##"m "# n"## f"####;

        assert_eq!(words(text), ["a", "b", "c", "d", "e", "f"]);
    }

    #[test]
    fn letters_and_lifetimes_are_told_apart() {
        let text = r#"fn f<'a>(x: &'a str) { '"'; '\''; '\u{1F}'; 'é' } "s" g"#;

        assert_eq!(words(text), ["fn", "f", "a", "x", "a", "str", "g"]);
    }

    #[test]
    fn a_raw_word_loses_its_mark() {
        assert_eq!(words("r#type x"), ["type", "x"]);
    }

    #[test]
    fn items_under_test_are_left_out_and_their_neighbours_are_not() {
        let text = "use a; #[cfg(test)] use b::{c}; fn d() {} #[cfg(test)] #[expect(x)] mod tests { fn e() { {} } } \
                    #[cfg(test)] mod f; struct G;";

        let kept = without_tests(tokens(text));
        let kept: Vec<&str> = kept.iter().filter_map(Token::word).collect();
        assert_eq!(kept, ["use", "a", "fn", "d", "struct", "G"]);
    }
}
