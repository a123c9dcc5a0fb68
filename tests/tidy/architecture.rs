//! Who may use whom: the two tables in `docs/ARCHITECTURE.md` against the paths in `src/`.

use std::collections::BTreeMap;

use crate::files::{SourceFile, document, rust_files};
use crate::paths::paths;

const HEADING: &str = "## Who may use whom";

/// Whom a row lets through.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Allowed {
    Only(Vec<String>),
    EveryoneBut(Vec<String>),
}

impl Allowed {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::Only(names) => names.iter().any(|allowed| allowed == name),
            Self::EveryoneBut(names) => !names.iter().any(|refused| refused == name),
        }
    }
}

type Table = BTreeMap<String, Allowed>;

/// The fenced tables of the section. A row is `name, name → name, name (remark)`; the right side may
/// also be `everyone`, `everyone but name, …` or `nothing`.
fn tables(text: &str) -> Vec<Table> {
    let section = text.split_once(HEADING).expect("the section is there").1;
    let section = section.split("\n## ").next().unwrap_or(section);
    section.split("```").skip(1).step_by(2).map(table).collect()
}

fn table(fence: &str) -> Table {
    let mut table = Table::new();
    for row in fence.lines().filter(|line| line.contains('→')) {
        let (names, right) = row.split_once('→').unwrap();
        for name in list(names) {
            let twice = table.insert(name.clone(), allowed(right));
            assert_eq!(twice, None, "{name} has two rows");
        }
    }
    table
}

fn allowed(right: &str) -> Allowed {
    let right = without_remarks(right);
    let right = right.trim();
    if right == "nothing" {
        return Allowed::Only(Vec::new());
    }
    match right.strip_prefix("everyone") {
        None => Allowed::Only(list(right)),
        Some(rest) => Allowed::EveryoneBut(list(rest.trim().trim_start_matches("but "))),
    }
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

fn without_remarks(text: &str) -> String {
    let parts = text.split('(').enumerate().map(|(index, part)| {
        if index == 0 { part } else { part.split_once(')').map_or("", |(_, rest)| rest) }
    });
    parts.collect()
}

/// What a file uses that its row does not allow.
fn violations(file: &SourceFile, layers: &Table, crates: &Table) -> Vec<String> {
    let layer = file.layer();
    if layer == "lib" {
        return Vec::new();
    }
    let Some(own) = layers.get(layer) else {
        return vec![format!("{}: the layer `{layer}` has no row in docs/ARCHITECTURE.md", file.path)];
    };
    let mut found = Vec::new();
    for path in paths(&file.code()) {
        if let Some(other) = other_layer(&path, file, layers)
            && other != layer
            && !own.has(other)
        {
            found.push(format!("{}: `{layer}` must not use `{other}` ({})", file.path, path.join("::")));
        }
        if let Some((name, row)) = longest(&path, crates)
            && !row.has(layer)
        {
            found.push(format!("{}: `{layer}` must not use `{name}` ({})", file.path, path.join("::")));
        }
    }
    found.dedup();
    found
}

/// The layer that a path leads into: from `crate`, from our name, or up to the top by `super`.
fn other_layer<'path>(path: &'path [String], file: &SourceFile, layers: &Table) -> Option<&'path str> {
    let supers = path.iter().take_while(|part| *part == "super").count();
    let first = path.first()?.as_str();
    let at = match first {
        "crate" | "hooktriage" => 1,
        "super" if supers >= file.depth() => supers,
        _ => return None,
    };
    path.get(at).map(String::as_str).filter(|name| layers.contains_key(*name))
}

/// The most particular row for a path: `sqlx::PgPool` goes before `sqlx`.
fn longest<'table>(path: &[String], crates: &'table Table) -> Option<(&'table str, &'table Allowed)> {
    let full = path.join("::");
    let fits = |name: &str| full == name || full.starts_with(&format!("{name}::"));
    let rows = crates.iter().filter(|(name, _)| fits(name) && (path.len() > 1 || name.len() > 2));
    rows.max_by_key(|(name, _)| name.len()).map(|(name, row)| (name.as_str(), row))
}

#[test]
fn the_code_uses_what_the_architecture_allows() {
    let text = document("docs/ARCHITECTURE.md").expect("docs/ARCHITECTURE.md is there");
    let tables = tables(&text);
    let [layers, crates] = tables.as_slice() else { panic!("two fenced tables, not {}", tables.len()) };

    let found: Vec<String> =
        rust_files("src").iter().flat_map(|file| violations(file, layers, crates)).collect();

    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Map\n## Who may use whom\nFirst.\n```text\nmain → app\nhttp → queue (verbs, reads), domain\n\
                        queue, domain → nothing\napp → everyone\n```\nThen.\n```text\nsqlx → queue, app\n\
                        sqlx::PgPool → everyone but domain\nstd::env → nothing\n```\n## Next\n```text\nx → y\n```\n";

    fn found(path: &str, text: &str) -> Vec<String> {
        let tables = tables(PAGE);
        let file = SourceFile { path: path.to_owned(), text: text.to_owned() };
        violations(&file, &tables[0], &tables[1])
    }

    #[test]
    fn the_tables_of_the_section_are_read_and_no_others() {
        let tables = tables(PAGE);

        assert_eq!(tables.len(), 2);
        assert_eq!(tables[0]["http"], Allowed::Only(vec!["queue".to_owned(), "domain".to_owned()]));
        assert_eq!(tables[0]["domain"], Allowed::Only(Vec::new()));
        assert_eq!(tables[0]["app"], Allowed::EveryoneBut(Vec::new()));
    }

    #[test]
    fn what_the_table_allows_passes() {
        let text = "use crate::{queue::Job, http::Own}; use super::super::domain; fn f(p: sqlx::PgPool) {}";

        assert_eq!(found("src/http/jobs.rs", text), [""; 0]);
        assert_eq!(found("src/main.rs", "fn main() { hooktriage::app::run() }"), [""; 0]);
    }

    #[test]
    fn what_it_does_not_allow_is_named_with_its_file() {
        let cases = [
            ("src/queue/claim.rs", "use crate::domain::Ticket;", "`queue` must not use `domain`"),
            ("src/queue/claim.rs", "use super::super::http;", "`queue` must not use `http`"),
            ("src/queue/mod.rs", "use super::{http, domain};", "`queue` must not use `http`"),
            ("src/http/jobs.rs", "use sqlx::{PgPool, query};", "`http` must not use `sqlx` (sqlx::query)"),
            ("src/domain/mod.rs", "fn f(p: sqlx::PgPool) {}", "`domain` must not use `sqlx::PgPool`"),
            ("src/http/mod.rs", "fn f() { std::env::var(\"X\") }", "`http` must not use `std::env`"),
            ("src/http/mod.rs", "use std::{env, fs};", "`http` must not use `std::env`"),
            ("src/main.rs", "use hooktriage::queue;", "`main` must not use `queue`"),
            ("src/other/mod.rs", "", "the layer `other` has no row"),
        ];
        for (path, text, expected) in cases {
            let found = found(path, text).join("\n");
            assert!(found.starts_with(&format!("{path}: {expected}")), "{text}: {found:?}");
        }
    }

    #[test]
    fn comments_strings_and_unit_tests_are_not_uses() {
        let text =
            "// crate::http\nconst A: &str = \"crate::http\"; #[cfg(test)] mod tests { use crate::http; }";

        assert_eq!(found("src/queue/mod.rs", text), [""; 0]);
        assert_eq!(found("src/queue/tests.rs", "use crate::http;"), [""; 0]);
    }
}
