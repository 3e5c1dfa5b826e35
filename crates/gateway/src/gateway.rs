use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nfs4_server::Server;
use onc_rpc::Portmapper;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::admin::Door;
use crate::node::Node;
use crate::{Config, Reloaded, StartError, admin};

/// How long requests that are being run may take after a stop was asked for: a little more than the NFS server
/// itself gives them.
const DRAIN: Duration = Duration::from_secs(32);

/// A running gateway.
pub struct Gateway {
    node: Arc<Node>,
    nfs: SocketAddr,
    admin: SocketAddr,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    failure: watch::Receiver<Option<String>>,
}

/// What a stop could not finish; it goes on at the next start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Bytes that are not in the clouds yet.
    pub dirty_bytes: u64,
    /// Fragments that still have to be stored.
    pub repairs: u64,
}

impl Gateway {
    /// Starts a gateway; returns when clients can mount.
    ///
    /// # Errors
    /// Everything that keeps it from serving; nothing was changed then that a later start could not use.
    pub async fn start(config: Config) -> Result<Gateway, StartError> {
        if !config.admin.listen.ip().is_loopback() {
            let address = config.admin.listen;
            return Err(StartError::Configuration(format!(
                "{address} is not a loopback address; the admin interface is for this machine only"
            )));
        }
        // Ports first: somebody else's gateway on them is the likeliest mistake, and costs nothing to find.
        let nfs_listener = listen("nfs.listen", config.nfs.listen).await?;
        let admin_listener = listen("admin.listen", config.admin.listen).await?;
        let portmapper_sockets = match config.nfs.portmapper {
            Some(address) => Some(listen_both("nfs.portmapper", address).await?),
            None => None,
        };
        let (nfs, admin) = (address(&nfs_listener)?, address(&admin_listener)?);
        let node = Arc::new(Node::open(config).await?);
        node.hold_at_start().await?;
        let door = Arc::new(Door::new(&node.folder, &*node.environment.entropy)?);
        let stop = node.stop.clone();
        let (failed, failure) = watch::channel(None);
        let nfs_task = {
            let (server, stop) = (node.server.clone(), stop.clone());
            tokio::spawn(async move {
                if let Err(error) = server.serve(nfs_listener, stop).await {
                    failed.send_replace(Some(format!("the NFS server ended: {error}")));
                }
            })
        };
        let admin_task = {
            let (router, stop) = (admin::router(node.clone(), door), stop.clone());
            tokio::spawn(async move {
                let served =
                    axum::serve(admin_listener, router).with_graceful_shutdown(stop.cancelled_owned());
                if let Err(error) = served.await {
                    tracing::error!(%error, "the admin interface ended");
                }
            })
        };
        node.folder.publish_admin(&admin.to_string()).map_err(StartError::configuration)?;
        let bury_task = {
            let (node, stop) = (node.clone(), stop.clone());
            tokio::spawn(async move { node.bury_deleted_volumes(&stop).await })
        };
        let watch_task = tokio::spawn(node.clouds.clone().watch(stop.clone()));
        let pin_task = tokio::spawn(node.clone().keep_pinned(stop.clone()));
        let keys_task = tokio::spawn(node.clone().keep_keys(stop.clone()));
        let backup_task = tokio::spawn(node.clone().keep_backups(stop.clone()));
        let backup_scrub_task = tokio::spawn(node.clone().scrub_backups(stop.clone()));
        let bill_task = tokio::spawn(node.clone().keep_bill(stop.clone()));
        node.resume_drains();
        tracing::info!(%nfs, %admin, volumes = ?node.volume_names(), "serving");
        let security_task = tokio::spawn({
            let (node, stop) = (node.clone(), stop.clone());
            async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = node.nfs_security.follow() => {}
                }
            }
        });
        let mut tasks = vec![
            nfs_task,
            admin_task,
            bury_task,
            watch_task,
            pin_task,
            keys_task,
            backup_task,
            backup_scrub_task,
            bill_task,
            security_task,
        ];
        if let Some((tcp, udp)) = portmapper_sockets {
            let at = address(&tcp)?;
            tracing::info!(%at, "the portmapper answers");
            let portmapper =
                Portmapper::new(&[Server::registration(nfs)], at, node.environment.clock.clone());
            let stop = stop.clone();
            tasks.push(tokio::spawn(async move { portmapper.serve(tcp, udp, stop).await }));
        }
        Ok(Gateway { node, nfs, admin, stop, tasks, failure })
    }

    /// Where NFS clients connect to.
    pub fn nfs_address(&self) -> SocketAddr {
        self.nfs
    }

    /// Where the admin interface listens.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin
    }

    /// Tells how many bytes are not in the clouds yet, also while the gateway stops.
    pub fn unsaved(&self) -> impl Fn() -> u64 + use<> {
        let cache = self.node.cache.clone();
        move || cache.usage().dirty
    }

    /// Names of the volumes, sorted.
    pub fn volume_names(&self) -> Vec<String> {
        self.node.volume_names()
    }

    /// Reads the configuration file again, and puts in force what can change while clients are served.
    ///
    /// # Errors
    /// What is wrong with the file, or with one that it names; nothing has changed.
    pub async fn reload(&self) -> Result<Reloaded, String> {
        self.node.reload().await
    }

    /// The configuration in force, and news of it.
    pub fn configuration(&self) -> watch::Receiver<Arc<Config>> {
        self.node.live.subscribe()
    }

    /// Returns with the reason when the gateway cannot go on.
    pub async fn failed(&self) -> String {
        let mut failure = self.failure.clone();
        let server = async {
            match failure.wait_for(Option::is_some).await {
                Ok(reason) => reason.clone().unwrap_or_default(),
                Err(_) => std::future::pending().await, // ended in good order: a stop is under way
            }
        };
        tokio::select! {
            reason = server => reason,
            reason = self.node.storage_failed() => reason,
            reason = self.node.backups.rivals.found() => reason,
        }
    }

    /// Stops taking requests, writes back what is dirty (bounded by `upkeep.stop_wait`), and closes everything.
    pub async fn stop(self) -> Left {
        self.stop.cancel();
        for task in self.tasks {
            // A connection that does not end holds up nothing: its requests are not acknowledged.
            let _ = tokio::time::timeout(DRAIN, task).await;
        }
        let left = self.node.close().await;
        tracing::info!(dirty_bytes = left.dirty_bytes, repairs = left.repairs, "stopped");
        left
    }
}

/// The same port for both.
async fn listen_both(key: &str, address: SocketAddr) -> Result<(TcpListener, UdpSocket), StartError> {
    let tcp = listen(key, address).await?;
    let at = self::address(&tcp)?;
    let udp = UdpSocket::bind(at).await.map_err(|cause| cannot_listen(key, at, &cause))?;
    Ok((tcp, udp))
}

async fn listen(key: &str, address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|cause| cannot_listen(key, address, &cause))
}

fn cannot_listen(key: &str, address: SocketAddr, cause: &std::io::Error) -> StartError {
    let hint = match cause.kind() {
        std::io::ErrorKind::AddrInUse => {
            "the port is in use; stop whoever listens there or choose another with --nfs, --admin or in the configuration"
        }
        std::io::ErrorKind::PermissionDenied => "ports below 1024 need root or CAP_NET_BIND_SERVICE",
        _ => "choose an address of this machine",
    };
    StartError::Configuration(format!("cannot listen on {address} ({key}): {cause}; {hint}"))
}

fn address(listener: &TcpListener) -> Result<SocketAddr, StartError> {
    listener.local_addr().map_err(|cause| StartError::Internal(cause.to_string()))
}
