//! The page of results: one file of HTML with its style and its plots, which asks nobody for anything.

pub mod figure;
mod section;
mod targets;

use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::plot::COLORS;
use super::results::{Over, Results, Row};

/// The server that the others are held against.
const OURS: &str = "kurma";

/// The page.
pub fn render(results: &Results) -> Result<String> {
    let servers: Vec<&str> = results.servers.iter().map(|server| server.name.as_str()).collect();
    let view = View { results, servers };
    let sections: Vec<Markup> =
        view.workloads().into_iter().map(|name| section::section(&view, name)).collect::<Result<_>>()?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Kurma: benchmark of " (results.made) }
                style { (PreEscaped(include_str!("page/style.css"))) (PreEscaped(series_style())) }
            }
            body {
                (view.head())
                (view.summary())
                (targets::section(results))
                (view.durability())
                h2 { "Workloads" }
                nav { @for name in view.workloads() { a href={ "#" (anchor(name)) } { (name) } } }
                @for section in sections { (section) }
                (view.method())
            }
        }
    };
    Ok(page.into_string())
}

/// What the parts of the page are made of.
pub struct View<'a> {
    results: &'a Results,
    /// In the order of their colours.
    servers: Vec<&'a str>,
}

impl<'a> View<'a> {
    fn workloads(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for row in &self.results.rows {
            if !names.contains(&row.workload.as_str()) {
                names.push(&row.workload);
            }
        }
        names
    }

    fn is_over_nfs(&self) -> bool {
        self.results.parameters.over == Over::Nfs
    }

    fn is_open_loop(&self) -> bool {
        self.results.parameters.rate.is_some()
    }

    /// The row of our server to hold `row` against.
    fn ours(&self, row: &Row) -> Option<&'a Row> {
        let is_ours = |other: &&Row| other.workload == row.workload && other.clients == row.clients;
        self.results.rows.iter().filter(is_ours).find(|other| other.server == OURS)
    }

    /// The name of a server, with its colour.
    fn server(&self, name: &str) -> Markup {
        let series = self.servers.iter().position(|other| *other == name).unwrap_or(0);
        html! { span.key style={ "background: var(--series-" (series) ")" } {} (name) }
    }

    fn head(&self) -> Markup {
        let Results { made, version, machine, parameters, .. } = self.results;
        html! {
            h1 { "Kurma and its peers" }
            p.faint {
                "Kurma " (version) ", " (made) " UTC. " (machine) " " (figure::bytes(machine.memory_bytes as f64)) " of memory. "
                (parameters.repetitions) " repetitions, all on this machine. "
                @if parameters.apart { "Servers have one of its cores, and the load the rest. " }
                @match parameters.rate {
                    None => "Closed loop: a client sends the next operation when the one before is answered.",
                    Some(rate) => {
                        "Open loop: " (figure::number(rate)) " operations a second over all clients, by a Poisson process; times count from when an \
                         operation was meant to begin."
                    }
                }
            }
            @if parameters.shrink > 1 {
                p.warning { "All sizes and counts are divided by " (parameters.shrink) ": a quick look, not a measurement." }
            }
            @if parameters.repetitions < 3 {
                p.warning { "Fewer than three repetitions: the intervals say little." }
            }
        }
    }

    /// One line for each of the rows that Kurma is judged by.
    fn summary(&self) -> Markup {
        let ours: Vec<&Row> =
            self.results.rows.iter().filter(|row| row.headline && row.server == OURS).collect();
        let ends = |row: &&&Row| {
            let counts =
                || ours.iter().filter(|other| other.workload == row.workload).map(|other| other.clients);
            counts().min() == Some(row.clients) || counts().max() == Some(row.clients)
        };
        let others: Vec<&str> = self.servers.iter().copied().filter(|name| *name != OURS).collect();
        let rows: Vec<&Row> = ours.iter().filter(ends).copied().collect();
        if rows.is_empty() {
            return html! {};
        }
        let columns = if self.is_open_loop() { 2 } else { 3 };
        html! {
            h2 { "Summary" }
            div.wide {
                table {
                    caption {
                        @if self.is_open_loop() { "Half of all operations, and 99 % of them, took no longer than that. " }
                        @else {
                            "Mean with the half-width of its 95 % interval. A ratio above 1 is in Kurma's favour; ▲ and ▼ where its 95 % \
                             interval does not hold 1. "
                        }
                        "The fewest and the most clients of each."
                    }
                    thead {
                        tr {
                            th.name rowspan="2" { "workload" }
                            th rowspan="2" { "clients" }
                            th colspan=(columns) { (self.server(OURS)) }
                            @for name in &others { th colspan="2" { (self.server(name)) } }
                        }
                        tr {
                            @if !self.is_open_loop() { th { "per second" } }
                            th { "p50" } th { "p99" }
                            @for _ in &others {
                                @if self.is_open_loop() { th { "p50" } } @else { th { "Kurma : it" } }
                                th { "p99" }
                            }
                        }
                    }
                    tbody {
                        @for (at, row) in rows.iter().enumerate() {
                            tr.first[at == 0 || rows[at - 1].workload != row.workload] {
                                td.name {
                                    @if at == 0 || rows[at - 1].workload != row.workload {
                                        a href={ "#" (anchor(&row.workload)) } { (row.workload) }
                                    }
                                }
                                td { (row.clients) }
                                @if !self.is_open_loop() {
                                    td { (figure::estimate(row.of(|sample| sample.rate))) " " span.faint { (row.unit) } }
                                }
                                td { (quantile(row, 0.5)) } td { (quantile(row, 0.99)) }
                                @for name in &others { (self.other(row, name)) }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Two cells of the summary.
    fn other(&self, ours: &Row, name: &str) -> Markup {
        let is_it =
            |row: &&Row| row.workload == ours.workload && row.clients == ours.clients && row.server == name;
        html! {
            @match self.results.rows.iter().find(is_it) {
                Some(row) => {
                    td {
                        @if self.is_open_loop() { (quantile(row, 0.5)) } @else { (figure::ratio(ours.faster_than(row))) }
                    }
                    td { (quantile(row, 0.99)) }
                }
                None => { td { "–" } td { "–" } }
            }
        }
    }

    fn durability(&self) -> Markup {
        let has_idle = self.results.servers.iter().any(|server| server.idle_client_bytes.is_some());
        let has_flushes = self.results.servers.iter().any(|server| server.flushes.is_some());
        html! {
            h2 { "What is promised" }
            div.wide {
                table {
                    thead { tr { th.name { "server" } th.name { "an acknowledged stable write or name" } th.name { "after SIGKILL" } @if has_flushes { th { "disk flushes: file, name" } } @if has_idle { th { "memory of an idle client" } } } }
                    tbody {
                        @for server in &self.results.servers {
                            tr {
                                td.name { (self.server(&server.name)) }
                                td.text { (server.promise) }
                                td.name {
                                    @match &server.lost {
                                        None => span.better { "all " (server.checked_files) " files are there" },
                                        Some(lost) => span.worse { (lost) },
                                    }
                                }
                                @if has_flushes {
                                    td {
                                        @match server.flushes {
                                            None => "–",
                                            Some(it) => { (flushes(it.of_write)) ", " (flushes(it.of_name)) }
                                        }
                                    }
                                }
                                @if has_idle { td { (server.idle_client_bytes.map_or_else(|| "–".to_owned(), figure::bytes)) } }
                            }
                        }
                        @for server in &self.results.left_out {
                            tr { td.name { (server.name) } td.text colspan="2" { "left out: " (server.reason) } }
                        }
                    }
                }
            }
        }
    }

    fn method(&self) -> Markup {
        html! {
            h2 { "How to read it" }
            p {
                @match self.results.parameters.over {
                    Over::Nfs => "One load generator speaks NFSv4.1 to each server in turn",
                    Over::Mounts => "One load generator works by system calls in each mount point in turn, a thread for each operation on the way, \
                                     and fsync where a write is to be stable; what the kernel has cached is not asked for again",
                }
                "; the servers alternate within every repetition, so that whatever else \
                 the machine does hits all of them. All clients of a row begin at a barrier. Rates are means over the repetitions with the \
                 half-width of the 95 % interval (Student's t). Ratios are geometric means of the pairs that were measured one after the \
                 other, with the interval of their logarithms." }
            p { "Times are those of single operations of all repetitions, from HDR histograms with three digits; p99 is the time that 99 % did \
                 not exceed. In a closed loop a server that stalls is asked less meanwhile; for what users would then see, run an open loop \
                 (" code { "--rate" } "): there every operation counts from when it was meant to begin." }
            p { "CPU is the server's processor time, user and system, for each unit: while the clients work, and until everything is written \
                 out (for Kurma: dispersed to its clouds; for others: synced). "
                @if self.is_over_nfs() {
                    "RPCs are compounds. A compound queues for a free slot of its session; its answer takes from there until it is back. "
                }
                "Clouds are asked until everything is written out." }
            p { "Disk flushes were counted for each file of 4 KiB that one client wrote stable, and for each name that it made or removed. Where there are                  none, what was acknowledged is in the disk's own memory, and does not outlive a loss of power: ext4 without a journal flushes                  nothing for a name, " code { "chattr +D" } " or not." }
            p { "Sources in parentheses are sections of a digest of Ming Chen's thesis (Stony Brook, 2017); docs/benchmarks.md has the parameters \
                 there beside those here." }
            p {
                "All samples and histograms are in "
                code { @if self.is_over_nfs() { "report.json" } @else { "mounts.json" } }
                " beside this page."
            }
        }
    }
}

/// Without any, nothing outlives a loss of power.
fn flushes(of_each: f64) -> Markup {
    html! { span class=(if of_each < 0.5 { "worse" } else { "" }) { (figure::number(of_each)) } }
}

fn quantile(row: &Row, part: f64) -> String {
    let times = row.latencies().all;
    if times.count() == 0 { "–".into() } else { figure::time(times.quantile(part)) }
}

/// A name for links.
fn anchor(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Finds what the plots have drawn in the colours of the servers.
fn series_style() -> String {
    let rule = |(at, color): (usize, &plotters::style::RGBColor)| {
        let hex = format!("#{:02X}{:02X}{:02X}", color.0, color.1, color.2);
        format!(
            "figure svg [stroke=\"{hex}\"] {{ stroke: var(--series-{at}); }}\nfigure svg [fill=\"{hex}\"] {{ fill: var(--series-{at}); }}\n"
        )
    };
    COLORS.iter().enumerate().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::example;
    use super::*;

    #[test]
    fn names_and_errors_are_text_and_not_markup() {
        let page = render(&example()).unwrap();
        for hostile in ["<slow>", "fails with <b>", "files <gone>", "a&b"] {
            assert!(!page.contains(hostile), "{hostile}");
        }
        for escaped in
            ["&lt;slow&gt; &amp; &quot;old&quot;", "fails with &lt;b&gt;", "files &lt;gone&gt;", "a&amp;b"]
        {
            assert!(page.contains(escaped), "{escaped}");
        }
    }

    #[test]
    fn the_page_asks_nobody_for_anything() {
        let page = render(&example()).unwrap();
        for request in ["src=", "href=\"http", "@import", "url(", "<link", "<script"] {
            assert!(!page.contains(request), "{request}");
        }
    }

    #[test]
    fn every_workload_has_a_section_with_plots_that_the_style_can_colour() {
        let results = example();
        let page = render(&results).unwrap();
        assert_eq!(page.matches("<section").count(), 4);
        // What failed has no plots.
        assert_eq!(page.matches("<svg").count(), 6);
        let drawn = page.split("<svg").skip(1).all(|svg| svg.contains("stroke=\"#1F6FB4\""));
        assert!(drawn, "a plot has no line in the colour of the first server");
    }

    #[test]
    fn in_a_closed_loop_the_summary_has_ratios_and_in_an_open_one_times() {
        let mut results = example();
        let open = render(&results).unwrap();
        assert!(!open.contains("Kurma : it"));
        results.parameters.rate = None;
        let closed = render(&results).unwrap();
        assert!(closed.contains("Kurma : it") && closed.contains("▲ 2.00"));
    }
}
