use std::sync::Arc;

use super::scene::*;
use crate::limits::MAX_FILE_SIZE;
use crate::{Authority, FileId, FileSystem, FsError, FsResult, Position, SetAttributes, Transaction};

fn at(file: FileId, offset: u64) -> Position {
    Position { file, offset, authority: Authority::Checked }
}

async fn clone(
    tx: &mut Box<dyn Transaction>,
    (from, start): (FileId, u64),
    (to, place): (FileId, u64),
    length: u64,
) -> FsResult<()> {
    tx.clone_range(at(from, start), at(to, place), length, true).await
}

/// Two files: one of three units and a half, the third of them a hole; and one of two units.
async fn pair(tx: &mut Box<dyn Transaction>) -> (FileId, FileId, u64) {
    let root = tx.root();
    let from = make_file(tx, root, "from", b"").await.file;
    let unit = tx.clone_unit(from).await.unwrap();
    assert!(unit.is_power_of_two() && tx.space().await.unwrap().clone_unit as u64 == unit);
    let size = unit as usize;
    write(tx, from, 0, &[vec![1; size], vec![2; size]].concat()).await.unwrap();
    write(tx, from, 3 * unit, &vec![4; size / 2]).await.unwrap();
    let to = make_file(tx, root, "to", &vec![9; 2 * size]).await.file;
    (from, to, unit)
}

pub async fn a_clone_has_the_content_and_holes_of_its_source(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let (from, to, unit) = pair(&mut tx).await;
    commit(tx).await;
    let mut tx = begin(&fs).await;
    let before = tx.attributes(to).await.unwrap();
    clone(&mut tx, (from, unit), (to, unit), 2 * unit).await.unwrap();
    let after = tx.attributes(to).await.unwrap();
    assert!(after.size == 3 * unit && after.change > before.change && after.space_used <= after.size);
    let size = unit as usize;
    let expected = [vec![9; size], vec![2; size], vec![0; size]].concat();
    for _ in 0..2 {
        assert!(read_all(&mut tx, to).await == expected);
        commit(tx).await;
        tx = begin(&fs).await;
    }
    let found = tx.extents(to, 0..u64::MAX, 9, Authority::Checked).await.unwrap();
    assert!(found.len() == 2 && found[1].is_hole && found[1].range == (2 * unit..3 * unit), "{found:?}");
    // In one file.
    clone(&mut tx, (to, unit), (to, 3 * unit), unit).await.unwrap();
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert!(read_all(&mut tx, to).await == [expected, vec![2; size]].concat());
}

pub async fn what_is_written_later_is_not_shared(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let (from, to, unit) = pair(&mut tx).await;
    clone(&mut tx, (from, 0), (to, 0), 0).await.unwrap();
    write(&mut tx, to, 5, b"target").await.unwrap();
    commit(tx).await;
    let mut tx = begin(&fs).await;
    write(&mut tx, from, unit + 5, b"source").await.unwrap();
    tx.set_attributes(from, &SetAttributes::with_size(2 * unit), Authority::Checked).await.unwrap();
    commit(tx).await;
    let mut tx = begin(&fs).await;
    let size = unit as usize;
    let mut target = [vec![1; size], vec![2; size], vec![0; size], vec![4; size / 2]].concat();
    let mut source = target[..2 * size].to_vec();
    target[5..11].copy_from_slice(b"target");
    source[size + 5..size + 11].copy_from_slice(b"source");
    assert!(read_all(&mut tx, to).await == target && read_all(&mut tx, from).await == source);
}

pub async fn a_clone_may_end_where_its_source_ends(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let (from, to, unit) = pair(&mut tx).await;
    let size = unit as usize;
    // The target would go on behind it.
    assert_eq!(clone(&mut tx, (from, 3 * unit), (to, unit), 0).await, Err(FsError::InvalidArgument));
    clone(&mut tx, (from, 3 * unit), (to, 2 * unit), 0).await.unwrap();
    tx.set_attributes(to, &SetAttributes::with_size(3 * unit), Authority::Checked).await.unwrap();
    commit(tx).await;
    let mut tx = begin(&fs).await;
    let expected = [vec![9; 2 * size], vec![4; size / 2], vec![0; size / 2]].concat();
    assert!(read_all(&mut tx, to).await == expected);
    let before = tx.attributes(to).await.unwrap();
    clone(&mut tx, (from, 4 * unit - unit / 2), (to, 0), 0).await.unwrap_err();
    tx.set_attributes(from, &SetAttributes::with_size(unit), Authority::Checked).await.unwrap();
    clone(&mut tx, (from, unit), (to, 0), 0).await.unwrap();
    assert_eq!(tx.attributes(to).await.unwrap(), before, "nothing there, nothing changed");
}

pub async fn what_is_not_made_of_units_is_refused(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let (from, to, unit) = pair(&mut tx).await;
    for (start, place, length) in [
        (1, 0, unit),
        (0, 1, unit),
        (0, 0, unit + 1),
        (0, 0, 5 * unit),
        (3 * unit, 0, unit),
        (5 * unit, 0, 0),
        (0, 0, u64::MAX),
    ] {
        let refused = clone(&mut tx, (from, start), (to, place), length).await;
        assert_eq!(refused, Err(FsError::InvalidArgument), "{start} {place} {length}");
    }
    let overlap = clone(&mut tx, (from, 0), (from, unit), 2 * unit).await;
    assert_eq!(overlap, Err(FsError::InvalidArgument));
    let far = clone(&mut tx, (from, 0), (to, MAX_FILE_SIZE & !(unit - 1)), 2 * unit).await;
    assert_eq!(far, Err(FsError::TooLarge));
    assert!(read_all(&mut tx, to).await == vec![9; 2 * unit as usize]);
}

pub async fn a_clone_needs_permission_and_regular_files(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let (from, to, _) = pair(&mut tx).await;
    let root = tx.root();
    assert_eq!(clone(&mut tx, (root, 0), (to, 0), 0).await, Err(FsError::IsDirectory));
    assert_eq!(clone(&mut tx, (from, 0), (root, 0), 0).await, Err(FsError::IsDirectory));
    assert_eq!(tx.clone_unit(root).await, Err(FsError::IsDirectory));
    for (file, mode) in [(from, 0o644), (to, 0o644)] {
        tx.set_attributes(file, &SetAttributes::with_mode(mode), Authority::Checked).await.unwrap();
    }
    commit(tx).await;
    let mut tx = begin_as(&fs, &user(7)).await;
    assert_eq!(clone(&mut tx, (from, 0), (to, 0), 0).await, Err(FsError::AccessDenied));
    let opened = Position { authority: Authority::Opened, ..at(to, 0) };
    tx.clone_range(at(from, 0), opened, 0, true).await.unwrap();
}
