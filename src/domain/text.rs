//! Making foreign text safe to store, to show and to send on.
//!
//! Postgres refuses NUL in `text`, terminals obey escape sequences, and bidirectional overrides
//! make a line read otherwise than it is. None of these carries meaning in a ticket.

/// Removes what must not travel (NUL, control characters other than newline and tab, bidirectional
/// overrides), turns `\r\n` into `\n`, trims, and keeps at most `chars_max` characters.
#[must_use]
pub fn clean(text: &str, chars_max: usize) -> String {
    let kept: String = text.replace("\r\n", "\n").chars().filter(|c| !is_harmful(*c)).collect();
    let trimmed = kept.trim();
    match trimmed.char_indices().nth(chars_max) {
        Some((end, _)) => trimmed[..end].trim_end().to_owned(),
        None => trimmed.to_owned(),
    }
}

/// [`clean`] for text that must stay on one line: newlines and tabs become single spaces.
#[must_use]
pub fn clean_line(text: &str, chars_max: usize) -> String {
    let flat: Vec<&str> = text.split_whitespace().collect();
    clean(&flat.join(" "), chars_max)
}

/// Keeps the head and the tail of a long text, with a marker between them, so that at most
/// `chars_max` characters remain. The second value says whether anything was cut.
///
/// The tail matters: people put the actual question last as often as first.
#[must_use]
pub fn cut_middle(text: &str, chars_max: usize) -> (String, bool) {
    const MARKER: &str = "\n[… cut …]\n";
    let total = text.chars().count();
    if total <= chars_max {
        return (text.to_owned(), false);
    }
    let room = chars_max.saturating_sub(MARKER.chars().count());
    let head = room * 3 / 4;
    let tail = room - head;
    let mut cut: String = text.chars().take(head).collect();
    cut.push_str(MARKER);
    cut.extend(text.chars().skip(total - tail));
    (cut, true)
}

fn is_harmful(c: char) -> bool {
    let bidi = matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    bidi || c == '\u{FEFF}' || (c.is_control() && c != '\n' && c != '\t')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nul_escape_and_override_characters_do_not_survive() {
        assert_eq!(clean("a\0b\u{1b}[31mc\u{202E}d\u{FEFF}", 99), "ab[31mcd");
    }

    #[test]
    fn newlines_and_tabs_survive_but_not_on_one_line() {
        assert_eq!(clean(" a\r\n\tb ", 99), "a\n\tb");
        assert_eq!(clean_line("a\r\n\tb  c", 99), "a b c");
    }

    #[test]
    fn a_long_text_keeps_its_head_and_its_tail() {
        let (cut, was_cut) = cut_middle(&format!("{}{}", "h".repeat(500), "t".repeat(500)), 100);
        assert!(was_cut && cut.starts_with('h') && cut.ends_with('t'));
        assert_eq!(cut.chars().count(), 100);
    }

    proptest! {
        #[test]
        fn cleaning_keeps_within_the_cap_and_is_idempotent(text in "\\PC*", cap in 0_usize..50) {
            let once = clean(&text, cap);
            prop_assert!(once.chars().count() <= cap);
            prop_assert_eq!(clean(&once, cap), once);
        }
    }
}
