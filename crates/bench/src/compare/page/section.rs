//! One workload: what it is, its table, its plots, and what only some want to know.

use anyhow::Result;
use maud::{Markup, PreEscaped, html};

use super::{OURS, View, anchor, figure, quantile};
use crate::compare::plot;
use crate::compare::results::{Row, Sample};
use crate::peer::CloudUse;

pub fn section(view: &View<'_>, name: &str) -> Result<Markup> {
    let mut rows: Vec<&Row> = view.results.rows.iter().filter(|row| row.workload == name).collect();
    rows.sort_by_key(|row| row.clients);
    let Some(first) = rows.first() else { return Ok(html! {}) };
    Ok(html! {
        section id=(anchor(name)) {
            h2 { (name) }
            p { (first.about) " " span.faint { "(" (first.source) ")" } }
            (table(view, &rows))
            (plots(view, &rows)?)
            details {
                summary { "Queues, kinds of operation, clouds, every repetition" }
                @if view.is_over_nfs() { (queues(view, &rows)) }
                (kinds(view, &rows))
                (clouds(&rows))
                (repetitions(view, &rows))
            }
        }
    })
}

/// The first column of a table with several servers for each number of clients.
fn clients(rows: &[&Row], at: usize) -> Markup {
    let is_first = at == 0 || rows[at - 1].clients != rows[at].clients;
    html! { td { @if is_first { (rows[at].clients) } } }
}

fn starts_group(rows: &[&Row], at: usize) -> bool {
    at == 0 || rows[at - 1].clients != rows[at].clients
}

fn singular(row: &Row) -> &str {
    match row.unit.as_str() {
        "directories" => "directory",
        unit => unit.trim_end_matches('s'),
    }
}

fn table(view: &View<'_>, rows: &[&Row]) -> Markup {
    let one = singular(rows[0]);
    let has_instructions =
        rows.iter().flat_map(|row| &row.samples).any(|sample| sample.instructions.is_some());
    let has_others = rows.iter().any(|row| row.server != OURS);
    let has_ratio = !view.is_open_loop() && has_others;
    let columns =
        6 + usize::from(has_ratio) + usize::from(has_instructions) + usize::from(view.is_over_nfs());
    html! {
        div.wide {
            table {
                thead {
                    tr {
                        th { "clients" } th.name { "server" } th { (rows[0].unit) "/s" }
                        @if has_ratio { th { "Kurma : it" } }
                        th { "p50" } th { "p99" } th { "p99.9" }
                        th { "CPU µs per " (one) br; span.interval { "in the run / written out" } }
                        @if has_instructions { th { "instructions" br; "per " (one) } }
                        @if view.is_over_nfs() { th { "RPCs" br; "per " (one) } }
                    }
                }
                tbody {
                    @for (at, row) in rows.iter().enumerate() {
                        tr.first[starts_group(rows, at)] {
                            (clients(rows, at))
                            td.name { (view.server(&row.server)) }
                            @if row.samples.is_empty() {
                                td.text colspan=(columns) { (missing(row)) }
                            } @else {
                                td { (figure::estimate(row.of(|sample| sample.rate))) }
                                @if has_ratio {
                                    td { @if row.server != OURS { (figure::ratio(view.ours(row).and_then(|ours| ours.faster_than(row)))) } }
                                }
                                @for part in [0.5, 0.99, 0.999] { td { (quantile(row, part)) } }
                                td {
                                    (figure::mean(row.of(|sample| sample.cpu_micros))) " / "
                                    (figure::mean(row.of(|sample| sample.cpu_until_settled_micros)))
                                }
                                @if has_instructions { td { (instructions(row)) } }
                                @if view.is_over_nfs() { td { (figure::mean(row.of(|sample| sample.rpcs))) } }
                            }
                        }
                    }
                }
            }
        }
        @for row in rows.iter().filter(|row| !row.samples.is_empty() && row.missing.is_some()) {
            p.worse { (row.server) " with " (row.clients) " clients, only " (row.samples.len()) " repetitions: " (missing(row)) }
        }
    }
}

fn missing(row: &Row) -> Markup {
    let why = row.missing.as_deref().unwrap_or("not measured");
    if row.failed {
        html! { span.worse { "failed: " (why) } }
    } else {
        html! { span.faint { (why) } }
    }
}

fn instructions(row: &Row) -> String {
    let counted: Option<Vec<f64>> = row.samples.iter().map(|sample| sample.instructions).collect();
    counted.map_or("–".into(), |all| figure::number(all.iter().sum::<f64>() / all.len() as f64))
}

fn plots(view: &View<'_>, rows: &[&Row]) -> Result<Markup> {
    let measured: Vec<&Row> = rows.iter().copied().filter(|row| !row.samples.is_empty()).collect();
    let Some(most) = measured.iter().map(|row| row.clients).max() else { return Ok(html! {}) };
    let last: Vec<&Row> = measured.iter().copied().filter(|row| row.clients == most).collect();
    let legend =
        html! { @for name in &view.servers { span style="margin-right: 1em" { (view.server(name)) } } };
    let clients = if most == 1 { "one client".to_owned() } else { format!("{most} clients") };
    Ok(html! {
        p.faint { (legend) }
        div.plots {
            figure {
                (PreEscaped(plot::rates(&view.servers, &measured)?))
                figcaption { (rows[0].unit) " a second, with 95 % intervals up to twice the highest rate" }
            }
            figure {
                (PreEscaped(plot::times(&view.servers, &last)?))
                figcaption { "time of an operation, " (clients) }
            }
        }
    })
}

fn queues(view: &View<'_>, rows: &[&Row]) -> Markup {
    let has_recalls = rows.iter().flat_map(|row| &row.samples).any(|sample| sample.recalls > 0.0);
    let micros = |what: fn(&Sample) -> f64| move |row: &Row| figure::mean(row.of(what));
    html! {
        h3 { "Queues" }
        div.wide {
            table {
                thead {
                    tr {
                        th { "clients" } th.name { "server" }
                        th { "queue µs per RPC" } th { "answer µs per RPC" } th { "RPCs on the way" }
                        th { "late start: mean" } th { "p99" } th { "start skew µs" }
                        @if has_recalls { th { "recalls per " (singular(rows[0])) } }
                    }
                }
                tbody {
                    @for (at, row) in rows.iter().enumerate().filter(|(_, row)| !row.samples.is_empty()) {
                        tr.first[starts_group(rows, at)] {
                            (clients(rows, at))
                            td.name { (view.server(&row.server)) }
                            td { (micros(|it| it.queue_micros)(row)) }
                            td { (micros(|it| it.answer_micros)(row)) }
                            td { (micros(|it| it.outstanding)(row)) }
                            @let late = row.latencies().late;
                            @if view.is_open_loop() {
                                td { (figure::time(late.mean())) } td { (figure::time(late.quantile(0.99))) }
                            } @else { td { "–" } td { "–" } }
                            td { (micros(|it| it.start_skew_micros)(row)) }
                            @if has_recalls { td { (micros(|it| it.recalls)(row)) } }
                        }
                    }
                }
            }
        }
    }
}

/// Of workloads with more than one kind of operation.
fn kinds(view: &View<'_>, rows: &[&Row]) -> Markup {
    let found: Vec<_> = rows.iter().map(|row| (*row, row.latencies().kinds)).collect();
    if found.iter().all(|(_, kinds)| kinds.len() < 2) {
        return html! {};
    }
    html! {
        h3 { "Kinds of operation" }
        div.wide {
            table {
                thead {
                    tr { th { "clients" } th.name { "server" } th.name { "kind" } th { "number" } th { "mean" } th { "p50" } th { "p99" } th { "p99.9" } th { "longest" } }
                }
                tbody {
                    @for (at, (row, kinds)) in found.iter().enumerate() {
                        @for (nth, (kind, times)) in kinds.iter().enumerate() {
                            tr.first[nth == 0] {
                                @if nth == 0 { (clients(rows, at)) td.name { (view.server(&row.server)) } } @else { td {} td {} }
                                td.name { (kind) }
                                td { (figure::number(times.count() as f64)) }
                                td { (figure::time(times.mean())) }
                                @for part in [0.5, 0.99, 0.999] { td { (figure::time(times.quantile(part))) } }
                                td { (figure::time(times.longest())) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Requests and bytes of all repetitions, for a thousand units.
fn clouds(rows: &[&Row]) -> Markup {
    let of_row = |row: &Row| -> Vec<(CloudUse, f64)> {
        let mut sums: Vec<CloudUse> = Vec::new();
        for found in row.samples.iter().flat_map(|sample| &sample.clouds) {
            match sums.iter_mut().find(|sum| sum.cloud == found.cloud) {
                Some(sum) => sum.add(found),
                None => sums.push(found.clone()),
            }
        }
        let thousands = row.samples.iter().map(|sample| sample.units as f64).sum::<f64>() / 1000.0;
        sums.into_iter().map(|sum| (sum, thousands)).collect()
    };
    let found: Vec<_> =
        rows.iter().map(|row| (*row, of_row(row))).filter(|(_, sums)| !sums.is_empty()).collect();
    let Some((first, _)) = found.first() else { return html! {} };
    let has_money = found.iter().flat_map(|(_, sums)| sums).any(|(sum, _)| sum.money.is_some());
    html! {
        h3 { "Clouds, for 1,000 " (first.unit) }
        div.wide {
            table {
                thead {
                    tr {
                        th { "clients" } th.name { "cloud" } th { "PUT" } th { "GET" } th { "LIST" } th { "DELETE" } th { "up" } th { "down" }
                        @if has_money { th { "money" } }
                    }
                }
                tbody {
                    @for (row, sums) in &found {
                        @for (nth, (sum, thousands)) in sums.iter().enumerate() {
                            tr.first[nth == 0] {
                                td { @if nth == 0 { (row.clients) } }
                                td.name { (sum.cloud) }
                                @for count in [sum.put, sum.get, sum.list, sum.delete] { td { (figure::number(count as f64 / thousands)) } }
                                @for bytes in [sum.uploaded_bytes, sum.downloaded_bytes] { td { (figure::bytes(bytes as f64 / thousands)) } }
                                @if has_money { td { (sum.money.map_or("–".into(), |money| figure::number(money / thousands))) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn repetitions(view: &View<'_>, rows: &[&Row]) -> Markup {
    html! {
        h3 { "Every repetition: " (rows[0].unit) " a second" }
        div.wide {
            table {
                tbody {
                    @for (at, row) in rows.iter().enumerate().filter(|(_, row)| !row.samples.is_empty()) {
                        tr.first[starts_group(rows, at)] {
                            (clients(rows, at))
                            td.name { (view.server(&row.server)) }
                            @for sample in &row.samples { td { (figure::number(sample.rate)) } }
                        }
                    }
                }
            }
        }
    }
}
