//! The newest words of a mail thread: without what it quotes and without signatures.

use std::sync::LazyLock;

use regex::Regex;

#[expect(clippy::expect_used, reason = "the patterns are constants that the tests compile")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

/// "On Monday, Ann wrote:", in the languages of the common mail programs.
static ATTRIBUTION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)^\s*(on\s.{4,200}\swrote|am\s.{4,200}\sschrieb.{0,80}|le\s.{4,200}\sa écrit|el\s.{4,200}\sescribió|il\s.{4,200}\sha scritto|em\s.{4,200}\sescreveu|op\s.{4,200}\sschreef.{0,80})\s*:\s*$",
    )
});
/// The line that mail programs put above a forwarded or answered mail.
static DIVIDER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)^\s*(-{2,}\s*(original message|forwarded message|ursprüngliche nachricht|message d'origine|mensaje original|messaggio originale)\s*-{2,}|_{20,}|##-? ?please type your reply above this line.*)\s*$",
    )
});
/// "From: … / Sent: …", as Outlook heads what it quotes.
static HEADER: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)^\s*\**(from|von|de|da|van)\s?:\**\s.*[@<\w]"));
static HEADER_NEXT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)^\s*\**(sent|date|gesendet|datum|envoyé|enviado|inviato|to|an|à|para)\s?:\**\s")
});
/// Lines that a mail program adds.
static ADDED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)^\s*(sent from my \w+.*|sent from outlook.*|get outlook for .*|von meinem \w+ gesendet.*|envoyé de mon \w+.*|enviado desde mi \w+.*)$",
    )
});

/// What the writer of the newest mail wrote.
pub(super) fn newest(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut kept: Vec<&str> = Vec::with_capacity(lines.len());
    let mut at = 0;
    while at < lines.len() {
        let has_words = kept.iter().any(|line| !line.trim().is_empty());
        if is_divider(&lines, at) && has_words {
            break;
        }
        if let Some(after) = attribution(&lines, at) {
            let quoted_end = skip_quoted(&lines, after);
            // Outlook quotes without marks: all that follows is history.
            if quoted_end == after && has_words {
                break;
            }
            // Marked history ends where the marks end: some people answer below it.
            at = quoted_end.max(after);
            continue;
        }
        if is_signature(lines[at]) && has_words {
            break;
        }
        if !ADDED.is_match(lines[at]) {
            kept.push(lines[at]);
        }
        at += 1;
    }
    while kept.last().is_some_and(|line| line.trim().is_empty() || is_quoted(line)) {
        kept.pop();
    }
    kept.join("\n")
}

/// The line after an attribution that begins here; long ones are broken over two lines.
fn attribution(lines: &[&str], at: usize) -> Option<usize> {
    if ATTRIBUTION.is_match(lines[at]) {
        return Some(at + 1);
    }
    let next = lines.get(at + 1)?;
    // Only a short pair can be one sentence; this also keeps the work linear.
    let is_short = lines[at].len() + next.len() < 300;
    (is_short && ATTRIBUTION.is_match(&format!("{} {}", lines[at], next.trim()))).then_some(at + 2)
}

fn is_divider(lines: &[&str], at: usize) -> bool {
    DIVIDER.is_match(lines[at])
        || (HEADER.is_match(lines[at]) && lines.get(at + 1).is_some_and(|next| HEADER_NEXT.is_match(next)))
}

/// The first line from `at` on that is neither quoted nor blank, or `at` where nothing is quoted.
fn skip_quoted(lines: &[&str], at: usize) -> usize {
    let is_history = |line: &&&str| is_quoted(line) || line.trim().is_empty();
    let skipped = lines[at..].iter().take_while(is_history).count();
    let is_marked = lines[at..at + skipped].iter().any(|line| is_quoted(line));
    if is_marked { at + skipped } else { at }
}

fn is_quoted(line: &str) -> bool {
    line.trim_start().starts_with('>')
}

/// The mark of RFC 3676 section 4.3, with or without its trailing space.
fn is_signature(line: &str) -> bool {
    line == "-- " || line == "--"
}
