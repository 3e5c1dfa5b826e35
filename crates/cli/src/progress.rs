//! How far a long command is: one line on standard error, when that is a terminal, from the second second on.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

/// What takes less is not worth a line.
const PATIENCE: Duration = Duration::from_secs(1);

/// A line that shows itself when it is worth it, and goes when it is dropped.
pub struct Progress {
    begun: Instant,
    /// If anybody sees it. It measures the rate before it is shown, too.
    bar: Option<ProgressBar>,
    form: Option<Form>,
    is_shown: bool,
}

/// What the line tells.
#[derive(Clone, Copy, PartialEq)]
struct Form {
    has_total: bool,
    is_bytes: bool,
}

impl Progress {
    #[allow(clippy::disallowed_methods)] // people wait by the real clock
    pub fn new(label: &'static str) -> Progress {
        let bar = std::io::stderr()
            .is_terminal()
            .then(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_prefix(label));
        Progress { begun: Instant::now(), bar, form: None, is_shown: false }
    }

    /// Not if names are told of on the way: they would be written into the line.
    pub fn unless(mut self, names_are_told: bool) -> Progress {
        if names_are_told {
            self.bar = None;
        }
        self
    }

    /// Whether anybody sees it.
    pub fn is_watched(&self) -> bool {
        self.bar.is_some()
    }

    /// Takes `{unit, done, total}` of the gateway.
    pub fn show(&mut self, progress: &Value) {
        let is_bytes = progress["unit"] == "bytes";
        self.set(progress["done"].as_u64().unwrap_or(0), progress["total"].as_u64(), is_bytes);
    }

    /// So much is done.
    pub fn set(&mut self, done: u64, total: Option<u64>, is_bytes: bool) {
        let Some(bar) = &self.bar else { return };
        let form = Form { has_total: total.is_some(), is_bytes };
        if self.form != Some(form) {
            self.form = Some(form);
            bar.set_style(style(form));
        }
        if let Some(total) = total {
            bar.set_length(total);
        }
        bar.set_position(done);
        if !self.is_shown && self.begun.elapsed() >= PATIENCE {
            self.is_shown = true;
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take_if(|_| self.is_shown) {
            bar.finish_and_clear();
        }
    }
}

fn template(form: Form) -> &'static str {
    match (form.has_total, form.is_bytes) {
        (true, true) => "{prefix} {bar:20} {percent}% {bytes}/{total_bytes} {bytes_per_sec}, {eta} left",
        (true, false) => "{prefix} {bar:20} {percent}% {pos}/{len} {per_sec}, {eta} left",
        (false, true) => "{prefix} {bytes} {bytes_per_sec}",
        (false, false) => "{prefix} {pos} {per_sec}",
    }
}

fn style(form: Form) -> ProgressStyle {
    ProgressStyle::with_template(template(form)).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_the_line_is_a_valid_template() {
        for (has_total, is_bytes) in [(true, true), (true, false), (false, true), (false, false)] {
            assert!(ProgressStyle::with_template(template(Form { has_total, is_bytes })).is_ok());
        }
    }
}
