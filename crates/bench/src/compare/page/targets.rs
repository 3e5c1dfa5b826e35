//! What Kurma wants to reach, row by row, and whether it does.

use maud::{Markup, html};

use super::super::results::{Results, Row};
use super::{OURS, figure};
use crate::sample::{Ratio, ratio};

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

/// Of the best of these, where they can do the row.
const GATEWAYS: [&str; 4] = ["dittofs", "rclone", "zerofs", "zerofs +C"];
const GATEWAY_TIMES: f64 = 1.5;

/// What is left of a rate with many clients, of that with one.
const SCALING: f64 = 0.9;

/// One that was measured.
struct Verdict {
    what: String,
    clients: String,
    times: f64,
    found: Ratio,
}

/// The targets that were measured; nothing if there are none.
pub fn section(results: &Results) -> Markup {
    let verdicts = verdicts(results);
    let reached = verdicts.iter().filter(|it| it.found.mean >= it.times).count();
    html! {
        @if !verdicts.is_empty() {
            h2 { "Targets" }
            div.wide {
                table {
                    caption {
                        (reached) " of " (verdicts.len()) " are reached. Kurma is to be so many times as fast as the other; with its 95 % interval. \
                         The last rows are its own rates, with the most clients and with one."
                    }
                    thead { tr { th.name { "workload" } th { "clients" } th { "to reach" } th { "measured" } th {} } }
                    tbody {
                        @for it in &verdicts {
                            tr {
                                td.name { (it.what) }
                                td { (it.clients) }
                                td { (figure::number(it.times)) }
                                td { (figure::ratio_alone(it.found)) }
                                td {
                                    @if it.found.mean >= it.times { span.better { "reached" } }
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
            if let Some(found) = like(own, target.of).and_then(|other| own.faster_than(other)) {
                let what = format!("{} : {}", target.workload, target.of);
                verdicts.push(Verdict { what, clients: own.clients.to_string(), times: target.times, found });
            }
        }
    }
    for own in &ours {
        let others = GATEWAYS.iter().filter_map(|server| {
            let found = own.faster_than(like(own, server)?)?;
            Some((*server, found))
        });
        if let Some((best, found)) = others.min_by(|(_, one), (_, other)| one.mean.total_cmp(&other.mean)) {
            let what = format!("{} : {best}", own.workload);
            verdicts.push(Verdict { what, clients: own.clients.to_string(), times: GATEWAY_TIMES, found });
        }
    }
    for one in ours.iter().filter(|row| row.clients == 1 && row.headline) {
        let same = ours.iter().filter(|row| row.workload == one.workload && row.clients > 1);
        if let Some(many) = same.max_by_key(|row| row.clients) {
            let pairs: Vec<_> =
                many.samples.iter().zip(&one.samples).map(|(many, one)| (many.rate, one.rate)).collect();
            let clients = format!("{} : 1", many.clients);
            let found = ratio(&pairs);
            verdicts.extend(found.map(|found| Verdict {
                what: one.workload.clone(),
                clients,
                times: SCALING,
                found,
            }));
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::super::results::tests::example;
    use super::*;

    #[test]
    fn each_row_is_held_against_its_target() {
        let mut results = example();
        assert!(verdicts(&results).iter().all(|it| it.times == SCALING), "nobody to be held against");
        results
            .rows
            .iter_mut()
            .filter(|row| row.server != OURS)
            .for_each(|row| row.server = "ganesha".into());
        let found = verdicts(&results);
        let stat: Vec<_> = found.iter().filter(|it| it.what == "stat : ganesha").collect();
        assert_eq!(stat.len(), 2);
        assert!(stat.iter().all(|it| it.times == 1.0 && (it.found.mean - 2.0).abs() < 1e-9));
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
        assert!(section(&results).into_string().contains("missed"));
    }
}
