use file_system::limits::FIRST_COOKIE;
use file_system::permission::{require, require_directory};
use file_system::{
    Access, Attributes, DirectoryEntry, DirectoryPage, FileId, FsError, FsResult, Name, attribute_rules,
};
use ids::ObjectId;
use meta::Scan;

use super::{Entry, VolumeTransaction, directory_parent};
use crate::error::meta_error;
use crate::keys::{Keys, ObjectRow};
use crate::row::Special;

impl VolumeTransaction {
    /// Attributes of a directory in which the caller may look names up.
    pub(super) async fn searchable(&mut self, directory: FileId) -> FsResult<Attributes> {
        let caller = self.caller.clone();
        let attributes = &self.inode(directory).await?.attributes;
        require_directory(attributes)?;
        require(attributes, &caller, Access::EXECUTE)?;
        Ok(attributes.clone())
    }

    pub(super) async fn find(&mut self, directory: ObjectId, name: &Name) -> FsResult<Option<Entry>> {
        let row = self.get(&self.volume.keys.name(directory, name.as_bytes())).await?;
        let damaged = self.volume.damaged("an entry of directory", directory);
        Ok(row.map(|row| Entry::decode(&row)).transpose().map_err(damaged)?)
    }

    pub(super) async fn look_up(&mut self, directory: FileId, name: &Name) -> FsResult<Attributes> {
        self.searchable(directory).await?;
        let entry = self.find(directory.object, name).await?.ok_or(FsError::NotFound)?;
        Ok(self.entry_inode(entry.object).await?.attributes.clone())
    }

    pub(super) async fn look_up_parent(&mut self, directory: FileId) -> FsResult<Attributes> {
        self.searchable(directory).await?;
        let parent = directory_parent(self.inode(directory).await?)?;
        if parent == directory.object {
            return Err(FsError::NotFound);
        }
        Ok(self.inode(self.volume.file(parent)).await?.attributes.clone())
    }

    pub(super) async fn list(
        &mut self,
        directory: FileId,
        cookie: u64,
        limit: usize,
    ) -> FsResult<DirectoryPage> {
        let caller = self.caller.clone();
        let inode = self.inode(directory).await?;
        require_directory(&inode.attributes)?;
        require(&inode.attributes, &caller, Access::READ)?;
        let Special::Directory { next_cookie, .. } = inode.special else { return Err(FsError::NotDirectory) };
        if cookie != 0 && !(FIRST_COOKIE..next_cookie).contains(&cookie) {
            return Err(FsError::BadCookie);
        }
        let limit = limit.max(1);
        let (start, end) = self.volume.keys.cookies_behind(directory.object, cookie);
        let guard = self.volume.keys.inode(directory.object);
        let scan = Scan { start: &start, end: &end, guard: Some(&guard), limit: limit.saturating_add(1) };
        let rows = self.meta.scan(scan).await.map_err(meta_error)?;
        let mut page = DirectoryPage { entries: Vec::with_capacity(rows.len()), end: rows.len() <= limit };
        for (key, row) in rows.iter().take(limit) {
            let listed = Entry::decode_listed(row);
            let (object, name) =
                listed.map_err(self.volume.damaged("an entry of directory", directory.object))?;
            let Some((_, ObjectRow::Cookie(cookie))) = Keys::object_row(key) else { continue };
            let attributes = self.listed_attributes(object).await?;
            page.entries.push(DirectoryEntry { cookie, name, attributes });
        }
        Ok(page)
    }

    /// Does not keep the object: a listing of a million entries is one transaction after the other, but a page
    /// may be long, too.
    async fn listed_attributes(&mut self, object: ObjectId) -> FsResult<Attributes> {
        if let Some(loaded) = self.objects.get(&object) {
            return Ok(loaded.inode.attributes.clone());
        }
        let row = self.get(&self.volume.keys.inode(object)).await?.ok_or_else(|| self.lost(object))?;
        Ok(self.volume.inode(object, &row)?.attributes)
    }

    /// Adds a name or leads it elsewhere; then it keeps its cookie. The times are the caller's.
    pub(super) fn put_entry(
        &mut self,
        directory: ObjectId,
        name: &Name,
        object: ObjectId,
        replaced: Option<Entry>,
    ) -> FsResult<()> {
        let cookie = match replaced {
            Some(entry) => entry.cookie,
            None => self.edit_entries(directory, 1)?,
        };
        let keys = self.volume.keys;
        self.meta.put(keys.name(directory, name.as_bytes()), Entry { object, cookie }.encode());
        self.meta.put(keys.cookie(directory, cookie), Entry::encode_listed(object, name));
        Ok(())
    }

    pub(super) fn delete_entry(&mut self, directory: ObjectId, name: &Name, entry: Entry) -> FsResult<()> {
        self.edit_entries(directory, -1)?;
        let keys = self.volume.keys;
        self.meta.delete(keys.name(directory, name.as_bytes()));
        self.meta.delete(keys.cookie(directory, entry.cookie));
        Ok(())
    }

    /// Changes the number of entries; returns the cookie for a new one.
    fn edit_entries(&mut self, directory: ObjectId, by: i64) -> FsResult<u64> {
        let inode = self.edit(directory)?;
        let Special::Directory { entries, next_cookie, .. } = &mut inode.special else {
            return Err(FsError::NotDirectory);
        };
        *entries = entries.saturating_add_signed(by);
        let cookie = *next_cookie;
        if by > 0 {
            *next_cookie += 1;
        }
        inode.attributes.size = attribute_rules::directory_size(*entries);
        Ok(cookie)
    }
}
