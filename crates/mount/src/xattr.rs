//! Extended attributes (RFC 8276): those of users, whose names have no prefix on the server.

use std::sync::Arc;

use bytes::Bytes;
use fuser::Errno;
use nfs4::{
    Component, GetXattrArgs, ListXattrsArgs, NfsArgOp, NfsResOp, Outcome, RemoveXattrArgs, SetXattrArgs,
    SetXattrOption,
};
use nfs4_client::Client;
use nfs4_client::operations::put_handle;

use crate::answers::run;
use crate::core::{Changed, Core};
use crate::errno::Answer;
use crate::inode::Inode;

const PREFIX: &[u8] = b"user.";

/// The kernel takes no longer list of names (XATTR_LIST_MAX).
const LIST: usize = 64 << 10;

/// The name at the server.
pub(crate) fn server_name(name: &[u8]) -> Answer<Component> {
    match name.strip_prefix(PREFIX) {
        Some(name) => Ok(Component(Bytes::copy_from_slice(name))),
        None => Err(Errno::EOPNOTSUPP),
    }
}

impl Core {
    pub async fn get_xattr(
        self: &Arc<Core>,
        client: Client,
        inode: Arc<Inode>,
        name: Component,
    ) -> Answer<Bytes> {
        let request = [put_handle(&inode.handle), NfsArgOp::GetXattr(GetXattrArgs { name })];
        run(&client, &request).await?.find(|result| match result {
            NfsResOp::GetXattr(Outcome::Ok(value)) => Some(value),
            _ => None,
        })
    }

    pub async fn set_xattr(
        self: &Arc<Core>,
        client: Client,
        inode: Arc<Inode>,
        name: Component,
        value: Bytes,
        flags: i32,
    ) -> Answer<()> {
        let option = match flags {
            1 => SetXattrOption::Create,
            2 => SetXattrOption::Replace,
            _ => SetXattrOption::Either,
        };
        let _changing = self.changing(Changed::File(&inode));
        let set = NfsArgOp::SetXattr(SetXattrArgs { option, name, value });
        run(&client, &[put_handle(&inode.handle), set]).await.map(drop)
    }

    pub async fn remove_xattr(
        self: &Arc<Core>,
        client: Client,
        inode: Arc<Inode>,
        name: Component,
    ) -> Answer<()> {
        let _changing = self.changing(Changed::File(&inode));
        let remove = NfsArgOp::RemoveXattr(RemoveXattrArgs { name });
        run(&client, &[put_handle(&inode.handle), remove]).await.map(drop)
    }

    /// Names, each with a zero byte behind it.
    pub async fn list_xattrs(self: &Arc<Core>, client: Client, inode: Arc<Inode>) -> Answer<Vec<u8>> {
        let (mut list, mut cookie) = (Vec::new(), 0);
        loop {
            let ask = NfsArgOp::ListXattrs(ListXattrsArgs { cookie, max_count: LIST as u32 });
            let found =
                run(&client, &[put_handle(&inode.handle), ask]).await?.find(|result| match result {
                    NfsResOp::ListXattrs(Outcome::Ok(found)) => Some(found),
                    _ => None,
                })?;
            for name in &found.names {
                list.extend_from_slice(PREFIX);
                list.extend_from_slice(name.as_bytes());
                list.push(0);
            }
            if list.len() > LIST {
                return Err(Errno::E2BIG);
            }
            if found.eof || found.names.is_empty() {
                return Ok(list);
            }
            cookie = found.cookie;
        }
    }
}
