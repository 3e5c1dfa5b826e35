use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use blocks::PackReads;
use cloud::{Connection, Direction};
use nfs4_server::{CallbackMetrics, Census, Latency, MetricsSnapshot};
use upkeep::PacksSeen;

use crate::node::Node;

/// One text, built from name, kind and samples.
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP kurma_{name} {help}\n# TYPE kurma_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(key, value)| format!("{key}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")))
            .collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "kurma_{name}{labels} {value}");
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help);
        self.sample(name, &[], value as f64);
    }

    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], latency: &Latency) {
        let bucket = format!("{name}_bucket");
        let class = |text: &mut Text, end: &str, count: u64| {
            text.sample(&bucket, &[labels, &[("le", end)][..]].concat(), count as f64);
        };
        for (end, count) in &latency.classes {
            class(self, &end.as_secs_f64().to_string(), *count);
        }
        class(self, "+Inf", latency.count);
        self.sample(&format!("{name}_sum"), labels, latency.total.as_secs_f64());
        self.sample(&format!("{name}_count"), labels, latency.count as f64);
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value as f64);
    }
}

impl Text {
    /// Small blocks that share objects.
    fn packs(&mut self, node: &Node) {
        let (mut seen, mut stored, mut packed) = (PacksSeen::default(), 0, 0);
        let (mut cleaned, mut moved) = (0, 0);
        for served in node.served() {
            let (volume, written) = (served.upkeep.cleaner.seen(), served.upkeep.write_back.report());
            seen.packs += volume.packs;
            seen.bytes += volume.bytes;
            seen.live += volume.live;
            stored += written.packs;
            packed += written.packed_blocks;
            let (packs, blocks) = served.upkeep.cleaner.totals();
            cleaned += packs;
            moved += blocks;
        }
        self.gauge("packs", "Packs that blocks lie in, by the last look at them.", seen.packs);
        self.family(
            "pack_bytes",
            "gauge",
            "Bytes of packs before their dispersal, by the last look at them.",
        );
        for (state, bytes) in [("live", seen.live), ("dead", seen.bytes.saturating_sub(seen.live))] {
            self.sample("pack_bytes", &[("state", state)], bytes as f64);
        }
        self.counter("packs_stored_total", "Packs that write-back has stored.", stored);
        self.counter("packed_blocks_total", "Blocks that write-back has stored in packs.", packed);
        self.counter("packs_cleaned_total", "Packs with much garbage that were emptied.", cleaned);
        self.counter("pack_moved_blocks_total", "Blocks that cleaning has moved to other packs.", moved);
        self.family("packed_reads_total", "counter", "Blocks read from packs in clouds, by how.");
        let PackReads { alone, run, whole, kept } = node.blocks.pack_reads();
        for (how, count) in [("alone", alone), ("run", run), ("whole", whole), ("kept", kept)] {
            self.sample("packed_reads_total", &[("how", how)], count as f64);
        }
    }

    /// What clouds may charge for.
    fn costs(&mut self, node: &Node) {
        let clouds = node.clouds.connections();
        self.family("cloud_charged_requests_total", "counter", "Requests to clouds by class of price.");
        for cloud in &clouds {
            let counts = cloud.costs().counts();
            for (class, count) in
                [("put", counts.put), ("get", counts.get), ("list", counts.list), ("delete", counts.delete)]
            {
                let labels = [("cloud", &**cloud.name()), ("class", class)];
                self.sample("cloud_charged_requests_total", &labels, count as f64);
            }
        }
        self.family("cloud_bytes_total", "counter", "Payload bytes to and from clouds.");
        for cloud in &clouds {
            let counts = cloud.costs().counts();
            for (direction, bytes) in [("up", counts.uploaded_bytes), ("down", counts.downloaded_bytes)] {
                let labels = [("cloud", &**cloud.name()), ("direction", direction)];
                self.sample("cloud_bytes_total", &labels, bytes as f64);
            }
        }
        let accounts = node.bill.statement().clouds;
        let account = |cloud: &Connection| accounts.get(&**cloud.name());
        self.family("cloud_stored_bytes", "gauge", "Bytes in clouds when they were measured last.");
        for cloud in &clouds {
            if let Some(stored) = account(cloud).and_then(|account| account.stored.as_ref()) {
                self.sample("cloud_stored_bytes", &[("cloud", cloud.name())], stored.bytes as f64);
            }
        }
        self.family(
            "cloud_money_total",
            "counter",
            "What clouds cost since counting began, also before this start.",
        );
        for cloud in &clouds {
            if let (Some(prices), Some(account)) = (cloud.prices(), account(cloud)) {
                let charge = prices.charge(&account.counts, account.gb_months);
                self.sample("cloud_money_total", &[("cloud", cloud.name())], charge.total);
            }
        }
    }

    /// What is expected of clouds.
    fn forecasts(&mut self, clouds: &[Connection]) {
        const CLASSES: [(&str, u64); 3] = [("64KiB", 64 << 10), ("1MiB", 1 << 20), ("larger", 4 << 20)];
        let directions = [("read", Direction::Read), ("write", Direction::Write)];
        self.family("cloud_expected_seconds", "gauge", "When a transfer of this size would be done.");
        for cloud in clouds {
            for (class, bytes) in CLASSES {
                for (name, direction) in directions {
                    let labels = [("cloud", &**cloud.name()), ("direction", name), ("size", class)];
                    let forecast = cloud.health().forecast(direction, bytes);
                    self.sample("cloud_expected_seconds", &labels, forecast.expected);
                }
            }
        }
        let sides = |cloud: &Connection| {
            let health = cloud.health().snapshot();
            [("read", health.read), ("write", health.write)]
        };
        self.family("cloud_bytes_per_second", "gauge", "Mean rate of one transfer of up to this size.");
        for cloud in clouds {
            for (direction, side) in sides(cloud) {
                for ((class, _), rate) in CLASSES.iter().zip(side.bytes_per_second) {
                    let labels = [("cloud", &**cloud.name()), ("direction", direction), ("size", *class)];
                    rate.iter().for_each(|rate| self.sample("cloud_bytes_per_second", &labels, *rate));
                }
            }
        }
        self.family("cloud_pending_operations", "gauge", "Operations that run or wait for their turn.");
        for cloud in clouds {
            for (direction, side) in sides(cloud) {
                let labels = [("cloud", &**cloud.name()), ("direction", direction)];
                self.sample("cloud_pending_operations", &labels, f64::from(side.pending));
            }
        }
    }

    /// Files on their way to another policy.
    async fn migrations(&mut self, node: &Node) {
        let mut volumes = Vec::new();
        for served in node.served() {
            // Metadata that cannot be read shows elsewhere.
            let left = served.volume.migrating_lately().await.unwrap_or_default();
            volumes.push((served.volume.name(), left, served.upkeep.write_back.report().rewritten));
        }
        self.family("migrating_files", "gauge", "Files that are on their way to another policy.");
        for (volume, left, _) in &volumes {
            self.sample("migrating_files", &[("volume", volume)], left.files as f64);
        }
        self.family("migrating_bytes", "gauge", "What these files used when they were sent there.");
        for (volume, left, _) in &volumes {
            self.sample("migrating_bytes", &[("volume", volume)], left.bytes as f64);
        }
        let help = "Blocks that were stored once more for the new policy of their file.";
        self.family("migrated_blocks_total", "counter", help);
        for (volume, _, blocks) in &volumes {
            self.sample("migrated_blocks_total", &[("volume", volume)], *blocks as f64);
        }
    }

    /// Scanning for malware; nothing when it is off.
    async fn scans(&mut self, node: &Node) {
        let Some(shared) = &node.scan else { return };
        let counts = shared.counts();
        self.family("scans_total", "counter", "Scans for malware, by what they showed.");
        for (result, count) in
            [("clean", counts.clean), ("infected", counts.infected), ("failed", counts.failed)]
        {
            self.sample("scans_total", &[("result", result)], count as f64);
        }
        self.counter("scanned_bytes_total", "Bytes that were shown to the scanner.", counts.bytes);
        self.family("scan_passed_total", "counter", "Files that went on without a scan, by why.");
        for (why, count) in [("too_large", counts.too_large), ("not_scanned", counts.passed)] {
            self.sample("scan_passed_total", &[("why", why)], count as f64);
        }
        let is_away = shared.health().is_away;
        self.gauge("scanner_away", "Whether the scanner has failed several times in a row.", is_away.into());
        let mut volumes = Vec::new();
        for served in node.served() {
            let Some(stage) = &served.scan else { continue };
            let Ok(report) = stage.report().await else { continue };
            volumes.push((served.volume.name(), report));
        }
        self.family("scan_files", "gauge", "Files that wait for a scan, or are marked by one.");
        for (volume, report) in &volumes {
            for (state, count) in [
                ("waiting", report.queued),
                ("quarantined", report.quarantined),
                ("reported", report.reported),
                ("unscanned", report.unscanned),
                ("released", report.released),
            ] {
                self.sample("scan_files", &[("volume", volume), ("state", state)], count as f64);
            }
        }
        self.family("scan_held_bytes", "gauge", "Dirty bytes that scanning keeps from the clouds.");
        for (volume, report) in &volumes {
            for (state, bytes) in
                [("waiting", report.held.waiting_bytes), ("quarantined", report.held.kept_bytes)]
            {
                self.sample("scan_held_bytes", &[("volume", volume), ("state", state)], bytes as f64);
            }
        }
    }

    /// The NFS server.
    fn nfs(&mut self, nfs: &MetricsSnapshot) {
        self.family("nfs_operations_total", "counter", "NFS operations.");
        for operation in &nfs.operations {
            let labels = [("operation", operation.name)];
            self.sample("nfs_operations_total", &labels, operation.latency.count as f64);
        }
        self.family("nfs_errors_total", "counter", "NFS operations that ended in an error.");
        for operation in &nfs.operations {
            for (status, count) in &operation.errors {
                let labels = [("operation", operation.name), ("status", *status)];
                self.sample("nfs_errors_total", &labels, *count as f64);
            }
        }
        let help = "Time of one NFS operation, without the commit.";
        self.family("nfs_operation_seconds", "histogram", help);
        for operation in &nfs.operations {
            let labels = [("operation", operation.name)];
            self.histogram("nfs_operation_seconds", &labels, &operation.latency);
        }
        let help = "Time of one NFS request, from its arrival to its answer.";
        self.family("nfs_compound_seconds", "histogram", help);
        self.histogram("nfs_compound_seconds", &[], &nfs.compound_latency);
        self.counter("nfs_replays_total", "Requests that were answered from a reply cache.", nfs.replays);
        self.counter("nfs_conflicts_total", "Compounds that met a conflict and ran again.", nfs.conflicts);
        self.counter("nfs_read_bytes_total", "Bytes that READ returned.", nfs.read_bytes);
        self.counter("nfs_written_bytes_total", "Bytes that WRITE took.", nfs.written_bytes);
        let counts = &nfs.counts;
        let help = "Requests for a slot whose last request was still being run.";
        self.counter("nfs_slot_in_use_total", help, counts.slot_in_use);
        let help = "Requests that took the last free slot of a session.";
        self.counter("nfs_slots_exhausted_total", help, counts.slots_exhausted);
        let help = "Requests that were put off because there was no room to keep their reply.";
        self.counter("nfs_replies_put_off_total", help, counts.replies_put_off);
        let help = "Requests that waited until a delegation was returned.";
        self.counter("nfs_return_waits_total", help, nfs.waits_for_returns);
        self.family("nfs_callbacks_total", "counter", "Callbacks that were sent, by what became of them.");
        for (kind, callbacks) in [("recall", nfs.recalls), ("other", nfs.other_callbacks)] {
            let CallbackMetrics { answered, refused, lost } = callbacks;
            for (result, count) in [("answered", answered), ("refused", refused), ("lost", lost)] {
                self.sample("nfs_callbacks_total", &[("kind", kind), ("result", result)], count as f64);
            }
        }
        let help = "Recalled delegations that were returned, or revoked for not being returned.";
        self.family("nfs_recalled_total", "counter", help);
        for (end, count) in [("returned", counts.recalls_returned), ("revoked", counts.delegations_revoked)] {
            self.sample("nfs_recalled_total", &[("end", end)], count as f64);
        }
        self.family("nfs_offloads_total", "counter", "Copies in the background that have ended.");
        for (end, count) in [("done", counts.offloads_done), ("failed", counts.offloads_failed)] {
            self.sample("nfs_offloads_total", &[("end", end)], count as f64);
        }
        self.family("nfs_refusals_total", "counter", "What was refused: operations, and connections.");
        for (what, count) in [("operation", nfs.refusals.requests), ("connection", nfs.refusals.connections)]
        {
            self.sample("nfs_refusals_total", &[("what", what)], count as f64);
        }
        let help = "Lines about refused clients that the log leaves out for being too many.";
        let left_out = nfs.refusals.untold + onc_rpc::suppressed_log_lines();
        self.counter("log_lines_suppressed_total", help, left_out);
        let Census { clients, sessions, opens, lock_owners, locks, delegations, offloads, in_grace } =
            nfs.census;
        self.gauge("nfs_clients", "Clients, confirmed or not.", clients as u64);
        self.gauge("nfs_sessions", "Sessions.", sessions as u64);
        self.gauge("nfs_opens", "Open files, counted for each owner.", opens as u64);
        self.gauge("nfs_lock_owners", "Lock-owners of files.", lock_owners as u64);
        self.gauge("nfs_locks", "Locked ranges.", locks as u64);
        self.gauge("nfs_delegations", "Delegations, revoked ones among them.", delegations as u64);
        self.gauge("nfs_offloads", "Copies that go on in the background.", offloads as u64);
        self.gauge("nfs_in_grace", "Whether clients may only reclaim what they had.", in_grace.into());
    }
}

pub(super) async fn prometheus(State(node): State<Arc<Node>>) -> impl IntoResponse {
    let mut text = Text(String::new());
    let (cache, journal, nfs) = (node.cache.usage(), node.journal.usage(), node.server.metrics());
    text.gauge("dirty_bytes", "File data that is not in the clouds yet.", cache.dirty);
    text.gauge("clean_memory_bytes", "Clean blocks in memory.", cache.clean_memory);
    text.gauge("clean_disk_bytes", "Clean blocks on the local disk.", cache.clean_disk);
    text.gauge("journal_capacity_bytes", "Size of the journal.", journal.capacity);
    text.gauge("journal_used_bytes", "Journal space that is still needed.", journal.used);
    text.family("cache_reads_total", "counter", "Block reads by where they were answered.");
    for (from, count) in [("memory", cache.memory_hits), ("disk", cache.disk_hits), ("clouds", cache.fetches)]
    {
        text.sample("cache_reads_total", &[("from", from)], count as f64);
    }
    text.migrations(&node).await;
    let backup = node.backup_status();
    let help = "Seconds since everything that was in the clouds was known to be in a backup.";
    text.gauge("backup_age_seconds", help, node.backup_age().as_secs());
    text.gauge("backup_bytes", "Bytes of the present backup in one cloud.", backup.bytes);
    text.gauge("backup_objects", "Objects of the present backup in one cloud.", backup.objects as u64);
    text.gauge("backup_clouds", "Clouds that have the newest backup.", backup.has.len() as u64);
    text.counter("backups_total", "Backups made.", backup.made);
    text.counter("backup_failures_total", "Backups that failed.", backup.failed);
    text.packs(&node);
    text.scans(&node).await;
    text.nfs(&nfs);
    text.family("cloud_requests_total", "counter", "Requests to clouds.");
    for connection in node.clouds.connections() {
        let health = connection.health().snapshot();
        for (operation, counts) in &health.operations {
            for (result, count) in [("answered", counts.answered), ("failed", counts.failed)] {
                let labels = [("cloud", &*health.cloud), ("operation", operation), ("result", result)];
                text.sample("cloud_requests_total", &labels, count as f64);
            }
        }
    }
    text.costs(&node);
    text.forecasts(&node.clouds.connections());
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_histogram_counts_upwards_and_ends_in_all() {
        let mut text = Text(String::new());
        let classes = vec![(Duration::from_micros(100), 1), (Duration::from_secs(1), 3)];
        let latency = Latency { classes, count: 4, total: Duration::from_millis(2500) };
        text.histogram("x_seconds", &[("operation", "READ")], &latency);
        let expected = r#"kurma_x_seconds_bucket{operation="READ",le="0.0001"} 1
kurma_x_seconds_bucket{operation="READ",le="1"} 3
kurma_x_seconds_bucket{operation="READ",le="+Inf"} 4
kurma_x_seconds_sum{operation="READ"} 2.5
kurma_x_seconds_count{operation="READ"} 4
"#;
        assert_eq!(text.0, expected);
    }

    #[test]
    fn every_name_is_described_once() {
        let mut text = Text(String::new());
        text.nfs(&MetricsSnapshot::default());
        let mut names: Vec<&str> = text.0.lines().filter_map(|line| line.strip_prefix("# HELP ")).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup_by_key(|line| line.split(' ').next());
        assert_eq!((names.len(), count > 15), (count, true));
    }
}
