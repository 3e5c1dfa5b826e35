use file_system::{Attributes, Authority, FileId, FsResult, SetAttributes, attribute_rules};

use super::VolumeTransaction;
use crate::row::Special;

impl VolumeTransaction {
    pub(super) async fn change_attributes(
        &mut self,
        file: FileId,
        set: &SetAttributes,
        authority: Authority,
    ) -> FsResult<Attributes> {
        let (now, caller) = (self.now(), self.caller.clone());
        let old = self.inode(file).await?.attributes.clone();
        if set.is_empty() {
            return Ok(old);
        }
        let mut new = attribute_rules::set(&old, &caller, set, authority, now)?;
        if let Some(size) = set.size {
            new.space_used = old.space_used.min(size);
            if size < old.size {
                self.cut(file.object, size).await?;
            }
            self.written.insert(file.object);
        }
        self.set(file.object, new.clone())?;
        if (set.accessed.is_some() || set.modified.is_some())
            && let Special::File { verifier, .. } = &mut self.edit(file.object)?.special
        {
            *verifier = None;
        }
        Ok(new)
    }
}
