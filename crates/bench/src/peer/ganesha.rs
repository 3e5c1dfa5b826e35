use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::{Peer, Process, free_address, is_program};

const PROGRAM: &str = "ganesha.nfsd";
const NOT_INSTALLED: &str = "ganesha.nfsd with FSAL_VFS is not installed: scripts/setup bench";

/// How the folder behind the server treats names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// As ext4 does by default: a name is in the page cache when it is acknowledged.
    Lazy,
    /// `chattr +D`: a name is on the disk when it is acknowledged, as RFC 8881 wants and as Kurma does.
    Synchronous,
}

/// NFS-Ganesha with FSAL_VFS on a folder of the same disk.
pub struct Ganesha {
    names: Names,
    address: SocketAddr,
    process: Process,
}

impl Ganesha {
    pub fn new(names: Names) -> Result<Ganesha> {
        Ok(Ganesha { names, address: free_address()?, process: Process::default() })
    }
}

impl Peer for Ganesha {
    fn name(&self) -> &'static str {
        match self.names {
            Names::Lazy => "ganesha",
            Names::Synchronous => "ganesha +D",
        }
    }

    fn durability(&self) -> &'static str {
        match self.names {
            Names::Lazy => {
                "stable data: fsync before the answer; names: in the page cache, lost with the power"
            }
            Names::Synchronous => {
                "stable data: fsync before the answer; names: on the disk before the answer (chattr +D)"
            }
        }
    }

    fn not_installed(&self) -> Option<String> {
        (!is_program(PROGRAM) || !has_vfs()).then(|| NOT_INSTALLED.to_owned())
    }

    fn start(&mut self, data: &Path) -> Result<()> {
        let (tree, state) = (data.join("tree"), data.join("state"));
        std::fs::create_dir_all(&tree)?;
        std::fs::create_dir_all(&state)?;
        if self.names == Names::Synchronous {
            let status = Command::new("chattr").arg("+D").arg(&tree).status()?;
            anyhow::ensure!(status.success(), "chattr +D failed on {}", tree.display());
        }
        let tree = std::fs::canonicalize(&tree)?;
        let state = std::fs::canonicalize(&state)?;
        let config = state.join("ganesha.conf");
        std::fs::write(&config, configuration(self.address.port(), &tree, &state))?;
        let mut command = Command::new(PROGRAM);
        command
            .args(["-F", "-f"])
            .arg(&config)
            .arg("-L")
            .arg(state.join("log"))
            .arg("-p")
            .arg(state.join("pid"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.process = Process::start(&mut command, self.address).context(NOT_INSTALLED)?;
        Ok(())
    }

    fn kill(&mut self) {
        self.process.kill();
    }

    fn address(&self) -> SocketAddr {
        self.address
    }

    fn pid(&self) -> u32 {
        self.process.id()
    }
}

/// Whether it can serve a folder of this machine, which Debian has in a package of its own.
fn has_vfs() -> bool {
    let places = ["/usr/lib", "/usr/lib64"].into_iter().filter_map(|place| std::fs::read_dir(place).ok());
    let mut folders = places.flatten().filter_map(|entry| Some(entry.ok()?.path()));
    folders
        .any(|folder| folder.join("libfsalvfs.so").exists() || folder.join("ganesha/libfsalvfs.so").exists())
}

/// No version 3, no rpcbind, no grace period; everything else as packaged.
fn configuration(port: u16, tree: &Path, state: &Path) -> String {
    format!(
        "NFS_CORE_PARAM {{ Protocols = 4; Bind_Addr = 127.0.0.1; NFS_Port = {port}; Enable_NLM = false;
    Enable_RQUOTA = false; Enable_UDP = none; }}
NFS_KRB5 {{ Active_krb5 = false; }}
NFSV4 {{ Minor_Versions = 1, 2; Graceless = true; RecoveryBackend = fs; RecoveryRoot = \"{state}\";
    Only_Numeric_Owners = true; Delegations = false; }}
EXPORT {{ Export_Id = 1; Path = \"{tree}\"; Pseudo = \"/\"; Protocols = 4; Transports = TCP; Access_Type = RW;
    Squash = None; SecType = sys; FSAL {{ Name = VFS; }} }}
LOG {{ Default_Log_Level = WARN; }}
",
        state = state.display(),
        tree = tree.display()
    )
}
