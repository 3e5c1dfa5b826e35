use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use gateway::config::{LogConfig, LogFormat};
use gateway::{Config, Gateway, StartError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::disable_transparent_huge_pages;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt, reload};

use super::Context;
use crate::outcome::{Failure, Outcome, hint, say};
use crate::table;

/// Exit status after a second ^C, as a shell gives it.
const INTERRUPTED: i32 = 130;

#[derive(Args)]
#[command(after_help = "Example: kurma up --data ./kurma-data")]
pub struct Up {
    /// Address and port of the NFS server (default: that of DIR/kurma.toml, 127.0.0.1:2049 when new)
    #[arg(long, value_name = "ADDR:PORT")]
    nfs: Option<SocketAddr>,
    /// How the log on standard error looks: text or json (default: log.format of the configuration)
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Go on although another gateway does with the same identity, or has: that one stops. Only when it is not wanted any more
    #[arg(long)]
    take_over: bool,
}

impl Up {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        if context.target.config.is_some() {
            return Err(Failure::usage("`up` needs no configuration; use `kurma serve --config FILE`"));
        }
        let data = context.target.data.clone().unwrap_or_else(|| PathBuf::from("kurma-data"));
        let admin = context.target.admin.as_ref().map(|text| {
            text.trim_start_matches("http://").trim_end_matches('/').parse::<SocketAddr>().map_err(|_| {
                Failure::usage(format!(
                    "--admin {text:?} is not an address; write for example 127.0.0.1:9460"
                ))
            })
        });
        let admin = admin.transpose()?;
        gateway::prepare_data_folder(&data).map_err(Failure::usage)?;
        let mut config = Config::load(&data.join("kurma.toml")).map_err(Failure::usage)?;
        said(&mut config, "nfs.listen", self.nfs, |config| &mut config.nfs.listen);
        said(&mut config, "admin.listen", admin, |config| &mut config.admin.listen);
        said(&mut config, "log.format", self.log_format, |config| &mut config.log.format);
        config.take_over = self.take_over;
        serve(config)
    }
}

/// Puts what the command line says in the place of what the file says.
fn said<T>(config: &mut Config, key: &str, value: Option<T>, place: impl FnOnce(&mut Config) -> &mut T) {
    if let Some(value) = value {
        *place(config) = value;
        config.overridden.push(key.into());
    }
}

#[derive(Args)]
#[command(after_help = "Example: kurma serve --config /etc/kurma.toml")]
pub struct Serve {
    /// How the log on standard error looks: text or json (default: log.format of the configuration)
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Go on although another gateway does with the same identity, or has: that one stops. Only when it is not wanted any more
    #[arg(long)]
    take_over: bool,
}

impl Serve {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let file = context.target.config_file().ok_or_else(|| Failure::usage("serve needs --config FILE"))?;
        let mut config = Config::load(&file).map_err(Failure::usage)?;
        said(&mut config, "log.format", self.log_format, |config| &mut config.log.format);
        config.take_over = self.take_over;
        serve(config)
    }
}

fn serve(config: Config) -> Result<Outcome, Failure> {
    let set_level = log(&config.log);
    raise_file_limit();
    use_small_pages();
    // Two at least: one may be syncing the journal for the client that it serves.
    let workers = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .map_err(Failure::failed)?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
        let mut hangup = signal(SignalKind::hangup()).map_err(Failure::failed)?;
        let gateway = Gateway::start(config).await.map_err(|error| match error {
            StartError::Configuration(_) => Failure::usage(error),
            StartError::Internal(_) => Failure::failed(error),
        })?;
        announce(&gateway);
        let mut configuration = gateway.configuration();
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                // What became of it is in the log.
                Some(()) = hangup.recv() => drop(gateway.reload().await),
                Ok(()) = configuration.changed() => set_level(&configuration.borrow_and_update().log.level),
                failure = gateway.failed() => return Err(Failure::failed(failure)),
            }
        }
        let unsaved = gateway.unsaved();
        let mut stopping = std::pin::pin!(gateway.stop());
        let left = tokio::select! {
            left = &mut stopping => left,
            _ = interrupt.recv() => {
                hint(format_args!(
                    "stopped at once: {} not yet in the clouds; they are in the journal and go on at the next start, nothing is lost",
                    table::size(unsaved())
                ));
                std::process::exit(INTERRUPTED);
            }
        };
        if left.dirty_bytes > 0 || left.repairs > 0 {
            hint(format_args!(
                "stopped with {} not yet in the clouds and {} repairs left; both go on at the next start",
                table::size(left.dirty_bytes),
                left.repairs
            ));
        }
        Ok(Outcome::Done)
    })
}

/// Sets up the log; returns what sets another level. The variable KURMA_LOG goes before the configuration, whose level has
/// been checked.
fn log(config: &LogConfig) -> Box<dyn Fn(&str) + Send> {
    let asked = EnvFilter::try_from_env("KURMA_LOG").ok();
    let is_fixed = asked.is_some();
    let filter = asked.unwrap_or_else(|| EnvFilter::new(&config.level));
    let (filter, handle) = reload::Layer::new(filter);
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = if std::io::stderr().is_terminal() { lines } else { lines.with_ansi(false) };
    let lines = match config.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines).init();
    Box::new(move |level| {
        if !is_fixed && let Err(error) = handle.reload(EnvFilter::new(level)) {
            tracing::error!(%error, "the log has the level that it had");
        }
    })
}

/// Every client and every file of a cache and of the clouds needs a descriptor; the usual limit of 1,024 is for programs
/// that use select(2).
fn raise_file_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(cause) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%cause, ?current, "the limit of open files stays as it is");
    }
}

/// The allocator asks for huge pages, each of which is cleared whole when its first byte is touched, out of memory that has been free for
/// long: a virtual machine has to get that from its host first. Content comes and goes in buffers of a megabyte.
fn use_small_pages() {
    if let Err(cause) = disable_transparent_huge_pages(true) {
        tracing::debug!(%cause, "huge pages are used if the system offers them");
    }
}

fn announce(gateway: &Gateway) {
    let volumes: Vec<String> = gateway.volume_names().iter().map(|name| format!("/{name}")).collect();
    let nfs = gateway.nfs_address();
    hint(format_args!(
        "mount with: mount -t nfs -o vers=4.2,proto=tcp,port={} {}:{} /mnt",
        nfs.port(),
        if nfs.is_ipv6() { format!("[{}]", nfs.ip()) } else { nfs.ip().to_string() },
        volumes.first().map_or("/", String::as_str)
    ));
    say(format_args!(
        "ready nfs={nfs} volumes={} admin=http://{}",
        volumes.join(","),
        gateway.admin_address()
    ));
}
