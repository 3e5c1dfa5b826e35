//! A gateway, and file systems mounted from it.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use tempfile::TempDir;

use crate::support::{Gateway, KURMA, Settings};

/// A gateway with a volume `home`.
pub struct World {
    pub folder: TempDir,
    pub gateway: Gateway,
}

impl World {
    pub fn new() -> World {
        assert!(
            Path::new("/dev/fuse").exists(),
            "this machine has no /dev/fuse: load the module with 'modprobe fuse', or give the container the device"
        );
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { lease: "10s", ..Settings::in_folder(folder.path()) };
        let gateway = Gateway::start_with(&folder.path().join("data"), &settings);
        World { folder, gateway }
    }

    pub fn url(&self, path: &str) -> String {
        format!("nfs://{}{path}", self.gateway.nfs)
    }

    /// Mounts `/home` on a directory of this name.
    pub fn mount(&self, name: &str, options: &[&str]) -> Mount {
        let directory = self.folder.path().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        Mount::start(&self.url("/home"), &directory, options)
    }
}

/// A file system that is mounted by a process in the foreground.
pub struct Mount {
    pub directory: PathBuf,
    child: Option<Child>,
}

impl Mount {
    pub fn start(url: &str, directory: &Path, options: &[&str]) -> Mount {
        let mut command = Command::new(&*KURMA);
        command.args(["mount", "--foreground"]).args(options).arg(url).arg(directory);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut mount = Mount { directory: directory.to_owned(), child: Some(child) };
        if !line.starts_with("ready nfs://") {
            panic!("not mounted: {}", mount.finish().1);
        }
        mount
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn pid(&self) -> String {
        self.child.as_ref().unwrap().id().to_string()
    }

    /// Sends the process a signal.
    pub fn signal(&self, name: &str) {
        run(Command::new("kill").arg(format!("-{name}")).arg(self.pid()));
    }

    /// Its connections to this server that stand.
    pub fn connections_to(&self, server: SocketAddr) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        let links = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
        let own: HashSet<String> = links.map(|link| link.to_string_lossy().into_owned()).collect();
        // Addresses as `/proc` has them: words of the processor, in hexadecimal digits. 01 is a connection that stands.
        let IpAddr::V4(address) = server.ip() else { panic!("the gateway listens on 127.0.0.1") };
        let address = format!("{:08X}:{:04X}", u32::from_le_bytes(address.octets()), server.port());
        let is_one = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words[2] == address && words[3] == "01" && own.contains(&format!("socket:[{}]", words[9]))
        };
        std::fs::read_to_string("/proc/net/tcp").unwrap().lines().skip(1).filter(is_one).count()
    }

    /// Waits for the end of the process: its status, and what it said on standard error.
    pub fn finish(&mut self) -> (ExitStatus, String) {
        let mut child = self.child.take().unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (child.wait().unwrap(), said)
    }

    /// Unmounts, which has to go well.
    pub fn unmount(mut self) {
        let umount = || Command::new("umount").arg(&self.directory).output().unwrap();
        let mut ended = umount();
        // A process that another test starts just now has the files of this one open until it runs its own program.
        for _ in 0..100 {
            if !String::from_utf8_lossy(&ended.stderr).contains("busy") {
                break;
            }
            std::thread::yield_now();
            ended = umount();
        }
        assert!(ended.status.success(), "{ended:?}");
        let (status, said) = self.finish();
        assert!(status.success(), "{status}: {said}");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
            // What nobody serves any more is still in the way of the directory's removal.
            let _ = Command::new("umount").arg("-l").arg(&self.directory).stderr(Stdio::null()).status();
        }
    }
}

/// Runs a program that has to succeed; what it printed.
pub fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// Runs a shell script in a directory, step by step.
pub fn shell(directory: &Path, script: &str) -> String {
    run(Command::new("bash").args(["-euo", "pipefail", "-c", script]).current_dir(directory))
}
