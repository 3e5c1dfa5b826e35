use bytes::Bytes;
use file_system::limits::{MAX_XATTR_VALUE, MAX_XATTRS};
use file_system::permission::may_use_xattrs;
use file_system::{Access, ChangeInfo, FileId, FsError, FsResult, XattrMode, XattrName};
use meta::Scan;

use super::VolumeTransaction;
use crate::error::meta_error;
use crate::keys::{Keys, ObjectRow};

const FORMAT: u8 = 1;

impl VolumeTransaction {
    async fn usable(&mut self, file: FileId, access: Access) -> FsResult<u32> {
        let caller = self.caller.clone();
        let inode = self.inode(file).await?;
        may_use_xattrs(&inode.attributes, &caller, access)?;
        Ok(inode.xattrs)
    }

    async fn value(&mut self, file: FileId, name: &XattrName) -> FsResult<Option<Bytes>> {
        let row = self.get(&self.volume.keys.xattr(file.object, name.as_bytes())).await?;
        Ok(row.filter(|row| row.first() == Some(&FORMAT)).map(|row| row.slice(1..)))
    }

    pub(super) async fn get_xattr(&mut self, file: FileId, name: &XattrName) -> FsResult<Bytes> {
        self.usable(file, Access::READ).await?;
        self.value(file, name).await?.ok_or(FsError::NoXattr)
    }

    pub(super) async fn put_xattr(
        &mut self,
        file: FileId,
        name: &XattrName,
        value: Bytes,
        mode: XattrMode,
    ) -> FsResult<ChangeInfo> {
        let count = self.usable(file, Access::WRITE).await?;
        if value.len() > MAX_XATTR_VALUE {
            return Err(FsError::XattrTooLarge);
        }
        let exists = self.value(file, name).await?.is_some();
        match (exists, mode) {
            (true, XattrMode::Create) => return Err(FsError::Exists),
            (false, XattrMode::Replace) => return Err(FsError::NoXattr),
            (false, _) if count as usize >= MAX_XATTRS => return Err(FsError::NoSpace),
            _ => {}
        }
        let row = [&[FORMAT][..], &value[..]].concat();
        self.meta.put(self.volume.keys.xattr(file.object, name.as_bytes()), row.into());
        self.edit(file.object)?.xattrs += u32::from(!exists);
        self.touch(file.object)
    }

    pub(super) async fn delete_xattr(&mut self, file: FileId, name: &XattrName) -> FsResult<ChangeInfo> {
        self.usable(file, Access::WRITE).await?;
        if self.value(file, name).await?.is_none() {
            return Err(FsError::NoXattr);
        }
        self.meta.delete(self.volume.keys.xattr(file.object, name.as_bytes()));
        self.edit(file.object)?.xattrs -= 1;
        self.touch(file.object)
    }

    pub(super) async fn list_xattrs(&mut self, file: FileId) -> FsResult<Vec<XattrName>> {
        if self.usable(file, Access::READ).await? == 0 {
            return Ok(Vec::new());
        }
        let (start, end) = self.volume.keys.xattrs(file.object);
        let guard = self.volume.keys.inode(file.object);
        let scan = Scan { start: &start, end: &end, guard: Some(&guard), limit: MAX_XATTRS };
        let rows = self.meta.scan(scan).await.map_err(meta_error)?;
        let names = rows.iter().filter_map(|(key, _)| match Keys::object_row(key) {
            Some((_, ObjectRow::Xattr(name))) => Some(XattrName::new(name)),
            _ => None,
        });
        names.collect()
    }
}
