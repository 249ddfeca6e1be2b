//! The ratios of all image pipelines, taken together.

/// An application that ran on our side.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Schedules of Halide's, and the median of our time over theirs.
    pub times: Vec<(String, f64)>,
    /// Our compile time over that of the schedule by hand.
    pub compile: Option<f64>,
}

/// A number with its name and unit.
pub type Fact = (&'static str, f64, String);

/// The line on a ratio above 1.
pub fn lost(application: &str, schedule: &str, median: f64) -> Option<String> {
    (median > 1.0).then(|| format!("{application}: slower than Halide's {schedule}: {median:.3}"))
}

/// The summary over all that ran; `hand` is the name of the schedule by hand.
pub fn summary(outcomes: &[Outcome], hand: &str) -> Vec<Fact> {
    let rows: Vec<f64> = outcomes.iter().flat_map(|o| o.times.iter().map(|t| t.1)).collect();
    let best = outcomes.iter().filter_map(|o| o.times.iter().map(|t| t.1).reduce(f64::max)).collect();
    let by_hand = outcomes.iter().flat_map(|o| o.times.iter().filter(|t| t.0 == hand).map(|t| t.1));
    let compile: Vec<f64> = outcomes.iter().filter_map(|o| o.compile).collect();
    let means = [
        ("summary: time, sumsq / best of Halide's", best),
        ("summary: time, sumsq / hand", by_hand.collect()),
        ("summary: compile time, sumsq / hand", compile.clone()),
    ];
    let mut facts: Vec<Fact> = means.into_iter().filter_map(|(name, ratios)| mean(name, &ratios)).collect();
    facts.push(above("summary: time, rows above 1", &rows, 1.0));
    facts.push(above("summary: compile time, applications above 0.5", &compile, 0.5));
    facts
}

fn mean(name: &'static str, ratios: &[f64]) -> Option<Fact> {
    let unit = format!("x, geometric mean of {} applications", ratios.len());
    Some((name, geometric_mean(ratios)?, unit))
}

fn above(name: &'static str, ratios: &[f64], limit: f64) -> Fact {
    let count = ratios.iter().filter(|r| **r > limit).count();
    (name, count as f64, format!("of {}", ratios.len()))
}

/// The root of the product of numbers above 0, none of no numbers.
fn geometric_mean(numbers: &[f64]) -> Option<f64> {
    let logarithms: f64 = numbers.iter().map(|v| v.ln()).sum();
    (!numbers.is_empty()).then(|| (logarithms / numbers.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(times: &[(&str, f64)], compile: Option<f64>) -> Outcome {
        Outcome { times: times.iter().map(|(s, r)| (s.to_string(), *r)).collect(), compile }
    }

    #[test]
    fn the_best_schedule_has_the_greatest_ratio() {
        let outcomes = [
            outcome(&[("hand", 0.5), ("Adams2019", 2.0)], Some(0.25)),
            outcome(&[("hand", 0.125)], None),
            outcome(&[], Some(1.0)),
        ];
        let facts = summary(&outcomes, "hand");
        let expected = [
            (0.5, "x, geometric mean of 2 applications"),
            (0.25, "x, geometric mean of 2 applications"),
            (0.5, "x, geometric mean of 2 applications"),
            (1.0, "of 3"),
            (1.0, "of 2"),
        ];
        for ((name, value, unit), (number, words)) in facts.iter().zip(expected) {
            assert!((value - number).abs() < 1e-12 && unit == words, "{name}: {value} {unit}");
        }
        assert_eq!(facts.len(), expected.len());
    }

    #[test]
    fn what_has_no_mean_is_left_out() {
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(summary(&[], "hand").len(), 2);
    }

    #[test]
    fn losses_name_application_schedule_and_ratio() {
        let line = lost("sgemm", "hand", 1.0449).unwrap();
        assert_eq!(line, "sgemm: slower than Halide's hand: 1.045");
        assert_eq!(lost("sgemm", "hand", 1.0), None);
    }
}
