//! Statistics: rates, medians of rounds, and ratios within rounds.

use std::time::Duration;

use serde::Serialize;

/// A ratio within each round.
pub(super) type Ratio = Spread;

/// A figure of each round. If the rounds differ widely, background load has distorted the measurement.
#[derive(Debug, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) lowest: f64,
    pub(super) highest: f64,
}

impl Spread {
    /// `None` if there are no rounds.
    pub(super) fn of(figures: impl Iterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<f64> = figures.map(|figure| rounded(figure, 3)).collect();
        figures.sort_by(f64::total_cmp);
        let (lowest, highest) = (*figures.first()?, *figures.last()?);
        Some(Self { lowest, highest, median: rounded(median(figures), 3) })
    }

    /// The row of a ratio: the percentage and its meaning.
    pub(super) fn row(&self, of_what: &str) -> (String, String) {
        let percent = |ratio: f64| format!("{:.0}", ratio * 100.0);
        let rounds = format!("{of_what} (rounds: {} to {} %)", percent(self.lowest), percent(self.highest));
        (format!("{} %", percent(self.median)), rounds)
    }
}

pub(crate) fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(1e-9)
}

pub(super) fn rounded(figure: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (figure * scale).round() / scale
}

pub(super) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => 0.0,
        len if len % 2 == 1 => figures[middle],
        _ => (figures[middle - 1] + figures[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(median(vec![4.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(Vec::new()), 0.0);
    }

    #[test]
    fn ratio_shows_how_far_its_rounds_disagree() {
        let (figure, sentence) = Ratio::of([0.9, 0.7, 1.1].into_iter()).unwrap().row("of it");
        assert_eq!((figure.as_str(), sentence.as_str()), ("90 %", "of it (rounds: 70 to 110 %)"));
    }
}
