use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use environment::{Disk, DiskFile};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::{Incident, IncidentSink};

/// Sizes of an [`IncidentLog`].
#[derive(Clone, Debug)]
pub struct IncidentLogLimits {
    /// Incidents kept in memory; default 1,024.
    pub in_memory: usize,
    /// Bytes after which a new file is begun; default 16 MiB.
    pub file_bytes: u64,
    /// Older files that are kept as `NAME.1` (the youngest), `NAME.2` and so on; default 4.
    pub old_files: u32,
}

impl Default for IncidentLogLimits {
    fn default() -> IncidentLogLimits {
        IncidentLogLimits { in_memory: 1024, file_bytes: 16 << 20, old_files: 4 }
    }
}

/// The tamper log (`K28`): a file of JSON lines, appended to and synced, and the youngest incidents in memory.
///
/// The same trouble with the same object is one entry that counts; the file gets a line for the first, the tenth,
/// the hundredth time and so on. Writing goes on in the background; [`IncidentLog::flush`] waits for it. When
/// incidents come faster than the disk takes them, the file misses the excess and the memory does not.
pub struct IncidentLog {
    inner: Arc<Inner>,
}

struct Inner {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    limits: IncidentLogLimits,
    runtime: Handle,
    state: Mutex<State>,
    file: Mutex<OpenFile>,
    idle: Notify,
}

#[derive(Default)]
struct State {
    recent: VecDeque<Incident>,
    /// There are older ones.
    older: bool,
    unwritten: VecDeque<String>,
    writing: bool,
    lost: u64,
}

struct OpenFile {
    file: Box<dyn DiskFile>,
    length: u64,
}

/// Lines that may wait for the disk.
const LONGEST_QUEUE: usize = 4096;
/// How much of the end of an existing file is read back into memory.
const TAIL: u64 = 1 << 20;

impl IncidentLog {
    /// Opens or begins the log at `path`, whose directory must exist. Reads and writes the disk: call it outside
    /// of hot paths, inside of a runtime.
    pub fn open(
        disk: &Arc<dyn Disk>,
        path: &Path,
        limits: IncidentLogLimits,
    ) -> io::Result<Arc<IncidentLog>> {
        let file = disk.open(path, true)?;
        if let Some(directory) = path.parent() {
            disk.sync_directory(directory)?;
        }
        let mut length = file.length()?;
        let from = length.saturating_sub(TAIL);
        let mut tail = vec![0; (length - from) as usize];
        file.read_exact_at(&mut tail, from)?;
        if tail.last().is_some_and(|last| *last != b'\n') {
            // A crash left half a line; the next one begins anew.
            file.write_all_at(&[IoSlice::new(b"\n")], length)?;
            length += 1;
        }
        let mut state =
            State { older: from > 0 || disk.open(&numbered(path, 1), false).is_ok(), ..State::default() };
        for incident in String::from_utf8_lossy(&tail).lines().filter_map(Incident::from_json) {
            state.note(incident, limits.in_memory);
        }
        let inner = Inner {
            disk: disk.clone(),
            path: path.to_owned(),
            limits,
            runtime: Handle::current(),
            state: Mutex::new(state),
            file: Mutex::new(OpenFile { file, length }),
            idle: Notify::new(),
        };
        Ok(Arc::new(IncidentLog { inner: Arc::new(inner) }))
    }

    /// The youngest incidents, at most `limit`, oldest first.
    pub fn recent(&self, limit: usize) -> Vec<Incident> {
        let state = self.inner.state.lock();
        state.recent.iter().skip(state.recent.len().saturating_sub(limit)).cloned().collect()
    }

    /// Whether there are older incidents than those in memory.
    pub fn has_older(&self) -> bool {
        self.inner.state.lock().older
    }

    /// The youngest incidents of all files, at most `limit`, oldest first, and only those since `since` (seconds since
    /// 1970).
    pub async fn history(&self, since: Option<i64>, limit: usize) -> io::Result<Vec<Incident>> {
        self.flush().await;
        let inner = self.inner.clone();
        let read = self.inner.runtime.spawn_blocking(move || inner.history(since, limit));
        read.await.map_err(io::Error::other)?
    }

    /// Lines that never reached the file because the disk failed or was too slow.
    pub fn lost(&self) -> u64 {
        self.inner.state.lock().lost
    }

    /// Waits until everything reported so far is durable (or [`lost`](IncidentLog::lost)).
    pub async fn flush(&self) {
        loop {
            let idle = self.inner.idle.notified();
            if !self.inner.state.lock().writing {
                return;
            }
            idle.await;
        }
    }
}

impl IncidentSink for IncidentLog {
    fn report(&self, incident: Incident) {
        tracing::warn!(
            cloud = %incident.cloud, object = %incident.object, block = %incident.block,
            version = %incident.version, wrong = incident.wrong, outcome = %incident.outcome, "bad fragment"
        );
        let mut state = self.inner.state.lock();
        let noted = state.note(incident, self.inner.limits.in_memory);
        let is_round = 10u64.pow(noted.times.ilog10()) == noted.times;
        if !is_round {
            return;
        }
        let line = noted.to_json();
        if state.unwritten.len() >= LONGEST_QUEUE {
            state.lost += 1;
            return;
        }
        state.unwritten.push_back(line);
        if !std::mem::replace(&mut state.writing, true) {
            let inner = self.inner.clone();
            self.inner.runtime.spawn_blocking(move || inner.drain());
        }
    }
}

impl State {
    /// Adds an incident or counts it onto the one it repeats, which becomes the youngest; returns that.
    fn note(&mut self, mut incident: Incident, limit: usize) -> Incident {
        if let Some(at) = self.recent.iter().rposition(|known| known.repeats(&incident))
            && let Some(known) = self.recent.remove(at)
        {
            incident.times = incident.times.max(known.times.saturating_add(1));
        }
        while self.recent.len() >= limit.max(1) {
            self.recent.pop_front();
            self.older = true;
        }
        self.recent.push_back(incident.clone());
        incident
    }
}

impl Inner {
    /// Writes what waits until nothing does. One at a time runs.
    fn drain(&self) {
        loop {
            let batch: Vec<String> = {
                let mut state = self.state.lock();
                if state.unwritten.is_empty() {
                    state.writing = false;
                    break;
                }
                state.unwritten.drain(..).collect()
            };
            if let Err(error) = self.append(&batch) {
                tracing::error!(%error, path = %self.path.display(), "the tamper log cannot be written");
                self.state.lock().lost += batch.len() as u64;
            }
        }
        self.idle.notify_waiters();
    }

    fn history(&self, since: Option<i64>, limit: usize) -> io::Result<Vec<Incident>> {
        let mut known: HashMap<u64, (u64, Incident)> = HashMap::new();
        let mut number = 0;
        let mut note = |incident: Incident| {
            number += 1;
            if since.is_none_or(|since| incident.time.seconds >= since) {
                // By what a repetition is told; the last one counts.
                let mut hasher = std::hash::DefaultHasher::new();
                let Incident { object_name, cloud, wrong, outcome, .. } = &incident;
                (object_name, cloud, wrong, outcome).hash(&mut hasher);
                known.insert(hasher.finish(), (number, incident));
            }
        };
        for path in (1..=self.limits.old_files).rev().map(|old| self.numbered(old)).chain([self.path.clone()])
        {
            let file = match self.disk.open(&path, false) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file?,
            };
            let mut text = vec![0; file.length()?.min(2 * self.limits.file_bytes) as usize];
            file.read_exact_at(&mut text, 0)?;
            String::from_utf8_lossy(&text).lines().filter_map(Incident::from_json).for_each(&mut note);
        }
        // These count more often than the files are written.
        let recent: Vec<Incident> = self.state.lock().recent.iter().cloned().collect();
        recent.into_iter().for_each(&mut note);
        let mut found: Vec<_> = known.into_values().collect();
        found.sort_by_key(|(number, _)| *number);
        let older = found.len().saturating_sub(limit);
        Ok(found.into_iter().skip(older).map(|(_, incident)| incident).collect())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        numbered(&self.path, number)
    }

    fn append(&self, lines: &[String]) -> io::Result<()> {
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        let mut open = self.file.lock();
        if open.length > 0 && open.length + text.len() as u64 > self.limits.file_bytes {
            *open = self.rotate()?;
        }
        open.file.write_all_at(&[IoSlice::new(text.as_bytes())], open.length)?;
        open.file.sync_data()?;
        open.length += text.len() as u64;
        Ok(())
    }

    fn rotate(&self) -> io::Result<OpenFile> {
        let numbered = |number| self.numbered(number);
        let forgiving = |result: io::Result<()>| match result {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        };
        for number in (1..self.limits.old_files).rev() {
            forgiving(self.disk.rename(&numbered(number), &numbered(number + 1)))?;
        }
        match self.limits.old_files {
            0 => forgiving(self.disk.remove(&self.path))?,
            _ => forgiving(self.disk.rename(&self.path, &numbered(1)))?,
        }
        let file = self.disk.open(&self.path, true)?;
        if let Some(directory) = self.path.parent() {
            self.disk.sync_directory(directory)?;
        }
        let length = file.length()?;
        Ok(OpenFile { file, length })
    }
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(format!(".{number}"));
    PathBuf::from(path)
}

#[cfg(test)]
mod tests {
    use environment::LocalDisk;

    use super::*;
    use crate::incident::tests::incident;

    fn open(path: &Path, limits: &IncidentLogLimits) -> Arc<IncidentLog> {
        let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
        IncidentLog::open(&disk, path, limits.clone()).unwrap()
    }

    fn lines(path: &Path) -> Vec<Incident> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().filter_map(Incident::from_json).collect()
    }

    #[tokio::test]
    async fn repeated_incidents_are_counted_and_do_not_flood_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tamper.log");
        let log = open(&path, &IncidentLogLimits::default());
        (0..150).for_each(|_| log.report(incident("a")));
        log.report(incident("b"));
        log.flush().await;
        let times: Vec<_> = lines(&path).into_iter().map(|line| (line.object_name, line.times)).collect();
        let expected =
            [("a", 1), ("a", 10), ("a", 100), ("b", 1)].map(|(name, times)| (name.to_owned(), times));
        assert_eq!(times, expected);
        let history = log.history(None, 9).await.unwrap();
        assert_eq!(history.iter().map(|known| known.times).collect::<Vec<_>>(), [150, 1], "none twice");
        let recent: Vec<_> = log.recent(9).into_iter().map(|known| known.times).collect();
        assert_eq!(recent, [150, 1]);
        assert_eq!(log.recent(1)[0].object_name, "b");
    }

    #[tokio::test]
    async fn the_log_goes_on_after_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tamper.log");
        let log = open(&path, &IncidentLogLimits::default());
        log.report(incident("a"));
        log.flush().await;
        let half = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{half}{}", &half[..40])).unwrap();
        let log = open(&path, &IncidentLogLimits::default());
        assert_eq!(log.recent(9), [incident("a")]);
        log.report(incident("b"));
        log.flush().await;
        assert_eq!(lines(&path), [incident("a"), incident("b")]);
    }

    #[tokio::test]
    async fn files_and_memory_stay_within_their_limits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tamper.log");
        let limits = IncidentLogLimits { in_memory: 3, file_bytes: 1000, old_files: 2 };
        let log = open(&path, &limits);
        for number in 0..20 {
            assert_eq!(log.has_older(), number > 3);
            log.report(incident(&format!("object{number}")));
            log.flush().await;
        }
        assert_eq!(log.recent(99).len(), 3);
        assert!(open(&path, &IncidentLogLimits::default()).has_older());
        let mut files: Vec<_> = LocalDisk.list(folder.path()).unwrap();
        files.sort();
        assert_eq!(files.len(), 3);
        assert!(files.iter().all(|file| std::fs::metadata(file).unwrap().len() <= 1000));
        assert_eq!(lines(&path).last().unwrap().object_name, "object19");
        assert_eq!(log.lost(), 0);
        let names = |found: Vec<Incident>| found.into_iter().map(|one| one.object_name).collect::<Vec<_>>();
        let all = names(log.history(None, usize::MAX).await.unwrap());
        assert!(all.len() > 3, "more than the memory has: {all:?}");
        assert_eq!(all.last().unwrap(), "object19");
        assert_eq!(names(log.history(None, 2).await.unwrap()), ["object18", "object19"]);
        let when = incident("a").time.seconds;
        assert_eq!(log.history(Some(when), usize::MAX).await.unwrap().len(), all.len());
        assert!(log.history(Some(when + 1), usize::MAX).await.unwrap().is_empty());
    }
}
