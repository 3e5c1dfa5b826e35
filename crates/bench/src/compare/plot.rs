//! Plots of one workload, as SVG to be part of a page. Colours are those of the page's light theme; its style sheet has others for the
//! dark one, which it finds by the colour.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::results::Row;

/// Colours of servers, in their order; `--series-…` in the style sheet.
pub const COLORS: [RGBColor; 4] = [
    RGBColor(0x1f, 0x6f, 0xb4),
    RGBColor(0xc2, 0x41, 0x0c),
    RGBColor(0x8a, 0x6d, 0x00),
    RGBColor(0x7c, 0x3a, 0xad),
];

const SIZE: (u32, u32) = (560, 300);
const LABELS: (&str, u32) = ("sans-serif", 13);
/// Parts of a plot's width between points of different servers with as many clients.
const ASIDE: f64 = 0.06;
/// Intervals end at so many times the largest rate.
const CUT: f64 = 2.0;
/// The last quantile that is drawn, in nines: 99.99 %.
const NINES: f64 = 4.0;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Rates over the number of clients with their intervals.
pub fn rates(servers: &[&str], rows: &[&Row]) -> Result<String> {
    drawn(|area| {
        let mut clients: Vec<usize> = rows.iter().map(|row| row.clients).collect();
        clients.sort_unstable();
        clients.dedup();
        let found = rows.iter().filter_map(|row| Some((*row, row.of(|sample| sample.rate)?)));
        let points: Vec<(usize, f64, f64, f64)> = found
            .filter_map(|(row, rate)| {
                let (series, place) = (at(servers, &row.server)?, at(&clients, &row.clients)?);
                let aside = (series as f64 - (servers.len() as f64 - 1.0) / 2.0) * ASIDE;
                Some((series, place as f64 + aside, rate.mean, rate.half_width))
            })
            .collect();
        let most =
            |of: fn(&(usize, f64, f64, f64)) -> f64| points.iter().map(of).fold(f64::MIN_POSITIVE, f64::max);
        // An interval of few repetitions may be many times as long as everything else.
        let top = most(|(_, _, mean, half)| mean + half).min(most(|(_, _, mean, _)| *mean) * CUT) * 1.05;
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(38)
            .y_label_area_size(66)
            .build_cartesian_2d(-0.5..clients.len() as f64 - 0.5, 0.0..top)?;
        let label = |x: &f64| match clients.get(x.round() as usize) {
            Some(count) if (x - x.round()).abs() < 0.01 && *x > -0.5 => count.to_string(),
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.15))
            .axis_style(BLACK.mix(0.5))
            .label_style(LABELS)
            .x_labels(clients.len() * 2 + 1)
            .x_label_formatter(&label)
            .y_labels(6)
            .y_label_formatter(&|y| super::page::figure::number(*y))
            .x_desc("clients")
            .draw()?;
        for (series, color) in COLORS.iter().enumerate() {
            let own = || points.iter().filter(move |point| point.0 == series);
            chart.draw_series(LineSeries::new(own().map(|&(_, x, y, _)| (x, y)), color.stroke_width(2)))?;
            chart.draw_series(own().map(|&(_, x, mean, half)| {
                ErrorBar::new_vertical(
                    x,
                    (mean - half).max(0.0),
                    mean,
                    (mean + half).min(top),
                    color.filled(),
                    7,
                )
            }))?;
        }
        Ok(())
    })
}

/// The time within which so many operations were answered, both ways logarithmic: the slower ones have as much room as all others.
pub fn times(servers: &[&str], rows: &[&Row]) -> Result<String> {
    drawn(|area| {
        let (mut lines, mut end) = (Vec::new(), 2.0f64);
        for row in rows {
            let (times, Some(series)) = (row.latencies().all, at(servers, &row.server)) else { continue };
            if times.count() == 0 {
                continue;
            }
            // No further than there are operations.
            let last = (times.count() as f64).log10().min(NINES);
            end = end.max(last.ceil());
            let steps = (0..=(last * 20.0) as u32).map(|step| f64::from(step) / 20.0);
            let point = |nines: f64| {
                let time = times.quantile(1.0 - 10f64.powf(-nines));
                (nines, (time.as_secs_f64() * 1000.0).max(1e-4))
            };
            lines.push((series, steps.map(point).collect::<Vec<_>>()));
        }
        let values = || lines.iter().flat_map(|(_, points)| points.iter().map(|point| point.1));
        let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        if !low.is_finite() {
            return Ok(());
        }
        // Whole decades, so that at least two of them have labels.
        let (low, high) = (10f64.powf(low.log10().floor()), 10f64.powf((high * 1.05).log10().ceil()));
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(30)
            .x_label_area_size(38)
            .y_label_area_size(66)
            .build_cartesian_2d(0.0..end, (low..high).log_scale())?;
        let label = |x: &f64| match x {
            x if (x - x.round()).abs() > 0.01 => String::new(),
            x if *x < 0.5 => "0 %".into(),
            x => format!("{} %", (100.0 - 100.0 * 10f64.powf(-x)) as f32),
        };
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.15))
            .axis_style(BLACK.mix(0.5))
            .label_style(LABELS)
            .x_labels(end as usize + 1)
            .x_label_formatter(&label)
            .y_labels(6)
            .y_label_formatter(&|y| format!("{} ms", super::page::figure::tick(*y)))
            .x_desc("of all operations took no longer")
            .draw()?;
        for (series, points) in lines {
            if let Some(color) = COLORS.get(series) {
                chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?;
            }
        }
        Ok(())
    })
}

fn at<T: PartialEq<U>, U: ?Sized>(all: &[T], one: &U) -> Option<usize> {
    all.iter().position(|it| it == one)
}

fn drawn(draw: impl Fn(&Area<'_>) -> Drawn) -> Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        draw(&area).and_then(|()| Ok(area.present()?)).map_err(|cause| anyhow!("plotting: {cause}"))?;
    }
    Ok(text)
}
