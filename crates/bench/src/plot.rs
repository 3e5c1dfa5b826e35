//! One plot: rate over number of clients, a line with error bars for each server.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use crate::report::Row;

const COLORS: [RGBColor; 4] =
    [RGBColor(31, 119, 180), RGBColor(214, 39, 40), RGBColor(255, 152, 30), RGBColor(44, 160, 44)];

/// Draws `rows` of one workload into an SVG file.
pub fn draw(path: &Path, title: &str, rows: &[&Row]) -> Result<()> {
    let mut clients: Vec<usize> = rows.iter().map(|row| row.clients).collect();
    clients.sort_unstable();
    clients.dedup();
    let mut peers: Vec<&str> = Vec::new();
    for row in rows {
        if !peers.contains(&row.peer) {
            peers.push(row.peer);
        }
    }
    let top = rows.iter().map(|row| row.rate().mean + row.rate().half_width).fold(1.0, f64::max) * 1.1;
    let wrong = |cause: &dyn std::fmt::Display| anyhow!("plotting {}: {cause}", path.display());
    let area = SVGBackend::new(path, (640, 360)).into_drawing_area();
    area.fill(&WHITE).map_err(|cause| wrong(&cause))?;
    let width = clients.len() as f64;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(70)
        .build_cartesian_2d(-0.5..width - 0.5, 0.0..top)
        .map_err(|cause| wrong(&cause))?;
    let place = |count: usize| clients.iter().position(|&other| other == count).unwrap_or(0) as f64;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(clients.len() * 2 + 1)
        .x_label_formatter(&|x| {
            let at = x.round();
            match clients.get(at as usize) {
                Some(count) if (x - at).abs() < 0.01 && at >= 0.0 => count.to_string(),
                _ => String::new(),
            }
        })
        .y_label_formatter(&|y| format!("{y:.0}"))
        .x_desc("clients")
        .draw()
        .map_err(|cause| wrong(&cause))?;
    for (peer, color) in peers.iter().zip(COLORS) {
        let points: Vec<(f64, f64, f64)> = rows
            .iter()
            .filter(|row| row.peer == *peer)
            .map(|row| (place(row.clients), row.rate().mean, row.rate().half_width))
            .collect();
        chart
            .draw_series(LineSeries::new(points.iter().map(|&(x, y, _)| (x, y)), color.stroke_width(2)))
            .map_err(|cause| wrong(&cause))?
            .label(*peer)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2)));
        chart
            .draw_series(points.iter().map(|&(x, mean, half)| {
                ErrorBar::new_vertical(x, (mean - half).max(0.0), mean, mean + half, color.filled(), 8)
            }))
            .map_err(|cause| wrong(&cause))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()
        .map_err(|cause| wrong(&cause))?;
    area.present().map_err(|cause| wrong(&cause))
}
