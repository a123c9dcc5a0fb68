//! How large a file of `src/` may be, and that each says what it is. Functions are clippy's.
//!
//! The shape (median and nine in ten) is that of the product's code: good tests at the bottom of a
//! file must not count against it. The hard limit is for everything.

use crate::files::{SourceFile, rust_files};

const MEDIAN_MAX: usize = 120;
const NINETY_PERCENT_MAX: usize = 300;
const LINES_MAX: usize = 500;

/// The size below which a share of the files stays; `share` in percent.
fn below(sizes: &[usize], share: usize) -> usize {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() * share).div_ceil(100).max(1) - 1]
}

/// The lines before the unit tests at the bottom.
fn lines_of_code(text: &str) -> usize {
    let mut lines = 0;
    let mut rest = text.lines().peekable();
    while let Some(line) = rest.next() {
        let is_module = |line: &&str| line.starts_with("mod ") && line.ends_with('{');
        if line == "#[cfg(test)]" && rest.peek().is_some_and(is_module) {
            break;
        }
        lines += 1;
    }
    lines
}

#[test]
fn files_stay_small() {
    let files = rust_files("src");
    let too_long = |file: &&SourceFile| file.text.lines().count() > LINES_MAX;
    let too_long: Vec<&str> = files.iter().filter(too_long).map(|file| file.path.as_str()).collect();
    assert!(too_long.is_empty(), "more than {LINES_MAX} lines: {too_long:?}");

    let code = files.iter().filter(|file| !file.is_test());
    let sizes: Vec<usize> = code.map(|file| lines_of_code(&file.text)).collect();
    for (share, most) in [(50, MEDIAN_MAX), (90, NINETY_PERCENT_MAX)] {
        let lines = below(&sizes, share);
        assert!(lines <= most, "{share} % of the files should have at most {most} lines, not {lines}");
    }
}

#[test]
fn every_file_opens_with_what_it_is() {
    let all = ["src", "tests", "benches", "examples"].into_iter().flat_map(rust_files);

    let silent: Vec<String> =
        all.filter(|file| !file.text.starts_with("//! ")).map(|file| file.path).collect();

    assert!(silent.is_empty(), "no `//!` in the first line: {silent:?}");
}

#[test]
fn unit_tests_at_the_bottom_do_not_count() {
    assert_eq!(lines_of_code("a\n#[cfg(test)]\nmod tests;\nb\n#[cfg(test)]\nmod tests {\n}\n"), 4);
}

#[test]
fn shares_are_counted_from_the_smallest() {
    assert_eq!(below(&[5, 1, 4, 2, 3], 50), 3);
    assert_eq!(below(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 90), 9);
    assert_eq!(below(&[7], 50), 7);
}
