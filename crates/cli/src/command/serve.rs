use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use gateway::{Config, Gateway, StartError};
use tokio::signal::unix::{SignalKind, signal};

use super::Context;
use crate::outcome::{Failure, Outcome, hint, say};
use crate::table;

/// Example: kurma up --data ./kurma-data
#[derive(Args)]
pub struct Up {
    /// Address and port of the NFS server (default: that of DIR/kurma.toml, 127.0.0.1:2049 when new)
    #[arg(long, value_name = "ADDR:PORT")]
    nfs: Option<SocketAddr>,
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
        config.nfs.listen = self.nfs.unwrap_or(config.nfs.listen);
        config.admin.listen = admin.unwrap_or(config.admin.listen);
        serve(config)
    }
}

/// Example: kurma serve --config /etc/kurma.toml
#[derive(Args)]
pub struct Serve {}

impl Serve {
    pub fn run(self, context: &Context) -> Result<Outcome, Failure> {
        let file = context.target.config_file().ok_or_else(|| Failure::usage("serve needs --config FILE"))?;
        serve(Config::load(&file).map_err(Failure::usage)?)
    }
}

fn serve(config: Config) -> Result<Outcome, Failure> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("KURMA_LOG").unwrap_or_else(|_| "warn".into()),
        )
        .init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::failed)?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
        let gateway = Gateway::start(config).await.map_err(|error| match error {
            StartError::Configuration(_) => Failure::usage(error),
            StartError::Internal(_) => Failure::failed(error),
        })?;
        announce(&gateway);
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            failure = gateway.failed() => return Err(Failure::failed(failure)),
        }
        let left = gateway.stop().await;
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
