//! Serves an empty file system from memory: `memory_server [ADDRESS:PORT [LEASE-SECONDS]]`, by default on
//! 127.0.0.1:12049 with a lease of 90 s. Mount it with
//! `mount -t nfs -o vers=4.2,port=12049,proto=tcp 127.0.0.1:/home /mnt`.

#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::Duration;

use environment::Environment;
use file_system::memory::MemoryFileSystem;
use file_system::{Caller, CommitMode, FileSystem, Mode, SetAttributes};
use nfs4_server::{Export, Limits, MemoryClientRecords, Server, ServerConfig};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:12049".to_owned());
    let lease = match arguments.next() {
        Some(seconds) => Duration::from_secs(seconds.parse()?),
        None => ServerConfig::DEFAULT_LEASE,
    };
    let home = Arc::new(MemoryFileSystem::new());
    open_to_all(&*home).await?;
    let server = Server::new(ServerConfig {
        exports: vec![Export::new("home", home)],
        handle_key: [7; 32],
        records: Arc::new(MemoryClientRecords::default()),
        environment: Environment::real(),
        server_id: b"memory_server".to_vec(),
        lease,
        courtesy: ServerConfig::DEFAULT_COURTESY,
        limits: Limits::default(),
    })
    .await?;
    let shutdown = CancellationToken::new();
    let listener = TcpListener::bind(address).await?;
    println!("ready nfs={} volumes=/home", listener.local_addr()?);
    let stopper = shutdown.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            stopper.cancel();
        }
    });
    server.serve(listener, shutdown).await?;
    println!("{:#?}", server.metrics());
    Ok(())
}

/// Everybody may write into the root.
async fn open_to_all(file_system: &dyn FileSystem) -> Result<(), file_system::FsError> {
    let mut transaction = file_system.begin(&Caller::root(), Mode::Optimistic).await?;
    let root = transaction.root();
    transaction
        .set_attributes(root, &SetAttributes::with_mode(0o777), file_system::Authority::Checked)
        .await?;
    transaction.commit(CommitMode::Durable).await
}
