//! The contract of [`MetaStore`], as a suite that every implementation runs.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use crate::{MetaError, MetaStore, Mode, Priority, Scan, Transaction};

type Row = (Bytes, Bytes);

/// Runs the whole suite; `factory` makes an empty store for each part. Panics where the contract is broken.
pub async fn run<F, R>(factory: F)
where
    F: Fn() -> R,
    R: Future<Output = Arc<dyn MetaStore>>,
{
    a_transaction_sees_its_own_writes_and_nobody_else_does(&*factory().await).await;
    a_commit_is_seen_by_who_begins_afterwards(&*factory().await).await;
    a_dropped_transaction_leaves_no_trace(&*factory().await).await;
    scans_are_ordered_bounded_and_merged_with_own_writes(&*factory().await).await;
    no_update_is_lost(&*factory().await).await;
    writes_do_not_skew(&*factory().await).await;
    a_guard_keeps_phantoms_out(&*factory().await).await;
    a_touch_conflicts_like_a_write_and_stores_nothing(&*factory().await).await;
    what_is_to_be_done_afterwards_follows_a_commit_and_nothing_else(&*factory().await).await;
    a_reader_never_sees_half_of_a_transaction(&*factory().await).await;
    a_reader_that_was_overtaken_does_not_commit(&*factory().await).await;
    blind_writes_do_not_conflict(&*factory().await).await;
    a_snapshot_is_unaffected_by_later_commits(&*factory().await).await;
    all_rows_can_be_copied_to_another_store(&*factory().await, &*factory().await).await;
    an_exclusive_transaction_never_conflicts(factory().await).await;
    concurrent_increments_add_up(factory().await).await;
    concurrent_transfers_keep_the_sum(factory().await).await;
}

fn bytes(text: impl AsRef<[u8]>) -> Bytes {
    Bytes::copy_from_slice(text.as_ref())
}

async fn begin(store: &dyn MetaStore) -> Box<dyn Transaction> {
    expect(store.begin(Mode::Optimistic).await)
}

#[allow(clippy::panic)] // a suite of assertions
fn expect<T>(result: Result<T, MetaError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

async fn commit(transaction: Box<dyn Transaction>) -> Result<(), MetaError> {
    transaction.commit(Priority::Client).await?.durable().await
}

async fn put(store: &dyn MetaStore, rows: &[(&str, &str)]) {
    let mut transaction = begin(store).await;
    for (key, value) in rows {
        transaction.put(bytes(key), bytes(value));
    }
    expect(commit(transaction).await);
}

async fn get(transaction: &mut Box<dyn Transaction>, key: &str) -> Option<String> {
    let value = expect(transaction.get(key.as_bytes()).await);
    value.map(|value| String::from_utf8_lossy(&value).into_owned())
}

fn all<'a>() -> Scan<'a> {
    Scan { start: b"", end: &[255; 8], guard: None, limit: usize::MAX }
}

fn text(rows: &[Row]) -> String {
    let part = |part: &Bytes| String::from_utf8_lossy(part).into_owned();
    rows.iter().map(|(key, value)| format!("{}={} ", part(key), part(value))).collect()
}

fn assert_conflict<T>(result: Result<T, MetaError>, what: &str) {
    assert!(matches!(result, Err(MetaError::Conflict)), "{what} must conflict");
}

async fn a_transaction_sees_its_own_writes_and_nobody_else_does(store: &dyn MetaStore) {
    put(store, &[("a", "1"), ("b", "1")]).await;
    let mut writer = begin(store).await;
    writer.put(bytes("a"), bytes("2"));
    writer.delete(bytes("b"));
    writer.put(bytes("c"), bytes(""));
    assert_eq!(get(&mut writer, "a").await.as_deref(), Some("2"));
    assert_eq!(get(&mut writer, "b").await, None);
    assert_eq!(get(&mut writer, "c").await.as_deref(), Some(""));
    let mut other = begin(store).await;
    assert_eq!(get(&mut other, "a").await.as_deref(), Some("1"));
    assert_eq!(get(&mut other, "b").await.as_deref(), Some("1"));
    assert_eq!(get(&mut other, "c").await, None);
}

async fn a_commit_is_seen_by_who_begins_afterwards(store: &dyn MetaStore) {
    for round in 0..50 {
        let value = round.to_string();
        let mut writer = begin(store).await;
        writer.put(bytes("key"), bytes(&value));
        if round % 3 == 0 {
            writer.delete(bytes("gone"));
        } else {
            writer.put(bytes("gone"), bytes("here"));
        }
        let committed = expect(writer.commit(Priority::Client).await);
        let mut reader = begin(store).await;
        assert_eq!(get(&mut reader, "key").await, Some(value));
        assert_eq!(get(&mut reader, "gone").await.is_none(), round % 3 == 0);
        expect(commit(reader).await);
        expect(committed.durable().await);
    }
}

async fn a_dropped_transaction_leaves_no_trace(store: &dyn MetaStore) {
    let mut writer = begin(store).await;
    writer.put(bytes("a"), bytes("1"));
    drop(writer);
    let mut reader = begin(store).await;
    assert_eq!(get(&mut reader, "a").await, None);
}

async fn scans_are_ordered_bounded_and_merged_with_own_writes(store: &dyn MetaStore) {
    put(store, &[("b", "1"), ("d", "1"), ("f", "1"), ("h", "1")]).await;
    put(store, &[("c", "2"), ("f", "2")]).await;
    let mut transaction = begin(store).await;
    transaction.delete(bytes("d"));
    transaction.delete(bytes("nothing"));
    transaction.put(bytes("e"), bytes("3"));
    transaction.put(bytes("h"), bytes("3"));
    let mut scan = async |start: &str, end: &str, limit: usize| {
        let scan = Scan { start: start.as_bytes(), end: end.as_bytes(), guard: None, limit };
        text(&expect(transaction.scan(scan).await))
    };
    assert_eq!(scan("a", "z", 100).await, "b=1 c=2 e=3 f=2 h=3 ");
    assert_eq!(scan("b", "h", 100).await, "b=1 c=2 e=3 f=2 ");
    assert_eq!(scan("c", "z", 2).await, "c=2 e=3 ");
    assert_eq!(scan("d", "e", 5).await, "");
    assert_eq!(scan("z", "a", 5).await, "");
    assert_eq!(scan("a", "z", 0).await, "");
    expect(commit(transaction).await);
    let mut after = begin(store).await;
    assert_eq!(text(&expect(after.scan(all()).await)), "b=1 c=2 e=3 f=2 h=3 ");
}

async fn no_update_is_lost(store: &dyn MetaStore) {
    put(store, &[("n", "1")]).await;
    let mut first = begin(store).await;
    let mut second = begin(store).await;
    for transaction in [&mut first, &mut second] {
        assert_eq!(get(transaction, "n").await.as_deref(), Some("1"));
        transaction.put(bytes("n"), bytes("2"));
    }
    expect(commit(first).await);
    assert_conflict(commit(second).await, "a lost update");
    // Absence is read as well.
    let mut first = begin(store).await;
    let mut second = begin(store).await;
    for transaction in [&mut first, &mut second] {
        assert_eq!(get(transaction, "new").await, None);
        transaction.put(bytes("new"), bytes("mine"));
    }
    expect(commit(second).await);
    assert_conflict(commit(first).await, "a second creation");
}

async fn writes_do_not_skew(store: &dyn MetaStore) {
    put(store, &[("x", "1"), ("y", "1")]).await;
    let mut first = begin(store).await;
    let mut second = begin(store).await;
    for transaction in [&mut first, &mut second] {
        assert_eq!(get(transaction, "x").await.as_deref(), Some("1"));
        assert_eq!(get(transaction, "y").await.as_deref(), Some("1"));
    }
    first.put(bytes("x"), bytes("0"));
    second.put(bytes("y"), bytes("0"));
    expect(commit(first).await);
    assert_conflict(commit(second).await, "write skew");
}

async fn a_guard_keeps_phantoms_out(store: &dyn MetaStore) {
    put(store, &[("d/a", "1"), ("d/b", "1"), ("guard", "0")]).await;
    let scan = Scan { start: b"d/", end: b"d0", guard: Some(b"guard"), limit: 100 };
    for (insert, key) in [(true, "d/c"), (false, "d/a"), (true, "d/0")] {
        let mut reader = begin(store).await;
        let before = expect(reader.scan(scan).await).len();
        assert!(before >= 2);
        reader.put(bytes("count"), bytes(before.to_string()));
        let mut writer = begin(store).await;
        match insert {
            true => writer.put(bytes(key), bytes("2")),
            false => writer.delete(bytes(key)),
        }
        writer.put(bytes("guard"), bytes(key));
        expect(commit(writer).await);
        assert_conflict(commit(reader).await, "a phantom");
    }
    // A changed row conflicts without a guard.
    let mut reader = begin(store).await;
    let _ = expect(reader.scan(Scan { guard: None, ..scan }).await);
    put(store, &[("d/b", "3")]).await;
    assert_conflict(commit(reader).await, "a changed row");
}

async fn a_touch_conflicts_like_a_write_and_stores_nothing(store: &dyn MetaStore) {
    let scan = Scan { start: b"d/", end: b"d0", guard: Some(b"guard"), limit: 100 };
    let mut reader = begin(store).await;
    assert!(expect(reader.scan(scan).await).is_empty());
    let mut writer = begin(store).await;
    writer.put(bytes("d/a"), bytes("1"));
    writer.touch(b"guard");
    expect(commit(writer).await);
    assert_conflict(commit(reader).await, "a phantom behind a touched guard");
    let mut reader = begin(store).await;
    assert_eq!(get(&mut reader, "guard").await, None);
    let mut writer = begin(store).await;
    writer.touch(b"guard");
    expect(commit(writer).await);
    assert_conflict(commit(reader).await, "a read of a touched key");
}

async fn a_reader_never_sees_half_of_a_transaction(store: &dyn MetaStore) {
    put(store, &[("x", "1"), ("y", "1")]).await;
    let mut reader = begin(store).await;
    assert_eq!(get(&mut reader, "x").await.as_deref(), Some("1"));
    put(store, &[("x", "2"), ("y", "2")]).await;
    match reader.get(b"y").await {
        Ok(value) => assert_eq!(value.as_deref(), Some(&b"1"[..]), "the state of the first read"),
        Err(error) => assert!(matches!(error, MetaError::Conflict)),
    }
    let mut reader = begin(store).await;
    assert_eq!(get(&mut reader, "x").await.as_deref(), Some("2"));
    put(store, &[("x", "3"), ("y", "3")]).await;
    match reader.scan(all()).await {
        Ok(rows) => assert_eq!(text(&rows), "x=2 y=2 "),
        Err(error) => assert!(matches!(error, MetaError::Conflict)),
    }
}

async fn a_reader_that_was_overtaken_does_not_commit(store: &dyn MetaStore) {
    put(store, &[("x", "1"), ("y", "1")]).await;
    let mut reader = begin(store).await;
    assert_eq!(get(&mut reader, "x").await.as_deref(), Some("1"));
    put(store, &[("x", "2")]).await;
    assert_conflict(commit(reader).await, "a reader of an old value");
    // What it did not read may change.
    let mut reader = begin(store).await;
    assert_eq!(get(&mut reader, "x").await.as_deref(), Some("2"));
    put(store, &[("y", "2")]).await;
    assert_eq!(get(&mut reader, "y").await.as_deref(), Some("2"), "its first read of y");
    expect(commit(reader).await);
}

async fn what_is_to_be_done_afterwards_follows_a_commit_and_nothing_else(store: &dyn MetaStore) {
    let done = Arc::new(AtomicUsize::new(0));
    let note = || {
        let done = done.clone();
        Box::new(move || {
            done.fetch_add(1, Ordering::Relaxed);
        })
    };
    let count = || done.load(Ordering::Relaxed);
    let mut first = begin(store).await;
    let mut second = begin(store).await;
    for transaction in [&mut first, &mut second] {
        get(transaction, "a").await;
        transaction.put(bytes("a"), bytes("1"));
        transaction.afterwards(note());
    }
    first.afterwards(note());
    assert_eq!(count(), 0);
    expect(commit(first).await);
    assert_eq!(count(), 2);
    assert_conflict(commit(second).await, "a lost update");
    begin(store).await.afterwards(note());
    let mut reader = begin(store).await;
    get(&mut reader, "a").await;
    reader.afterwards(note());
    expect(commit(reader).await);
    assert_eq!(count(), 2, "nothing was changed");
}

async fn blind_writes_do_not_conflict(store: &dyn MetaStore) {
    let mut first = begin(store).await;
    let mut second = begin(store).await;
    first.put(bytes("x"), bytes("1"));
    second.put(bytes("x"), bytes("2"));
    expect(commit(first).await);
    expect(commit(second).await);
    let mut reader = begin(store).await;
    assert_eq!(get(&mut reader, "x").await.as_deref(), Some("2"));
}

async fn a_snapshot_is_unaffected_by_later_commits(store: &dyn MetaStore) {
    put(store, &[("a", "1"), ("b", "1")]).await;
    put(store, &[("b", "2")]).await;
    let mut snapshot = expect(store.snapshot().await);
    put(store, &[("a", "3"), ("c", "3")]).await;
    assert_eq!(text(&expect(snapshot.rows(b"", &[255; 8], 100).await)), "a=1 b=2 ");
    assert_eq!(text(&expect(snapshot.rows(b"b", &[255; 8], 1).await)), "b=2 ");
    assert_eq!(text(&expect(snapshot.rows(b"", b"b", 0).await)), "");
    let mut later = expect(store.snapshot().await);
    assert!(later.lsn() > snapshot.lsn());
    assert_eq!(text(&expect(later.rows(b"", &[255; 8], 100).await)), "a=3 b=2 c=3 ");
}

async fn all_rows_can_be_copied_to_another_store(from: &dyn MetaStore, to: &dyn MetaStore) {
    for part in 0..13 {
        let mut transaction = begin(from).await;
        for row in 0..100 {
            transaction.put(bytes(format!("{:04}", row * 13 + part)), bytes(row.to_string()));
        }
        expect(commit(transaction).await);
    }
    assert_eq!(expect(crate::copy_rows(from, to).await), 1300);
    let mut rows = Vec::new();
    for store in [from, to] {
        rows.push(text(&expect(begin(store).await.scan(all()).await)));
    }
    assert_eq!(rows[0], rows[1]);
}

async fn increment(store: &dyn MetaStore, mode: Mode) -> Result<(), MetaError> {
    let mut transaction = store.begin(mode).await?;
    let value = transaction.get(b"n").await?;
    let value: u64 = value.and_then(|value| String::from_utf8_lossy(&value).parse().ok()).unwrap_or(0);
    // Others get their chance to interfere.
    tokio::task::yield_now().await;
    transaction.put(bytes("n"), bytes((value + 1).to_string()));
    commit(transaction).await
}

async fn an_exclusive_transaction_never_conflicts(store: Arc<dyn MetaStore>) {
    const TASKS: usize = 64;
    const ROUNDS: usize = 20;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut done = 0;
                for _ in 0..ROUNDS {
                    // One half hammers the key without asking.
                    if task % 2 == 0 {
                        match increment(&*store, Mode::Optimistic).await {
                            Err(MetaError::Conflict) => continue,
                            result => expect(result),
                        }
                    } else {
                        expect(increment(&*store, Mode::Exclusive).await);
                    }
                    done += 1;
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap_or_default();
    }
    assert!(done >= TASKS / 2 * ROUNDS, "every exclusive transaction succeeds");
    let mut reader = begin(&*store).await;
    assert_eq!(get(&mut reader, "n").await, Some(done.to_string()));
}

/// Tries optimistically, then exclusively.
async fn retry<R: Future<Output = Result<(), MetaError>>>(run: impl Fn(Mode) -> R) {
    for _ in 0..8 {
        match run(Mode::Optimistic).await {
            Err(MetaError::Conflict) => tokio::task::yield_now().await,
            result => return expect(result),
        }
    }
    expect(run(Mode::Exclusive).await);
}

async fn concurrent_increments_add_up(store: Arc<dyn MetaStore>) {
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                for _ in 0..20 {
                    retry(|mode| increment(&*store, mode)).await;
                }
            })
        })
        .collect();
    for task in tasks {
        assert!(task.await.is_ok());
    }
    let mut reader = begin(&*store).await;
    assert_eq!(get(&mut reader, "n").await.as_deref(), Some("320"));
}

async fn concurrent_transfers_keep_the_sum(store: Arc<dyn MetaStore>) {
    const ACCOUNTS: u64 = 6;
    const EACH: u64 = 100;
    let name = |account: u64| format!("account {account}");
    let mut transaction = begin(&*store).await;
    for account in 0..ACCOUNTS {
        transaction.put(bytes(name(account)), bytes(EACH.to_string()));
    }
    expect(commit(transaction).await);

    async fn balance(transaction: &mut Box<dyn Transaction>, name: &str) -> Result<u64, MetaError> {
        let value = transaction.get(name.as_bytes()).await?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&value).parse().unwrap_or(0))
    }
    let mut tasks = Vec::new();
    for task in 0..8u64 {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            for step in 0..40 {
                let (from, to) = ((task + step) % ACCOUNTS, (task * step + 1) % ACCOUNTS);
                if from == to {
                    continue;
                }
                retry(async |mode| {
                    let mut transaction = store.begin(mode).await?;
                    let rich = balance(&mut transaction, &name(from)).await?;
                    tokio::task::yield_now().await;
                    let poor = balance(&mut transaction, &name(to)).await?;
                    let amount = rich.min(step);
                    transaction.put(bytes(name(from)), bytes((rich - amount).to_string()));
                    transaction.put(bytes(name(to)), bytes((poor + amount).to_string()));
                    commit(transaction).await
                })
                .await;
            }
        }));
    }
    for _ in 0..4 {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            for _ in 0..100 {
                let mut reader = begin(&*store).await;
                let Ok(rows) =
                    reader.scan(Scan { start: b"account", end: b"b", guard: None, limit: 100 }).await
                else {
                    continue;
                };
                tokio::task::yield_now().await;
                // Consistent even if it does not commit.
                let value = |row: &Row| String::from_utf8_lossy(&row.1).parse::<u64>().unwrap_or(0);
                assert_eq!(rows.iter().map(value).sum::<u64>(), ACCOUNTS * EACH);
                for account in 0..ACCOUNTS {
                    match reader.get(name(account).as_bytes()).await {
                        Ok(again) => assert_eq!(again.as_ref(), Some(&rows[account as usize].1)),
                        Err(error) => {
                            assert!(matches!(error, MetaError::Conflict));
                            break;
                        }
                    }
                }
            }
        }));
    }
    for task in tasks {
        assert!(task.await.is_ok());
    }
}
