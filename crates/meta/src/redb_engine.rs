use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use environment::Environment;
use journal::Lsn;
use parking_lot::Mutex;
use redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, TableDefinition};
use seal::NodeKey;

use crate::MetaError;
use crate::engine::{Engine, View, Write};
use crate::sealed_file::{Refused, SealedFile, SharedFile};

/// The layout of the tables and of the values that this crate stores.
const FORMAT: u64 = 1;

const ROWS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("rows");
const HEADER: TableDefinition<'static, &str, u64> = TableDefinition::new("header");

fn failed(what: &'static str) -> impl Fn(redb::Error) -> MetaError {
    move |cause| MetaError::Engine { what, cause: cause.to_string() }
}

/// redb, on a [`SealedFile`].
pub(crate) struct RedbEngine {
    /// None when it has been closed.
    database: Mutex<Option<Database>>,
    file: Arc<SealedFile>,
    applied: AtomicU64,
}

impl RedbEngine {
    /// Opens the file, or makes it. A file of a newer format or of another key is left alone.
    pub(crate) fn open(
        environment: &Environment,
        path: &Path,
        node_key: &NodeKey,
        cache: usize,
    ) -> Result<RedbEngine, MetaError> {
        let disk = &*environment.disk;
        let directory = path.parent().unwrap_or(path);
        let fail = |cause: io::Error| failed("opening the file")(cause.into());
        if !disk.list(directory).map_err(fail)?.iter().any(|found| found == path) {
            // Made under another name, so that a crash leaves no half-made file under this one.
            let draft = path.with_extension("draft");
            let _gone = disk.remove(&draft);
            let (database, _) = RedbEngine::database(environment, &draft, true, node_key, cache)?;
            RedbEngine::create(&database).map_err(failed("making the file"))?;
            drop(database);
            disk.rename(&draft, path).map_err(fail)?;
            disk.sync_directory(directory).map_err(fail)?;
        }
        let (database, file) = RedbEngine::database(environment, path, false, node_key, cache)?;
        let (format, applied) = RedbEngine::header(&database).map_err(failed("opening"))?;
        if format > FORMAT {
            return Err(MetaError::NewerFormat { path: path.to_owned(), found: format, known: FORMAT });
        }
        Ok(RedbEngine { database: Mutex::new(Some(database)), file, applied: AtomicU64::new(applied) })
    }

    fn database(
        environment: &Environment,
        path: &Path,
        create: bool,
        node_key: &NodeKey,
        cache: usize,
    ) -> Result<(Database, Arc<SealedFile>), MetaError> {
        let file = environment.disk.open(path, create);
        let file = file.map_err(|cause| failed("opening the file")(cause.into()))?;
        let file =
            SealedFile::open(file, node_key, &*environment.entropy).map_err(|refused| match refused {
                Refused::Io(cause) => failed("opening the file")(cause.into()),
                Refused::WrongKey => MetaError::WrongKey { path: path.to_owned() },
                Refused::NotOurs => MetaError::NotAStore { path: path.to_owned() },
                Refused::Newer(found) => {
                    MetaError::NewerFormat { path: path.to_owned(), found: found.into(), known: FORMAT }
                }
            })?;
        let backend = SharedFile(file.clone());
        let open = || Database::builder().set_cache_size(cache).create_with_backend(backend);
        // redb panics on some pages that do not verify, which it sees as zeros, instead of giving an error.
        let opened = catch_unwind(AssertUnwindSafe(open)).map_err(|_| MetaError::Engine {
            what: "opening the file",
            cause: format!("{} is damaged; restore it from a backup", path.display()),
        })?;
        let database = opened.map_err(|cause| failed("opening")(cause.into()))?;
        file.be_strict();
        Ok((database, file))
    }

    /// From now on it waits for a full disk. Blocks for as long.
    pub(crate) fn wait_for_room(&self) {
        self.file.wait_for_room();
    }

    /// The format, and the last transaction that is applied.
    fn header(database: &Database) -> Result<(u64, u64), redb::Error> {
        let table = database.begin_read()?.open_table(HEADER)?;
        let number = |name| Ok::<_, redb::Error>(table.get(name)?.map_or(0, |value| value.value()));
        Ok((number("format")?, number("applied")?))
    }

    fn create(database: &Database) -> Result<(), redb::Error> {
        let mut transaction = database.begin_write()?;
        transaction.set_quick_repair(true);
        {
            let mut header = transaction.open_table(HEADER)?;
            header.insert("format", FORMAT)?;
            header.insert("applied", 0)?;
            transaction.open_table(ROWS)?;
        }
        Ok(transaction.commit()?)
    }

    fn try_apply(
        database: &Database,
        writes: &mut dyn Iterator<Item = &Write>,
        up_to: Lsn,
        durable: bool,
    ) -> Result<(), redb::Error> {
        let mut transaction = database.begin_write()?;
        if durable {
            // A restart after a crash must not walk the whole file.
            transaction.set_quick_repair(true);
        } else {
            transaction.set_durability(Durability::None)?;
        }
        {
            let mut rows = transaction.open_table(ROWS)?;
            // In the order of the tree, and each key once: neighbours share pages.
            let writes: BTreeMap<&Bytes, &Option<Bytes>> = writes.map(|(key, value)| (key, value)).collect();
            for (key, value) in writes {
                match value {
                    Some(value) => drop(rows.insert(&key[..], &value[..])?),
                    None => drop(rows.remove(&key[..])?),
                }
            }
            transaction.open_table(HEADER)?.insert("applied", up_to.0)?;
        }
        Ok(transaction.commit()?)
    }

    fn try_view(database: &Database) -> Result<RedbView, redb::Error> {
        Ok(RedbView { rows: database.begin_read()?.open_table(ROWS)? })
    }
}

impl Engine for RedbEngine {
    fn applied(&self) -> Lsn {
        Lsn(self.applied.load(Ordering::Acquire))
    }

    fn view(&self) -> Result<Arc<dyn View>, MetaError> {
        let database = self.database.lock();
        let database = database.as_ref().ok_or(MetaError::Closed)?;
        Ok(Arc::new(RedbEngine::try_view(database).map_err(failed("opening a view"))?))
    }

    fn apply(
        &self,
        writes: &mut dyn Iterator<Item = &Write>,
        up_to: Lsn,
        durable: bool,
    ) -> Result<(), MetaError> {
        let database = self.database.lock();
        let database = database.as_ref().ok_or(MetaError::Closed)?;
        RedbEngine::try_apply(database, writes, up_to, durable).map_err(failed("applying transactions"))?;
        self.applied.store(up_to.0, Ordering::Release);
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.file.has_room()
    }

    fn is_waiting(&self) -> bool {
        self.file.is_waiting()
    }

    fn stop_waiting(&self) {
        self.file.stop_waiting();
    }

    fn close(&self) {
        self.database.lock().take();
    }
}

/// The table keeps its read transaction alive.
struct RedbView {
    rows: ReadOnlyTable<&'static [u8], &'static [u8]>,
}

impl View for RedbView {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, MetaError> {
        let value = self.rows.get(key).map_err(|cause| failed("reading")(cause.into()))?;
        Ok(value.map(|value| Bytes::copy_from_slice(value.value())))
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), MetaError> {
        if start >= end {
            return Ok(());
        }
        let fail = |cause: redb::StorageError| failed("scanning")(cause.into());
        for row in self.rows.range::<&[u8]>(start..end).map_err(fail)? {
            let (key, value) = row.map_err(fail)?;
            if !visit(key.value(), value.value()) {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use journal::testing::MemoryDisk;

    use super::*;

    fn try_open(disk: &MemoryDisk) -> Result<RedbEngine, MetaError> {
        let key = NodeKey::from_bytes([1; 32]);
        RedbEngine::open(&disk.environment(), Path::new("/metadata.redb"), &key, 1 << 20)
    }

    #[test]
    fn a_crash_while_the_file_is_made_is_survived() {
        for operations in 0.. {
            let disk = MemoryDisk::new();
            disk.cut_power_after(operations);
            let made = try_open(&disk).is_ok();
            for seed in 0..6 {
                let crashed = disk.crash(seed);
                assert_eq!(try_open(&crashed).unwrap().applied(), Lsn::ZERO);
            }
            if made {
                assert!(operations > 5);
                break;
            }
        }
    }

    #[test]
    fn a_damaged_page_makes_opening_fail_or_succeed_and_never_panic() {
        let disk = MemoryDisk::new();
        let engine = try_open(&disk).unwrap();
        let write = |number: u8| (Bytes::from(vec![number]), Some(Bytes::from(vec![number; 1000])));
        engine.apply(&mut (0..60).map(write).collect::<Vec<_>>().iter(), Lsn(1), true).unwrap();
        drop(engine);
        let path = Path::new("/metadata.redb");
        let pages = disk.files().remove(0).1.len() / 4096;
        let outcomes: Vec<bool> = (0..pages)
            .map(|page| {
                let disk = disk.kill();
                disk.damage(path, |bytes| bytes[page * 4096 + 100..][..8].fill(0xff));
                try_open(&disk).is_ok()
            })
            .collect();
        assert!(outcomes.contains(&true) && outcomes.contains(&false));
    }

    #[test]
    fn a_file_of_a_newer_format_is_refused() {
        let disk = MemoryDisk::new();
        let engine = try_open(&disk).unwrap();
        let transaction = engine.database.lock().as_ref().unwrap().begin_write().unwrap();
        transaction.open_table(HEADER).unwrap().insert("format", FORMAT + 1).unwrap();
        transaction.commit().unwrap();
        drop(engine);
        let error = try_open(&disk).err().unwrap();
        assert!(matches!(error, MetaError::NewerFormat { found: 2, known: 1, .. }), "{error}");
    }

    #[test]
    fn a_crash_loses_only_what_came_after_the_last_durable_batch() {
        let disk = MemoryDisk::new();
        let engine = try_open(&disk).unwrap();
        let write = |number: u8| (Bytes::from(vec![number]), Some(Bytes::from(vec![number; 1000])));
        for number in 1..=60 {
            engine.apply(&mut [write(number)].iter(), Lsn(number.into()), number % 20 == 0).unwrap();
            let crashed = try_open(&disk.crash(number.into())).unwrap();
            let applied = crashed.applied().0;
            assert!(applied >= u64::from(number / 20 * 20) && applied <= number.into());
            let view = crashed.view().unwrap();
            for row in 1..=60 {
                assert_eq!(view.get(&[row]).unwrap().is_some(), u64::from(row) <= applied);
            }
        }
    }

    #[test]
    fn a_power_cut_at_any_operation_loses_only_what_came_after_the_last_durable_batch() {
        let write = |number: u8| (Bytes::from(vec![number % 16]), Some(Bytes::from(vec![number; 700])));
        for operations in 0.. {
            let disk = MemoryDisk::new();
            let engine = try_open(&disk).unwrap();
            disk.cut_power_after(operations);
            let (mut tried, mut durable) = (0, 0);
            for number in 1..=30u8 {
                tried = number;
                let sync = number.is_multiple_of(5);
                if engine.apply(&mut [write(number)].iter(), Lsn(number.into()), sync).is_err() {
                    break;
                }
                durable = if sync { number } else { durable };
            }
            engine.close();
            for seed in 0..3 {
                let crashed = try_open(&disk.crash(operations * 3 + seed)).unwrap();
                let applied = crashed.applied().0 as u8;
                assert!((durable..=tried).contains(&applied), "{durable} {applied} {tried}");
                let view = crashed.view().unwrap();
                for row in 0..16 {
                    let newest = (1..=applied).rev().find(|number| number % 16 == row);
                    let expected = newest.and_then(|number| write(number).1);
                    assert_eq!(view.get(&[row]).unwrap(), expected, "after {operations} operations");
                }
            }
            if durable == 30 {
                assert!(operations > 30);
                break;
            }
        }
    }
}
