//! The environment, read once into a map. The only place that touches `std::env`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::fault::Fault;
use super::variables::VARIABLES;

/// A snapshot of the environment.
#[derive(Clone, Default)]
pub struct Environment {
    values: BTreeMap<String, String>,
    search_path: Option<OsString>,
    temp_dir: PathBuf,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").field("names", &self.values.keys()).finish_non_exhaustive()
    }
}

impl Environment {
    /// Reads the process's environment. Variables that are no UTF-8 are left out.
    #[must_use]
    pub fn of_process() -> Self {
        let values = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self {
            values: values.collect(),
            #[expect(clippy::disallowed_methods, reason = "this module is the reader of the environment")]
            search_path: std::env::var_os("PATH"),
            temp_dir: std::env::temp_dir(),
        }
    }

    /// An environment made of these pairs, for tests.
    #[must_use]
    pub fn of(pairs: &[(&str, &str)]) -> Self {
        let values = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self { values: values.collect(), search_path: None, temp_dir: std::env::temp_dir() }
    }

    /// The same process with other variables; of its own, those in `kept` stay.
    #[must_use]
    pub fn with(&self, kept: &[&str], pairs: &[(&str, String)]) -> Self {
        let kept = kept.iter().filter_map(|name| Some(((*name).to_owned(), self.values.get(*name)?.clone())));
        let given = pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        Self { values: kept.chain(given).collect(), ..self.clone() }
    }

    /// How to call this program again from the current folder.
    #[must_use]
    pub fn program() -> String {
        let path = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("hooktriage"));
        let here = std::env::current_dir().ok();
        let shown = here.and_then(|here| path.strip_prefix(here).map(Path::to_owned).ok()).unwrap_or(path);
        shown.display().to_string()
    }

    /// `PATH`, as it is.
    #[must_use]
    pub fn search_path(&self) -> Option<OsString> {
        self.search_path.clone()
    }

    /// Where temporary files go.
    #[must_use]
    pub fn temp_dir(&self) -> &Path {
        &self.temp_dir
    }

    /// A variable; an empty one counts as not set, since `NAME=` in a file of variables means that.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A secret: the variable itself, or the content of the file that `<name>_FILE` names. Files
    /// often end in a newline that is not part of the secret; one is taken off.
    ///
    /// # Errors
    /// Both are set, or the file cannot be read.
    pub fn secret(&self, name: &str) -> Result<Option<String>, Fault> {
        let file_name = format!("{name}_FILE");
        let fault = |problem: String| Fault { place: file_name.clone(), problem };
        match (self.get(name), self.get(&file_name)) {
            (Some(_), Some(_)) => Err(fault(format!("{name} is set, too; keep one of them"))),
            (Some(value), None) => Ok(Some(value.to_owned())),
            (None, Some(path)) => match std::fs::read_to_string(path) {
                Ok(text) => Ok(Some(
                    text.strip_suffix('\n')
                        .map_or(text.clone(), |line| line.trim_end_matches('\r').to_owned()),
                )),
                Err(cause) => Err(fault(format!("{path:?} cannot be read: {cause}"))),
            },
            (None, None) => Ok(None),
        }
    }

    /// Names that begin with `prefix`, without it and without `_FILE`, in order.
    #[must_use]
    pub fn suffixes(&self, prefix: &str) -> Vec<String> {
        let set = self.values.iter().filter(|(_, value)| !value.is_empty());
        let names = set.filter_map(|(name, _)| name.strip_prefix(prefix));
        let mut found: Vec<String> =
            names.map(|name| name.strip_suffix("_FILE").unwrap_or(name).to_owned()).collect();
        found.dedup();
        found
    }

    /// Variables that look like ours but are none: a typing error must not go unnoticed.
    #[must_use]
    pub fn unknown(&self) -> Vec<Fault> {
        let ours = self.values.keys().filter(|name| name.starts_with("HOOKTRIAGE_"));
        let unknown = ours.filter(|name| !is_known(name)).map(|name| {
            let nearest = nearest(name, VARIABLES.iter().map(|variable| variable.name));
            let problem = format!("there is no such variable; did you mean {nearest}?");
            Fault { place: name.clone(), problem }
        });
        unknown.collect()
    }
}

fn is_known(name: &str) -> bool {
    VARIABLES.iter().any(|variable| {
        let base = if variable.from_file { name.strip_suffix("_FILE").unwrap_or(name) } else { name };
        match variable.name.split_once('<') {
            Some((prefix, _)) => base.starts_with(prefix) && base.len() > prefix.len(),
            None => base == variable.name,
        }
    }) || name.starts_with("HOOKTRIAGE_TEST_")
}

/// The candidate that is nearest to a word.
pub(super) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    let best =
        candidates.max_by(|a, b| strsim::jaro_winkler(word, a).total_cmp(&strsim::jaro_winkler(word, b)));
    best.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_variable_is_told_with_the_nearest_one() {
        let faults =
            Environment::of(&[("HOOKTRIAGE_LISTN", "x"), ("HOOKTRIAGE_SECRET_GITHUB_FILE", "x")]).unknown();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].problem.contains("HOOKTRIAGE_LISTEN"), "{}", faults[0]);
    }

    #[test]
    fn a_secret_comes_from_a_file_without_its_last_newline() -> Result<(), Box<dyn std::error::Error>> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), "top secret\r\n")?;
        let path = file.path().to_str().ok_or("a path")?;
        let environment = Environment::of(&[("HOOKTRIAGE_LLM_API_KEY_FILE", path)]);
        assert_eq!(environment.secret("HOOKTRIAGE_LLM_API_KEY"), Ok(Some("top secret".to_owned())));
        Ok(())
    }

    #[test]
    fn a_secret_given_twice_or_in_a_missing_file_is_a_fault() {
        let twice = Environment::of(&[("DATABASE_URL", "a"), ("DATABASE_URL_FILE", "b")]);
        assert!(twice.secret("DATABASE_URL").is_err());
        let missing = Environment::of(&[("DATABASE_URL_FILE", "/nowhere/at/all")]);
        assert!(missing.secret("DATABASE_URL").is_err());
    }
}
