//! The contract between a protocol server and a file system: transactions over files and directories.
