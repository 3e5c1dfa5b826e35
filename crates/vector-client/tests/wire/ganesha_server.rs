//! NFS-Ganesha with its files in memory, which needs no privileges.

use std::hash::BuildHasher;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use environment::Environment;
use tempfile::TempDir;

/// A server that ends with this, with one export, `/home`. A file has 2 MiB at most.
pub struct Ganesha {
    pub address: SocketAddr,
    child: Child,
    _folder: TempDir,
}

impl Ganesha {
    pub async fn start() -> Ganesha {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("state")).unwrap();
        let address = free_port();
        let configuration = folder.path().join("ganesha.conf");
        std::fs::write(&configuration, configured(address.port(), folder.path())).unwrap();
        let log = folder.path().join("log");
        let mut child = Command::new("ganesha.nfsd")
            .args(["-F", "-f"])
            .arg(&configuration)
            .arg("-L")
            .arg(&log)
            .arg("-p")
            .arg(folder.path().join("pid"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("ganesha.nfsd: scripts/setup foreign installs it");
        let clock = Environment::real().clock;
        for _ in 0..600 {
            if TcpStream::connect(address).is_ok() {
                return Ganesha { address, child, _folder: folder };
            }
            if child.try_wait().unwrap().is_some() {
                break;
            }
            clock.sleep(std::time::Duration::from_millis(50)).await;
        }
        let _ = child.kill();
        panic!("it does not listen: {}", std::fs::read_to_string(&log).unwrap_or_default());
    }
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

fn configured(port: u16, folder: &Path) -> String {
    format!(
        "NFS_CORE_PARAM {{ Protocols = 4; Bind_Addr = 127.0.0.1; NFS_Port = {port}; Enable_NLM = false;
    Enable_RQUOTA = false; Enable_UDP = none; }}
NFS_KRB5 {{ Active_krb5 = false; }}
NFSV4 {{ Minor_Versions = 1, 2; Graceless = true; RecoveryBackend = fs; RecoveryRoot = \"{folder}/state\";
    Only_Numeric_Owners = true; Delegations = false; }}
EXPORT {{ Export_Id = 1; Path = \"/home\"; Pseudo = \"/home\"; Protocols = 4; Transports = TCP; Access_Type = RW;
    Squash = None; SecType = sys; FSAL {{ Name = MEM; }} }}
MEM {{ Inode_Size = 2097152; }}
LOG {{ Default_Log_Level = EVENT; }}
",
        folder = folder.display()
    )
}
