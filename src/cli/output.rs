//! Printing: results to standard output, complaints to standard error. A reader that went away
//! (`hooktriage jobs | head`) is no fault.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, Utc};
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

use crate::domain::text;

static READER_LEFT: AtomicBool = AtomicBool::new(false);

/// Whether somebody who read our output has gone away.
pub(super) fn reader_left() -> bool {
    READER_LEFT.load(Ordering::Relaxed)
}

fn note(written: std::io::Result<()>) {
    if written.is_err() {
        READER_LEFT.store(true, Ordering::Relaxed);
    }
}

/// Prints a line of the result.
pub(super) fn print(line: &str) {
    note(writeln!(std::io::stdout().lock(), "{line}"));
}

/// Prints a value as JSON, for programs.
pub(super) fn print_json(value: &Value) {
    print(&format!("{value:#}"));
}

/// Says what is wrong. It may repeat what a server said, which must not steer the terminal.
pub(super) fn complain(line: &str) {
    _ = writeln!(std::io::stderr().lock(), "hooktriage: {}", text::clean(line, usize::MAX));
}

/// Says how something goes on, without being part of the result.
pub(super) fn remark(line: &str) {
    note(writeln!(std::io::stderr().lock(), "{}", text::clean(line, usize::MAX)));
}

/// Cuts a text to a number of characters, and shows that something was cut.
pub(super) fn shorten(line: &str, chars_max: usize) -> String {
    let line = text::clean_line(line, usize::MAX);
    if line.chars().count() <= chars_max {
        return line;
    }
    let kept: String = line.chars().take(chars_max.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// How wide the terminal is, in characters; `None` when there is none.
pub(super) fn terminal_width() -> Option<usize> {
    Table::new().width().map(usize::from)
}

/// A table without lines. Rows are never wrapped: an id that is broken in two cannot be copied.
pub(super) fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(head);
    // Foreign text must not steer the terminal.
    let clean = |cell: String| text::clean_line(&cell, 200);
    rows.into_iter().for_each(|row| _ = table.add_row(row.into_iter().map(clean)));
    table.trim_fmt()
}

/// A field of a JSON object as text; a dash where there is none.
pub(super) fn field(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) => {
            let texts: Vec<String> =
                items.iter().map(|item| item.as_str().map_or(item.to_string(), str::to_owned)).collect();
            texts.join(", ")
        }
        Some(other) => other.to_string(),
    }
}

/// A time as people read it: how long ago.
pub(super) fn ago(value: &Value, pointer: &str, now: DateTime<Utc>) -> String {
    let time =
        value.pointer(pointer).and_then(Value::as_str).and_then(|text| text.parse::<DateTime<Utc>>().ok());
    let Some(time) = time else { return "-".to_owned() };
    let seconds = (now - time).num_seconds().max(0);
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_that_is_absent_or_null_is_a_dash() {
        let value = json!({"a": null, "b": "text", "c": 3, "d": ["x", "y"]});
        let fields = ["/a", "/b", "/c", "/d", "/e"].map(|pointer| field(&value, pointer));
        assert_eq!(fields, ["-", "text", "3", "x, y", "-"]);
    }

    #[test]
    fn foreign_text_cannot_steer_the_terminal() {
        let shown = table(&["SUBJECT"], vec![vec!["\u{1b}[31mred\n\u{202E}txt".to_owned()]]);
        assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202E}'), "{shown:?}");
    }

    #[test]
    fn ages_are_told_in_the_largest_unit() {
        let now = DateTime::UNIX_EPOCH + chrono::TimeDelta::hours(5);
        assert_eq!(ago(&json!({"t": "1970-01-01T00:00:00Z"}), "/t", now), "5 h ago");
        assert_eq!(ago(&json!({}), "/t", now), "-");
    }
}
