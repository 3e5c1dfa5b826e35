//! The requests of the kernel, and what it is answered. What they ask for is done by [`Core`].

mod serving;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLock, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use nfs4::{Component, CreateType, LinkText};
use rustix::fs::OFlags;

use crate::core::Core;
use crate::data::Writer;
use crate::directory::Listing;
use crate::killable::killable;
use crate::locks::{Bytewise, Locker, UNLOCK};
use crate::names::Changes;
use crate::xattr::server_name;

/// Requests of the kernel's own (readahead, write-back) that wait at once.
const BACKGROUND: u16 = 64;

/// The same inode is never another file: handles are not used again.
const GENERATION: Generation = Generation(0);

/// Takes the kernel's requests for a mounted file system.
pub(crate) struct FileSystem(pub Arc<Core>);

fn component(name: &OsStr) -> Component {
    Component(Bytes::copy_from_slice(name.as_bytes()))
}

impl Filesystem for FileSystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wanted in [
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_EXPLICIT_INVAL_DATA,
            InitFlags::FUSE_FLOCK_LOCKS,
            InitFlags::FUSE_POSIX_LOCKS,
            InitFlags::FUSE_HANDLE_KILLPRIV,
            InitFlags::FUSE_PARALLEL_DIROPS,
        ] {
            // Older kernels do without.
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_write(self.0.transfer);
        let _ = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (core, client, name) = (self.0.clone(), self.0.callers.client(request), component(name));
        let ttl = self.0.ttl();
        let work = async move { core.lookup(client, parent.0, name).await };
        self.serve(request, reply, work, move |reply, attributes| reply.entry(&ttl, &attributes, GENERATION));
    }

    fn forget(&self, _: &Request, inode: INodeNo, times: u64) {
        self.0.forget(inode.0, times);
    }

    fn getattr(&self, request: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let (core, client, ttl) = (self.0.clone(), self.0.callers.client(request), self.0.ttl());
        let work = async move {
            let inode = core.table.get(inode.0)?;
            core.get_attributes(client, inode).await
        };
        self.serve(request, reply, work, move |reply, attributes| reply.attr(&ttl, &attributes));
    }

    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (core, client, ttl) = (self.0.clone(), self.0.callers.client(request), self.0.ttl());
        let changes = Changes { mode, uid, gid, size, atime, mtime };
        let work = async move {
            let inode = core.table.get(inode.0)?;
            core.set_attributes(client, inode, handle, changes).await
        };
        self.serve(request, reply, work, move |reply, attributes| reply.attr(&ttl, &attributes));
    }

    fn readlink(&self, request: &Request, inode: INodeNo, reply: ReplyData) {
        let (core, client) = (self.0.clone(), self.0.callers.client(request));
        let work = async move {
            let inode = core.table.get(inode.0)?;
            core.read_link(client, inode).await
        };
        self.serve(request, reply, work, |reply, text| reply.data(&text));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let (core, client, name) = (self.0.clone(), self.0.callers.client(request), component(name));
        let ttl = self.0.ttl();
        let work = async move { core.make_node(client, parent.0, name, mode, device).await };
        self.serve(request, reply, work, move |reply, attributes| reply.entry(&ttl, &attributes, GENERATION));
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let (core, client, name) = (self.0.clone(), self.0.callers.client(request), component(name));
        let ttl = self.0.ttl();
        let work = async move { core.make(client, parent.0, name, CreateType::Directory, mode).await };
        self.serve(request, reply, work, move |reply, attributes| reply.entry(&ttl, &attributes, GENERATION));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (core, client, name) = (self.0.clone(), self.0.callers.client(request), component(name));
        let kind = CreateType::SymbolicLink(LinkText(Bytes::copy_from_slice(target.as_os_str().as_bytes())));
        let ttl = self.0.ttl();
        let work = async move { core.make(client, parent.0, name, kind, 0o777).await };
        self.serve(request, reply, work, move |reply, attributes| reply.entry(&ttl, &attributes, GENERATION));
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (core, client, name) = (self.0.clone(), self.0.callers.client(request), component(name));
        let work = async move { core.unlink(client, parent.0, name).await };
        self.serve(request, reply, work, |reply, ()| reply.ok());
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.unlink(request, parent, name, reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (core, client) = (self.0.clone(), self.0.callers.client(request));
        let (from, to) = ((parent.0, component(name)), (new_parent.0, component(new_name)));
        let work = async move { core.rename(client, from, to, flags).await };
        self.serve(request, reply, work, |reply, ()| reply.ok());
    }

    fn link(
        &self,
        request: &Request,
        inode: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let (core, client, name) = (self.0.clone(), self.0.callers.client(request), component(new_name));
        let ttl = self.0.ttl();
        let work = async move {
            let inode = core.table.get(inode.0)?;
            core.link(client, inode, new_parent.0, name).await
        };
        self.serve(request, reply, work, move |reply, attributes| reply.entry(&ttl, &attributes, GENERATION));
    }

    fn open(&self, request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let (core, client) = (self.0.clone(), self.0.callers.client(request));
        let work = async move {
            let inode = core.table.get(inode.0)?;
            core.open(client, inode, flags.0).await
        };
        let done = |reply: ReplyOpen, (number, keep)| reply.opened(FileHandle(number), keep);
        let core = self.0.clone();
        self.serve_or_undo(request, reply, work, done, move |(number, _)| core.release_later(number));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (core, client, name) = (self.0.clone(), self.0.callers.client(request), component(name));
        let ttl = self.0.ttl();
        let work = async move { core.create(client, parent.0, name, mode, flags).await };
        let done = move |reply: ReplyCreate, (attributes, number, keep)| {
            reply.created(&ttl, &attributes, GENERATION, FileHandle(number), keep);
        };
        let core = self.0.clone();
        self.serve_or_undo(request, reply, work, done, move |(_, number, _)| core.release_later(number));
    }

    fn read(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let core = self.0.clone();
        let work = async move {
            let opened = core.files.get(handle.0)?;
            core.read(opened, offset, size).await
        };
        self.serve(request, reply, work, |reply, data| reply.data(&data));
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let appends = OFlags::from_bits_retain(flags.0 as u32).contains(OFlags::APPEND);
        let from = match how.contains(WriteFlags::FUSE_WRITE_CACHE) {
            // They have their place.
            true => Writer::Pages,
            false if appends => Writer::Appending,
            false => Writer::Program,
        };
        let (core, data) = (self.0.clone(), Bytes::copy_from_slice(data));
        let length = data.len() as u32;
        let work = async move {
            let opened = core.files.get(handle.0)?;
            core.write(opened, offset, data, from).await
        };
        self.serve(request, reply, work, move |reply, ()| reply.written(length));
    }

    fn flush(&self, request: &Request, _: INodeNo, handle: FileHandle, owner: LockOwner, reply: ReplyEmpty) {
        let core = self.0.clone();
        let work = async move {
            let opened = core.files.get(handle.0)?;
            core.flush_file(opened, owner.0).await
        };
        self.serve(request, reply, work, |reply, ()| reply.ok());
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        // Nobody waits for it.
        self.0.release_later(handle.0);
        reply.ok();
    }

    fn fsync(&self, request: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        let core = self.0.clone();
        let work = async move {
            let opened = core.files.get(handle.0)?;
            core.settle(&opened).await
        };
        self.serve(request, reply, work, |reply, ()| reply.ok());
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // Changes of directories are stable when the server has answered (RFC 8881 §2.10.6.1.3).
        reply.ok();
    }

    fn opendir(&self, request: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.0.table.get(inode.0) {
            Ok(inode) => {
                let listing = Arc::new(Listing::new(inode, self.0.callers.client(request)));
                reply.opened(FileHandle(self.0.listings.insert(listing)), FopenFlags::empty());
            }
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let (core, thread) = (self.0.clone(), request.pid());
        let task = async move {
            let work = async {
                let listing = core.listings.get(handle.0)?;
                let take = |attributes: &fuser::FileAttr, place, name: &[u8], _| {
                    !reply.add(attributes.ino, place, attributes.kind, OsStr::from_bytes(name))
                };
                core.list(&listing, offset, false, take).await
            };
            match killable(thread, work).await {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(error),
            }
        };
        self.0.tasks.spawn_on(task, &self.0.runtime);
    }

    fn readdirplus(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let (core, thread) = (self.0.clone(), request.pid());
        let task = async move {
            let work = async {
                let listing = core.listings.get(handle.0)?;
                let take = |attributes: &fuser::FileAttr, place, name: &[u8], ttl: Duration| {
                    !reply.add(attributes.ino, place, OsStr::from_bytes(name), &ttl, attributes, GENERATION)
                };
                core.list(&listing, offset, true, take).await
            };
            match killable(thread, work).await {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(error),
            }
        };
        self.0.tasks.spawn_on(task, &self.0.runtime);
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.0.listings.remove(handle.0);
        reply.ok();
    }

    fn statfs(&self, request: &Request, inode: INodeNo, reply: ReplyStatfs) {
        const BLOCK: u64 = 4096;
        let (core, client) = (self.0.clone(), self.0.callers.client(request));
        let work = async move {
            let inode = core.table.get(inode.0)?;
            core.space(client, inode).await
        };
        self.serve(request, reply, work, |reply, space| {
            reply.statfs(
                space.space_total.unwrap_or(0) / BLOCK,
                space.space_free.unwrap_or(0) / BLOCK,
                space.space_avail.unwrap_or(0) / BLOCK,
                space.files_total.unwrap_or(0),
                space.files_avail.or(space.files_free).unwrap_or(0),
                BLOCK as u32,
                space.maxname.unwrap_or(255),
                BLOCK as u32,
            );
        });
    }

    fn setxattr(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let (core, client) = (self.0.clone(), self.0.callers.client(request));
        let (name, value) = (server_name(name.as_bytes()), Bytes::copy_from_slice(value));
        let work = async move {
            let (inode, name) = (core.table.get(inode.0)?, name?);
            core.set_xattr(client, inode, name, value, flags).await
        };
        self.serve(request, reply, work, |reply, ()| reply.ok());
    }

    fn getxattr(&self, request: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let (core, name) = (self.0.clone(), server_name(name.as_bytes()));
        let Ok(name) = name else { return reply.error(Errno::EOPNOTSUPP) };
        let client = self.0.callers.client(request);
        let work = async move {
            let inode = core.table.get(inode.0)?;
            core.get_xattr(client, inode, name).await
        };
        self.serve(request, reply, work, move |reply, value| give_xattr(reply, &value, size));
    }

    fn listxattr(&self, request: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        let (core, client) = (self.0.clone(), self.0.callers.client(request));
        let work = async move {
            let inode = core.table.get(inode.0)?;
            core.list_xattrs(client, inode).await
        };
        self.serve(request, reply, work, move |reply, list| give_xattr(reply, &list, size));
    }

    fn removexattr(&self, request: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (core, client) = (self.0.clone(), self.0.callers.client(request));
        let name = server_name(name.as_bytes());
        let work = async move {
            let (inode, name) = (core.table.get(inode.0)?, name?);
            core.remove_xattr(client, inode, name).await
        };
        self.serve(request, reply, work, |reply, ()| reply.ok());
    }

    fn access(&self, request: &Request, inode: INodeNo, mask: fuser::AccessFlags, reply: ReplyEmpty) {
        let (core, client) = (self.0.clone(), self.0.callers.client(request));
        let work = async move {
            let inode = core.table.get(inode.0)?;
            core.check_access(client, inode, mask).await
        };
        self.serve(request, reply, work, |reply, ()| reply.ok());
    }

    fn getlk(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        _: u32,
        reply: ReplyLock,
    ) {
        let core = self.0.clone();
        let work = async move {
            let opened = core.files.get(handle.0)?;
            core.test_lock(opened, owner.0, Bytewise { start, end }, kind).await
        };
        self.serve(request, reply, work, |reply, conflict| match conflict {
            Some((bytes, kind, process)) => reply.locked(bytes.start, bytes.end, kind, process),
            None => reply.locked(0, 0, UNLOCK, 0),
        });
    }

    fn setlk(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        process: u32,
        waits: bool,
        reply: ReplyEmpty,
    ) {
        let core = self.0.clone();
        let locker = Locker { owner: owner.0, process, thread: request.pid() };
        let bytes = Bytewise { start, end };
        let work = async move {
            let opened = core.files.get(handle.0)?;
            match kind {
                UNLOCK => core.unlock(&opened.inode, locker.owner, bytes).await,
                kind => core.lock(opened, locker, bytes, kind, waits).await,
            }
        };
        let core = self.0.clone();
        let undo = move |()| core.unlock_later(handle.0, locker.owner, bytes);
        self.serve_or_undo(request, reply, work, |reply, ()| reply.ok(), undo);
    }

    fn fallocate(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let core = self.0.clone();
        let work = async move {
            let opened = core.files.get(handle.0)?;
            core.allocate(opened, offset, length, mode).await
        };
        self.serve(request, reply, work, |reply, ()| reply.ok());
    }

    fn lseek(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let core = self.0.clone();
        let work = async move {
            let opened = core.files.get(handle.0)?;
            core.seek(opened, offset, whence).await
        };
        self.serve(request, reply, work, |reply, offset| reply.offset(offset));
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _: INodeNo,
        source: FileHandle,
        source_offset: u64,
        _: INodeNo,
        destination: FileHandle,
        destination_offset: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let core = self.0.clone();
        let work = async move {
            let (source, destination) = (core.files.get(source.0)?, core.files.get(destination.0)?);
            core.copy((source, source_offset), (destination, destination_offset), length).await
        };
        self.serve(request, reply, work, |reply, copied| reply.written(copied));
    }
}

/// The value, or how long it is if that is the question.
fn give_xattr(reply: ReplyXattr, value: &[u8], size: u32) {
    match size {
        0 => reply.size(value.len() as u32),
        size if value.len() > size as usize => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}
