//! Plots: one line for each workload or call, both ways logarithmic.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::degree::{self, DEGREES};
use super::report::Row;

/// A line of a plot: its name, and places from left to right with their values.
type Line = (String, Vec<(f64, f64)>);

/// How many times faster than one operation at a time vectors are, over the delay.
pub fn ratios(path: &Path, title: &str, rows: &[&Row]) -> Result<()> {
    let mut delays: Vec<f64> = rows.iter().map(|row| row.delay).collect();
    delays.sort_by(f64::total_cmp);
    delays.dedup();
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let (name, Some(ratio)) = (row.workload.name(), row.ratio(0)) else { continue };
        let place = delays.iter().position(|delay| *delay == row.delay).unwrap_or(0) as f64;
        match lines.iter_mut().find(|line| line.0 == name) {
            Some(line) => line.1.push((place, ratio)),
            None => lines.push((name, vec![(place, ratio)])),
        }
    }
    let labels: Vec<String> = delays.iter().map(|delay| format!("{delay} ms")).collect();
    draw(path, title, &labels, "times faster than one at a time", &lines)
}

/// Milliseconds of an element, over the number of elements of a call.
pub fn degrees(path: &Path, title: &str, rows: &[&degree::Row]) -> Result<()> {
    let labels: Vec<String> = DEGREES.iter().map(ToString::to_string).collect();
    let line = |row: &&degree::Row| {
        let points = row.degrees.iter().enumerate().map(|(at, run)| (at as f64, run.seconds * 1000.0));
        (row.call.to_owned(), points.collect())
    };
    draw(path, title, &labels, "ms of an element", &rows.iter().map(line).collect::<Vec<Line>>())
}

fn draw(path: &Path, title: &str, labels: &[String], values: &str, lines: &[Line]) -> Result<()> {
    let area = SVGBackend::new(path, (900, 420)).into_drawing_area();
    draw_on(&area, title, labels, values, lines)
        .map_err(|cause| anyhow!("plotting {}: {cause}", path.display()))
}

fn draw_on(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    labels: &[String],
    values: &str,
    lines: &[Line],
) -> Result<(), Box<dyn std::error::Error>> {
    area.fill(&WHITE)?;
    let all = || lines.iter().flat_map(|line| line.1.iter().map(|point| point.1));
    let (low, high) = (all().fold(1.0, f64::min) / 1.2, all().fold(1.0, f64::max) * 1.2);
    // Room for the names on the right.
    let width = labels.len() as f64 * 1.5;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(70)
        .build_cartesian_2d(-0.5..width, (low..high).log_scale())?;
    let label = |x: &f64| match labels.get(x.round() as usize) {
        Some(label) if (x - x.round()).abs() < 0.01 && *x > -0.5 => label.clone(),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(labels.len() * 3 + 2)
        .x_label_formatter(&label)
        .y_desc(values)
        .draw()?;
    let line_of_one = [(-0.5, 1.0), (labels.len() as f64 - 0.5, 1.0)];
    chart.draw_series(LineSeries::new(line_of_one, BLACK.mix(0.4)))?;
    for (at, (name, points)) in lines.iter().enumerate() {
        let color = Palette99::pick(at).to_rgba();
        chart
            .draw_series(LineSeries::new(points.iter().copied(), color.stroke_width(2)).point_size(3))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::MiddleRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    area.present()?;
    Ok(())
}
