//! Requests about space: holes, allocation, copies inside the server, how much is left.

use std::sync::Arc;

use fuser::Errno;
use nfs4::{
    AllocateArgs, Attribute, AttributeValues, Bitmap, CloneArgs, CopyArgs, CopyRes, DataContent, NfsArgOp,
    NfsResOp, NfsStatus, Outcome, SeekArgs,
};
use nfs4_client::Client;
use nfs4_client::operations::{get_attributes, put_handle};

use crate::answers::run;
use crate::core::{Changed, Core};
use crate::errno::{Answer, errno};
use crate::inode::Inode;
use crate::opened::Opened;

const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// Most bytes of one COPY: between two of them the caller can be killed.
const COPY: u64 = 64 << 20;

const SPACE: Bitmap = Attribute::set(&[
    Attribute::SpaceTotal,
    Attribute::SpaceFree,
    Attribute::SpaceAvail,
    Attribute::FilesTotal,
    Attribute::FilesFree,
    Attribute::FilesAvail,
    Attribute::Maxname,
]);

impl Core {
    pub async fn space(self: &Arc<Core>, client: Client, inode: Arc<Inode>) -> Answer<AttributeValues> {
        run(&client, &[put_handle(&inode.handle), get_attributes(SPACE)]).await?.attributes()
    }

    pub async fn allocate(
        self: &Arc<Core>,
        opened: Arc<Opened>,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> Answer<()> {
        self.settle_quietly(&opened.inode).await;
        let _changing = self.changing(Changed::File(&opened.inode));
        let arguments = |state_id| AllocateArgs { state_id, offset, length };
        let answers = match mode {
            0 => opened.run(|state_id| vec![NfsArgOp::Allocate(arguments(state_id))]).await,
            mode if mode == KEEP_SIZE | PUNCH_HOLE => {
                opened.run(|state_id| vec![NfsArgOp::Deallocate(arguments(state_id))]).await
            }
            _ => return Err(Errno::EOPNOTSUPP),
        };
        answers.map_err(|error| errno(&error))?;
        self.touch(&opened.inode);
        // The kernel forgets the pages of a hole by itself.
        opened.inode.known.lock().cached = None;
        self.forget_attributes(&opened.inode);
        Ok(())
    }

    pub async fn seek(self: &Arc<Core>, opened: Arc<Opened>, offset: i64, whence: i32) -> Answer<i64> {
        let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        let what = match whence {
            SEEK_DATA => DataContent::Data,
            SEEK_HOLE => DataContent::Hole,
            _ => return Err(Errno::EINVAL),
        };
        self.flush(&opened.inode).await;
        let seek = |state_id| vec![NfsArgOp::Seek(SeekArgs { state_id, offset, what })];
        let found = opened.run(seek).await.map_err(|error| errno(&error))?.find(|result| match result {
            NfsResOp::Seek(Outcome::Ok(found)) => Some(found),
            _ => None,
        })?;
        if found.eof && what == DataContent::Data {
            return Err(Errno::ENXIO);
        }
        i64::try_from(found.offset).map_err(|_| Errno::EOVERFLOW)
    }

    /// Copies inside the server: by sharing blocks if it can, or else by COPY. How many bytes.
    pub async fn copy(
        self: &Arc<Core>,
        (source, source_offset): (Arc<Opened>, u64),
        (destination, destination_offset): (Arc<Opened>, u64),
        length: u64,
    ) -> Answer<u32> {
        self.settle_quietly(&source.inode).await;
        self.settle_quietly(&destination.inode).await;
        let _changing = self.changing(Changed::File(&destination.inode));
        let files = (&source, &destination);
        let count = length.min(u64::from(u32::MAX) & !0xf_ffff);
        let clone = self
            .between(files, |source_state_id, destination_state_id| {
                NfsArgOp::Clone(CloneArgs {
                    source_state_id,
                    destination_state_id,
                    source_offset,
                    destination_offset,
                    count,
                })
            })
            .await;
        let copied = match clone {
            Ok(_) => count as u32,
            Err(error) if matches!(error.status(), Some(status) if !is_final(status)) => {
                let count = count.min(COPY);
                let copy = self.between(files, |source_state_id, destination_state_id| {
                    NfsArgOp::Copy(CopyArgs {
                        source_state_id,
                        destination_state_id,
                        source_offset,
                        destination_offset,
                        count,
                        consecutive: true,
                        synchronous: true,
                        source_servers: Vec::new(),
                    })
                });
                let done = copy.await.map_err(|error| errno(&error))?.find(|result| match result {
                    NfsResOp::Copy(CopyRes::Ok(done)) => Some(done),
                    _ => None,
                })?;
                // Under way, and nobody here waits for its end: the kernel copies by itself.
                if done.response.callback_id.is_some() {
                    return Err(Errno::EOPNOTSUPP);
                }
                if done.response.committed != nfs4::StableHow::FileSync {
                    run(
                        &destination.client,
                        &[put_handle(&destination.inode.handle), nfs4_client::operations::commit(0, 0)],
                    )
                    .await?;
                }
                done.response.count as u32
            }
            Err(error) => return Err(errno(&error)),
        };
        self.touch(&destination.inode);
        destination.inode.known.lock().cached = None;
        self.forget_attributes(&destination.inode);
        Ok(copied)
    }
}

/// Whether a copy of another kind would fail as well.
fn is_final(status: NfsStatus) -> bool {
    matches!(
        status,
        NfsStatus::Access
            | NfsStatus::Perm
            | NfsStatus::NoSpc
            | NfsStatus::Dquot
            | NfsStatus::Io
            | NfsStatus::Stale
    )
}
