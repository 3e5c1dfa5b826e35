//! How far a long command is: one line on standard error, when that is a terminal, from the second second on.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

/// What takes less is not worth a line.
const PATIENCE: Duration = Duration::from_secs(1);

/// A line that shows itself when it is worth it, and goes when it is dropped.
pub struct Progress {
    label: &'static str,
    begun: Instant,
    bar: Option<ProgressBar>,
    is_watched: bool,
}

impl Progress {
    #[allow(clippy::disallowed_methods)] // people wait by the real clock
    pub fn new(label: &'static str) -> Progress {
        Progress { label, begun: Instant::now(), bar: None, is_watched: std::io::stderr().is_terminal() }
    }

    /// Whether anybody sees it.
    pub fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Takes `{unit, done, total}` of the gateway.
    pub fn show(&mut self, progress: &Value) {
        let is_bytes = progress["unit"] == "bytes";
        self.set(progress["done"].as_u64().unwrap_or(0), progress["total"].as_u64(), is_bytes);
    }

    /// So much is done.
    pub fn set(&mut self, done: u64, total: Option<u64>, is_bytes: bool) {
        if !self.is_watched || self.begun.elapsed() < PATIENCE {
            return;
        }
        let label = self.label;
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_prefix(label);
            bar
        });
        bar.set_style(style(total.is_some(), is_bytes));
        if let Some(total) = total {
            bar.set_length(total);
        }
        bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(has_total: bool, is_bytes: bool) -> ProgressStyle {
    let template = match (has_total, is_bytes) {
        (true, true) => "{prefix} {bar:30} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left",
        (true, false) => "{prefix} {bar:30} {pos}/{len} {per_sec}, {eta} left",
        (false, true) => "{prefix} {bytes} {bytes_per_sec}",
        (false, false) => "{prefix} {pos} {per_sec}",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_the_line_is_a_valid_template() {
        for template in [
            "{prefix} {bar:30} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left",
            "{prefix} {bar:30} {pos}/{len} {per_sec}, {eta} left",
        ] {
            assert!(ProgressStyle::with_template(template).is_ok());
        }
    }
}
