//! Serves an empty file system from memory: `memory_server [ADDRESS:PORT [LEASE-SECONDS [KEYTAB [OPERATIONS [ROOM]]]]]`, by default on
//! 127.0.0.1:12049 with a lease of 90 s, as many operations in one compound as a gateway takes, and room for more bytes than there is memory. Mount it with
//! `mount -t nfs -o vers=4.2,port=12049,proto=tcp 127.0.0.1:/home /mnt`. SIGHUP restarts the server, which keeps
//! files and client records, so that clients have to reclaim. Names have to be UTF-8. With a keytab (`-` is none) whoever has a
//! ticket is the superuser.

#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use environment::Environment;
use file_system::memory::MemoryFileSystem;
use ids::VolumeId;
use kerberos::{Kerberos, Keytab};
use nfs4_server::{
    Export, ExportOptions, ExportSecurity, Flavor, Limits, MemoryClientRecords, Server, ServerConfig,
};
use onc_rpc::Security;
use onc_rpc::gss::{GssError, GssLimits, GssServer, UnixUser, Users};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:12049".to_owned());
    let lease = match arguments.next() {
        Some(seconds) => Duration::from_secs(seconds.parse()?),
        None => ServerConfig::DEFAULT_LEASE,
    };
    let security = match arguments.next() {
        Some(keytab) if keytab != "-" => kerberos(&std::fs::read(keytab)?)?,
        _ => Security::default(),
    };
    let mut limits = Limits::default();
    if let Some(operations) = arguments.next() {
        limits.operations = operations.parse()?;
    }
    let room = arguments.next().map_or(Ok(1 << 50), |bytes| bytes.parse())?;
    let clock = Environment::real().clock;
    let home = Arc::new(MemoryFileSystem::with_room(VolumeId(1), clock, room).writable_by_all());
    let flavors = vec![Flavor::Sys, Flavor::None, Flavor::Krb5, Flavor::Krb5i, Flavor::Krb5p];
    let demands = ExportSecurity { flavors, ..ExportSecurity::default() };
    let options = ExportOptions { acls: true, utf8: true, security: demands, ..ExportOptions::default() };
    let records = Arc::new(MemoryClientRecords::default());
    let mut address = address;
    loop {
        let exports = vec![Export::new("home", home.clone()).with(options.clone())];
        let config = ServerConfig {
            records: records.clone(),
            lease,
            limits,
            ..ServerConfig::in_memory(exports, Environment::real())
        };
        let server = Server::new(config).await?;
        server.replace_security(security.clone());
        let listener = TcpListener::bind(&address).await?;
        address = listener.local_addr()?.to_string();
        println!("ready nfs={address} volumes=/home");
        let shutdown = CancellationToken::new();
        let again = tokio::spawn(until_signal(shutdown.clone()));
        server.serve(listener, shutdown).await?;
        println!("{:#?}", server.metrics());
        if !again.await?? {
            return Ok(());
        }
    }
}

/// Kerberos with these keys.
fn kerberos(keytab: &[u8]) -> Result<Security, Box<dyn std::error::Error>> {
    let environment = Environment::real();
    let mechanism = Kerberos::new("nfs", Keytab::read(keytab)?, environment.entropy.clone());
    let gss = GssServer::new(Arc::new(mechanism), Arc::new(Everybody), environment, GssLimits::default());
    Ok(Security { gss: Some(Arc::new(gss)), ..Security::default() })
}

/// All principals are the superuser.
struct Everybody;

#[async_trait]
impl Users for Everybody {
    async fn user(&self, _: &str) -> Result<Option<UnixUser>, GssError> {
        Ok(Some(UnixUser { uid: 0, gid: 0, groups: Arc::new([]) }))
    }
}

/// Cancels `shutdown` at the next signal; `true` if the server is to be started again.
async fn until_signal(shutdown: CancellationToken) -> std::io::Result<bool> {
    let mut hangup = signal(SignalKind::hangup())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let again = tokio::select! {
        _ = hangup.recv() => true,
        _ = terminate.recv() => false,
        _ = tokio::signal::ctrl_c() => false,
    };
    shutdown.cancel();
    Ok(again)
}
