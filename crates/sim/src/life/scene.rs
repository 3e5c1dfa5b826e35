use file_system::{
    Attributes, Authority, Caller, CommitMode, CreateKind, FileId, FileSystem, FsError, FsResult, Mode, Name,
    OpenCreate, SetAttributes, Transaction,
};

use super::account::{SLOTS, Tree};
use super::notices::NOTICE_FILE;
use super::operation::name_of;
use super::plan::CLIENTS;
use super::tickets::{TICKET_FILES, ticket_name};
use crate::world::inspector::CANARY;

/// A directory.
#[derive(Clone, Copy, Debug)]
pub struct Folder(pub FileId);

/// Where clients work.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// Of each client alone.
    pub own: [Folder; CLIENTS],
    /// Of all.
    pub shared: Folder,
}

/// A name that no cloud may see.
pub fn a_name(text: &str) -> Name {
    let canary = String::from_utf8_lossy(CANARY);
    Name::new(format!("{text} {canary}")).expect("letters, digits and stars make a name")
}

impl Scene {
    /// Finds the directories, or makes them.
    pub async fn set(fs: &dyn FileSystem) -> FsResult<Scene> {
        let mut tx = fs.begin(&Caller::root(), Mode::Exclusive).await?;
        let mut own = Vec::new();
        for client in 0..CLIENTS {
            own.push(folder(&mut *tx, &format!("client {client}")).await?.0);
        }
        let (shared, is_new) = folder(&mut *tx, "shared").await?;
        if is_new {
            for file in [0, 1] {
                let set = SetAttributes::with_mode(0o644);
                tx.open_create(shared.0, &ticket_name(file, 0), OpenCreate::Guarded, &set).await?;
            }
        }
        for file in TICKET_FILES {
            let set = SetAttributes::with_mode(0o644);
            let opened = tx.open_create(shared.0, &a_name(file), OpenCreate::Unchecked, &set).await?;
            if opened.created {
                tx.write(opened.attributes.file, 0, vec![0; 8].into(), Authority::Opened).await?;
            }
        }
        let set = SetAttributes::with_mode(0o644);
        tx.open_create(shared.0, &a_name(NOTICE_FILE), OpenCreate::Unchecked, &set).await?;
        tx.commit(CommitMode::Durable).await?;
        Ok(Scene { own: std::array::from_fn(|client| own[client]), shared })
    }
}

/// A directory, and whether it was made.
async fn folder(tx: &mut dyn Transaction, text: &str) -> FsResult<(Folder, bool)> {
    let (root, name) = (tx.root(), a_name(text));
    match tx.lookup(root, &name).await {
        Ok(Attributes { file, .. }) => Ok((Folder(file), false)),
        Err(FsError::NotFound) => {
            let set = SetAttributes::with_mode(0o755);
            let made = tx.create(root, &name, CreateKind::Directory, &set).await?;
            Ok((Folder(made.attributes.file), true))
        }
        Err(error) => Err(error),
    }
}

/// All files of a client, read in one transaction.
pub async fn read_tree(fs: &dyn FileSystem, folder: Folder) -> FsResult<Tree> {
    let mut tx = fs.begin(&Caller::root(), Mode::Optimistic).await?;
    let mut tree = Tree::new();
    for slot in 0..SLOTS as u8 {
        let Attributes { file, size, .. } = match tx.lookup(folder.0, &name_of(slot)).await {
            Ok(found) => found,
            Err(FsError::NotFound) => continue,
            Err(error) => return Err(error),
        };
        let data = tx.read(file, 0, size as u32, Authority::Checked).await?;
        tree.insert(slot, std::sync::Arc::new(data.segments.concat()));
    }
    tx.commit(CommitMode::Visible).await?;
    Ok(tree)
}

/// The names and sizes of the files of a client, by a listing.
pub async fn list(fs: &dyn FileSystem, folder: Folder) -> FsResult<Vec<(Name, u64)>> {
    let mut tx = fs.begin(&Caller::root(), Mode::Optimistic).await?;
    let mut found = Vec::new();
    let mut cookie = 0;
    loop {
        let page = tx.read_directory(folder.0, cookie, 3).await?;
        found.extend(page.entries.iter().map(|entry| (entry.name.clone(), entry.attributes.size)));
        match page.entries.last() {
            Some(last) if !page.end => cookie = last.cookie,
            _ => break,
        }
    }
    found.sort();
    Ok(found)
}
