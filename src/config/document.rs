//! Reading `hooktriage.toml` so that every fault is found at once, each with its line.
//!
//! Deserialising into structs would stop at the first fault. So a section is asked for its keys one
//! by one, notes what it was asked for, and reports every key that nobody asked for.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;

use toml_edit::{Document, Item, TableLike, Value};

use super::environment::nearest;
use super::fault::Fault;

/// A parsed file.
pub(super) struct File {
    name: String,
    text: String,
    document: Document<String>,
}

impl File {
    /// Parses a file.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, Fault> {
        let document = Document::parse(text.to_owned()).map_err(|fault| {
            let line = fault.span().map_or(1, |span| line_of(text, span.start));
            Fault { place: format!("{name}:{line}"), problem: format!("no valid TOML: {}", fault.message()) }
        })?;
        Ok(Self { name: name.to_owned(), text: text.to_owned(), document })
    }

    /// The whole file as a section.
    pub(super) fn root<'a>(&'a self, faults: &'a RefCell<Vec<Fault>>) -> Section<'a> {
        let table: &dyn TableLike = self.document.as_table();
        Section {
            file: Some(self),
            path: String::new(),
            table: Some(table),
            asked: RefCell::default(),
            faults,
        }
    }
}

/// A table of the file, or nothing where the file has none: then every key is absent.
pub(super) struct Section<'a> {
    file: Option<&'a File>,
    path: String,
    table: Option<&'a dyn TableLike>,
    asked: RefCell<BTreeSet<&'static str>>,
    faults: &'a RefCell<Vec<Fault>>,
}

impl<'a> Section<'a> {
    /// The root of a file that is not there.
    pub(super) fn absent(faults: &'a RefCell<Vec<Fault>>) -> Self {
        Self { file: None, path: String::new(), table: None, asked: RefCell::default(), faults }
    }

    /// Whether the file has this section.
    pub(super) fn is_present(&self) -> bool {
        self.table.is_some()
    }

    /// A table below this one.
    pub(super) fn section(&self, key: &'static str) -> Section<'a> {
        let item = self.item(key);
        let table = item.and_then(|item| self.expect(key, item, "a table", Item::as_table_like));
        self.below(self.key_path(key), table)
    }

    /// The tables of an array below this one.
    pub(super) fn sections(&self, key: &'static str) -> Vec<Section<'a>> {
        let Some(item) = self.item(key) else { return vec![] };
        let tables: Option<Vec<&'a dyn TableLike>> = match item {
            Item::ArrayOfTables(array) => Some(array.iter().map(|table| table as &dyn TableLike).collect()),
            Item::Value(Value::Array(array)) => array
                .iter()
                .map(|value| value.as_inline_table().map(|table| table as &dyn TableLike))
                .collect(),
            _ => None,
        };
        let Some(tables) = tables else {
            self.fault(key, &format!("must be a list of tables; write [[{}]]", self.key_path(key)));
            return vec![];
        };
        let numbered = tables.into_iter().enumerate();
        numbered.map(|(at, table)| self.below(format!("{}[{at}]", self.key_path(key)), Some(table))).collect()
    }

    /// A text.
    pub(super) fn text(&self, key: &'static str) -> Option<String> {
        self.item(key)
            .and_then(|item| self.expect(key, item, "a text in quotes", Item::as_str))
            .map(str::to_owned)
    }

    /// A list of texts; a single text counts as a list of one.
    pub(super) fn texts(&self, key: &'static str) -> Option<Vec<String>> {
        let item = self.item(key)?;
        if let Some(one) = item.as_str() {
            return Some(vec![one.to_owned()]);
        }
        let list = |item: &'a Item| -> Option<Vec<String>> {
            item.as_array()?.iter().map(|value| value.as_str().map(str::to_owned)).collect()
        };
        self.expect(key, item, "a list of texts in quotes", list)
    }

    /// A whole number in a range.
    pub(super) fn integer(&self, key: &'static str, range: Range<i64>) -> Option<i64> {
        let item = self.item(key)?;
        let value = self.expect(key, item, "a whole number", Item::as_integer)?;
        if range.contains(&value) {
            return Some(value);
        }
        self.fault(key, &format!("is {value}; it must be {} to {}", range.start, range.end - 1));
        None
    }

    /// A share from 0 to 1.
    pub(super) fn share(&self, key: &'static str) -> Option<f64> {
        let item = self.item(key)?;
        let number = |item: &Item| item.as_float().or_else(|| item.as_integer().map(|whole| whole as f64));
        let value = self.expect(key, item, "a number", number)?;
        if (0.0..=1.0).contains(&value) {
            return Some(value);
        }
        self.fault(key, &format!("is {value}; it must be 0 to 1"));
        None
    }

    /// Yes or no.
    pub(super) fn boolean(&self, key: &'static str) -> Option<bool> {
        self.item(key).and_then(|item| self.expect(key, item, "true or false", Item::as_bool))
    }

    /// A text that must be one of a few words.
    pub(super) fn word<T>(&self, key: &'static str, words: &[(&str, T)]) -> Option<T>
    where
        T: Clone,
    {
        let text = self.text(key)?;
        self.known_word(key, &text, words)
    }

    /// A list of texts that must each be one of a few words.
    pub(super) fn words<T>(&self, key: &'static str, words: &[(&str, T)]) -> Option<Vec<T>>
    where
        T: Clone,
    {
        let texts = self.texts(key)?;
        texts.iter().map(|text| self.known_word(key, text, words)).collect()
    }

    fn known_word<T: Clone>(&self, key: &'static str, text: &str, words: &[(&str, T)]) -> Option<T> {
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| value.clone());
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.fault(key, &format!("is {text:?}; it must be one of {}", known.join(", ")));
        }
        found
    }

    /// Pairs of a table whose keys are free.
    pub(super) fn pairs(&self, key: &'static str) -> Vec<(String, String)> {
        let section = self.section(key);
        let Some(table) = section.table else { return vec![] };
        let pairs = table.iter().filter_map(|(name, item)| match item.as_str() {
            Some(text) => Some((name.to_owned(), text.to_owned())),
            None => {
                self.fault(key, &format!("`{name}` must be a text in quotes"));
                None
            }
        });
        pairs.collect()
    }

    /// Notes a fault of a key.
    pub(super) fn fault(&self, key: &str, problem: &str) {
        let place = self.place(key);
        self.faults.borrow_mut().push(Fault { place, problem: problem.to_owned() });
    }

    /// Where a key stands: file, line and path.
    pub(super) fn place(&self, key: &str) -> String {
        let path = self.key_path(key);
        let Some(file) = self.file else { return path };
        let item_span = self.table.and_then(|table| table.get(key)).and_then(Item::span);
        let key_span = self.table.and_then(|table| table.key(key)).and_then(toml_edit::Key::span);
        let header_span = self.table.and_then(|table| table.iter().find_map(|(_, item)| item.span()));
        match key_span.or(item_span).or(header_span) {
            Some(span) => format!("{}:{} {path}", file.name, line_of(&file.text, span.start)),
            None => format!("{} {path}", file.name),
        }
    }

    /// Reports every key that nobody asked for.
    pub(super) fn finish(self) {
        let Some(table) = self.table else { return };
        let asked = self.asked.borrow();
        for (key, _) in table.iter().filter(|(key, _)| !asked.contains(key)) {
            let nearest = nearest(key, asked.iter().copied());
            self.fault(key, &format!("there is no such setting; did you mean {nearest}?"));
        }
    }

    fn item(&self, key: &'static str) -> Option<&'a Item> {
        self.asked.borrow_mut().insert(key);
        self.table.and_then(|table| table.get(key))
    }

    fn expect<T>(
        &self,
        key: &'static str,
        item: &'a Item,
        what: &str,
        read: impl Fn(&'a Item) -> Option<T>,
    ) -> Option<T> {
        let value = read(item);
        if value.is_none() {
            self.fault(key, &format!("must be {what}"));
        }
        value
    }

    fn below(&self, path: String, table: Option<&'a dyn TableLike>) -> Section<'a> {
        Section { file: self.file, path, table, asked: RefCell::default(), faults: self.faults }
    }

    fn key_path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}
