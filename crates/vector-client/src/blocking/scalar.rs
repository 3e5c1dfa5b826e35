//! One file at a time.

use std::io::SeekFrom;

use bytes::Bytes;

use super::Client;
use crate::{AttributeSet, Attributes, Data, Descriptor, Entry, Error, Open, Owner, SetTime, Target};

/// Calls that are those of the asynchronous client.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        impl Client {
            $(
                $(#[$doc])*
                pub fn $name(&self, $($argument: $type),*) -> Result<$result, Error> {
                    self.engine.wait(self.client.$name($($argument),*))?
                }
            )*
        }
    };
}

calls! {
    /// As [`crate::Client::open`].
    open(open: Open) -> Descriptor;
    /// As [`crate::Client::create`].
    create(target: impl Into<Target>, mode: u32) -> Descriptor;
    /// As [`crate::Client::close_file`].
    close_file(descriptor: Descriptor) -> ();
    /// As [`crate::Client::read`].
    read(descriptor: Descriptor, length: u64) -> Data;
    /// As [`crate::Client::pread`].
    pread(descriptor: Descriptor, offset: u64, length: u64) -> Data;
    /// As [`crate::Client::write`].
    write(descriptor: Descriptor, data: impl Into<Bytes>) -> u64;
    /// As [`crate::Client::pwrite`].
    pwrite(descriptor: Descriptor, offset: u64, data: impl Into<Bytes>) -> u64;
    /// As [`crate::Client::append`].
    append(descriptor: Descriptor, data: impl Into<Bytes>) -> u64;
    /// As [`crate::Client::lseek`].
    lseek(descriptor: Descriptor, to: SeekFrom) -> u64;
    /// As [`crate::Client::fsync`].
    fsync(descriptor: Descriptor) -> ();
    /// As [`crate::Client::stat`].
    stat(target: impl Into<Target>) -> Attributes;
    /// As [`crate::Client::lstat`].
    lstat(target: impl Into<Target>) -> Attributes;
    /// As [`crate::Client::fstat`].
    fstat(descriptor: Descriptor) -> Attributes;
    /// As [`crate::Client::exists`].
    exists(target: impl Into<Target>) -> bool;
    /// As [`crate::Client::mkdir`].
    mkdir(target: impl Into<Target>, mode: u32) -> ();
    /// As [`crate::Client::unlink`].
    unlink(target: impl Into<Target>) -> ();
    /// As [`crate::Client::rmdir`].
    rmdir(target: impl Into<Target>) -> ();
    /// As [`crate::Client::rename`].
    rename(from: impl Into<Target>, to: impl Into<Target>) -> ();
    /// As [`crate::Client::link`].
    link(existing: impl Into<Target>, new: impl Into<Target>) -> ();
    /// As [`crate::Client::symlink`].
    symlink(text: impl Into<Bytes>, new: impl Into<Target>) -> ();
    /// As [`crate::Client::readlink`].
    readlink(target: impl Into<Target>) -> Bytes;
    /// As [`crate::Client::truncate`].
    truncate(target: impl Into<Target>, size: u64) -> ();
    /// As [`crate::Client::ftruncate`].
    ftruncate(descriptor: Descriptor, size: u64) -> ();
    /// As [`crate::Client::chmod`].
    chmod(target: impl Into<Target>, mode: u32) -> ();
    /// As [`crate::Client::chown`].
    chown(target: impl Into<Target>, owner: Option<Owner>, group: Option<Owner>) -> ();
    /// As [`crate::Client::lchown`].
    lchown(target: impl Into<Target>, owner: Option<Owner>, group: Option<Owner>) -> ();
    /// As [`crate::Client::utimens`].
    utimens(target: impl Into<Target>, accessed: Option<SetTime>, modified: Option<SetTime>) -> ();
    /// As [`crate::Client::list`].
    list(directory: impl Into<Target>, wanted: AttributeSet) -> Vec<Entry>;
    /// As [`crate::Client::ensure_directory`].
    ensure_directory(target: impl Into<Target>, mode: u32) -> Vec<Target>;
}
