use std::sync::Arc;

use super::scene::*;
use crate::limits::MAX_FILE_SIZE;
use crate::{Authority, Extent, FileId, FileSystem, FsError, SetAttributes, Transaction};

/// More than any implementation stores as one piece.
const FAR: u64 = 64 << 20;

async fn extents(tx: &mut Box<dyn Transaction>, file: FileId, start: u64, limit: usize) -> Vec<Extent> {
    tx.extents(file, start..u64::MAX, limit, Authority::Checked).await.unwrap()
}

async fn punch(tx: &mut Box<dyn Transaction>, file: FileId, offset: u64, length: u64) {
    tx.deallocate(file, offset, length, Authority::Checked).await.unwrap();
}

pub async fn holes_are_found_between_data(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"start").await.file;
    write(&mut tx, file, FAR, b"middle").await.unwrap();
    tx.set_attributes(file, &SetAttributes::with_size(3 * FAR), Authority::Checked).await.unwrap();
    // Once before the commit, once after it.
    for _ in 0..2 {
        let found = extents(&mut tx, file, 2, 9).await;
        assert_eq!(found.iter().map(|extent| extent.is_hole).collect::<Vec<_>>(), [false, true, false, true]);
        assert_eq!((found[0].range.start, found[3].range.end), (2, 3 * FAR));
        assert!(found.windows(2).all(|pair| pair[0].range.end == pair[1].range.start));
        assert!((5..FAR / 2).contains(&found[0].range.end));
        assert!(found[2].range.start <= FAR && found[2].range.end >= FAR + 6);
        assert_eq!(extents(&mut tx, file, 2, 2).await, found[..2]);
        let inside = tx.extents(file, FAR / 2..FAR / 2 + 10, 9, Authority::Checked).await.unwrap();
        assert_eq!(inside, [Extent { range: FAR / 2..FAR / 2 + 10, is_hole: true }]);
        assert_eq!(extents(&mut tx, file, 3 * FAR, 9).await, []);
        commit(tx).await;
        tx = begin(&fs).await;
    }
}

pub async fn a_punched_range_reads_as_zeros_and_is_a_hole(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let before = make_file(&mut tx, root, "a", &[7; 300_000]).await;
    let file = before.file;
    commit(tx).await;
    let mut tx = begin(&fs).await;
    punch(&mut tx, file, 0, 300_000).await;
    let after = tx.attributes(file).await.unwrap();
    assert_eq!((after.size, after.space_used), (300_000, 0));
    assert!(after.change > before.change);
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(read_all(&mut tx, file).await, vec![0; 300_000]);
    assert_eq!(extents(&mut tx, file, 0, 9).await, [Extent { range: 0..300_000, is_hole: true }]);
}

pub async fn what_was_punched_stays_zeros_whatever_is_written_beside_it(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", &[7; 300_000]).await.file;
    commit(tx).await;
    let mut tx = begin(&fs).await;
    punch(&mut tx, file, 10_000, 250_000).await;
    commit(tx).await;
    let mut tx = begin(&fs).await;
    write(&mut tx, file, 150_000, b"island").await.unwrap();
    commit(tx).await;
    let mut expected = vec![7; 300_000];
    expected[10_000..260_000].fill(0);
    expected[150_000..150_006].copy_from_slice(b"island");
    let mut tx = begin(&fs).await;
    assert!(read_all(&mut tx, file).await == expected);
}

pub async fn a_hole_in_a_part_of_a_block_leaves_the_rest(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"0123456789").await.file;
    commit(tx).await;
    let mut tx = begin(&fs).await;
    punch(&mut tx, file, 3, 4).await;
    assert_eq!(read_all(&mut tx, file).await, b"012\0\0\0\x00789");
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(read_all(&mut tx, file).await, b"012\0\0\0\x00789");
    // Whoever goes by the bytes in use must not take it for empty.
    assert!(tx.attributes(file).await.unwrap().space_used > 0);
}

pub async fn punching_beyond_the_end_keeps_the_size(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"0123456789").await.file;
    let before = tx.attributes(file).await.unwrap();
    punch(&mut tx, file, 10, u64::MAX).await;
    assert_eq!(tx.attributes(file).await.unwrap(), before, "nothing there, nothing changed");
    punch(&mut tx, file, 8, u64::MAX).await;
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(read_all(&mut tx, file).await, b"01234567\0\0");
    tx.set_attributes(file, &SetAttributes::with_size(20), Authority::Checked).await.unwrap();
    assert_eq!(read(&mut tx, file, 7, 20).await.unwrap(), b"7\0\0\0\0\0\0\0\0\0\0\0\0");
}

pub async fn allocation_extends_and_overwrites_nothing(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"0123456789").await.file;
    tx.allocate(file, 2, 4, Authority::Checked).await.unwrap();
    assert_eq!(read_all(&mut tx, file).await, b"0123456789");
    tx.allocate(file, 5, 200_000, Authority::Checked).await.unwrap();
    commit(tx).await;
    let mut tx = begin(&fs).await;
    let content = read_all(&mut tx, file).await;
    assert_eq!((content.len(), &content[..10]), (200_005, &b"0123456789"[..]));
    assert!(content[10..].iter().all(|&byte| byte == 0));
    for (offset, length, error) in [
        (MAX_FILE_SIZE, 1, FsError::TooLarge),
        (1, u64::MAX, FsError::TooLarge),
        (1, 0, FsError::InvalidArgument),
    ] {
        assert_eq!(tx.allocate(file, offset, length, Authority::Checked).await, Err(error));
    }
    let nothing = tx.deallocate(file, 1, 0, Authority::Checked).await;
    assert_eq!(nothing, Err(FsError::InvalidArgument));
}

pub async fn a_transaction_sees_its_own_holes(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", &[7; 300_000]).await.file;
    commit(tx).await;
    let mut tx = begin(&fs).await;
    punch(&mut tx, file, 100_000, 150_000).await;
    write(&mut tx, file, 200_000, b"x").await.unwrap();
    punch(&mut tx, file, 0, 50_000).await;
    write(&mut tx, file, 400_000, b"y").await.unwrap();
    punch(&mut tx, file, 350_000, u64::MAX).await;
    let mut expected = vec![7; 300_000];
    expected.resize(400_001, 0);
    expected[100_000..250_000].fill(0);
    expected[200_000] = b'x';
    expected[..50_000].fill(0);
    for _ in 0..2 {
        assert!(read_all(&mut tx, file).await == expected);
        for Extent { range, is_hole } in extents(&mut tx, file, 0, 99).await {
            let mut part = expected[range.start as usize..range.end as usize].iter();
            assert!(!is_hole || part.all(|&byte| byte == 0), "{range:?}");
        }
        commit(tx).await;
        tx = begin(&fs).await;
    }
}

pub async fn sparse_operations_need_permission_and_a_regular_file(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"0123456789").await.file;
    tx.set_attributes(file, &SetAttributes::with_mode(0o600), Authority::Checked).await.unwrap();
    for (object, error) in [(root, FsError::IsDirectory), (file, FsError::AccessDenied)] {
        if object == file {
            commit(tx).await;
            tx = begin_as(&fs, &user(7)).await;
        }
        let found = tx.extents(object, 0..9, 9, Authority::Checked).await;
        assert_eq!(found, Err(error.clone()));
        assert_eq!(tx.allocate(object, 0, 9, Authority::Checked).await, Err(error.clone()));
        assert_eq!(tx.deallocate(object, 0, 9, Authority::Checked).await, Err(error));
    }
    tx.deallocate(file, 0, 9, Authority::Opened).await.unwrap();
    assert_eq!(
        tx.read(file, 0, 10, Authority::Opened).await.unwrap().segments.concat(),
        b"\0\0\0\0\0\0\0\0\x009"
    );
}
