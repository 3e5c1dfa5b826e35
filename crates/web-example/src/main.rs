//! `kurma-web`: a directory over HTTP/2.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;
use environment::Environment;
use kurma_web::{Bounds, Limits, Site, serve, tls};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;
use vector_client::{Client, Options};

/// Serves a directory of an NFS server, or of this machine, over HTTP/1.1 and HTTP/2.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The NFS server, with or without a port; without one, the files of this machine are served.
    #[arg(long)]
    server: Option<String>,
    /// The directory: its path on the server, or here.
    directory: String,
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Certificates of the server (PEM), its own first; without them there is no TLS.
    #[arg(long, requires = "key")]
    certificates: Option<PathBuf>,
    /// The key that belongs to them (PEM).
    #[arg(long, requires = "certificates")]
    key: Option<PathBuf>,
    /// Connections at one time.
    #[arg(long, default_value_t = Limits::default().connections)]
    connections: usize,
    /// MiB of files in memory that were read ahead.
    #[arg(long, default_value_t = 64)]
    memory: usize,
    /// Seconds that they may be old.
    #[arg(long, default_value_t = 5)]
    age: u64,
    /// Files that are read ahead for a page; 0 for none.
    #[arg(long, default_value_t = Bounds::default().ahead_files)]
    ahead: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let arguments = Arguments::parse();
    let stop = CancellationToken::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let signalled = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        signalled.cancel();
    });
    let environment = Environment::real();
    let (client, root) = match arguments.server {
        Some(server) => {
            // A page and all it refers to in one message, if the server grants it.
            let options = Options { transfer: 4 << 20, ..Options::new(environment.clone()) };
            let client = Client::connect(&server, options).await;
            (client.with_context(|| format!("connecting to {server}"))?, arguments.directory)
        }
        None => (Client::local(&arguments.directory)?, String::new()),
    };
    let acceptor = match (arguments.certificates, arguments.key) {
        (Some(certificates), Some(key)) => {
            let read = |path: PathBuf| async move {
                tokio::fs::read(&path).await.with_context(|| format!("reading {}", path.display()))
            };
            Some(tls(&read(certificates).await?, &read(key).await?).context("certificates and key")?)
        }
        (None, None) => None,
        _ => bail!("certificates and key go together"),
    };
    let bounds = Bounds {
        memory_bytes: arguments.memory << 20,
        memory_age: Duration::from_secs(arguments.age),
        ahead_files: arguments.ahead,
        ..Bounds::default()
    };
    let limits = Limits { connections: arguments.connections, ..Limits::default() };
    let listener = TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("listening on {}", arguments.listen))?;
    tracing::info!(address = %listener.local_addr()?, "serving");
    let site = Arc::new(Site::new(client.clone(), &root, bounds, environment));
    serve(listener, site, acceptor, limits, stop).await?;
    // The server forgets us by itself, if it does not hear this.
    let _ = tokio::time::timeout(limits.grace, client.close()).await;
    Ok(())
}
