use std::sync::Arc;

use bytes::Bytes;

use super::scene::*;
use crate::limits::MAX_FILE_SIZE;
use crate::{Authority, CreateKind, FileSystem, FsError, SetAttributes};

pub async fn what_was_written_is_read(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"hello").await.file;
    write(&mut tx, file, 3, b"p me").await.unwrap();
    assert_eq!(read_all(&mut tx, file).await, b"help me");
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(read_all(&mut tx, file).await, b"help me");
    assert_eq!(read(&mut tx, file, 5, 100).await.unwrap(), b"me");
}

pub async fn a_write_beyond_the_end_leaves_a_hole_of_zeros(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"ab").await.file;
    commit(tx).await;
    let mut tx = begin(&fs).await;
    write(&mut tx, file, 200_000, b"z").await.unwrap();
    commit(tx).await;
    let mut tx = begin(&fs).await;
    let content = read_all(&mut tx, file).await;
    assert_eq!(content.len(), 200_001);
    assert!(content.starts_with(b"ab\0") && content.ends_with(b"\0z"));
    assert!(content[2..200_000].iter().all(|&byte| byte == 0));
}

pub async fn what_was_cut_off_does_not_come_back(fs: Arc<dyn FileSystem>) {
    for keep in [0_u64, 3, 65_536, 100_000] {
        let mut tx = begin(&fs).await;
        let root = tx.root();
        let file = make_file(&mut tx, root, &format!("file {keep}"), &[7; 150_000]).await.file;
        commit(tx).await;
        let mut tx = begin(&fs).await;
        let cut = SetAttributes::with_size(keep);
        assert_eq!(tx.set_attributes(file, &cut, Authority::Checked).await.unwrap().size, keep);
        let grow = SetAttributes::with_size(140_000);
        // Once in the same transaction, once in the next.
        if keep % 2 == 0 {
            tx.set_attributes(file, &grow, Authority::Checked).await.unwrap();
            let content = read_all(&mut tx, file).await;
            assert!(content[keep as usize..].iter().all(|&byte| byte == 0), "same transaction, {keep}");
            commit(tx).await;
        } else {
            commit(tx).await;
            let mut tx = begin(&fs).await;
            tx.set_attributes(file, &grow, Authority::Checked).await.unwrap();
            commit(tx).await;
        }
        let mut tx = begin(&fs).await;
        let content = read_all(&mut tx, file).await;
        assert_eq!(content.len(), 140_000);
        assert!(content[..keep as usize].iter().all(|&byte| byte == 7), "kept, {keep}");
        assert!(content[keep as usize..].iter().all(|&byte| byte == 0), "cut, {keep}");
    }
}

pub async fn reads_stop_at_the_end_and_say_so(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"12345").await.file;
    for (offset, length, expected, end) in
        [(0, 4, 4, false), (0, 5, 5, true), (3, 10, 2, true), (5, 1, 0, true), (90, 1, 0, true)]
    {
        let data = tx.read(file, offset, length, Authority::Checked).await.unwrap();
        assert_eq!((data.len(), data.end_of_file), (expected, end), "{length} bytes from {offset}");
    }
    assert!(tx.read(file, u64::MAX, u32::MAX, Authority::Checked).await.unwrap().is_empty());
}

pub async fn an_empty_write_changes_nothing(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let before = make_file(&mut tx, root, "a", b"1").await;
    write(&mut tx, before.file, 1000, b"").await.unwrap();
    assert_eq!(tx.attributes(before.file).await.unwrap(), before);
}

pub async fn the_largest_offset_is_the_limit(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"").await.file;
    assert_eq!(write(&mut tx, file, MAX_FILE_SIZE, b"x").await, Err(FsError::TooLarge));
    assert_eq!(write(&mut tx, file, u64::MAX, b"x").await, Err(FsError::TooLarge));
    write(&mut tx, file, MAX_FILE_SIZE - 1, b"x").await.unwrap();
    assert_eq!(read(&mut tx, file, MAX_FILE_SIZE - 3, 9).await.unwrap(), b"\0\0x");
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(read(&mut tx, file, MAX_FILE_SIZE - 3, 9).await.unwrap(), b"\0\0x");
}

pub async fn a_large_sparse_file_costs_nothing(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"").await.file;
    let grown =
        tx.set_attributes(file, &SetAttributes::with_size(1 << 40), Authority::Checked).await.unwrap();
    assert_eq!((grown.size, grown.space_used), (1 << 40, 0));
    assert_eq!(read(&mut tx, file, 1 << 39, 4).await.unwrap(), [0; 4]);
    commit(tx).await;
    let mut tx = begin(&fs).await;
    assert_eq!(read(&mut tx, file, (1 << 40) - 2, 4).await.unwrap(), [0; 2]);
    tx.set_attributes(file, &SetAttributes::with_size(1), Authority::Checked).await.unwrap();
    commit(tx).await;
}

pub async fn a_transaction_sees_its_own_writes_over_what_is_committed(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let file = make_file(&mut tx, root, "a", b"0123456789").await.file;
    commit(tx).await;
    let mut tx = begin(&fs).await;
    write(&mut tx, file, 2, b"ab").await.unwrap();
    write(&mut tx, file, 3, b"XY").await.unwrap();
    write(&mut tx, file, 9, b"end").await.unwrap();
    assert_eq!(read_all(&mut tx, file).await, b"01aXY5678end");
    assert_eq!(read(&mut tx, file, 3, 2).await.unwrap(), b"XY");
}

pub async fn only_regular_files_have_content(fs: Arc<dyn FileSystem>) {
    let mut tx = begin(&fs).await;
    let root = tx.root();
    let set = SetAttributes::with_mode(0o777);
    let link = CreateKind::Symlink(Bytes::from_static(b"target"));
    let link = tx.create(root, &name("link"), link, &set).await.unwrap().attributes.file;
    let fifo = tx.create(root, &name("fifo"), CreateKind::Fifo, &set).await.unwrap().attributes.file;
    for (file, error) in
        [(root, FsError::IsDirectory), (link, FsError::IsSymlink), (fifo, FsError::WrongKind)]
    {
        assert_eq!(read(&mut tx, file, 0, 1).await, Err(error.clone()));
        assert_eq!(write(&mut tx, file, 0, b"x").await, Err(error));
    }
}
