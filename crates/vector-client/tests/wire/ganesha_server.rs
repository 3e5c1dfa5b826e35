//! NFS-Ganesha with its files in memory, which needs no privileges.

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
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
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
