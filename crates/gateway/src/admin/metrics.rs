use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

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

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value as f64);
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
    text.family("nfs_operations_total", "counter", "NFS operations.");
    for operation in &nfs.operations {
        text.sample("nfs_operations_total", &[("operation", operation.name)], operation.calls as f64);
    }
    text.family("nfs_errors_total", "counter", "NFS operations that ended in an error.");
    for operation in &nfs.operations {
        text.sample("nfs_errors_total", &[("operation", operation.name)], operation.errors as f64);
    }
    text.family("nfs_seconds_total", "counter", "Time spent in NFS operations, without commits.");
    for operation in &nfs.operations {
        text.sample("nfs_seconds_total", &[("operation", operation.name)], operation.time.as_secs_f64());
    }
    text.family("nfs_conflicts_total", "counter", "Compounds that met a conflict and ran again.");
    text.sample("nfs_conflicts_total", &[], nfs.conflicts as f64);
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
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text.0)
}
