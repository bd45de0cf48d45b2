//! A bar on stderr for work that takes a while, when a person is watching.

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::Output;

/// A bar of `total` steps, or one that only counts; hidden when nobody watches.
pub(crate) fn bar(output: Output, total: Option<u64>, doing: &'static str) -> ProgressBar {
    if !output.is_watched() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match total {
        Some(total) => (ProgressBar::new(total), "{msg} [{bar:40}] {pos}/{len} {eta}"),
        None => (ProgressBar::no_length(), "{msg} {spinner} {pos}"),
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style).with_message(doing)
}
