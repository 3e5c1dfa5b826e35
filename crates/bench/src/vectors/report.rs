//! The report: tables in Markdown, and plots.

use std::fmt::Write as _;

use anyhow::Result;

use super::contender::CONTENDERS;
use super::degree::{self, DEGREES};
use super::scene::LONG;
use super::workload::Workload;
use super::{Vectors, chart, mean};
use crate::personality::PERSONALITIES;
use crate::sample::{Median, median};

/// One time of one workload.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub seconds: f64,
    pub round_trips: f64,
    /// It was not stopped on the way; if it was, `seconds` are in proportion to the round trips that it made until then.
    pub is_whole: bool,
}

impl Run {
    /// One that was not stopped.
    pub fn whole(seconds: f64, round_trips: f64) -> Run {
        Run { seconds, round_trips, is_whole: true }
    }

    /// One that made some of so many round trips until it was stopped.
    pub fn stopped(seconds: f64, made: f64, round_trips: f64) -> Run {
        Run { seconds: seconds * (round_trips / made.max(1.0)), round_trips, is_whole: false }
    }
}

/// All times of one workload over one line, of each of [`CONTENDERS`].
pub struct Row {
    pub server: &'static str,
    pub workload: Workload,
    pub delay: f64,
    pub runs: [Vec<Run>; CONTENDERS.len()],
    /// Who could not do it.
    pub failed: [bool; CONTENDERS.len()],
}

/// Speed-ups of the paper, by the beginning of a workload's name and the delay each way that is nearest (kurma.md §3.12).
const PAPER: [(&str, f64, f64); 21] = [
    ("read 1000 files of 1 KiB", 0.2, 19.0),
    ("read 1000 files of 1 KiB", 5.0, 103.0),
    ("write 1000 files of 1 KiB", 0.2, 5.0),
    ("write 1000 files of 1 KiB", 5.0, 40.0),
    ("cp -rs", 0.2, 7.0),
    ("cp -rs", 5.0, 52.0),
    ("cp -rs", 30.0, 106.0),
    ("cp -r", 0.2, 8.0),
    ("cp -r", 5.0, 60.0),
    ("ls -lR", 5.0, 10.0),
    ("ls -lR", 30.0, 12.0),
    ("rm -rf", 0.2, 18.0),
    ("rm -rf", 5.0, 133.0),
    ("rm -rf", 30.0, 263.0),
    ("tar", 0.2, 5.0),
    ("tar", 5.0, 37.0),
    ("untar", 0.2, 5.0),
    ("untar", 5.0, 36.0),
    ("NFS server", 5.0, 5.0),
    ("mail server", 30.0, 14.0),
    ("page of 96", 5.0, 9.9),
];

impl Row {
    pub fn new(server: &'static str, workload: Workload, delay: f64) -> Row {
        Row { server, workload, delay, runs: Default::default(), failed: Default::default() }
    }

    /// Seconds of all runs together.
    pub fn measured(&self) -> f64 {
        self.runs.iter().flatten().map(|run| run.seconds).sum()
    }

    fn seconds(&self, contender: usize) -> f64 {
        seconds(&self.runs[contender]).median
    }

    /// How many times faster than this contender vectors are.
    pub fn ratio(&self, contender: usize) -> Option<f64> {
        let both = [contender, 1].iter().all(|at| !self.runs[*at].is_empty() && !self.failed[*at]);
        both.then(|| self.seconds(contender) / self.seconds(1))
    }

    fn paper(&self) -> Option<f64> {
        let name = self.workload.name();
        let is_it = |it: &&(&str, f64, f64)| name.starts_with(it.0) && it.1 == self.delay;
        PAPER.iter().find(is_it).map(|it| it.2)
    }

    /// Says on standard error what was measured.
    pub fn announce(&self) {
        let mut text = format!("{}, {} ms, {}:", self.server, self.delay, self.workload.name());
        for (at, (name, _)) in CONTENDERS.iter().enumerate().filter(|(at, _)| !self.runs[*at].is_empty()) {
            let trips = mean(&self.runs[at], |run| run.round_trips);
            let _ = write!(text, " {name} {:.3} s, {trips:.0} round trips;", self.seconds(at));
        }
        eprintln!("{}", text.trim_end_matches(';'));
    }
}

fn seconds(runs: &[Run]) -> Median {
    median(&runs.iter().map(|run| run.seconds).collect::<Vec<_>>())
}

/// Writes `vectors.md` and the plots beside it.
pub fn write(arguments: &Vectors, rows: &[Row], degrees: &[degree::Row]) -> Result<()> {
    let setting = &arguments.setting;
    let mut text = String::from("# Vectors\n\n");
    let stopped = match arguments.patience {
        Some(patience) => format!(
            " what takes one at a time or nfs4fs longer than {patience} s over any line but the first is stopped, and its time, with ~, is \
             in proportion to the round trips that were made, of those that it makes over the first line;"
        ),
        None => String::new(),
    };
    writeln!(
        text,
        "The vectorized client (`vectors`) against one program that uses one file after the other with the requests of the Linux client \
         (`one at a time`) and against the Python package nfs4fs; by turns, {} repetitions, more of what is over soon, one of what takes a contender more than {LONG} s;{} \
         median and its 95 % confidence interval, of few repetitions all of their range; delay each way, by a TCP proxy, which all of them go through. Each begins with nothing in memory. Ratios above 1 \
         are in favour of vectors. Round trips of tar, untar and nfs4fs are counted on the \
         line, and of tar and untar they are with those of connecting, as their time is that of a whole process. Sizes and counts are \
         divided by {}. `paper` is the speed-up in the paper, over one operation at a time, on other machines and other delays.\n",
        setting.repeat, stopped, setting.shrink
    )?;
    if !rows.is_empty() {
        workloads(&mut text, rows)?;
        personalities(&mut text, setting.shrink)?;
        for (server, group) in groups(rows) {
            let name = format!("vectors-{}-{group}.svg", plain(server));
            let of: Vec<&Row> =
                rows.iter().filter(|row| row.server == server && row.workload.group() == group).collect();
            chart::ratios(&setting.report(&name), &format!("{server}: {group}"), &of)?;
            writeln!(text, "![{server}: {group}]({name})\n")?;
        }
    }
    for (server, delay) in scenes(degrees) {
        let of: Vec<&degree::Row> =
            degrees.iter().filter(|row| row.server == server && row.delay == delay).collect();
        let name = format!("vectors-{}-degree-{delay}.svg", plain(server));
        degree_table(&mut text, server, delay, &of)?;
        chart::degrees(&setting.report(&name), &format!("{server}, {delay} ms each way"), &of)?;
        writeln!(text, "![{server}, {delay} ms: time of an element]({name})\n")?;
    }
    let path = setting.report("vectors.md");
    std::fs::write(&path, text)?;
    eprintln!("report: {}", path.display());
    Ok(())
}

fn workloads(text: &mut String, rows: &[Row]) -> Result<()> {
    writeln!(
        text,
        "## Workloads\n\n\
         | server | workload | delay | one at a time | round trips | vectors | round trips | ratio | paper | nfs4fs | round trips | ratio |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    )?;
    let some = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.1}"));
    for row in rows {
        let cell = |at: usize| match &row.runs[at][..] {
            _ if row.failed[at] => "failed | –".into(),
            [] => "– | –".into(),
            runs => {
                let Median { median, low, high } = seconds(runs);
                let trips = mean(runs, |run| run.round_trips);
                let about = if runs.iter().all(|run| run.is_whole) { "" } else { "~" };
                format!("{about}{median:.3} s ({low:.3}–{high:.3}) | {trips:.0}")
            }
        };
        writeln!(
            text,
            "| {} | {} | {} ms | {} | {} | {} | {} | {} | {} |",
            row.server,
            row.workload.name(),
            row.delay,
            cell(0),
            cell(1),
            some(row.ratio(0)),
            some(row.paper()),
            cell(2),
            some(row.ratio(2))
        )?;
    }
    writeln!(text)?;
    Ok(())
}

fn personalities(text: &mut String, shrink: usize) -> Result<()> {
    writeln!(
        text,
        "The loads of servers, after Filebench's. In a round each thread makes a file, appends to one, removes that of the round before, \
         reads some whole and asks for the attributes of some; all that is written is stable. With vectors a round is one vector.\n\n\
         | load | threads | files | mean size | appended | read | asked for | rounds of a thread |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|"
    )?;
    for it in PERSONALITIES.map(|it| it.shrunk(shrink)) {
        writeln!(
            text,
            "| {} | {} | {} | {} KiB | {} KiB{} | {} | {} | {} |",
            it.name,
            it.threads,
            it.files,
            it.mean >> 10,
            it.append >> 10,
            if it.append_to_read { ", to one that is read" } else { "" },
            it.reads,
            it.stats,
            it.rounds
        )?;
    }
    writeln!(text)?;
    Ok(())
}

fn degree_table(text: &mut String, server: &str, delay: f64, rows: &[&degree::Row]) -> Result<()> {
    writeln!(
        text,
        "## Elements of a call: {server}, {delay} ms each way\n\n\
         Milliseconds of an element, and round trips of a call. `one` is one operation after the other, and its round trips for an element.\n"
    )?;
    let degrees: String = DEGREES.iter().map(|degree| format!(" {degree} |")).collect();
    writeln!(text, "| call | one |{degrees}\n|---|---:|{}", "---:|".repeat(DEGREES.len()))?;
    for row in rows {
        let show = |run: &Run| format!(" {:.3} ({:.1}) |", run.seconds * 1000.0, run.round_trips);
        let cells: String = row.degrees.iter().map(show).collect();
        let missing = " – |".repeat(DEGREES.len() - row.degrees.len());
        writeln!(text, "| {} |{}{cells}{missing}", row.call, show(&row.alone))?;
    }
    writeln!(text)?;
    Ok(())
}

/// Server and group of workloads, each once, in order.
fn groups(rows: &[Row]) -> Vec<(&'static str, &'static str)> {
    let mut groups: Vec<_> = Vec::new();
    for row in rows {
        let group = (row.server, row.workload.group());
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

/// Server and delay, each once, in order.
fn scenes(rows: &[degree::Row]) -> Vec<(&'static str, f64)> {
    let mut scenes: Vec<_> = rows.iter().map(|row| (row.server, row.delay)).collect();
    scenes.dedup();
    scenes
}

/// A part of a file's name.
fn plain(server: &str) -> String {
    server.chars().filter(char::is_ascii_alphanumeric).collect()
}
