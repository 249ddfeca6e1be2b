//! A progress bar on standard error, where that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;
use sumsq::Iteration;

/// The bar of one solve.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar for at most that many steps.
    pub fn new(steps: usize) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{elapsed} {wide_bar} {pos}/{len} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(bar)
    }

    /// A line for solves one after the other, their number unknown.
    pub fn open_ended() -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{elapsed} {spinner} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(bar)
    }

    /// After each step of the solve `label`.
    pub fn step_of(&self, label: &str, step: &Iteration) {
        self.0.set_message(format!("{label}: step {}, E = {:.6e}", step.iteration, step.energy));
    }

    /// Removes it, before anything is printed.
    pub fn end(self) {}

    /// After each step.
    pub fn step(&self, step: &Iteration) {
        self.0.set_position(step.iteration as u64);
        self.0.set_message(format!("E = {:.6e}", step.energy));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
