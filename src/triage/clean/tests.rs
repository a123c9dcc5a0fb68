//! Real shapes of tickets, and what is left of them.

use std::time::{Duration, Instant};

use super::*;

fn body(text: &str) -> String {
    let draft = TicketDraft { body: text.into(), ..TicketDraft::default() };
    clean(&draft, &CleanLimits::default()).body
}

#[test]
fn html_becomes_text_and_scripts_and_styles_say_nothing() {
    let html = "<html><head><style>p{color:red}</style><title>t</title></head><body><p>Hello,</p>\
                <p>the <b>export</b> fails &amp; I see <a href=\"https://x.test/1\">this page</a>.</p>\
                <script>alert('x')</script></body></html>";
    let text = body(html);
    assert_eq!(text, "Hello,\n\nthe export fails & I see this page.");
}

#[test]
fn markdown_keeps_its_lines_and_loses_its_comments() {
    let markdown = "<!-- describe the bug -->\n### Steps\n1. run\n2. `a < b`\n\n```html\n<div>x</div>\n```\n";
    assert_eq!(body(markdown), "### Steps\n1. run\n2. `a < b`\n\n```html\n<div>x</div>\n```");
    assert_eq!(body("a < b and c > d\nVec<String>"), "a < b and c > d\nVec<String>");
}

#[test]
fn quoted_history_is_cut_in_every_common_form() {
    let forms = [
        "It still fails.\n\nOn Mon, 3 Nov 2026 at 10:00, Support <s@x.test> wrote:\n> Try again.\n> Bye",
        "It still fails.\n\nOn Mon, 3 Nov 2026 at 10:00, A Very Long Name\n<support@x.test> wrote:\n> Try again.",
        "It still fails.\n\nAm 03.11.2026 um 10:00 schrieb Support:\n> Nochmal.",
        "It still fails.\n\nLe lun. 3 nov. 2026 à 10:00, Support a écrit :\n> Réessayez.",
        "It still fails.\n\n-----Original Message-----\nFrom: Support\nTry again.",
        "It still fails.\n\n________________________________\nFrom: Support\nTry again.",
        "It still fails.\n\nFrom: Support <s@x.test>\nSent: Monday\nTo: me\n\nTry again.",
        "It still fails.\n\n> Try again.\n> Bye",
        "It still fails.\n-- \nAnn Other\nHead of Things\nACME",
        "It still fails.\n\nSent from my iPhone",
        "It still fails.\n\nOn Mon, 3 Nov 2026, Support wrote:\nTry again without marks.",
    ];
    for form in forms {
        assert_eq!(body(form), "It still fails.", "{form}");
    }
}

#[test]
fn a_quote_in_html_is_history_too() {
    let html = "<div>It still fails.</div><div>On Mon, 3 Nov 2026, Support wrote:<br></div>\
                <blockquote>Try again.</blockquote>";
    assert_eq!(body(html), "It still fails.");
}

#[test]
fn an_answer_below_its_quote_is_kept() {
    let text = "On Mon, 3 Nov 2026, Support wrote:\n> Does it work now?\n\nNo, it still fails.";
    assert_eq!(body(text), "No, it still fails.");
}

#[test]
fn a_quote_in_the_middle_of_a_text_is_kept() {
    let text = "The log says\n> error 42\nwhat does it mean?";
    assert_eq!(body(text), text);
}

#[test]
fn a_ticket_is_never_cut_to_nothing() {
    for text in ["> only a quote", "On Mon, 3 Nov 2026, Ann wrote:\n> all of it"] {
        assert!(!body(text).is_empty(), "{text}");
    }
    assert_eq!(body(""), "");
}

#[test]
fn a_long_body_keeps_head_and_tail_and_says_so() {
    let draft = TicketDraft { body: format!("HEAD {} TAIL", "x ".repeat(20_000)), ..TicketDraft::default() };
    let cleaned = clean(&draft, &CleanLimits::default());
    assert!(cleaned.truncated && cleaned.body.starts_with("HEAD") && cleaned.body.ends_with("TAIL"));
    assert_eq!(cleaned.body.chars().count(), CleanLimits::default().body_chars_max);
    let shorter = clean(&draft, &CleanLimits::default().shorter());
    assert!(shorter.body.len() < cleaned.body.len());
}

#[test]
fn control_characters_do_not_survive_and_a_subject_is_one_line() {
    let draft = TicketDraft {
        subject: "Can&#39;t\r\nlog\0 in".into(),
        body: "a\0b\u{1b}[31m\u{202E}c".into(),
        ..TicketDraft::default()
    };
    let cleaned = clean(&draft, &CleanLimits::default());
    assert_eq!(cleaned.subject, "Can't log in");
    assert_eq!(cleaned.body, "ab[31mc");
}

#[test]
fn hostile_markup_costs_little_and_crashes_nothing() {
    let hostile = [
        "<div>".repeat(20_000),
        "<table><tr><td>".repeat(6_000),
        "<blockquote>".repeat(8_000),
        "<b>".repeat(30_000),
        "<p><ul><li>".repeat(90),
        format!("<p>{}", "<a href=x>".repeat(9_000)),
        "<".repeat(100_000),
        "<!--".repeat(25_000),
        "On a wrote\n".repeat(9_000),
        "<script>".repeat(12_000),
        format!("<p>{}", "<p x".repeat(25_000)),
        "<table><tr><td>".repeat(33),
    ];
    for text in hostile {
        let started = Instant::now();
        let _ = body(&text);
        let shown: String = text.chars().take(30).collect();
        assert!(started.elapsed() < Duration::from_secs(4), "{shown}: {:?}", started.elapsed());
    }
}
