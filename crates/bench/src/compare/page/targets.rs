//! What Kurma wants to reach, row by row, and whether it does.

use maud::{Markup, html};

use super::super::results::{Results, Row, Sample};
use super::{OURS, figure};
use crate::sample::{Ratio, median, ratio};

/// As fast as that server, so many times.
struct Target {
    workload: &'static str,
    of: &'static str,
    times: f64,
}

const fn target(workload: &'static str, of: &'static str, times: f64) -> Target {
    Target { workload, of, times }
}

/// Ganesha's files are on the local disk, in the clear, once. With `+D` its names are as durable as Kurma's.
const TARGETS: &[Target] = &[
    target("sequential write", "ganesha", 1.0),
    target("sequential read, warm", "ganesha", 1.0),
    target("random read, 4 KiB, warm, 16 at once", "ganesha", 1.2),
    target("random write, 4 KiB, stable, 16 at once", "ganesha", 1.0),
    target("create", "ganesha +D", 1.5),
    target("write files of 4 KiB, stable", "ganesha +D", 1.5),
    target("unlink", "ganesha +D", 1.5),
    target("stat", "ganesha +D", 1.5),
    target("create", "ganesha", 1.0),
    target("write files of 4 KiB, stable", "ganesha", 1.0),
    target("unlink", "ganesha", 1.0),
    target("stat", "ganesha", 1.0),
    target("write files of 4 KiB by vectors, stable", "ganesha", 20.0),
    target("file server, 50 threads", "ganesha", 1.0),
    target("web server, 100 threads", "ganesha", 1.0),
    target("varmail, 16 threads", "ganesha", 1.0),
    target("NFS server, 1 thread", "ganesha", 1.0),
];

/// Of the best of these that keep what they have acknowledged as stable, where they can do the row.
const GATEWAYS: [&str; 4] = ["dittofs", "rclone", "zerofs", "zerofs +C"];
const GATEWAY_TIMES: f64 = 1.5;

/// What is left of a rate with many clients, of that with one.
const SCALING: f64 = 0.9;

/// One that was measured.
struct Verdict {
    what: String,
    clients: String,
    times: f64,
    /// Ratio of the medians, which decides.
    found: f64,
    /// Of the repetitions' ratios.
    mean: Ratio,
}

impl Verdict {
    /// Of what was measured one after the other; nothing without that.
    fn of(what: String, clients: String, times: f64, pairs: &[(f64, f64)]) -> Option<Verdict> {
        let mean = ratio(pairs)?;
        let (ours, theirs): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let found = median(&ours).median / median(&theirs).median;
        Some(Verdict { what, clients, times, found, mean })
    }

    fn is_reached(&self) -> bool {
        self.found >= self.times
    }
}

/// The targets that were measured; nothing if there are none.
pub fn section(results: &Results) -> Markup {
    let verdicts = verdicts(results);
    let reached = verdicts.iter().filter(|it| it.is_reached()).count();
    html! {
        @if !verdicts.is_empty() {
            h2 { "Targets" }
            div.wide {
                table {
                    caption {
                        (reached) " of " (verdicts.len()) " are reached. Kurma is to be so many times as fast as the other: its median through the \
                         other's, and beside it the geometric mean of the repetitions' ratios with its 95 % interval. \
                         Other gateways are those that lost nothing of what they had acknowledged as stable. \
                         The last rows are its own rates, with the most clients and with one: by the clock, and by the time of its processor, \
                         which says whether it is the gateway that takes longer or who asks."
                    }
                    thead { tr { th.name { "workload" } th { "clients" } th { "to reach" } th { "medians" } th { "repetitions" } th {} } }
                    tbody {
                        @for it in &verdicts {
                            tr {
                                td.name { (it.what) }
                                td { (it.clients) }
                                td { (figure::number(it.times)) }
                                td { (figure::number(it.found)) }
                                td { (figure::ratio_alone(it.mean)) }
                                td {
                                    @if it.is_reached() { span.better { "reached" } }
                                    @else { span.worse { "missed" } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn verdicts(results: &Results) -> Vec<Verdict> {
    let ours: Vec<&Row> = results.rows.iter().filter(|row| row.server == OURS).collect();
    let like = |own: &Row, server: &str| {
        let is_like =
            |row: &&Row| row.server == server && row.workload == own.workload && row.clients == own.clients;
        results.rows.iter().find(is_like)
    };
    let mut verdicts = Vec::new();
    for target in TARGETS {
        for own in ours.iter().filter(|row| row.workload == target.workload) {
            let what = format!("{} : {}", target.workload, target.of);
            let other = like(own, target.of);
            verdicts.extend(other.and_then(|other| against(what, own, other, target.times)));
        }
    }
    for own in &ours {
        let others = GATEWAYS.iter().filter(|server| keeps(results, server)).filter_map(|server| {
            let what = format!("{} : {server}", own.workload);
            against(what, own, like(own, server)?, GATEWAY_TIMES)
        });
        verdicts.extend(others.min_by(|one, other| one.found.total_cmp(&other.found)));
    }
    for one in ours.iter().filter(|row| row.clients == 1 && row.headline) {
        let same = ours.iter().filter(|row| row.workload == one.workload && row.clients > 1);
        if let Some(many) = same.max_by_key(|row| row.clients) {
            let scales = |suffix: &str, measure: fn(&Sample) -> f64| {
                let what = format!("{}{suffix}", one.workload);
                Verdict::of(what, format!("{} : 1", many.clients), SCALING, &many.pairs(one, measure))
            };
            verdicts.extend(scales("", |it| it.rate));
            verdicts.extend(scales(", for its processor time", |it| 1.0 / it.cpu_micros));
        }
    }
    verdicts
}

/// Whether it is so many times as fast as the other.
fn against(what: String, own: &Row, other: &Row, times: f64) -> Option<Verdict> {
    Verdict::of(what, own.clients.to_string(), times, &own.pairs(other, |it| it.rate))
}

/// Whether all was there again after the server had been killed.
fn keeps(results: &Results, server: &str) -> bool {
    results.servers.iter().any(|it| it.name == server && it.lost.is_none())
}

#[cfg(test)]
mod tests {
    use super::super::super::results::{Server, tests::example};
    use super::*;

    #[test]
    fn each_row_is_held_against_its_target() {
        let mut results = example();
        let scaling = verdicts(&results);
        assert!(scaling.iter().all(|it| it.times == SCALING), "nobody to be held against");
        assert_eq!(scaling.iter().filter(|it| it.what == "stat, for its processor time").count(), 1);
        results
            .rows
            .iter_mut()
            .filter(|row| row.server != OURS)
            .for_each(|row| row.server = "ganesha".into());
        let found = verdicts(&results);
        let stat: Vec<_> = found.iter().filter(|it| it.what == "stat : ganesha").collect();
        assert_eq!(stat.len(), 2);
        assert!(stat.iter().all(|it| it.times == 1.0 && (it.found - 2.0).abs() < 1e-9));
        let page = section(&results).into_string();
        assert!(page.contains("reached") && !page.contains("missed"));
        results
            .rows
            .iter_mut()
            .filter(|row| row.server == "ganesha")
            .for_each(|row| row.server = "zerofs".into());
        for row in results.rows.iter_mut().filter(|row| row.server == "zerofs") {
            row.samples.iter_mut().for_each(|sample| sample.rate *= 3.0);
        }
        let other = Server { name: "zerofs".into(), ..results.servers[0].clone() };
        results.servers.push(other);
        assert!(!section(&results).into_string().contains("zerofs"), "it has lost something");
        results.servers[1].lost = None;
        assert!(section(&results).into_string().contains("missed"));
    }
}
