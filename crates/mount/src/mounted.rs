//! From the mount to the end.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use environment::Environment;
use fuser::{Config, MountOption, Session, SessionACL};
use nfs4::{Component, FileHandle, FileType, NfsArgOp};
use nfs4_client::operations::{get_attributes, lookup};
use nfs4_client::{Client, ClientError};
use rustix::mount::UnmountFlags;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::task::TaskTracker;

use crate::answers::send;
use crate::attributes::ATTRIBUTES;
use crate::callbacks::Callbacks;
use crate::callers::{Callers, own_credential};
use crate::core::{Core, Handles};
use crate::delegations::Delegations;
use crate::file_system::FileSystem;
use crate::table::Table;
use crate::write_behind::{Dirty, REST};
use crate::{MountError, Options};

/// Threads that take requests from the kernel. The work is done by tasks.
const THREADS: usize = 2;

/// Part of what the kernel shows as the type of the file system, `fuse.kurma`, if it is mounted by `fusermount3`.
const SUBTYPE: &str = "kurma";

/// Bytes around the data of a READ or WRITE.
const AROUND: u32 = 8 << 10;

/// Largest reply to READDIR.
const LISTING: u32 = 512 << 10;

/// How long the last words to the server may take.
const LEAVE: Duration = Duration::from_secs(5);

/// Without the server an operation waits so long: for ever.
const HARD: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A mounted file system, which is served in the background.
pub struct Mounted {
    core: Arc<Core>,
    directory: PathBuf,
    ended: oneshot::Receiver<io::Result<()>>,
}

/// Mounts a directory of an NFS server, `path` at `server` (a host with or without a port), on a directory of this machine.
///
/// Must be called on a tokio runtime with several threads, which serves the file system from then on.
pub async fn mount(
    server: &str,
    path: &[u8],
    directory: &Path,
    options: Options,
) -> Result<Mounted, MountError> {
    let directory = mount_point(directory)?;
    let environment = Environment::real();
    let callbacks = Arc::new(Callbacks::default());
    let lock_freed = callbacks.lock_freed.clone();
    let client = connect(server, &options, environment.clone(), callbacks.clone()).await?;
    let root = find(&client, path).await.map_err(|cause| MountError::Path {
        server: server.to_owned(),
        path: String::from_utf8_lossy(path).into_owned(),
        cause,
    });
    let root = match root {
        Ok(root) => root,
        Err(error) => {
            let _ = client.close().await;
            return Err(error);
        }
    };
    let limits = client.limits();
    let by_caller = options.allow_other && rustix::process::geteuid().is_root();
    let bytes = limits.request_bytes.min(limits.response_bytes).saturating_sub(AROUND);
    let core = Arc::new(Core {
        table: Table::new(root),
        files: Handles::default(),
        listings: Handles::default(),
        dirty: Dirty::default(),
        has_lost: AtomicBool::new(false),
        delegations: Delegations::new(options.delegations),
        room: Arc::new(Semaphore::new(options.dirty as usize)),
        settling: tokio::sync::Mutex::default(),
        transfer: (options.transfer.min(bytes) & !0xfff).max(4096),
        listing_bytes: LISTING.min(limits.response_bytes.saturating_sub(AROUND)).max(8192),
        lock_freed,
        owners: AtomicU64::new(1),
        ticks: AtomicU64::new(1),
        removed: AtomicU64::new(0),
        renamed: AtomicU64::new(0),
        forgotten: AtomicU64::new(0),
        notifier: OnceLock::new(),
        runtime: Handle::current(),
        tasks: TaskTracker::new(),
        callers: Callers::new(client, by_caller, environment.clock.clone()),
        clock: environment.clock,
        entropy: environment.entropy,
        options,
    });
    let _ = callbacks.core.set(Arc::downgrade(&core));
    let attached = attach(&core, server, path, &directory).await;
    let session = match attached {
        Ok(session) => session,
        Err(error) => {
            let _ = core.callers.mounter().close().await;
            return Err(error);
        }
    };
    let _ = core.notifier.set(session.notifier());
    let (tell, ended) = oneshot::channel();
    let serve = move || {
        let _ = tell.send(session.run());
    };
    let thread = std::thread::Builder::new().name("fuse".into()).spawn(serve);
    thread.map_err(|cause| MountError::Refused { directory: directory.clone(), cause })?;
    tokio::spawn(rest(core.clone()));
    let served = directory.clone();
    let _ = tokio::task::spawn_blocking(move || read_ahead(&served)).await;
    Ok(Mounted { core, directory, ended })
}

/// Where to mount: a directory on which nothing of this kind is mounted.
fn mount_point(directory: &Path) -> Result<PathBuf, MountError> {
    let wrong = |what: String| MountError::MountPoint { directory: directory.to_owned(), what };
    let found = match std::fs::metadata(directory) {
        Ok(found) => found,
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error()) => {
            return Err(wrong(
                "a file system is mounted there that nobody serves any more; unmount it with \
                              'fusermount3 -u' first"
                    .into(),
            ));
        }
        Err(error) => return Err(wrong(error.to_string())),
    };
    if !found.is_dir() {
        return Err(wrong("not a directory".into()));
    }
    let directory = directory.canonicalize().map_err(|error| wrong(error.to_string()))?;
    let above = directory.parent().and_then(|above| std::fs::metadata(above).ok());
    if above.is_some_and(|above| above.dev() != found.dev()) && is_ours(&directory) {
        return Err(wrong("a file system is mounted there already".into()));
    }
    Ok(directory)
}

/// Whether something of this kind is mounted there. Root's mounts are called `fuse`, those by `fusermount3` `fuse.kurma`.
fn is_ours(directory: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let wanted = directory.to_string_lossy().replace('\\', "\\134").replace(' ', "\\040");
    mounts.lines().any(|line| {
        let mut words = line.split(' ').skip(1);
        words.next() == Some(&wanted) && words.next().is_some_and(|kind| kind.starts_with("fuse"))
    })
}

async fn connect(
    server: &str,
    options: &Options,
    environment: Environment,
    callbacks: Arc<Callbacks>,
) -> Result<Client, MountError> {
    let mut nfs = nfs4_client::Options::new(environment);
    nfs.credential = own_credential();
    nfs.connections = options.connections;
    let patience = nfs.patience;
    nfs.patience = options.soft.unwrap_or(HARD);
    // Whether the server is there at all is known sooner.
    let addresses = [server];
    let connecting = Client::connect(&addresses, nfs, Some(callbacks));
    let connected = match tokio::time::timeout(patience, connecting).await {
        Ok(connected) => connected,
        Err(_) => Err(ClientError::Unreachable { last: None }),
    };
    connected.map_err(|cause| MountError::Server { server: server.to_owned(), cause })
}

/// The directory to mount.
async fn find(client: &Client, path: &[u8]) -> Result<FileHandle, String> {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let mut request = vec![NfsArgOp::PutRootFh];
    request.extend(names.map(|name| lookup(Component(bytes::Bytes::copy_from_slice(name)))));
    request.extend([NfsArgOp::GetFh, get_attributes(ATTRIBUTES)]);
    let mut answers = send(client, &request).await.map_err(|error| match error.status() {
        Some(status) => status.to_string(),
        None => error.to_string(),
    })?;
    let malformed = |_| "the server's answer makes no sense".to_owned();
    let handle = answers.handle().map_err(malformed)?;
    match answers.attributes().map_err(malformed)?.r#type {
        Some(FileType::Directory) => Ok(handle),
        _ => Err("it is not a directory".into()),
    }
}

async fn attach(
    core: &Arc<Core>,
    server: &str,
    path: &[u8],
    directory: &Path,
) -> Result<Session<FileSystem>, MountError> {
    let mut config = Config::default();
    let options = &core.options;
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    let source = format!("{server}:/{}", String::from_utf8_lossy(path).trim_start_matches('/'));
    config.mount_options =
        vec![MountOption::FSName(source.replace(',', "_")), MountOption::Subtype(SUBTYPE.into())];
    if options.read_only {
        config.mount_options.push(MountOption::RO);
    }
    if options.default_permissions.unwrap_or(options.allow_other) {
        config.mount_options.push(MountOption::DefaultPermissions);
    }
    let (file_system, place) = (FileSystem(core.clone()), directory.to_owned());
    let attached = tokio::task::spawn_blocking(move || Session::new(file_system, place, &config)).await;
    let failed = match attached {
        Ok(Ok(session)) => return Ok(session),
        Ok(Err(error)) => error,
        Err(panicked) => io::Error::other(panicked),
    };
    Err(why(failed, directory))
}

/// Why there is nothing mounted.
fn why(error: io::Error, directory: &Path) -> MountError {
    if let Err(error) = std::fs::metadata("/dev/fuse") {
        return MountError::NoDevice(error);
    }
    if !rustix::process::geteuid().is_root() && !has_fusermount() {
        return MountError::NoFusermount;
    }
    if rustix::process::geteuid().is_root()
        && let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse")
    {
        return MountError::NoDevice(error);
    }
    MountError::Refused { directory: directory.to_owned(), cause: error }
}

fn has_fusermount() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/bin".into(), "/usr/bin".into(), "/sbin".into()]);
    folders.into_iter().any(|folder: PathBuf| folder.join("fusermount3").exists())
}

/// The kernel reads further ahead than it does by itself, if this process may tell it so.
fn read_ahead(directory: &Path) {
    let Ok(found) = std::fs::metadata(directory) else { return };
    let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    let _ = std::fs::write(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"), "4096");
}

/// Sends now and then what was written and not asked for, and gives back what is not used.
async fn rest(core: Arc<Core>) {
    while !core.tasks.is_closed() {
        core.clock.sleep(REST).await;
        core.settle_all().await;
        core.give_back_idle();
    }
}

impl Mounted {
    /// Where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns when somebody has unmounted it.
    pub async fn unmounted(&mut self) {
        let _ = (&mut self.ended).await;
    }

    /// Unmounts it: from now on nobody finds it. Whoever uses it still can until [`finish`](Self::finish). Waits for the
    /// kernel no longer than that.
    pub async fn unmount(&self, wait: Duration) {
        let _ = tokio::time::timeout(wait, self.core.settle_all()).await;
        let directory = self.directory.clone();
        let detach = tokio::task::spawn_blocking(move || detach(&directory));
        match tokio::time::timeout(wait, detach).await {
            Ok(Ok(Err(error))) => tracing::warn!(%error, "the file system cannot be unmounted"),
            Ok(_) => {}
            Err(_) => tracing::warn!("the kernel does not unmount the file system in time"),
        }
    }

    /// Brings everything that was written to the server, for at most this long; closes what is open there, and takes
    /// leave.
    pub async fn finish(self, wait: Duration) -> Result<(), MountError> {
        let core = self.core;
        let bring = async {
            while !core.dirty.all().is_empty() {
                core.settle_all().await;
            }
        };
        let is_all = tokio::time::timeout(wait, bring).await.is_ok();
        let leave = async {
            for opened in core.files.take() {
                core.close_file(&opened).await;
            }
            core.tasks.close();
            core.tasks.wait().await;
            core.callers.mounter().close().await
        };
        // A server that is not told finds it out.
        if !matches!(tokio::time::timeout(LEAVE, leave).await, Ok(Ok(()))) {
            tracing::debug!("the server was not told of the end");
        }
        let is_all = is_all && core.dirty.all().is_empty() && !core.has_lost_silently();
        if is_all { Ok(()) } else { Err(MountError::Unwritten) }
    }
}

fn detach(directory: &Path) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(rustix::mount::unmount(directory, UnmountFlags::DETACH)?);
    }
    let ended = std::process::Command::new("fusermount3").args(["-u", "-z", "--"]).arg(directory).output()?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&ended.stderr).trim().to_owned())),
    }
}
