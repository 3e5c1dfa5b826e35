use std::any::Any;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use ids::VolumeId;

use crate::{
    Attributes, Caller, ChangeInfo, Device, Extent, FileId, FsResult, Name, Position, SetAttributes, Space,
    XattrName,
};

/// One volume: a tree of files.
#[async_trait]
pub trait FileSystem: Send + Sync {
    /// Identity of the volume; part of every [`FileId`] in it.
    fn volume(&self) -> VolumeId;

    /// Starts a transaction on behalf of `caller`. Permissions are checked by the operations of the
    /// transaction, with mode bits, owner and group of the object.
    async fn begin(&self, caller: &Caller, mode: Mode) -> FsResult<Box<dyn Transaction>>;

    /// Keeps `file` readable and writable after its last name is gone, until the reference is dropped.
    /// Does not fail: a reference to nothing protects nothing. A file without a name whose last reference was dropped is nothing, also
    /// to a transaction that began before.
    ///
    /// After a restart, files that were referenced without a name are there, and can be referenced again, until
    /// [`FileSystem::end_of_claims`] (RFC 8881 §18.16.3: `OPEN4_RESULT_PRESERVE_UNLINKED`).
    fn reference(&self, file: FileId) -> OpenReference;

    /// Everybody who comes back after the restart has come: files without a name that nobody has referenced since
    /// are gone. May be called again.
    fn end_of_claims(&self) {}

    /// Returns when everything that was committed to `file` before the call, with whatever [`CommitMode`], is
    /// durable at the volume's acknowledgement tier.
    async fn sync(&self, file: FileId) -> FsResult<()>;

    /// Changes when data committed with [`CommitMode::Visible`] may have been lost: at every start.
    fn write_verifier(&self) -> [u8; 8];
}

/// Keeps an open file alive; dropping it ends that.
pub struct OpenReference(#[allow(dead_code)] Box<dyn Any + Send + Sync>); // held for its Drop alone

impl OpenReference {
    /// Wraps what the file system wants to be told of by `Drop`.
    pub fn new(guard: impl Any + Send + Sync) -> OpenReference {
        OpenReference(Box::new(guard))
    }
}

/// How a transaction meets others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Runs beside others and may end in [`crate::FsError::Conflict`], at any operation or at commit.
    Optimistic,
    /// Waits for its turn and then cannot conflict. For the retry after repeated conflicts.
    Exclusive,
}

/// What must hold when [`Transaction::commit`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitMode {
    /// Everything is durable at the volume's acknowledgement tier; so is everything that was read.
    Durable,
    /// Others see it. It becomes durable soon, or with [`FileSystem::sync`]; a crash may lose it whole.
    Visible,
}

/// How much checking reading and writing a file needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// Mode bits decide; the owner may always (RFC 8881 §18.22.4, §18.32.4: the owner override).
    Checked,
    /// The caller has the file open for this and was checked then.
    Opened,
}

/// What [`Transaction::create`] makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateKind {
    /// Directory.
    Directory,
    /// Symbolic link to this target (1 to 4,095 bytes, no NUL).
    Symlink(Bytes),
    /// Block device node.
    BlockDevice(Device),
    /// Character device node.
    CharacterDevice(Device),
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
}

/// How [`Transaction::open_create`] treats a file that is there already (RFC 8881 §18.16.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenCreate {
    /// Takes it. Of the attributes only a size of zero is applied.
    Unchecked,
    /// [`crate::FsError::Exists`].
    Guarded,
    /// Takes it if it was made with the same verifier and not had its times set since; otherwise
    /// [`crate::FsError::Exists`]. The verifier is durable.
    Exclusive([u8; 8]),
}

/// Result of making something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Attributes of the new object, its id among them.
    pub attributes: Attributes,
    /// Change of the directory.
    pub change: ChangeInfo,
}

/// Result of [`Transaction::open_create`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Attributes of the file.
    pub attributes: Attributes,
    /// Whether it is new.
    pub created: bool,
    /// Change of the directory; both sides equal when nothing was made.
    pub change: ChangeInfo,
}

/// Data read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadData {
    /// The bytes, in order, without copying them together.
    pub segments: Vec<Bytes>,
    /// Whether the end of the file is at or before the end of the data.
    pub end_of_file: bool,
}

impl ReadData {
    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.segments.iter().map(Bytes::len).sum()
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Position: pass it to continue behind this entry. Above 2, stable while the entry exists, and not given
    /// to another entry of the directory later.
    pub cookie: u64,
    /// Name.
    pub name: Name,
    /// Attributes of the object.
    pub attributes: Attributes,
}

/// A part of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryPage {
    /// Entries in order of cookies; `.` and `..` are not among them.
    pub entries: Vec<DirectoryEntry>,
    /// Whether nothing follows.
    pub end: bool,
}

/// Whether setting an extended attribute may or must replace one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Either.
    Either,
    /// [`crate::FsError::Exists`] when it is there.
    Create,
    /// [`crate::FsError::NoXattr`] when it is not.
    Replace,
}

/// Operations that become visible and durable together.
///
/// An operation that fails has changed nothing and leaves the transaction usable, except
/// [`crate::FsError::Conflict`], after which only dropping makes sense. Dropping a transaction undoes all of it.
/// Every operation on an id that no longer exists ends with [`crate::FsError::Stale`].
#[async_trait]
pub trait Transaction: Send {
    /// The root directory.
    fn root(&self) -> FileId;

    /// All attributes.
    async fn attributes(&mut self, file: FileId) -> FsResult<Attributes>;

    /// Changes attributes; returns them all. Size and times need write permission or ownership, mode, owner and
    /// group ownership, as POSIX says (chmod, chown, utimensat, truncate); `authority` covers the size only.
    async fn set_attributes(
        &mut self,
        file: FileId,
        set: &SetAttributes,
        authority: Authority,
    ) -> FsResult<Attributes>;

    /// The object that `name` leads to. Needs execute permission.
    async fn lookup(&mut self, directory: FileId, name: &Name) -> FsResult<Attributes>;

    /// The directory that holds `directory`; `NotFound` for the root.
    async fn parent(&mut self, directory: FileId) -> FsResult<Attributes>;

    /// Makes a directory, link or special node. Owner and group come from the caller (set-group-id directories
    /// pass theirs on) unless `set` says otherwise.
    async fn create(
        &mut self,
        directory: FileId,
        name: &Name,
        kind: CreateKind,
        set: &SetAttributes,
    ) -> FsResult<Created>;

    /// Opens a regular file by name, making it if need be. An existing object that is not a regular file ends
    /// in `IsDirectory`, `IsSymlink` or `WrongKind`. Does not check permission on an existing file itself.
    async fn open_create(
        &mut self,
        directory: FileId,
        name: &Name,
        how: OpenCreate,
        set: &SetAttributes,
    ) -> FsResult<Opened>;

    /// Adds a name to an object that is not a directory.
    async fn link(&mut self, file: FileId, directory: FileId, name: &Name) -> FsResult<ChangeInfo>;

    /// Removes a name; a directory must be empty. The object goes with its last name and last
    /// [`OpenReference`]. Honours the sticky bit.
    async fn remove(&mut self, directory: FileId, name: &Name) -> FsResult<ChangeInfo>;

    /// Moves a name, replacing what the new name led to if POSIX allows (rename). Both names leading to the
    /// same object: nothing happens. Returns the changes of the old and of the new directory.
    async fn rename(
        &mut self,
        from: FileId,
        from_name: &Name,
        to: FileId,
        to_name: &Name,
    ) -> FsResult<(ChangeInfo, ChangeInfo)>;

    /// Target of a symbolic link; `InvalidArgument` for everything else.
    async fn read_link(&mut self, file: FileId) -> FsResult<Bytes>;

    /// Up to `limit` (at least 1) entries behind `cookie` (0: from the start). Needs read permission. An entry
    /// that exists throughout a listing is returned exactly once.
    async fn read_directory(
        &mut self,
        directory: FileId,
        cookie: u64,
        limit: usize,
    ) -> FsResult<DirectoryPage>;

    /// Reads up to `length` bytes from `offset`; less only at the end of the file. Holes read as zeros.
    async fn read(
        &mut self,
        file: FileId,
        offset: u64,
        length: u32,
        authority: Authority,
    ) -> FsResult<ReadData>;

    /// Bytes that can still be written in this transaction. Fewer than a client wants to write: it is told how many
    /// were written, or the transaction is committed first.
    fn room(&self) -> u64 {
        u64::MAX
    }

    /// Writes all of `data` at `offset`, extending the file if need be. Clears set-user-id and set-group-id as
    /// POSIX says unless the caller is the superuser.
    async fn write(&mut self, file: FileId, offset: u64, data: Bytes, authority: Authority) -> FsResult<()>;

    /// What lies in `range` up to the end of the file: data and holes in turn, ascending, without gaps, from the first
    /// byte on. More than `limit` (at least 1) extents are not looked for: then the last ends before the range does. What is
    /// called data may be zeros; what is called a hole reads as zeros. Empty if the range is beyond the end.
    async fn extents(
        &mut self,
        file: FileId,
        range: Range<u64>,
        limit: usize,
        authority: Authority,
    ) -> FsResult<Vec<Extent>>;

    /// Makes sure that `length` bytes from `offset` can be written, and extends the file over them. What is there stays; what
    /// is new reads as zeros.
    async fn allocate(
        &mut self,
        file: FileId,
        offset: u64,
        length: u64,
        authority: Authority,
    ) -> FsResult<()>;

    /// Makes `length` bytes from `offset` read as zeros and gives back what stored them. The size stays; what lies beyond
    /// the end of the file is left out.
    async fn deallocate(
        &mut self,
        file: FileId,
        offset: u64,
        length: u64,
        authority: Authority,
    ) -> FsResult<()>;

    /// What a clone of the file is made of: a power of two, in bytes.
    async fn clone_unit(&mut self, file: FileId) -> FsResult<u64>;

    /// Makes `length` bytes from `from` on (0: up to the end of the file) the content of as many at `to`, without moving what
    /// is stored: blocks are shared until one of the two is written. Extends the file at `to` if need be. Holes stay holes.
    /// With `wait`, waits some seconds for what is not stored yet; [`crate::FsError::InvalidArgument`] if nothing of it is then.
    ///
    /// # Errors
    /// [`crate::FsError::InvalidArgument`] for what [`crate::cloned_length`] refuses, and for two files whose blocks cannot
    /// be shared. [`crate::FsError::Unavailable`] while much of the source is not stored yet.
    /// [`crate::FsError::NoSpace`] when older content of the source is shared so often that books cannot be kept of more.
    async fn clone_range(&mut self, from: Position, to: Position, length: u64, wait: bool) -> FsResult<()>;

    /// The value of an extended attribute.
    async fn xattr(&mut self, file: FileId, name: &XattrName) -> FsResult<Bytes>;

    /// Sets an extended attribute; value up to 64 KiB.
    async fn set_xattr(
        &mut self,
        file: FileId,
        name: &XattrName,
        value: Bytes,
        mode: XattrMode,
    ) -> FsResult<ChangeInfo>;

    /// Removes an extended attribute.
    async fn remove_xattr(&mut self, file: FileId, name: &XattrName) -> FsResult<ChangeInfo>;

    /// Names of the extended attributes, sorted.
    async fn xattrs(&mut self, file: FileId) -> FsResult<Vec<XattrName>>;

    /// Room on the volume.
    async fn space(&mut self) -> FsResult<Space>;

    /// Makes everything visible to others, all at once, and waits as `mode` says. Transactions that only read
    /// must commit, too, when it matters that their answers belong together.
    ///
    /// # Errors
    /// [`crate::FsError::Conflict`]: nothing was done. Any other error of a durable commit: others may see the
    /// effects, but a crash may undo them.
    async fn commit(self: Box<Self>, mode: CommitMode) -> FsResult<()>;
}
