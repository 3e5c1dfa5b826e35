//! The report: Markdown with a table and a plot for each workload.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::Result;

use crate::Compare;
use crate::plot;
use crate::sample::{Estimate, Run, estimate};
use crate::workload::Workload;

/// All runs of one workload with one number of clients on one server.
pub struct Row {
    pub workload: Workload,
    pub clients: usize,
    pub peer: &'static str,
    pub runs: Vec<Run>,
}

impl Row {
    pub fn rate(&self) -> Estimate {
        self.of(|run| run.rate)
    }

    fn of(&self, what: impl Fn(&Run) -> f64) -> Estimate {
        estimate(&self.runs.iter().map(what).collect::<Vec<_>>())
    }
}

/// Writes `report.md` and the plots beside it.
pub fn write(arguments: &Compare, verdicts: &[(&str, &str, Result<()>)], rows: &[Row]) -> Result<()> {
    let mut text = String::from("# Benchmark\n\n");
    writeln!(
        text,
        "The same load generator over NFSv4.1 on loopback; servers take turns; {} repetitions; mean and half-width of \
         the 95 % confidence interval. CPU is the server's, user and system, for each unit. {}\n",
        arguments.setting.repeat,
        machine()
    )?;
    if arguments.setting.shrink > 1 {
        writeln!(
            text,
            "All sizes divided by {}: a quick look, not a measurement.\n",
            arguments.setting.shrink
        )?;
    }
    text.push_str("## Durability\n\n| server | an acknowledged stable write or name | survived SIGKILL |\n|---|---|---|\n");
    for (name, promise, verdict) in verdicts {
        let verdict = match verdict {
            Ok(()) => "yes, all 200 files".into(),
            Err(error) => format!("**no**: {error:#}"),
        };
        writeln!(text, "| {name} | {promise} | {verdict} |")?;
    }
    text.push('\n');
    let mut workloads: Vec<Workload> = Vec::new();
    for row in rows {
        if !workloads.contains(&row.workload) {
            workloads.push(row.workload);
        }
    }
    for workload in workloads {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.workload == workload).collect();
        section(&mut text, arguments, workload, &rows)?;
    }
    let path = arguments.setting.report("report.md");
    std::fs::write(&path, text)?;
    eprintln!("report: {}", path.display());
    Ok(())
}

fn section(text: &mut String, arguments: &Compare, workload: Workload, rows: &[&Row]) -> Result<()> {
    let unit = workload.unit();
    let singular = unit.trim_end_matches('s');
    writeln!(text, "## {}\n", workload.name())?;
    writeln!(
        text,
        "| clients | server | {unit}/s | kurma / server | CPU µs per {singular} | RPCs per {singular} |\n\
         |---:|---|---:|---:|---:|---:|"
    )?;
    for row in rows {
        let kurma = rows.iter().find(|other| other.clients == row.clients && other.peer == "kurma");
        let ratio = match kurma {
            Some(kurma) if row.peer != "kurma" => format!("{:.2}", kurma.rate().mean / row.rate().mean),
            _ => String::new(),
        };
        let rate = row.rate();
        writeln!(
            text,
            "| {} | {} | {:.0} ± {:.0} | {ratio} | {:.0} | {:.2} |",
            row.clients,
            row.peer,
            rate.mean,
            rate.half_width,
            row.of(|run| run.cpu_micros).mean,
            row.of(|run| run.rpcs).mean
        )?;
    }
    let file: String =
        workload.name().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let file = format!("{file}.svg");
    plot::draw(&arguments.setting.report(&file), &format!("{}: {unit}/s", workload.name()), rows)?;
    writeln!(text, "\n![{}]({file})\n", workload.name())?;
    Ok(())
}

/// What it ran on.
pub fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name").and_then(|rest| rest.split(':').nth(1)))
        .unwrap_or(" unknown processor")
        .trim();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = Command::new("uname")
        .arg("-r")
        .output()
        .map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    format!("Machine: {cores} cores, {model}, Linux {}.", kernel.unwrap_or_default())
}
