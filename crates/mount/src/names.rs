//! Requests about names and attributes.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use fuser::{AccessFlags, Errno, FileAttr, FileHandle, FopenFlags, TimeOrNow};
use nfs4::bits::{open_result, share_access};
use nfs4::{
    AccessArgs, AttributeValues, Component, CreateArgs, CreateHow, CreateType, LinkArgs, NfsArgOp, NfsResOp,
    NfsStatus, OpenHow, Outcome, SetAttrArgs, SpecData, StateId, Utf8String, Verifier,
};
use nfs4_client::operations::{get_attributes, lookup, open, put_handle, remove};
use nfs4_client::{Client, ClientError};
use rustix::fs::OFlags;

use crate::answers::{change, run, send};
use crate::attributes::{ATTRIBUTES, of_device, set_time};
use crate::core::{Changed, Core};
use crate::delegations::Seen;
use crate::errno::{Answer, errno};
use crate::inode::Inode;
use crate::opened::{Opened, access, new_owner};

/// Bits of a mode that say what kind of file it is.
const KIND: u32 = 0o170_000;

/// What SETATTR of the kernel's changes.
#[derive(Default)]
pub(crate) struct Changes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<TimeOrNow>,
    pub mtime: Option<TimeOrNow>,
}

/// Whether the server refuses a change of names because the file is open.
pub(crate) fn is_open<T>(result: &Result<T, ClientError>) -> bool {
    matches!(result, Err(error) if error.status() == Some(NfsStatus::FileOpen))
}

impl Core {
    pub async fn lookup(self: &Arc<Core>, client: Client, parent: u64, name: Component) -> Answer<FileAttr> {
        let parent = self.table.get(parent)?;
        let request = [put_handle(&parent.handle), lookup(name), NfsArgOp::GetFh, get_attributes(ATTRIBUTES)];
        let mut answers = run(&client, &request).await?;
        let (handle, values) = (answers.handle()?, answers.attributes()?);
        // The size that the kernel is told has to be that of what was written here.
        if let Some(inode) = self.table.find(&handle)
            && inode.writer.is_busy()
        {
            let attributes = self.get_attributes(client, inode).await?;
            self.table.look_up([(&handle, values.fileid.unwrap_or(0))].into_iter());
            return Ok(attributes);
        }
        Ok(self.entry(&handle, &values).1)
    }

    pub async fn get_attributes(self: &Arc<Core>, client: Client, inode: Arc<Inode>) -> Answer<FileAttr> {
        if let Some(seen) = self.believed(&client, &inode) {
            self.tell(&inode, seen.attributes.kind, Some(seen.change));
            return Ok(seen.attributes);
        }
        self.flush(&inode).await;
        let since = self.tick();
        let request = [put_handle(&inode.handle), get_attributes(ATTRIBUTES)];
        let values = run(&client, &request).await?.attributes()?;
        let attributes = self.told(&inode, &values);
        if let Some(change) = values.change {
            self.saw_attributes(&inode, Seen { change, attributes, since });
        }
        Ok(attributes)
    }

    pub async fn set_attributes(
        self: &Arc<Core>,
        client: Client,
        inode: Arc<Inode>,
        handle: Option<FileHandle>,
        changes: Changes,
    ) -> Answer<FileAttr> {
        // What is appended while the file is cut would go to where it ended before.
        let mut end = match changes.size {
            Some(_) => Some(inode.end.lock().await),
            None => None,
        };
        // What was written before is written before.
        self.settle_quietly(&inode).await;
        if let Some(end) = &mut end {
            **end = None;
        }
        let _changing = self.changing(Changed::File(&inode));
        let number = |id: u32| Utf8String::from(id.to_string());
        let values = AttributeValues {
            size: changes.size,
            mode: changes.mode.map(|mode| mode & nfs4::bits::mode::ALL),
            owner: changes.uid.map(number),
            owner_group: changes.gid.map(number),
            time_access_set: changes.atime.map(set_time),
            time_modify_set: changes.mtime.map(set_time),
            ..AttributeValues::default()
        };
        let attributes = values.to_fattr();
        let build = |state_id| {
            let set = NfsArgOp::SetAttr(SetAttrArgs { state_id, attributes: attributes.clone() });
            vec![get_attributes(ATTRIBUTES), set, get_attributes(ATTRIBUTES)]
        };
        let opened = handle.and_then(|handle| self.files.get(handle.0).ok()).filter(|opened| opened.writes());
        let answers = match opened {
            Some(opened) if changes.size.is_some() => opened.run(build).await,
            _ => {
                let mut request = vec![put_handle(&inode.handle)];
                request.extend(build(StateId::ANONYMOUS));
                send(&client, &request).await
            }
        };
        drop(end);
        let mut answers = answers.map_err(|error| errno(&error))?;
        let (before, after) = (answers.attributes()?, answers.attributes()?);
        self.touch(&inode);
        self.carry_on(&inode, &before, &after);
        Ok(self.told(&inode, &after))
    }

    /// A change from here that leaves the pages which the kernel has as they are.
    fn carry_on(&self, inode: &Inode, before: &AttributeValues, after: &AttributeValues) {
        let mut known = inode.known.lock();
        if known.cached.is_some() && known.cached == before.change {
            known.cached = after.change;
        }
    }

    /// Whether the server lets the caller (access(2)).
    pub async fn check_access(
        self: &Arc<Core>,
        client: Client,
        inode: Arc<Inode>,
        mask: AccessFlags,
    ) -> Answer<()> {
        use nfs4::bits::access;
        let mut wanted = 0;
        for (flag, bits) in [
            (AccessFlags::R_OK, access::READ),
            (AccessFlags::W_OK, access::MODIFY),
            (AccessFlags::X_OK, access::EXECUTE | access::LOOKUP),
        ] {
            if mask.contains(flag) {
                wanted |= bits;
            }
        }
        let request = [put_handle(&inode.handle), NfsArgOp::Access(AccessArgs { access: wanted })];
        let found = run(&client, &request).await?.find(|result| match result {
            NfsResOp::Access(Outcome::Ok(found)) => Some(found),
            _ => None,
        })?;
        // Of a directory, to execute is to look up.
        let supported = wanted & found.supported;
        if found.access & supported == supported { Ok(()) } else { Err(Errno::EACCES) }
    }

    pub async fn read_link(self: &Arc<Core>, client: Client, inode: Arc<Inode>) -> Answer<Bytes> {
        let mut answers = run(&client, &[put_handle(&inode.handle), NfsArgOp::ReadLink]).await?;
        answers.find(|result| match result {
            NfsResOp::ReadLink(Outcome::Ok(text)) => Some(text.0),
            _ => None,
        })
    }

    /// Makes anything but a regular file.
    pub async fn make(
        self: &Arc<Core>,
        client: Client,
        parent: u64,
        name: Component,
        object_type: CreateType,
        mode: u32,
    ) -> Answer<FileAttr> {
        let parent = self.table.get(parent)?;
        let mode = mode & nfs4::bits::mode::ALL;
        let attributes = AttributeValues { mode: Some(mode), ..AttributeValues::default() }.to_fattr();
        let create = NfsArgOp::Create(CreateArgs { object_type, name: name.clone(), attributes });
        let request = [put_handle(&parent.handle), create, NfsArgOp::GetFh, get_attributes(ATTRIBUTES)];
        let made = change(&client, &request, NfsStatus::Exist).await.map_err(|error| errno(&error))?;
        self.touch(&parent);
        let Some(mut answers) = made else { return self.lookup(client, parent.number, name).await };
        let (handle, values) = (answers.handle()?, answers.attributes()?);
        Ok(self.entry(&handle, &values).1)
    }

    pub async fn make_node(
        self: &Arc<Core>,
        client: Client,
        parent: u64,
        name: Component,
        mode: u32,
        device: u32,
    ) -> Answer<FileAttr> {
        let (major, minor) = of_device(device);
        let device = SpecData { major, minor };
        let object_type = match mode & KIND {
            0o010_000 => CreateType::Fifo,
            0o020_000 => CreateType::CharacterDevice(device),
            0o060_000 => CreateType::BlockDevice(device),
            0o140_000 => CreateType::Socket,
            0 | 0o100_000 => {
                let flags = (OFlags::WRONLY | OFlags::EXCL).bits() as i32;
                let (attributes, opened) = self.create_file(client, parent, name, mode, flags).await?;
                opened.close().await.map_err(|error| errno(&error))?;
                return Ok(attributes);
            }
            _ => return Err(Errno::EINVAL),
        };
        self.make(client, parent, name, object_type, mode).await
    }

    /// Creates a regular file, if need be, and opens it.
    pub async fn create(
        self: &Arc<Core>,
        client: Client,
        parent: u64,
        name: Component,
        mode: u32,
        flags: i32,
    ) -> Answer<(FileAttr, u64, FopenFlags)> {
        let (attributes, opened) = self.create_file(client, parent, name, mode, flags).await?;
        opened.inode.opens.fetch_add(1, Relaxed);
        Ok((attributes, self.files.insert(opened), FopenFlags::empty()))
    }

    async fn create_file(
        self: &Arc<Core>,
        client: Client,
        parent: u64,
        name: Component,
        mode: u32,
        flags: i32,
    ) -> Answer<(FileAttr, Arc<Opened>)> {
        let parent = self.table.get(parent)?;
        let opening = OFlags::from_bits_retain(flags as u32);
        let mode = Some(mode & nfs4::bits::mode::ALL);
        let size = opening.contains(OFlags::TRUNC).then_some(0);
        let attributes = AttributeValues { mode, size, ..AttributeValues::default() }.to_fattr();
        // With its verifier an exclusive create may be repeated after a restart of the server (RFC 8881 §18.16.3).
        let verifier = Verifier(self.entropy.next_u64().to_be_bytes());
        let how = match opening.contains(OFlags::EXCL) {
            true => CreateHow::Exclusive41 { verifier, attributes },
            false => CreateHow::Unchecked(attributes),
        };
        let owner = new_owner(self.owners.fetch_add(1, Relaxed));
        let access = access(flags);
        let open = open(name, access | share_access::WANT_NO_DELEG, OpenHow::Create(how), owner.clone());
        let request = [put_handle(&parent.handle), open, NfsArgOp::GetFh, get_attributes(ATTRIBUTES)];
        // A file that is there may be cut off.
        let changing = size.map(|_| self.changing(Changed::Any));
        let mut answers = run(&client, &request).await?;
        let result = answers.find(|result| match result {
            NfsResOp::Open(Outcome::Ok(opened)) => Some(opened),
            _ => None,
        })?;
        if result.flags & open_result::PRESERVE_UNLINKED == 0 {
            tracing::debug!("the server does not promise to keep files that are removed while open");
        }
        let (handle, values) = (answers.handle()?, answers.attributes()?);
        self.touch(&parent);
        let state = client.adopt(handle.clone(), (access, nfs4::bits::share_deny::NONE), owner, &result);
        let (inode, attributes) = self.entry(&handle, &values);
        if let Some(changing) = changing {
            changing.was(&inode);
        }
        if values.size == Some(0) {
            inode.known.lock().cached = values.change;
        }
        Ok((attributes, Arc::new(Opened::new(inode, client, state))))
    }

    pub async fn unlink(self: &Arc<Core>, client: Client, parent: u64, name: Component) -> Answer<()> {
        let parent = self.table.get(parent)?;
        let _changing = self.changing(Changed::Removed);
        let request = [put_handle(&parent.handle), remove(name)];
        let mut removed = change(&client, &request, NfsStatus::NoEnt).await;
        // Some servers remove nothing that is open.
        if is_open(&removed) && self.give_back_unused().await {
            removed = change(&client, &request, NfsStatus::NoEnt).await;
        }
        removed.map_err(|error| errno(&error))?;
        self.touch(&parent);
        Ok(())
    }

    pub async fn link(
        self: &Arc<Core>,
        client: Client,
        inode: Arc<Inode>,
        parent: u64,
        new_name: Component,
    ) -> Answer<FileAttr> {
        let parent = self.table.get(parent)?;
        self.flush(&inode).await;
        let _changing = self.changing(Changed::File(&inode));
        let request = [
            put_handle(&inode.handle),
            get_attributes(ATTRIBUTES),
            NfsArgOp::SaveFh,
            put_handle(&parent.handle),
            NfsArgOp::Link(LinkArgs { new_name: new_name.clone() }),
            NfsArgOp::RestoreFh,
            get_attributes(ATTRIBUTES),
        ];
        let linked = change(&client, &request, NfsStatus::Exist).await.map_err(|error| errno(&error))?;
        self.touch(&parent);
        self.touch(&inode);
        let Some(mut answers) = linked else { return self.lookup(client, parent.number, new_name).await };
        let (before, after) = (answers.attributes()?, answers.attributes()?);
        self.carry_on(&inode, &before, &after);
        Ok(self.entry(&inode.handle, &after).1)
    }

    /// Makes stable what was written; an error stays for fsync and close.
    pub async fn settle_quietly(self: &Arc<Core>, inode: &Arc<Inode>) {
        if inode.writer.is_busy() {
            self.make_stable(inode).await;
        }
    }
}
