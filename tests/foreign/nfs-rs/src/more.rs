//! What trees do not need: locks between two clients, files without a name, and the operations of 4.2.

use bytes::Bytes;
use nfs_rs::{
    Mount, Nfs4ErrorCode, NfsError, OPEN_BOTH, ReadPlusContent, ReadPlusResult, SeekContent, XattrSetMode,
    write_all,
};

use super::{During, Result};

const WRITE_LOCK: u32 = 2;
const MIB: usize = 1 << 20;

/// Says what is not as it should be.
fn expect(holds: bool, what: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(what.to_owned().into()) }
}

/// Two clients want the same bytes.
pub async fn locks(first: &dyn Mount, second: &dyn Mount, path: &str) -> Result<()> {
    let ours = first.create_path(path, Some(0o644)).await.during("create", path)?;
    let theirs = second.open_path(path, OPEN_BOTH).await.during("open", path)?;
    let held = first.lock_stateful(ours.fh.clone(), WRITE_LOCK, 100, 50).await.during("lock", path)?;
    let denied = second.lock_stateful(theirs.fh.clone(), WRITE_LOCK, 149, 1).await;
    // The range is told in 4.0 only.
    let as_it_is = match &denied {
        Err(NfsError::LockDenied { offset, length, .. }) => (*offset, *length) == (100, 50),
        Err(NfsError::Nfs4(status)) => *status == Nfs4ErrorCode::NFS4ERR_DENIED,
        _ => false,
    };
    expect(as_it_is, &format!("a lock on what is locked: {denied:?}"))?;
    let beside =
        second.lock_stateful(theirs.fh.clone(), WRITE_LOCK, 150, 10).await.during("lock beside", path)?;
    // At once: of two locks the crate can only give back the one that it got last.
    second.unlock_stateful(beside).await.during("unlock", path)?;
    first.unlock_stateful(held).await.during("unlock", path)?;
    let now = second.lock_stateful(theirs.fh.clone(), WRITE_LOCK, 149, 1).await.during("lock then", path)?;
    second.unlock_stateful(now).await.during("unlock", path)?;
    first.close(ours.fh).await.during("close", path)?;
    second.close(theirs.fh).await.during("close", path)
}

/// A file that one client has open is removed by another.
pub async fn removed_while_open(first: &dyn Mount, second: &dyn Mount, path: &str) -> Result<()> {
    let file = first.create_path(path, Some(0o644)).await.during("create", path)?;
    write_all(first, file.fh.clone(), 0, Bytes::from_static(b"still here")).await.during("write", path)?;
    second.remove_path(path).await.during("remove", path)?;
    let gone = second.lookup_path(path).await;
    expect(gone.is_err(), "a removed file has a name")?;
    let read = first.read(file.fh.clone(), 0, 100).await.during("read", path)?;
    expect(&read[..] == b"still here", "a removed file that is open has not its content")?;
    first.close(file.fh).await.during("close", path)
}

/// COPY, SEEK, DEALLOCATE, ALLOCATE, READ_PLUS (RFC 7862) and extended attributes (RFC 8276).
pub async fn of_4_2(mount: &dyn Mount, path: &str) -> Result<()> {
    let data: Vec<u8> = (0..6 * MIB).map(|at| (at * 7 + at / 1000) as u8).collect();
    let file = mount.create_path(path, Some(0o644)).await.during("create", path)?.fh;
    write_all(mount, file.clone(), 0, Bytes::copy_from_slice(&data)).await.during("write", path)?;

    let name = format!("{path} copied");
    let copy = mount.create_path(&name, Some(0o644)).await.during("create", &name)?.fh;
    let mut done = 0;
    while done < data.len() as u64 {
        let left = data.len() as u64 - done;
        let copied =
            mount.copy_range(file.clone(), copy.clone(), done, done, left).await.during("copy", path)?;
        expect(copied.count > 0 && copied.count <= left, "a copy does not go on")?;
        done += copied.count;
    }
    expect(read(mount, &copy, data.len()).await? == data, "a copy is not the same")?;

    let (hole, length) = (2 * MIB as u64, 2 * MIB as u64);
    mount.deallocate(file.clone(), hole, length).await.during("deallocate", path)?;
    let mut with_hole = data.clone();
    with_hole[2 * MIB..4 * MIB].fill(0);
    expect(read(mount, &file, data.len()).await? == with_hole, "a hole is not one of zeros")?;
    let found = mount.seek_content(file.clone(), 0, SeekContent::Hole).await.during("seek a hole", path)?;
    expect(found.offset == hole && !found.eof, "the hole is elsewhere")?;
    let found = mount.seek_content(file.clone(), hole, SeekContent::Data).await.during("seek data", path)?;
    expect(found.offset == hole + length && !found.eof, "the data after the hole are elsewhere")?;
    expect(read_plus(mount, &file, data.len()).await? == with_hole, "READ_PLUS reads something else")?;
    mount.allocate(file.clone(), data.len() as u64, 1000).await.during("allocate", path)?;
    let size = mount.getattr(file.clone()).await.during("stat", path)?.filesize;
    expect(size == data.len() as u64 + 1000, "ALLOCATE has not made the file longer")?;

    let value = Bytes::from(vec![0xA5; 5000]);
    let (create, replace) = (XattrSetMode::Create, XattrSetMode::Replace);
    let set = |name, value: &Bytes, mode| mount.setxattr_with_mode(file.clone(), name, value.clone(), mode);
    set("größe", &value, create).await.during("make an attribute", path)?;
    expect(set("größe", &value, create).await.is_err(), "an attribute is made twice")?;
    expect(set("other", &value, replace).await.is_err(), "an attribute that is not there is replaced")?;
    expect(mount.getxattr(file.clone(), "größe").await.during("getxattr", path)? == value, "another value")?;
    expect(mount.listxattr(file.clone()).await.during("listxattr", path)? == ["größe"], "another list")?;
    mount.removexattr(file.clone(), "größe").await.during("removexattr", path)?;
    expect(mount.listxattr(file.clone()).await.during("listxattr", path)?.is_empty(), "not removed")?;

    mount.close(copy).await.during("close", &name)?;
    mount.close(file).await.during("close", path)
}

async fn read(mount: &dyn Mount, file: &Bytes, size: usize) -> Result<Vec<u8>> {
    let mut data = Vec::new();
    while data.len() < size {
        let piece = mount.read(file.clone(), data.len() as u64, MIB as u32).await.during("read", "")?;
        expect(!piece.is_empty(), "a file ends too soon")?;
        data.extend_from_slice(&piece);
    }
    Ok(data)
}

async fn read_plus(mount: &dyn Mount, file: &Bytes, size: usize) -> Result<Vec<u8>> {
    let (mut data, mut holes) = (Vec::new(), 0);
    while data.len() < size {
        let from = data.len();
        let ReadPlusResult { contents, .. } =
            mount.read_plus(file.clone(), from as u64, MIB as u32).await.during("READ_PLUS", "")?;
        for content in contents {
            match content {
                ReadPlusContent::Data { offset, data: bytes } => {
                    expect(offset == data.len() as u64, "a piece of READ_PLUS is elsewhere")?;
                    data.extend_from_slice(&bytes);
                }
                ReadPlusContent::Hole { offset, length } => {
                    expect(offset == data.len() as u64, "a hole of READ_PLUS is elsewhere")?;
                    data.resize(size.min((offset + length) as usize), 0);
                    holes += 1;
                }
            }
        }
        expect(data.len() > from, "READ_PLUS does not go on")?;
    }
    expect(holes > 0, "READ_PLUS says nothing of the hole")?;
    Ok(data)
}
