use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use environment::{Disk, DiskFile};
use journal::Lsn;
use parking_lot::Mutex;
use redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, StorageBackend, TableDefinition};

use crate::MetaError;
use crate::engine::{Engine, View, Write};

/// The layout of the tables and of the values that this crate stores.
const FORMAT: u64 = 1;

const ROWS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("rows");
const HEADER: TableDefinition<'static, &str, u64> = TableDefinition::new("header");

fn failed(what: &'static str) -> impl Fn(redb::Error) -> MetaError {
    move |cause| MetaError::Engine { what, cause: cause.to_string() }
}

/// redb, on a file of [`Disk`].
pub(crate) struct RedbEngine {
    /// None when it has been closed.
    database: Mutex<Option<Database>>,
    applied: AtomicU64,
}

impl RedbEngine {
    /// Opens the file, or makes it. A file of a newer format is left alone.
    pub(crate) fn open(disk: &dyn Disk, path: &Path, cache: usize) -> Result<RedbEngine, MetaError> {
        let file = disk.open(path, true).map_err(|cause| MetaError::Engine {
            what: "opening the file",
            cause: format!("{}: {cause}", path.display()),
        })?;
        if let Some(parent) = path.parent() {
            disk.sync_directory(parent).map_err(|cause| failed("syncing the directory")(cause.into()))?;
        }
        let fail = failed("opening");
        let database = Database::builder()
            .set_cache_size(cache)
            .create_with_backend(DiskBackend { file })
            .map_err(|cause| fail(cause.into()))?;
        let header = RedbEngine::header(&database).map_err(&fail)?;
        let applied = match header {
            Some((format, _)) if format > FORMAT => {
                return Err(MetaError::NewerFormat { path: path.to_owned(), found: format, known: FORMAT });
            }
            Some((_, applied)) => applied,
            None => {
                RedbEngine::create(&database).map_err(&fail)?;
                0
            }
        };
        Ok(RedbEngine { database: Mutex::new(Some(database)), applied: AtomicU64::new(applied) })
    }

    fn header(database: &Database) -> Result<Option<(u64, u64)>, redb::Error> {
        let transaction = database.begin_read()?;
        let table = match transaction.open_table(HEADER) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let number = |name| Ok::<_, redb::Error>(table.get(name)?.map_or(0, |value| value.value()));
        Ok(Some((number("format")?, number("applied")?)))
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

    fn apply(&self, writes: &mut dyn Iterator<Item = &Write>, up_to: Lsn, durable: bool) -> Result<(), MetaError> {
        let database = self.database.lock();
        let database = database.as_ref().ok_or(MetaError::Closed)?;
        RedbEngine::try_apply(database, writes, up_to, durable).map_err(failed("applying transactions"))?;
        self.applied.store(up_to.0, Ordering::Release);
        Ok(())
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

    fn scan(&self, start: &[u8], end: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), MetaError> {
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

/// A [`DiskFile`] as redb wants it.
struct DiskBackend {
    file: Box<dyn DiskFile>,
}

impl fmt::Debug for DiskBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DiskBackend")
    }
}

impl StorageBackend for DiskBackend {
    fn len(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(&[io::IoSlice::new(data)], offset)
    }
}

#[cfg(test)]
mod tests {
    use journal::testing::MemoryDisk;

    use super::*;

    #[test]
    fn a_file_of_a_newer_format_is_refused() {
        let disk = MemoryDisk::new();
        let path = Path::new("/metadata.redb");
        let engine = RedbEngine::open(&disk, path, 1 << 20).unwrap();
        let transaction = engine.database.lock().as_ref().unwrap().begin_write().unwrap();
        transaction.open_table(HEADER).unwrap().insert("format", FORMAT + 1).unwrap();
        transaction.commit().unwrap();
        drop(engine);
        let error = RedbEngine::open(&disk, path, 1 << 20).err().unwrap();
        assert!(matches!(error, MetaError::NewerFormat { found: 2, known: 1, .. }), "{error}");
    }

    #[test]
    fn a_crash_loses_only_what_came_after_the_last_durable_batch() {
        let disk = MemoryDisk::new();
        let path = Path::new("/metadata.redb");
        let engine = RedbEngine::open(&disk, path, 1 << 20).unwrap();
        let write = |number: u8| (Bytes::from(vec![number]), Some(Bytes::from(vec![number; 1000])));
        for number in 1..=60 {
            engine.apply(&mut [write(number)].iter(), Lsn(number.into()), number % 20 == 0).unwrap();
            let crashed = RedbEngine::open(&disk.crash(number.into()), path, 1 << 20).unwrap();
            let applied = crashed.applied().0;
            assert!(applied >= u64::from(number / 20 * 20) && applied <= number.into());
            let view = crashed.view().unwrap();
            for row in 1..=60 {
                assert_eq!(view.get(&[row]).unwrap().is_some(), u64::from(row) <= applied);
            }
        }
    }
}
