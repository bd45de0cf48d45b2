//! Test results, read from the output of test programs.

/// The results of one test program, or the sum of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Results {
    pub(super) passed: u64,
    pub(super) failed: Vec<String>,
    /// The number of `test result:` lines. A program that crashes prints none.
    pub(super) summaries: u64,
}

impl Results {
    pub(super) fn read(output: &str) -> Self {
        let mut results = Self::default();
        // The names of failed tests are in the last `failures:` block before the summary. The line of a test cannot be
        // used: the output of other tests may come before and after it on the same line.
        let mut names = Vec::new();
        for line in output.lines() {
            if line == "failures:" {
                names.clear();
            } else if let Some(name) = line.strip_prefix("    ") {
                names.push(name.to_owned());
            } else if let Some(passed) = passed_in(line) {
                results.passed += passed;
                results.summaries += 1;
                if line.starts_with("test result: FAILED") {
                    results.failed.append(&mut names);
                }
            }
        }
        results
    }
}

/// Reads `test result: ok. 3 passed; 0 failed; …`.
fn passed_in(line: &str) -> Option<u64> {
    let (_verdict, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    counts.split_once(" passed; ")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_programs_are_added() {
        let output = "running 3 tests\n\
            something ... test a::fails ... FAILED\n\
            test a::passes ... ok\n\
            \nfailures:\n\n---- a::fails stdout ----\n    indented\n\
            \nfailures:\n    a::fails\n    b - should panic\n\n\
            test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n\
            \nfailures:\n    of a program that this test has run\n\
            test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
            test result: unknown\n\
            it says test result: ok. 9 passed; 9 failed;\n";
        let results = Results::read(output);
        assert_eq!((results.passed, results.summaries), (7, 2));
        assert_eq!(results.failed, ["a::fails", "b - should panic"]);
    }
}
