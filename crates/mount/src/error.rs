use std::path::PathBuf;

use nfs4_client::ClientError;

/// Why nothing is mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// An option of `-o` that does not exist, or whose value is wrong.
    #[error("option {option}: {what}")]
    Option {
        /// As it was written.
        option: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The server does not answer.
    #[error("no NFS server answers at {server}: {cause}")]
    Server {
        /// Host and port.
        server: String,
        /// What the last attempt said.
        #[source]
        cause: ClientError,
    },
    /// The directory to mount cannot be found on the server.
    #[error("{path} cannot be mounted from {server}: {cause}")]
    Path {
        /// Host and port.
        server: String,
        /// The path on the server.
        path: String,
        /// What the server said.
        cause: String,
    },
    /// Where it should be mounted is no directory.
    #[error("{}: {what}", directory.display())]
    MountPoint {
        /// The directory of this machine.
        directory: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The kernel has no FUSE, or this process may not use it.
    #[error(
        "/dev/fuse cannot be opened: {0}; load the module with 'modprobe fuse', or give the container the device"
    )]
    NoDevice(#[source] std::io::Error),
    /// Users without root mount by this program.
    #[error(
        "fusermount3 is not installed, and only root can mount without it; on Debian it is in the package fuse3"
    )]
    NoFusermount,
    /// The kernel, or `fusermount3`, refuses.
    #[error("{} cannot be mounted on: {cause}", directory.display())]
    Refused {
        /// The directory of this machine.
        directory: PathBuf,
        /// What it said.
        cause: std::io::Error,
    },
    /// What was written could not all be brought to the server before the end.
    #[error("the file system is unmounted, but not everything that was written has reached the server")]
    Unwritten,
}
