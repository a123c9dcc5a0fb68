//! HTML to text, for bodies that are HTML. Markdown with a stray tag in it is left as it is.

use std::sync::LazyLock;

use regex::Regex;

/// Deepest nesting that is rendered. The renderer's time grows faster than the text where tags nest
/// without end, which no mail does and an attacker may.
const DEPTH_MAX: usize = 100;
/// Lines are not wrapped: a width beyond any line.
const WIDTH: usize = 10_000;

#[expect(clippy::expect_used, reason = "the patterns are constants that the tests compile")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

/// Elements that only occur in a body that was written as HTML.
static IS_HTML: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)<!doctype html|<(html|head|body|p|div|br|table|blockquote|ul|ol|span|font|a\s[^>]*href)\b[^>]*>",
    )
});
static COMMENT: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?s)<!--.*?-->"));
static SILENT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?is)<(script|style|head|title)\b[^>]*>.*?</(script|style|head|title)\s*>"));
static BREAK: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)<br\b[^>]*>|</(p|div|tr|li|h[1-6]|blockquote)\s*>"));
static TAG: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?s)<(/?)([a-zA-Z][a-zA-Z0-9]*)\b[^>]*?(/?)>"));
/// Elements without an end tag (HTML Living Standard, "void elements").
static VOID: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)^(area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr)$"));

/// The text of a body: rendered where it is HTML, else without its comments.
pub(super) fn to_text(body: &str) -> String {
    // Issue templates are full of comments that only the author of the template speaks in.
    let body = COMMENT.replace_all(body, "");
    if body.contains("```") || !IS_HTML.is_match(&body) {
        return body.into_owned();
    }
    if depth(&body) > DEPTH_MAX {
        return strip(&body);
    }
    // Bodies with markup often keep their line breaks outside of it, where HTML would drop them.
    let config = html2text::config::with_decorator(html2text::render::TrivialDecorator::new());
    let rendered = config.allow_width_overflow().raw_mode(true).string_from_read(body.as_bytes(), WIDTH);
    rendered.unwrap_or_else(|_| strip(&body))
}

/// The five entities that help desks leave in subjects.
pub(super) fn unescape(subject: &str) -> String {
    if !subject.contains('&') {
        return subject.to_owned();
    }
    let table = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    table.into_iter().fold(subject.to_owned(), |text, (entity, char)| text.replace(entity, char))
}

/// Takes tags out without rendering anything.
fn strip(body: &str) -> String {
    let silent = SILENT.replace_all(body, " ");
    let broken = BREAK.replace_all(&silent, "\n");
    unescape(&TAG.replace_all(&broken, ""))
}

/// The deepest nesting of elements, counted generously.
fn depth(body: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for tag in TAG.captures_iter(body) {
        if &tag[1] == "/" {
            depth = depth.saturating_sub(1);
        } else if tag[3].is_empty() && !VOID.is_match(&tag[2]) {
            depth += 1;
            deepest = deepest.max(depth);
        }
    }
    deepest
}
