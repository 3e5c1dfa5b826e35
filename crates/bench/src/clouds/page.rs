//! The report of the parts, with their plots.

use std::fmt::Write as _;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::Clouds;
use crate::machine::machine;

/// Markdown so far, what was checked, and what of it was not reached.
pub struct Page {
    text: String,
    folder: std::path::PathBuf,
    checked: Vec<String>,
    missed: Vec<String>,
}

/// Points of one line of a plot, from left to right.
type Line<'a> = (&'a str, &'a [(f64, f64)]);

impl Page {
    pub fn new(arguments: &Clouds) -> Page {
        let mut text = String::from("# Clouds\n\n");
        let clouds: Vec<String> = arguments
            .set
            .medians()
            .iter()
            .map(|(name, read, write)| format!("{name} {read:.0} ms reads, {write:.0} ms writes"))
            .collect();
        let _ = writeln!(
            text,
            "Four emulated clouds; medians of their answers: {}; log-normal, with a 99th percentile of {} times the median; seed {}. {}\n",
            clouds.join("; "),
            arguments.tail,
            arguments.seed,
            machine()
        );
        Page { text, folder: arguments.setting.report(""), checked: Vec::new(), missed: Vec::new() }
    }

    /// What may be `most` at most.
    pub fn at_most(&mut self, most: f64, what: &str, value: f64) {
        self.check(value <= most, format!("{what}: {value:.3}, at most {most}"));
    }

    /// What has to be `least` at least.
    pub fn at_least(&mut self, least: f64, what: &str, value: f64) {
        self.check(value >= least, format!("{what}: {value:.3}, at least {least}"));
    }

    fn check(&mut self, is_reached: bool, told: String) {
        if !is_reached {
            self.missed.push(told.clone());
        }
        self.checked.push(format!("- {}{told}\n", if is_reached { "" } else { "**not reached:** " }));
    }

    pub fn section(&mut self, title: &str, text: &str) {
        let _ = writeln!(self.text, "## {title}\n\n{text}\n");
        eprintln!("{text}");
    }

    /// Draws lines over seconds into a file beside the report; how the report shows it.
    pub fn plot(&self, file: &str, title: &str, unit: &str, lines: &[Line<'_>]) -> Result<String> {
        let path = self.folder.join(file);
        self.draw(&path, title, unit, lines)
            .map_err(|cause| anyhow!("plotting {}: {cause}", path.display()))?;
        Ok(format!("![{title}]({file})"))
    }

    fn draw(
        &self,
        path: &std::path::Path,
        title: &str,
        unit: &str,
        lines: &[Line<'_>],
    ) -> Result<(), Box<dyn std::error::Error>> {
        let all = || lines.iter().flat_map(|(_, points)| points.iter());
        let (width, height) =
            (all().map(|point| point.0).fold(1.0, f64::max), all().map(|point| point.1).fold(1.0, f64::max));
        let area = SVGBackend::new(path, (900, 420)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(36)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..width, 0.0..height * 1.1)?;
        chart.configure_mesh().disable_x_mesh().x_desc("seconds").y_desc(unit).draw()?;
        for (at, (name, points)) in lines.iter().enumerate() {
            let color = Palette99::pick(at).to_rgba();
            chart
                .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)))?
                .label(*name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .draw()?;
        area.present()?;
        Ok(())
    }

    /// Into the folder of the report.
    ///
    /// # Errors
    /// Something was not reached, and was to be checked.
    pub fn write(mut self, arguments: &Clouds) -> Result<()> {
        let checked = self.checked.concat();
        self.section("What was to be reached", &checked);
        let path = arguments.setting.report("clouds.md");
        std::fs::write(&path, &self.text)?;
        eprintln!("report: {}", path.display());
        match arguments.check && !self.missed.is_empty() {
            true => Err(anyhow!("not reached: {}", self.missed.join("; "))),
            false => Ok(()),
        }
    }
}
