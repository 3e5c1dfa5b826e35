//! Where the calls are tried: a server over a file system in memory, and a directory of this machine.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use environment::Environment;
use file_system::memory::MemoryFileSystem;
use ids::VolumeId;
use nfs4_server::{Export, Limits, Server, ServerConfig};
use onc_rpc::Security;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// Files that nobody else has, all below `/home`.
pub enum World {
    Nfs { address: String, runtime: Runtime },
    Local(TempDir),
}

impl World {
    /// A server with one volume `home` that everybody may write to.
    pub fn nfs(limits: Limits) -> World {
        World::with(limits, Security::default())
    }

    /// One that protects connections like this.
    pub fn with(limits: Limits, security: Security) -> World {
        World::of(&["home"], limits, security)
    }

    /// One with these volumes.
    pub fn of(volumes: &[&str], limits: Limits, security: Security) -> World {
        let runtime = Runtime::new().unwrap();
        let address = runtime.block_on(serve(volumes, limits, security));
        World::Nfs { address, runtime }
    }

    /// A directory of this machine.
    pub fn local() -> World {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        std::fs::create_dir(&home).unwrap();
        for (path, mode) in [(directory.path(), 0o755), (&home, 0o777)] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        World::Local(directory)
    }

    /// How a program is told: the kind, and where.
    pub fn arguments(&self) -> [&str; 2] {
        match self {
            World::Nfs { address, .. } => ["nfs", address],
            World::Local(directory) => ["local", Path::to_str(directory.path()).unwrap()],
        }
    }
}

async fn serve(volumes: &[&str], limits: Limits, security: Security) -> String {
    let environment = Environment::real();
    let volume = |n| MemoryFileSystem::with(VolumeId(n), environment.clock.clone()).writable_by_all();
    let exports = volumes.iter().zip(1..).map(|(name, n)| Export::new(*name, Arc::new(volume(n)))).collect();
    let config = ServerConfig { limits, ..ServerConfig::in_memory(exports, environment) };
    let server = Server::new(config).await.unwrap();
    server.replace_security(security);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { server.serve(listener, CancellationToken::new()).await.unwrap() });
    address
}
