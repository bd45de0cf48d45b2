//! Problems of a configuration: each has its place, what is wrong and what to do. Values that may be secret are not
//! shown.

use std::fmt;

use serde::Serialize;

use super::problem_excerpt::Excerpt;

/// All problems of a configuration, in the order of the file.
#[derive(Clone, Debug)]
pub struct Problems {
    /// The name of the file, for the first line of the text.
    pub(super) source: String,
    pub(super) problems: Vec<Problem>,
    /// How many further problems are not kept.
    pub(super) more: usize,
}

/// One problem of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file, the variable or the option with the problem.
    pub source: String,
    /// The line, from 1; `None` in a variable or an option.
    pub line: Option<usize>,
    /// The column in characters, from 1; `None` in a variable or an option.
    pub column: Option<usize>,
    /// The full name of the setting, such as `outbox.shop.poller.batch`; empty for the file as a whole.
    pub setting: String,
    /// What is wrong, and what to do.
    pub what: String,
    #[serde(skip)]
    pub(super) excerpt: Option<Excerpt>,
}

impl Problems {
    /// One problem with the file as a whole.
    pub(super) fn of_file(source: String, what: String) -> Self {
        let setting = String::new();
        let problem =
            Problem { source: source.clone(), line: None, column: None, setting, what, excerpt: None };
        Self { source, problems: vec![problem], more: 0 }
    }

    /// The first 100 problems, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter()
    }

    /// How many problems there are in all.
    pub fn count(&self) -> usize {
        self.problems.len() + self.more
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count();
        write!(f, "{} has {count} problem{}", self.source, if count == 1 { "" } else { "s" })?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n\n{problem}"))?;
        if self.more > 0 {
            write!(f, "\n\nand {} more: fix these first", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl Problem {
    /// The problem without the excerpt of its line.
    pub(crate) fn in_one_line(&self) -> String {
        Self { excerpt: None, ..self.clone() }.to_string()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, ":{line}:{column}")?;
        }
        if !self.setting.is_empty() {
            write!(f, ": {}", self.setting)?;
        }
        write!(f, ": {}", self.what)?;
        self.excerpt.iter().try_for_each(|excerpt| write!(f, "{excerpt}"))
    }
}

/// The name that is most similar to what was typed, if it is similar enough to be meant.
pub(super) fn closest<'a>(typed: &str, names: &[&'a str]) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(&typed, &name.to_lowercase());
    let best = names.iter().map(|name| (likeness(name), *name)).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.8).then_some(best.1)
}

/// A question with the most similar name, or `otherwise`.
pub(super) fn did_you_mean(typed: &str, names: &[&str], otherwise: impl FnOnce() -> String) -> String {
    closest(typed, names).map_or_else(otherwise, |name| format!("did you mean `{name}`?"))
}

/// A question with the most similar name, or a list of all names.
pub(super) fn suggestion(typed: &str, names: &[&str]) -> String {
    did_you_mean(typed, names, || format!("known are {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_names_are_suggested() {
        assert_eq!(suggestion("bach", &["batch", "interval"]), "did you mean `batch`?");
        assert_eq!(suggestion("Workers", &["workers"]), "did you mean `workers`?");
        assert_eq!(suggestion("zzz", &["a", "b"]), "known are a, b");
    }
}
