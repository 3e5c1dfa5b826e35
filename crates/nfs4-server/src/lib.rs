//! An NFSv4.1 and NFSv4.2 server for any file system.
