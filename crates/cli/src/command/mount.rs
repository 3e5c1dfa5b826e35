use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use mount::{MountError, Mounted, Options};
use syslog_tracing::{Facility, Syslog};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::Metadata;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::files::Url;
use crate::outcome::{Failure, Outcome, hint, say};

/// How long the end waits: for the kernel to let go, and for the server to take what was written.
const WAIT: Duration = Duration::from_secs(10);
const LAST_WRITES: Duration = Duration::from_secs(30);
const LAST_THREADS: Duration = Duration::from_secs(1);

/// Mount a directory of an NFS server over FUSE
///
/// For machines without an NFS client, for containers, and for users without root, who need fusermount3. Any server of
/// NFSv4.1 or 4.2 will do. Ends with `umount DIR`, `fusermount3 -u DIR`, or a signal.
#[derive(Args)]
#[command(after_help = "Example: kurma mount nfs://127.0.0.1:2049/home /mnt -o allow_other")]
pub struct Mount {
    /// What to mount: nfs://HOST[:PORT]/PATH
    url: OsString,
    /// Where: a directory of this machine
    directory: PathBuf,
    /// allow_other, [no_]default_permissions, ro, rw, actimeo=SECONDS (default 1), delegations=COUNT (default
    /// 1000), hard, soft=SECONDS, nconnect=COUNT
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<String>,
    /// Stay in the foreground, with messages on standard error
    #[arg(long)]
    foreground: bool,
    /// Is the part in the background
    #[arg(long, hide = true)]
    background: bool,
}

impl Mount {
    pub fn run(self) -> Result<Outcome, Failure> {
        let mut options = Options::default();
        for list in &self.options {
            options.parse(list).map_err(Failure::usage)?;
        }
        let Some(url) = Url::of(&self.url)? else {
            let url = self.url.to_string_lossy();
            return Err(Failure::usage(format!("{url}: not a URL; write nfs://HOST[:PORT]/PATH")));
        };
        if !self.foreground && !self.background {
            return self.start();
        }
        if self.background {
            // No terminal ends it.
            let _ = rustix::process::setsid();
        }
        let filter = EnvFilter::try_from_env("KURMA_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(Log::new()).init();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::failed)?;
        let ended = runtime.block_on(async {
            let mut ends = Ends::new().map_err(Failure::failed)?;
            let mounted = mount::mount(&url.server.to_string(), &url.path, &self.directory, options).await;
            let mounted = mounted.map_err(failure)?;
            say(format_args!("ready {} on {}", self.url.to_string_lossy(), mounted.directory().display()));
            if self.background {
                leave_terminal().map_err(Failure::failed)?;
            }
            serve(mounted, &mut ends).await
        });
        // Nothing of it goes on while the process ends; but a thread may wait for the kernel for ever.
        runtime.shutdown_timeout(LAST_THREADS);
        ended
    }

    /// Starts the same in the background, and returns when the file system is mounted.
    fn start(&self) -> Result<Outcome, Failure> {
        let program = std::env::current_exe().map_err(Failure::failed)?;
        let mut command = Command::new(program);
        command.arg("mount").arg("--background");
        self.options.iter().for_each(|options| {
            command.arg("-o").arg(options);
        });
        command.arg("--").arg(&self.url).arg(&self.directory);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(Failure::failed)?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(Failure::failed)?;
        }
        if line.starts_with("ready") {
            return Ok(Outcome::Done);
        }
        // It has said why.
        let status = child.wait().map_err(Failure::failed)?;
        Ok(Outcome::Told(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
    }
}

fn failure(error: MountError) -> Failure {
    match error {
        MountError::Option { .. } | MountError::MountPoint { .. } => Failure::usage(error),
        error => Failure::failed(error),
    }
}

/// Where messages go: to standard error, and to the system's log once nobody reads that any more.
struct Log(Option<Syslog>);

/// Whether nobody reads standard error.
static HAS_LEFT: AtomicBool = AtomicBool::new(false);

impl Log {
    fn new() -> Log {
        Log(Syslog::new(c"kurma-mount", syslog_tracing::Options::LOG_PID, Facility::Daemon))
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Box<dyn Write + 'a>;

    fn make_writer(&'a self) -> Self::Writer {
        Box::new(std::io::stderr())
    }

    fn make_writer_for(&'a self, about: &Metadata<'_>) -> Self::Writer {
        match &self.0 {
            Some(system) if HAS_LEFT.load(Ordering::Relaxed) => Box::new(system.make_writer_for(about)),
            _ => self.make_writer(),
        }
    }
}

/// Whoever started it has gone; nobody reads what would be written there.
fn leave_terminal() -> std::io::Result<()> {
    HAS_LEFT.store(true, Ordering::Relaxed);
    let nothing = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(())
}

/// The signals that end it.
struct Ends([Signal; 3]);

impl Ends {
    fn new() -> std::io::Result<Ends> {
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let [first, second, third] = kinds.map(signal);
        Ok(Ends([first?, second?, third?]))
    }

    async fn next(&mut self) {
        let Ends([first, second, third]) = self;
        tokio::select! {
            _ = first.recv() => {}
            _ = second.recv() => {}
            _ = third.recv() => {}
        }
    }
}

/// Until it is unmounted, from outside or by a signal.
async fn serve(mut mounted: Mounted, ends: &mut Ends) -> Result<Outcome, Failure> {
    let by_signal = tokio::select! {
        () = mounted.unmounted() => false,
        () = ends.next() => true,
    };
    if by_signal {
        mounted.unmount(WAIT).await;
        // Whoever still has files open has this long, unless there is a second signal.
        tokio::select! {
            () = mounted.unmounted() => {}
            () = ends.next() => {}
            _ = tokio::time::timeout(WAIT, std::future::pending::<()>()) => {
                hint("files were still open; they end now");
            }
        }
    }
    let finished = mounted.finish(LAST_WRITES).await;
    finished.map_err(|error| {
        if HAS_LEFT.load(Ordering::Relaxed) {
            tracing::error!("{error}");
        }
        Failure::failed(error)
    })?;
    Ok(Outcome::Done)
}
