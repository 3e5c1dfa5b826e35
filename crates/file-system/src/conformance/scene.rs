//! Short ways to say what a test does.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    Attributes, Authority, Caller, CommitMode, CreateKind, FileId, FileSystem, FsResult, Mode, Name,
    OpenCreate, SetAttributes, Transaction,
};

/// A name.
pub fn name(text: &str) -> Name {
    Name::new(text.to_owned()).unwrap()
}

/// An ordinary user whose group has the same number.
pub fn user(id: u32) -> Caller {
    Caller::user(id, id, &[])
}

/// An optimistic transaction of the superuser.
pub async fn begin(fs: &Arc<dyn FileSystem>) -> Box<dyn Transaction> {
    begin_as(fs, &Caller::root()).await
}

/// An optimistic transaction.
pub async fn begin_as(fs: &Arc<dyn FileSystem>, caller: &Caller) -> Box<dyn Transaction> {
    fs.begin(caller, Mode::Optimistic).await.unwrap()
}

/// A durable commit that must succeed.
pub async fn commit(transaction: Box<dyn Transaction>) {
    transaction.commit(CommitMode::Durable).await.unwrap();
}

/// Makes a regular file with this content, mode 0644.
pub async fn make_file(
    tx: &mut Box<dyn Transaction>,
    directory: FileId,
    text: &str,
    content: &[u8],
) -> Attributes {
    let set = SetAttributes::with_mode(0o644);
    let opened = tx.open_create(directory, &name(text), OpenCreate::Guarded, &set).await.unwrap();
    assert!(opened.created);
    if !content.is_empty() {
        let data = Bytes::copy_from_slice(content);
        tx.write(opened.attributes.file, 0, data, Authority::Opened).await.unwrap();
    }
    tx.attributes(opened.attributes.file).await.unwrap()
}

/// Makes a directory with this mode.
pub async fn make_directory(
    tx: &mut Box<dyn Transaction>,
    directory: FileId,
    text: &str,
    mode: u32,
) -> FileId {
    let set = SetAttributes::with_mode(mode);
    let made = tx.create(directory, &name(text), CreateKind::Directory, &set).await.unwrap();
    made.attributes.file
}

/// Reads a range.
pub async fn read(
    tx: &mut Box<dyn Transaction>,
    file: FileId,
    offset: u64,
    length: u32,
) -> FsResult<Vec<u8>> {
    Ok(tx.read(file, offset, length, Authority::Checked).await?.segments.concat())
}

/// Reads everything.
pub async fn read_all(tx: &mut Box<dyn Transaction>, file: FileId) -> Vec<u8> {
    let size = tx.attributes(file).await.unwrap().size;
    read(tx, file, 0, size as u32).await.unwrap()
}

/// Writes with the caller's permission.
pub async fn write(tx: &mut Box<dyn Transaction>, file: FileId, offset: u64, data: &[u8]) -> FsResult<()> {
    tx.write(file, offset, Bytes::copy_from_slice(data), Authority::Checked).await
}

/// The names in a directory, in the order of the listing.
pub async fn names(tx: &mut Box<dyn Transaction>, directory: FileId) -> Vec<String> {
    let (mut cookie, mut names) = (0, Vec::new());
    loop {
        let page = tx.read_directory(directory, cookie, 7).await.unwrap();
        for entry in &page.entries {
            assert!(entry.cookie > cookie, "cookies ascend");
            cookie = entry.cookie;
            names.push(String::from_utf8(entry.name.as_bytes().to_vec()).unwrap());
        }
        if page.end {
            return names;
        }
        assert!(!page.entries.is_empty(), "a page that is not the last has entries");
    }
}
