//! NFS-Ganesha with its files in memory, which needs no privileges, or in a folder, which needs those of root.

use std::hash::BuildHasher;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use environment::Environment;
use tempfile::TempDir;

/// Where a server has its files.
#[derive(Clone, Copy)]
enum Files {
    /// A file has 2 MiB at most. Who comes back has nothing to reclaim.
    Memory,
    /// They are there when it starts again, and whoever had them open may reclaim them for some seconds.
    Folder,
}

/// A server that ends with this, with one export, `/home`.
pub struct Ganesha {
    pub address: SocketAddr,
    child: Child,
    folder: TempDir,
}

impl Ganesha {
    pub async fn start() -> Ganesha {
        Ganesha::start_with(Files::Memory).await
    }

    #[allow(dead_code)] // not all tests start it again
    pub async fn start_in_folder() -> Ganesha {
        Ganesha::start_with(Files::Folder).await
    }

    async fn start_with(files: Files) -> Ganesha {
        let folder = tempfile::tempdir().unwrap();
        for name in ["state", "home"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let address = free_port();
        let configuration = configured(address.port(), folder.path(), files);
        std::fs::write(folder.path().join("ganesha.conf"), configuration).unwrap();
        let child = spawn(folder.path());
        let mut server = Ganesha { address, child, folder };
        server.listens().await;
        server
    }

    /// Kills it, and starts it again.
    #[allow(dead_code)] // not all tests start it again
    pub async fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = spawn(self.folder.path());
        self.listens().await;
    }

    async fn listens(&mut self) {
        let clock = Environment::real().clock;
        for _ in 0..600 {
            if TcpStream::connect(self.address).is_ok() {
                return;
            }
            if self.child.try_wait().unwrap().is_some() {
                break;
            }
            clock.sleep(std::time::Duration::from_millis(50)).await;
        }
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        panic!("it does not listen: {log}");
    }
}

fn spawn(folder: &Path) -> Child {
    let option = |name: &str, file: &str| [name.into(), folder.join(file).into_os_string()];
    Command::new("ganesha.nfsd")
        .arg("-F")
        .args([option("-f", "ganesha.conf"), option("-L", "log"), option("-p", "pid")].concat())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("ganesha.nfsd: scripts/setup foreign installs it")
}

impl Drop for Ganesha {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port of loopback that nobody has now. Below those that connections begin at, so that none takes it before the server does; by
/// chance, so that tests side by side do not take the same.
fn free_port() -> SocketAddr {
    let random = std::hash::RandomState::new();
    let ports = (0..1000_u32).map(|at| 10_240 + (random.hash_one(at) % 22_000) as u16);
    let free = |port| TcpListener::bind(("127.0.0.1", port)).ok()?.local_addr().ok();
    ports.filter_map(free).next().expect("a free port")
}

fn configured(port: u16, folder: &Path, files: Files) -> String {
    let folder = folder.display();
    let (path, fsal, grace) = match files {
        Files::Memory => ("/home".to_owned(), "MEM", "Graceless = true;"),
        Files::Folder => (format!("{folder}/home"), "VFS", "Lease_Lifetime = 5; Grace_Period = 10;"),
    };
    format!(
        "NFS_CORE_PARAM {{ Protocols = 4; Bind_Addr = 127.0.0.1; NFS_Port = {port}; Enable_NLM = false;
    Enable_RQUOTA = false; Enable_UDP = none; }}
NFS_KRB5 {{ Active_krb5 = false; }}
NFSV4 {{ Minor_Versions = 1, 2; {grace} RecoveryBackend = fs; RecoveryRoot = \"{folder}/state\";
    Only_Numeric_Owners = true; Delegations = false; }}
EXPORT {{ Export_Id = 1; Path = \"{path}\"; Pseudo = \"/home\"; Protocols = 4; Transports = TCP; Access_Type = RW;
    Squash = None; SecType = sys; FSAL {{ Name = {fsal}; }} }}
MEM {{ Inode_Size = 2097152; }}
LOG {{ Default_Log_Level = EVENT; }}
"
    )
}
