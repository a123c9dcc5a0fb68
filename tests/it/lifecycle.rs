//! Claim: the document of the life of a job, the schema and the code say the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hooktriage::queue::{Backoff, DeadReason, JobState};
use sqlx::PgPool;

use crate::support::database::TestDatabase;

const DOCUMENT: &str = include_str!("../../docs/JOB_LIFECYCLE.md");
/// A life begins and ends here.
const OUTSIDE: &str = "[*]";

type Words = BTreeSet<String>;

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Words {
    words.into_iter().map(str::to_owned).collect()
}

fn section(heading: &str) -> &'static str {
    let (_, rest) = DOCUMENT.split_once(&format!("\n## {heading}\n")).expect("the section is there");
    rest.split("\n## ").next().unwrap()
}

/// The rows of the tables of a section, without their heads.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let lines: Vec<&str> = section(heading).lines().collect();
    let is_row = |line: &str| line.starts_with('|') && !line.starts_with("|---");
    let is_head = |at: usize| lines.get(at + 1).is_some_and(|next| next.starts_with("|---"));
    let body = (0..lines.len()).filter(|at| is_row(lines[*at]) && !is_head(*at));
    body.map(|at| lines[at].trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// What stands in back-ticks.
fn names(cell: &'static str) -> Vec<&'static str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn first_column(heading: &str) -> Words {
    words(rows(heading).into_iter().flat_map(|row| names(row[0])))
}

/// The arrows of the diagram.
fn arrows() -> BTreeSet<(String, String)> {
    let (_, rest) = section("States").split_once("stateDiagram-v2").expect("the diagram is there");
    let diagram = rest.split("```").next().unwrap();
    let arrows = diagram.lines().filter_map(|line| line.split_once("-->"));
    arrows
        .map(|(from, to)| (from.trim().to_owned(), to.split(':').next().unwrap().trim().to_owned()))
        .collect()
}

/// The words that a CHECK constraint allows.
async fn allowed_by(pool: &PgPool, constraint: &str) -> Words {
    let definition: String = sqlx::query_scalar(
        "select pg_get_constraintdef(oid) from pg_constraint
          where conname = $1 and conparentid = 0 and coninhcount = 0",
    )
    .bind(constraint)
    .fetch_one(pool)
    .await
    .unwrap();
    words(definition.split('\'').skip(1).step_by(2))
}

#[tokio::test]
async fn the_states_of_the_diagram_the_schema_and_the_code_are_the_same() {
    let database = TestDatabase::new().await;
    let with = |ended: bool| {
        words(JobState::ALL.iter().filter(|state| state.is_ended() == ended).map(|state| state.as_str()))
    };

    let arrows = arrows();
    let of_diagram: Words = arrows
        .iter()
        .flat_map(|(from, to)| [from.clone(), to.clone()])
        .filter(|state| state != OUTSIDE)
        .collect();
    let ends: Words = arrows.iter().filter(|(_, to)| to == OUTSIDE).map(|(from, _)| from.clone()).collect();

    assert_eq!(of_diagram, words(JobState::ALL.map(JobState::as_str)));
    assert_eq!(ends, with(true));
    assert_eq!(allowed_by(database.pool(), "job_state").await, with(false));
    assert_eq!(allowed_by(database.pool(), "job_history_state").await, with(true));
}

#[test]
fn the_table_of_moves_has_the_arrows_of_the_diagram() {
    let moves: BTreeSet<(String, String)> = rows("Who moves a job")
        .iter()
        .map(|row| (names(row[0])[0].to_owned(), names(row[1])[0].to_owned()))
        .collect();

    let arrows: BTreeSet<_> = arrows().into_iter().filter(|(_, to)| to != OUTSIDE).collect();

    assert_eq!(moves, arrows);
}

#[test]
fn every_move_is_made_by_a_function_that_exists() {
    let mut checked = 0;
    for path in rows("Who moves a job").into_iter().flat_map(|row| names(row[3])) {
        let parts: Vec<&str> = path.split("::").collect();
        let [modules @ .., function] = parts.as_slice() else { panic!("{path} is not a path") };
        let file = root().join("src").join(modules.join("/")).with_extension("rs");
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(text.contains(&format!("async fn {function}")), "{path} is not there");
        checked += 1;
    }
    assert!(checked >= 8, "only {checked} functions are named");
}

#[tokio::test]
async fn the_outcomes_of_attempts_are_those_of_the_schema() {
    let database = TestDatabase::new().await;

    assert_eq!(first_column("Attempts"), allowed_by(database.pool(), "attempt_outcome").await);
}

#[tokio::test]
async fn the_reasons_of_dead_letters_are_those_of_the_schema_and_the_code() {
    let database = TestDatabase::new().await;
    let all = [DeadReason::Permanent, DeadReason::Exhausted, DeadReason::Expired, DeadReason::Poison];

    let of_document: Words =
        rows("Why a job becomes a dead letter").iter().map(|row| names(row[0])[0].to_owned()).collect();

    assert_eq!(of_document, words(all.map(DeadReason::as_str)));
    assert_eq!(of_document, allowed_by(database.pool(), "dead_letter_reason").await);
}

#[test]
fn the_back_off_is_the_one_of_the_code() {
    let backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(300) };

    let rows = rows("Back-off");

    assert!(rows.len() > 10);
    for row in rows {
        let attempt: i16 = row[0].parse().unwrap();
        assert_eq!(row[1], format!("{} s", backoff.step(attempt).as_secs()), "after {attempt}");
    }
}

#[test]
fn every_row_of_the_crash_table_is_proven_by_a_test_that_exists() {
    let tests: String =
        sources(&root().join("tests/it")).into_iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let rows = rows("Killed between two steps");
    assert!(rows.len() > 15);

    for row in rows {
        let proofs = names(row.last().unwrap());
        assert!(!proofs.is_empty(), "nothing proves: {row:?}");
        for proof in proofs {
            assert!(tests.contains(&format!("fn {proof}(")), "there is no test {proof}");
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}
