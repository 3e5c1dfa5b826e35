//! What does not fit: one record of the journal, or a volume's share of it.

use file_system::conformance::model::ManualClock;
use file_system::conformance::scene::*;
use file_system::{Authority, Caller, CommitMode, FileSystem, FsError, Mode, SetAttributes};
use journal::JournalConfig;

use super::node::{Node, Site};

#[tokio::test]
async fn a_write_back_that_does_not_fit_one_record_is_committed_in_several() {
    let mut site = Site::new(ManualClock::new());
    site.journal = JournalConfig { max_record: 8 << 10, ..site.journal };
    let node = Node::start(site).await;
    for number in 0..150_u32 {
        let mut tx = begin(&node.fs()).await;
        let root = tx.root();
        make_file(&mut tx, root, &number.to_string(), &number.to_be_bytes()).await;
        tx.commit(CommitMode::Visible).await.unwrap();
    }
    node.write_back().await;
    assert_eq!(node.stored()[0], 150);
    let failed = node.upkeep.write_back.report().failed;
    assert_eq!(failed, 0);
    node.check().await;
}

#[tokio::test]
async fn a_transaction_says_how_much_it_can_still_write() {
    let node = Node::new().await;
    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"").await.file;
    let room = tx.room();
    assert!(room <= node.journal.max_record() && room > node.journal.max_record() / 2, "{room}");
    write(&mut tx, file, 0, &vec![1; room as usize - 5]).await.unwrap();
    assert_eq!(tx.room(), 5);
    write(&mut tx, file, room - 5, &[2; 5]).await.unwrap();
    assert_eq!(tx.room(), 0);
    commit(tx).await;
}

#[tokio::test]
async fn writers_wait_at_the_share_of_their_volume_and_those_who_keep_others_out_do_not() {
    let mut site = Site::new(ManualClock::new());
    site.dirty = 100_000;
    let node = Node::start(site).await;
    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", &[1; 40_000]).await.file;
    write(&mut tx, file, 40_000, &[2; 40_000]).await.unwrap();
    commit(tx).await;
    let mut waits = begin(&node.fs()).await;
    let has_waited = tokio::select! {
        biased;
        _ = write(&mut waits, file, 0, b"x") => false,
        () = tokio::task::yield_now() => true,
    };
    assert!(has_waited);
    drop(waits);
    let mut alone = node.volume.begin(&Caller::root(), Mode::Exclusive).await.unwrap();
    let error = write(&mut alone, file, 0, b"x").await.unwrap_err();
    assert!(matches!(error, FsError::Unavailable(_)), "{error}");
    drop(alone);
    // A cut inside a block makes zeros dirty; one that leaves nothing does not.
    let inside = SetAttributes::with_size(79_999);
    let mut waits = begin(&node.fs()).await;
    let has_waited = tokio::select! {
        biased;
        _ = waits.set_attributes(file, &inside, Authority::Checked) => false,
        () = tokio::task::yield_now() => true,
    };
    assert!(has_waited);
    drop(waits);
    let mut alone = node.volume.begin(&Caller::root(), Mode::Exclusive).await.unwrap();
    let error = alone.set_attributes(file, &inside, Authority::Checked).await.unwrap_err();
    assert!(matches!(error, FsError::Unavailable(_)), "{error}");
    drop(alone);
    let mut tx = begin(&node.fs()).await;
    tx.set_attributes(file, &SetAttributes::with_size(0), Authority::Checked).await.unwrap();
    drop(tx);
    // Metadata still changes.
    let mut tx = begin(&node.fs()).await;
    make_directory(&mut tx, root, "b", 0o755).await;
    commit(tx).await;
    node.write_back().await;
    let mut tx = begin(&node.fs()).await;
    write(&mut tx, file, 0, b"x").await.unwrap();
    commit(tx).await;
}

#[tokio::test]
async fn a_cold_read_in_an_exclusive_transaction_keeps_the_others_waiting_for_a_moment_only() {
    let node = Node::new().await;
    let mut tx = begin(&node.fs()).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", &[1; 1000]).await.file;
    commit(tx).await;
    node.write_back().await;
    node.cache.drop_clean().await;
    let slow = cloud::Fault::Delay(std::time::Duration::from_millis(800));
    node.site.clouds.iter().for_each(|cloud| cloud.set(cloud::Side::Reads, slow.clone()));
    let mut alone = node.volume.begin(&Caller::root(), Mode::Exclusive).await.unwrap();
    let error = read(&mut alone, file, 0, 1000).await.unwrap_err();
    assert!(matches!(error, FsError::Unavailable(_)), "{error}");
    drop(alone);
    node.site.clouds.iter().for_each(|cloud| cloud.set(cloud::Side::Reads, cloud::Fault::None));
    let mut tx = begin(&node.fs()).await;
    assert_eq!(read(&mut tx, file, 0, 1000).await.unwrap(), [1; 1000]);
    let mut alone = node.volume.begin(&Caller::root(), Mode::Exclusive).await.unwrap();
    assert_eq!(read(&mut alone, file, 0, 1000).await.unwrap(), [1; 1000], "cached now");
}
