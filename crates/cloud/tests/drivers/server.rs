use std::hash::BuildHasher;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server that a script in `tests/servers` starts on a free port of the loopback interface.
pub struct Server {
    script: &'static str,
    pub port: u16,
    folder: tempfile::TempDir,
}

/// What can be killed and started again where it was.
pub trait Mortal {
    /// Ends it without warning.
    fn kill(&self);
    /// Starts it where it was.
    fn start_again(&self);
}

/// A port of loopback that nobody has now. Below those that connections begin at, so that none takes it while the one who is to
/// listen there is away; by chance, so that tests side by side do not take the same.
pub fn free_port() -> u16 {
    let random = std::hash::RandomState::new();
    let mut ports = (0..1000_u32).map(|at| 10_240 + (random.hash_one(at) % 22_000) as u16);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
}

impl Server {
    pub fn start(script: &'static str) -> Server {
        let server = Server { script, port: free_port(), folder: tempfile::tempdir().unwrap() };
        server.start_again();
        server
    }

    /// Runs the script.
    pub fn run(&self, arguments: impl FnOnce(&mut Command) -> &mut Command) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/servers").join(self.script);
        let mut command = Command::new(script);
        command.env("AZURITE_ACCOUNTS", format!("kurma:{}", super::azure::KEY));
        assert!(arguments(&mut command).status().unwrap().success(), "{command:?}");
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file that only its owner can read.
    pub fn secret_file(&self, name: &str, text: &str) -> PathBuf {
        secret_file(self.folder.path(), name, text)
    }
}

impl Mortal for Server {
    fn kill(&self) {
        self.run(|command| command.arg("kill").arg(self.folder.path()));
    }

    fn start_again(&self) {
        let port = self.port.to_string();
        self.run(|command| command.arg("start").arg(&port).arg(self.folder.path()));
    }
}

pub fn secret_file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    path
}

impl Drop for Server {
    fn drop(&mut self) {
        self.run(|command| command.arg("stop").arg(self.folder.path()));
    }
}
