//! All metadata as one sealed file: `kurma meta dump` and `kurma meta load`. The format is in docs/formats.md.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use bytes::Bytes;
use environment::{Entropy, Environment};
use journal::{Journal, JournalConfig, Lsn};
use meta::{LocalConfig, LocalStore, MAX_KEY, MetaStore, NoObserver, Snapshot};
use seal::{NodeKey, SegmentKey};
use std::sync::Arc;

use crate::data_folder::DataFolder;
use crate::keys::keys_in_force;
use crate::node::journal_config;
use crate::node_rows::{is_passing, set_backup_state, set_loading};
use crate::{Config, StartError, clean_stop, owner};

const MAGIC: &[u8; 8] = b"KURMADMP";
const FORMAT: u32 = 1;
/// Rows in one chunk.
const ROWS: usize = 1024;
/// The longest chunk that is read: rows of a transaction's size and some.
const MAX_CHUNK: usize = 256 << 20;
const TAG: usize = 16;
const PURPOSE: &str = "dump";

/// What a load did.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// Rows of metadata.
    pub rows: u64,
    /// Objects of all volumes.
    pub objects: u64,
    /// What is wrong with them; empty if nothing is.
    pub findings: Vec<String>,
}

/// A dump being written: chunk after chunk.
pub(crate) struct Dump {
    snapshot: Box<dyn Snapshot>,
    key: SegmentKey,
    header: Option<Bytes>,
    chunk: u64,
    rows: u64,
    start: Bytes,
    ended: bool,
}

impl Dump {
    pub fn new(snapshot: Box<dyn Snapshot>, node_key: &NodeKey, entropy: &dyn Entropy) -> Dump {
        let mut salt = [0; 32];
        entropy.fill(&mut salt);
        let header = [&MAGIC[..], &FORMAT.to_be_bytes(), &[0; 4], &salt].concat();
        Dump {
            snapshot,
            key: SegmentKey::derive(node_key, PURPOSE, &salt),
            header: Some(header.into()),
            chunk: 0,
            rows: 0,
            start: Bytes::new(),
            ended: false,
        }
    }

    /// The next bytes of the file; `None` at its end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, meta::MetaError> {
        if let Some(header) = self.header.take() {
            return Ok(Some(header));
        }
        if self.ended {
            return Ok(None);
        }
        let rows = self.snapshot.rows(&self.start, &[u8::MAX; MAX_KEY + 1], ROWS).await?;
        let Some((last, _)) = rows.last() else {
            self.ended = true;
            let end = [self.rows.to_be_bytes(), self.snapshot.lsn().0.to_be_bytes()].concat();
            return Ok(Some(self.sealed(b"end", end)));
        };
        self.start = [last, &[0][..]].concat().into();
        self.rows += rows.len() as u64;
        let mut chunk = Vec::new();
        for (key, value) in &rows {
            chunk.extend_from_slice(&(key.len() as u16).to_be_bytes());
            chunk.extend_from_slice(&(value.len() as u32).to_be_bytes());
            chunk.extend_from_slice(key);
            chunk.extend_from_slice(value);
        }
        Ok(Some(self.sealed(b"rows", chunk)))
    }

    fn sealed(&mut self, kind: &[u8], mut chunk: Vec<u8>) -> Bytes {
        let tag = self.key.seal_at(self.chunk, kind, &mut chunk);
        self.chunk += 1;
        let kind = u8::from(kind == b"end");
        [&[kind][..], &(chunk.len() as u32).to_be_bytes(), &chunk, &tag].concat().into()
    }
}

/// A dump being read.
struct Reader<R> {
    source: R,
    key: SegmentKey,
    chunk: u64,
    rows: u64,
}

type Rows = Vec<(Bytes, Bytes)>;

impl<R: Read> Reader<R> {
    fn new(mut source: R, node_key: &NodeKey) -> Result<Reader<R>, String> {
        let mut header = [0; 48];
        source.read_exact(&mut header).map_err(|_| "it is no dump: too short")?;
        if header[..8] != MAGIC[..] {
            return Err("it is no dump of `kurma meta dump`".into());
        }
        let format = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        if format != FORMAT {
            return Err(format!(
                "it has format {format}, this version knows {FORMAT}; load it with a newer version"
            ));
        }
        let salt: [u8; 32] = std::array::from_fn(|at| header[16 + at]);
        Ok(Reader { source, key: SegmentKey::derive(node_key, PURPOSE, &salt), chunk: 0, rows: 0 })
    }

    /// The rows of the next chunk; `None` at the end, when all have come.
    fn next(&mut self) -> Result<Option<Rows>, String> {
        let mut head = [0; 5];
        self.source.read_exact(&mut head).map_err(|_| "it ends too early; copy it again")?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if length > MAX_CHUNK {
            return Err("it is damaged: a chunk is too long".into());
        }
        // Grows with what really comes.
        let mut chunk = Vec::new();
        let wanted = (length + TAG) as u64;
        let got =
            (&mut self.source).take(wanted).read_to_end(&mut chunk).map_err(|cause| cause.to_string())?;
        if (got as u64) < wanted {
            return Err("it ends too early; copy it again".into());
        }
        let tag: [u8; TAG] = std::array::from_fn(|at| chunk[length + at]);
        chunk.truncate(length);
        let kind: &[u8] = match head[0] {
            0 => b"rows",
            1 => b"end",
            _ => return Err("it is damaged: a chunk of an unknown kind".into()),
        };
        self.key.open_at(self.chunk, kind, &mut chunk, &tag).map_err(|_| {
            format!("it is damaged in part {}, or was made under another key file", self.chunk)
        })?;
        self.chunk += 1;
        let damaged = || "it is damaged: rows that are none".to_owned();
        if head[0] == 1 {
            let total = chunk.first_chunk().map(|total| u64::from_be_bytes(*total)).ok_or_else(damaged)?;
            let mut more = [0];
            let at_end = self.source.read(&mut more).map_err(|cause| cause.to_string())? == 0;
            return if total == self.rows && at_end { Ok(None) } else { Err("it is not whole".into()) };
        }
        let (mut rest, mut rows) = (Bytes::from(chunk), Vec::new());
        while !rest.is_empty() {
            let (key, value) = match rest[..] {
                [k0, k1, v0, v1, v2, v3, ..] => {
                    (usize::from(u16::from_be_bytes([k0, k1])), u32::from_be_bytes([v0, v1, v2, v3]) as usize)
                }
                _ => return Err(damaged()),
            };
            if rest.len() < 6 + key + value || key > MAX_KEY {
                return Err(damaged());
            }
            let row = rest.split_to(6 + key + value);
            rows.push((row.slice(6..6 + key), row.slice(6 + key..)));
        }
        self.rows += rows.len() as u64;
        Ok(Some(rows))
    }
}

/// Loads a dump into the metadata store of `config`, which must not exist yet, while no gateway runs on it. The whole
/// file is verified before anything is made; a load that is interrupted leaves a store that is not served.
///
/// # Errors
/// The dump is damaged or of another key, there is a store already, or it cannot be written.
pub async fn load_dump(config: &Config, dump: &Path) -> Result<LoadReport, StartError> {
    let environment = Environment::real();
    let folder = DataFolder::open(&config.gateway.data)?;
    let key = owner::load_key(&config.gateway.key_file)?;
    let gateway = ids::GatewayId(config.gateway.id);
    owner::check(&folder, &config.gateway.key_file, &key, gateway)?;
    for part in ["meta", "journal"] {
        let path = folder.join(part);
        if std::fs::read_dir(&path).is_ok_and(|mut files| files.next().is_some()) {
            return Err(StartError::Configuration(format!(
                "{} is not empty; a dump is loaded into an empty store only. Move meta and journal away first",
                path.display()
            )));
        }
    }
    let node_key = key.node_key("journal");
    let bad = |cause: String| StartError::Configuration(format!("{}: {cause}", dump.display()));
    let open = || {
        let file = File::open(dump).map_err(|cause| bad(cause.to_string()))?;
        Reader::new(BufReader::new(file), &node_key).map_err(&bad)
    };
    let mut verified = open()?;
    while verified.next().map_err(&bad)?.is_some() {}

    let (journal, recovery) = Journal::open(
        environment.clone(),
        &folder.join("journal"),
        &node_key,
        JournalConfig { first: Lsn(1), ..journal_config(config) },
    )
    .map_err(StartError::configuration)?;
    let store = LocalStore::open(
        environment.clone(),
        &folder.join("meta"),
        LocalConfig { waits_for_room: false, ..LocalConfig::default() },
        journal.clone(),
        recovery,
        Arc::new(NoObserver),
    )
    .map_err(StartError::configuration)?;
    set_loading(&store, true).await.map_err(StartError::configuration)?;
    let mut reader = open()?;
    let mut report = LoadReport::default();
    while let Some(rows) = reader.next().map_err(&bad)? {
        let rows = rows.into_iter().filter(|(key, _)| !is_passing(key)).collect();
        report.rows += put(&store, rows, journal.max_record()).await.map_err(StartError::configuration)?;
    }
    let now = environment.clock.wall();
    volume::after_load(&store, now).await.map_err(StartError::configuration)?;
    // Whoever loads a dump knows that the clouds may have newer backups.
    let state = backup::State::loaded().encode();
    set_backup_state(&store, state.into()).await.map_err(StartError::configuration)?;
    set_loading(&store, false).await.map_err(StartError::configuration)?;
    check(config, &environment, &folder, &key, &store, &mut report).await?;
    store.close().await.map_err(StartError::configuration)?;
    journal.close().await.map_err(StartError::configuration)?;
    let last = store.applied();
    if journal.durable_lsn() == last {
        clean_stop::leave(&folder, last).map_err(StartError::configuration)?;
    }
    Ok(report)
}

/// Puts rows durably; returns how many they are.
async fn put(store: &dyn MetaStore, rows: Rows, max_record: u64) -> Result<u64, meta::MetaError> {
    let count = rows.len() as u64;
    let rows = rows.into_iter().map(|(key, value)| (key, Some(value)));
    meta::put_durably(store, rows.collect(), max_record).await?;
    Ok(count)
}

/// Verifies every invariant of what was loaded.
async fn check(
    config: &Config,
    environment: &Environment,
    folder: &DataFolder,
    key: &seal::KeyFile,
    store: &LocalStore,
    report: &mut LoadReport,
) -> Result<(), StartError> {
    let mut cache_config = cache::CacheConfig::new(folder.join("cache"));
    cache_config.disk = 0;
    let cache = cache::Cache::open(&cache_config, environment, key.node_key("cache"))
        .map_err(StartError::configuration)?;
    let limits = blocks::IncidentLogLimits::default();
    let incidents = blocks::IncidentLog::open(&environment.disk, &folder.join("tamper.log"), limits)
        .map_err(StartError::configuration)?;
    let blocks = blocks::BlockStore::new(environment, [], incidents, blocks::Limits::default());
    let volumes = volume::Volumes::open(volume::VolumesOptions {
        environment: environment.clone(),
        keys: Arc::new(keys_in_force(key, store).await?),
        store: Arc::new(store.clone()),
        cache,
        blocks: Arc::new(blocks),
        gc_delay: config.upkeep.gc_delay.as_duration(),
        capacity: 0,
    })
    .await
    .map_err(StartError::configuration)?;
    for volume in volumes.list() {
        let found = volume.check().await.map_err(StartError::configuration)?;
        report.objects += volume.usage().0;
        report.findings.extend(found.iter().map(|finding| format!("{}: {finding}", volume.name())));
    }
    volumes.close().await.map_err(StartError::configuration)
}

#[cfg(test)]
mod tests {
    use environment::SystemEntropy;

    use super::*;

    struct Rows(Vec<(Bytes, Bytes)>);

    #[async_trait::async_trait]
    impl Snapshot for Rows {
        fn lsn(&self) -> Lsn {
            Lsn(7)
        }

        async fn rows(
            &mut self,
            start: &[u8],
            end: &[u8],
            limit: usize,
        ) -> Result<super::Rows, meta::MetaError> {
            let inside = self.0.iter().filter(|(key, _)| &key[..] >= start && &key[..] < end);
            Ok(inside.take(limit).cloned().collect())
        }
    }

    fn key() -> NodeKey {
        seal::KeyFile::generate(ids::GatewayId(1), &SystemEntropy::new()).node_key("journal")
    }

    async fn dump(rows: &[(Bytes, Bytes)], key: &NodeKey) -> Vec<u8> {
        let mut dump = Dump::new(Box::new(Rows(rows.to_vec())), key, &SystemEntropy::new());
        let mut bytes = Vec::new();
        while let Some(part) = dump.next().await.unwrap() {
            bytes.extend_from_slice(&part);
        }
        bytes
    }

    fn read(bytes: &[u8], key: &NodeKey) -> Result<Vec<(Bytes, Bytes)>, String> {
        let mut reader = Reader::new(bytes, key)?;
        let mut all = Vec::new();
        while let Some(rows) = reader.next()? {
            all.extend(rows);
        }
        Ok(all)
    }

    fn rows(count: u32) -> Vec<(Bytes, Bytes)> {
        let row = |n: u32| {
            let key = Bytes::copy_from_slice(&n.to_be_bytes());
            (key, Bytes::from(vec![n as u8; n as usize % 50]))
        };
        (0..count).map(row).collect()
    }

    #[tokio::test]
    async fn all_rows_come_back_and_none_can_be_read_without_the_key() {
        let key = key();
        for count in [0, 1, 3000] {
            let bytes = dump(&rows(count), &key).await;
            assert_eq!(read(&bytes, &key).unwrap(), rows(count));
            assert!(read(&bytes, &self::key()).unwrap_err().contains("another key"));
        }
        let secret = (Bytes::from_static(b"key-canary"), Bytes::from_static(b"value-canary"));
        let bytes = dump(&[secret], &key).await;
        assert!(!bytes.windows(6).any(|part| part == b"canary"));
    }

    #[tokio::test]
    async fn long_rows_are_loaded_in_as_many_records_as_they_need() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::real();
        let small = JournalConfig::small(8 << 20);
        let (journal, recovery) =
            Journal::open(environment.clone(), &folder.path().join("journal"), &key(), small).unwrap();
        let meta = folder.path().join("meta");
        let (config, observer) = (LocalConfig::default(), Arc::new(NoObserver));
        let store =
            LocalStore::open(environment, &meta, config, journal.clone(), recovery, observer).unwrap();
        let most = journal.max_record();
        // One that takes a whole record, many that need several, and tiny ones.
        let length = |n: u32| match n {
            3 => most as usize - 1024,
            0..100 => most as usize / 7,
            _ => 5,
        };
        let row = |n: u32| (Bytes::copy_from_slice(&n.to_be_bytes()), Bytes::from(vec![n as u8; length(n)]));
        // The long one is not the first of its record.
        let rows: super::Rows = (0..200).map(row).collect();
        assert_eq!(put(&store, rows.clone(), most).await.unwrap(), 200);
        let mut snapshot = store.snapshot().await.unwrap();
        assert!(snapshot.rows(&[], &[255; 8], 1000).await.unwrap() == rows);
        drop(snapshot);
        store.close().await.unwrap();
        journal.close().await.unwrap();
    }

    #[tokio::test]
    async fn a_dump_that_is_cut_or_changed_anywhere_is_refused() {
        let key = key();
        let bytes = dump(&rows(20), &key).await;
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length], &key).is_err(), "cut at {length}");
        }
        for at in (0..12).chain(16..bytes.len()) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(read(&changed, &key).is_err(), "changed at {at}");
        }
        assert!(read(&[&bytes[..], &[0]].concat(), &key).is_err());
    }
}
