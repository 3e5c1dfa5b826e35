//! `tar` and `untar`: archives that GNU tar and bsdtar read and write, from and to any server.

mod archive;
mod list;
mod pack;
mod unpack;

use std::ffi::OsString;
use std::path::Path;

use clap::Args;

use self::archive::Compression;
use self::pack::Root;
use self::unpack::Manner;
use super::exclude::Excluded;
use super::mkdir::process_umask;
use super::session::{self, Common};
use crate::command::Context;
use crate::outcome::{Failure, Outcome};

/// Write files and directories into an archive, or list what is in one
///
/// Members are named from the last name of each argument on, and with -C as the arguments are.
#[derive(Args)]
#[command(
    disable_help_flag = true,
    after_help = "Example: kurma tar -f backup.tar.zst nfs://127.0.0.1/home/src"
)]
pub struct Tar {
    /// The archive, a local file; - for standard output
    #[arg(short = 'f', long, value_name = "ARCHIVE", default_value = "-")]
    file: OsString,
    /// Compress as gzip
    #[arg(short = 'z', long, conflicts_with_all = ["xz", "zstd"])]
    gzip: bool,
    /// Compress as xz
    #[arg(short = 'J', long, conflicts_with_all = ["gzip", "zstd"])]
    xz: bool,
    /// Compress as zstd; without an option, the name of the archive says how
    #[arg(long, conflicts_with_all = ["gzip", "xz"])]
    zstd: bool,
    /// The directory that the names of files begin in: nfs://HOST[:PORT]/PATH or local
    #[arg(short = 'C', long, value_name = "DIRECTORY")]
    directory: Option<OsString>,
    #[command(flatten)]
    excluded: Excluded,
    /// List what is in the archive, and with -v all that is known of it
    #[arg(short = 't', long, conflicts_with_all = ["directory", "exclude", "files"])]
    list: bool,
    /// Say what goes into it, on standard error
    #[arg(short = 'v', long)]
    verbose: bool,
    #[command(flatten)]
    common: Common,
    /// Files and directories: nfs://HOST[:PORT]/PATH or local
    #[arg(value_name = "FILE", required_unless_present = "list")]
    files: Vec<OsString>,
}

impl Tar {
    pub fn run(self, _: &Context) -> Result<Outcome, Failure> {
        if self.list {
            return session::run("tar", &self.common, async |session| {
                list::list(session, &self.file, self.verbose)
            });
        }
        let compression = match (self.gzip, self.xz, self.zstd) {
            (true, ..) => Compression::Gzip,
            (_, true, _) => Compression::Xz,
            (.., true) => Compression::Zstd,
            _ => Compression::of_name(Path::new(&self.file)),
        };
        session::run("tar", &self.common, async |session| {
            let mut roots = Vec::new();
            for file in &self.files {
                roots.push(match &self.directory {
                    Some(directory) => Root::below(&session.place(directory).await?, file)?,
                    None => Root::named_by(session.place(file).await?),
                });
            }
            let manner = pack::Manner { compression, excluded: self.excluded, verbose: self.verbose };
            pack::pack(session, &self.file, manner, roots).await
        })
    }
}

/// Unpack an archive
///
/// Compressed by gzip, xz or zstd, or not at all. Symbolic links are made last, so that nothing is written through them.
#[derive(Args)]
#[command(
    disable_help_flag = true,
    after_help = "Example: kurma untar -f backup.tar.zst -C nfs://127.0.0.1/home"
)]
pub struct Untar {
    /// The archive, a local file; - for standard input
    #[arg(short = 'f', long, value_name = "ARCHIVE", default_value = "-")]
    file: OsString,
    /// The directory to unpack into: nfs://HOST[:PORT]/PATH or local
    #[arg(short = 'C', long, value_name = "DIRECTORY", default_value = ".")]
    directory: OsString,
    /// Say what is unpacked
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Let the times be those of unpacking
    #[arg(short = 'm', long)]
    touch: bool,
    /// Keep permissions as they are in the archive, as root does
    #[arg(short = 'p', long, visible_alias = "preserve-permissions")]
    same_permissions: bool,
    /// Give new files the permissions of the archive without the umask's, as users do
    #[arg(long, conflicts_with = "same_permissions")]
    no_same_permissions: bool,
    /// Let new files belong to whoever unpacks them, as users do
    #[arg(short = 'o', long)]
    no_same_owner: bool,
    #[command(flatten)]
    common: Common,
}

impl Untar {
    pub fn run(self, _: &Context) -> Result<Outcome, Failure> {
        let is_root = rustix::process::geteuid().is_root();
        let manner = Manner {
            umask: process_umask(),
            same_permissions: self.same_permissions || (is_root && !self.no_same_permissions),
            same_owner: is_root && !self.no_same_owner,
            same_time: !self.touch,
            verbose: self.verbose,
        };
        session::run("untar", &self.common, async |session| {
            let directory = session.place(&self.directory).await?;
            unpack::unpack(session, &self.file, directory, manner).await
        })
    }
}
