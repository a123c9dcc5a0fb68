//! The files of the repository that rules speak about.

use std::fs;
use std::path::{Path, PathBuf};

use crate::source::{Token, tokens, without_tests};

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A source file.
pub(crate) struct SourceFile {
    /// Relative to the top, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl SourceFile {
    /// The folder under `src/` that it lies in, or its own name: `src/queue/claim.rs` and `src/app.rs`
    /// give `queue` and `app`.
    pub(crate) fn layer(&self) -> &str {
        let inside = self.path.strip_prefix("src/").unwrap_or(&self.path);
        inside.split(['/', '.']).next().unwrap_or_default()
    }

    /// Its modules from the crate's top: `src/queue/claim.rs` and `src/queue/mod.rs` give two and one.
    pub(crate) fn depth(&self) -> usize {
        let parts = self.path.trim_start_matches("src/").split('/').count();
        let is_top = matches!(self.path.as_str(), "src/lib.rs" | "src/main.rs");
        parts - usize::from(self.path.ends_with("/mod.rs") || is_top)
    }

    /// Whether all of it is unit tests.
    pub(crate) fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    /// Its tokens without comments and unit tests.
    pub(crate) fn code(&self) -> Vec<Token> {
        if self.is_test() { Vec::new() } else { without_tests(tokens(&self.text)) }
    }
}

/// Every Rust file below a folder of the repository, in order of their paths.
pub(crate) fn rust_files(folder: &str) -> Vec<SourceFile> {
    let mut found = Vec::new();
    walk(&root().join(folder), "rs", &mut found);
    found.sort_by(|left, right| left.path.cmp(&right.path));
    found
}

/// Every migration.
pub(crate) fn migrations() -> Vec<SourceFile> {
    let mut found = Vec::new();
    walk(&root().join("migrations"), "sql", &mut found);
    found
}

/// A document, if it is there.
pub(crate) fn document(path: &str) -> Option<String> {
    fs::read_to_string(root().join(path)).ok()
}

fn walk(folder: &Path, extension: &str, found: &mut Vec<SourceFile>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, extension, found);
        } else if path.extension().is_some_and(|found| found == extension) {
            let relative = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
            found.push(SourceFile { path: relative, text: fs::read_to_string(&path).unwrap() });
        }
    }
}

#[test]
fn layer_and_depth_come_from_the_path() {
    let file = |path: &str| SourceFile { path: path.to_owned(), text: String::new() };

    for (path, layer, depth) in [
        ("src/main.rs", "main", 0),
        ("src/app.rs", "app", 1),
        ("src/queue/mod.rs", "queue", 1),
        ("src/queue/claim.rs", "queue", 2),
        ("src/llm/openai/mod.rs", "llm", 2),
    ] {
        assert_eq!((file(path).layer(), file(path).depth()), (layer, depth), "{path}");
    }
}
