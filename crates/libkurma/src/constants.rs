//! Bits and numbers of the interface.

/// Does not follow a symbolic link that a path ends in.
pub const KURMA_NOFOLLOW: u32 = 0x1;
/// Opens for reading.
pub const KURMA_READ: u32 = 0x2;
/// Opens for writing.
pub const KURMA_WRITE: u32 = 0x4;
/// Creates the file if it is missing, with the permission bits in `mode`.
pub const KURMA_CREATE: u32 = 0x8;
/// With KURMA_CREATE: a file that exists already is an error.
pub const KURMA_EXCLUSIVE: u32 = 0x10;
/// Cuts off what is in the file before.
pub const KURMA_TRUNCATE: u32 = 0x20;
/// What is written survives a loss of power once the call has returned.
pub const KURMA_STABLE: u32 = 0x40;
/// Lists also what is below, breadth first.
pub const KURMA_RECURSIVE: u32 = 0x80;
/// Goes on listing other directories if one cannot be read.
pub const KURMA_GO_ON: u32 = 0x100;

/// Attribute: what kind of object, one of KURMA_FILE to KURMA_SOCKET.
pub const KURMA_KIND: u32 = 0x1;
/// Attribute: permission bits, the lower twelve of a Unix mode.
pub const KURMA_MODE: u32 = 0x2;
/// Attribute: owner.
pub const KURMA_OWNER: u32 = 0x4;
/// Attribute: group.
pub const KURMA_GROUP: u32 = 0x8;
/// Attribute: bytes.
pub const KURMA_SIZE: u32 = 0x10;
/// Attribute: bytes occupied.
pub const KURMA_SPACE_USED: u32 = 0x20;
/// Attribute: names of the object.
pub const KURMA_LINKS: u32 = 0x40;
/// Attribute: number of the object in its file system.
pub const KURMA_FILE_ID: u32 = 0x80;
/// Attribute: the file system.
pub const KURMA_FILE_SYSTEM: u32 = 0x100;
/// Attribute: major and minor number of a device node.
pub const KURMA_DEVICE: u32 = 0x200;
/// Attribute: when last read.
pub const KURMA_ACCESSED: u32 = 0x400;
/// Attribute: when the content last changed.
pub const KURMA_MODIFIED: u32 = 0x800;
/// Attribute: when the content or the attributes last changed.
pub const KURMA_CHANGED: u32 = 0x1000;
/// Attribute: a number that changes with every change of content or attributes.
pub const KURMA_CHANGE: u32 = 0x2000;
/// Attribute: the server's name for the object; NFS only.
pub const KURMA_HANDLE: u32 = 0x4000;
/// What stat(2) shows: all attributes but KURMA_CHANGE and KURMA_HANDLE.
pub const KURMA_STAT: u32 = 0x1fff;

/// Kind: a regular file.
pub const KURMA_FILE: u32 = 1;
/// Kind: a directory.
pub const KURMA_DIRECTORY: u32 = 2;
/// Kind: a symbolic link.
pub const KURMA_SYMBOLIC_LINK: u32 = 3;
/// Kind: a block device.
pub const KURMA_BLOCK_DEVICE: u32 = 4;
/// Kind: a character device.
pub const KURMA_CHARACTER_DEVICE: u32 = 5;
/// Kind: a named pipe.
pub const KURMA_FIFO: u32 = 6;
/// Kind: a socket.
pub const KURMA_SOCKET: u32 = 7;

/// Does not copy directories.
pub const KURMA_COPY_FLAT: u32 = 0x1;
/// Copies what the symbolic links lead to that were named, but not of those below.
pub const KURMA_COPY_FOLLOW_NAMED: u32 = 0x2;
/// Copies what symbolic links lead to, everywhere.
pub const KURMA_COPY_FOLLOW: u32 = 0x4;
/// Makes symbolic links to files in place of copies of them.
pub const KURMA_COPY_SYMBOLIC: u32 = 0x8;
/// Makes further names of files in place of copies of them.
pub const KURMA_COPY_HARD: u32 = 0x10;
/// Removes a file that is there and cannot be opened.
pub const KURMA_COPY_FORCE: u32 = 0x20;
/// Removes a file that is there.
pub const KURMA_COPY_REMOVE: u32 = 0x40;
/// Leaves alone what is there, except that directories are gone into.
pub const KURMA_COPY_KEEP: u32 = 0x80;
/// Copies permission bits.
pub const KURMA_COPY_MODE: u32 = 0x100;
/// Copies owner and group where that is allowed.
pub const KURMA_COPY_OWNER: u32 = 0x200;
/// Copies when an object was read and modified.
pub const KURMA_COPY_TIMES: u32 = 0x400;
/// Names of one file become names of one copy.
pub const KURMA_COPY_LINKS: u32 = 0x800;
/// All that a copy can have of its original: KURMA_COPY_MODE, OWNER, TIMES and LINKS.
pub const KURMA_COPY_ALL: u32 = 0xf00;

/// Bytes of the message of a result, the NUL at its end included.
pub const KURMA_MESSAGE: usize = 232;
/// Most bytes of a filehandle.
pub const KURMA_HANDLE_SIZE: usize = 128;
/// Bytes of a name of an owner or a group, the NUL at its end included.
pub const KURMA_OWNER_NAME: usize = 64;
