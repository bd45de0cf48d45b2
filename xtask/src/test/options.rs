//! Command-line arguments of `cargo xtask test`.

/// Most test programs wait for servers, so three of them keep two cores busy.
const DEFAULT_JOBS: usize = 3;

/// The parts of the run that the user wants. Default: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Only tidy and the tests that need no server, with a short simulation.
    pub(super) quick: bool,
    /// How many test programs run at a time. Default: [`DEFAULT_JOBS`].
    pub(super) jobs: Option<usize>,
    /// Only the steps whose name contains this.
    pub(super) step: Option<String>,
    /// Only the tests of this package.
    pub(super) package: Option<String>,
    /// Only the test programs of this name.
    pub(super) test: Option<String>,
    /// Only the tests whose name contains this.
    pub(super) filter: Option<String>,
}

impl Options {
    /// Returns `None` if an argument is unknown or lacks its value.
    pub(crate) fn parse(args: &[&str]) -> Option<Self> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().map(|value| (*value).to_owned());
            match *arg {
                "--quick" => options.quick = true,
                "--jobs" | "-j" => options.jobs = Some(value()?.parse().ok().filter(|jobs| *jobs > 0)?),
                "--step" => options.step = Some(value()?),
                "--package" | "-p" => options.package = Some(value()?),
                "--test" => options.test = Some(value()?),
                filter if !filter.starts_with('-') && options.filter.is_none() => {
                    options.filter = Some(filter.to_owned());
                }
                _ => return None,
            }
        }
        Some(options)
    }

    pub(super) fn jobs(&self) -> usize {
        self.jobs.unwrap_or(DEFAULT_JOBS)
    }

    /// Whether only some of the tests are wanted. Then no other step runs.
    pub(super) fn is_narrow(&self) -> bool {
        self.package.is_some() || self.test.is_some() || self.filter.is_some()
    }

    /// Whether the test program of this package and target is wanted.
    pub(super) fn want_program(&self, package: &str, target: &str) -> bool {
        self.package.as_ref().is_none_or(|wanted| wanted == package)
            && self.test.as_ref().is_none_or(|wanted| wanted == target)
    }

    /// Whether the step of this name is wanted.
    pub(super) fn wants(&self, step: &str) -> bool {
        self.step.as_ref().is_none_or(|wanted| step.contains(wanted.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_any_order() {
        let options = Options::parse(&["retry", "--test", "outbox", "-p", "posthaste"]).unwrap();
        assert_eq!(options.package.as_deref(), Some("posthaste"));
        assert_eq!(options.test.as_deref(), Some("outbox"));
        assert_eq!(options.filter.as_deref(), Some("retry"));
        assert!(options.is_narrow());
        assert!(!Options::parse(&["--quick"]).unwrap().is_narrow());
    }

    #[test]
    fn unknown_and_incomplete_arguments_are_refused() {
        for args in [&["--jobs", "0"][..], &["--tests"], &["--step"], &["one", "two"]] {
            assert_eq!(Options::parse(args), None, "{args:?}");
        }
    }

    #[test]
    fn step_is_chosen_by_a_part_of_its_name() {
        let options = Options::parse(&["--step", "sqlx"]).unwrap();
        assert!(options.wants("sqlx with mysql alone") && !options.wants("clippy"));
        assert!(Options::default().wants("clippy"));
    }
}
