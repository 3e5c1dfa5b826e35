//! A real gateway process under test: started, killed, restarted, asked through the `kurma` command.

use std::fs::File;
use std::hash::BuildHasher;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::LazyLock;

use serde_json::Value;

use super::Settings;

/// The binary under test: the one just built, or the one that `KURMA_BINARY` names.
pub static KURMA: LazyLock<PathBuf> = LazyLock::new(|| {
    std::env::var_os("KURMA_BINARY").map_or(env!("CARGO_BIN_EXE_kurma").into(), PathBuf::from)
});

/// One gateway with its data folder.
pub struct Gateway {
    pub data: PathBuf,
    pub nfs: SocketAddr,
    pub admin: SocketAddr,
    child: Option<Child>,
    ended: Option<ExitStatus>,
    /// Bytes of the log before this start.
    logged: usize,
    environment: Vec<(String, String)>,
    /// Goes on whoever else does.
    pub take_over: bool,
}

impl Gateway {
    /// Starts a gateway on `data` with free ports.
    pub fn start(data: &Path) -> Gateway {
        let mut gateway = Gateway::new(data);
        gateway.launch();
        gateway
    }

    /// Starts a gateway on `data` whose configuration names buckets.
    pub fn start_on_s3(data: &Path) -> Gateway {
        let mut gateway = Gateway::new(data);
        gateway.set_credentials();
        gateway.launch();
        gateway
    }

    /// Starts a gateway with this configuration.
    pub fn start_with(data: &Path, settings: &Settings) -> Gateway {
        settings.write(data);
        Gateway::start(data)
    }

    /// A gateway that is not started yet.
    pub fn new(data: &Path) -> Gateway {
        let (nfs, admin) = (free_port(), free_port());
        Gateway {
            data: data.to_owned(),
            nfs,
            admin,
            child: None,
            ended: None,
            logged: 0,
            environment: Vec::new(),
            take_over: false,
        }
    }

    /// Sets a variable for the next starts.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.unset(name);
        self.environment.push((name.into(), value.into()));
    }

    /// Whoever is asked for a bucket here takes any.
    pub fn set_credentials(&mut self) {
        self.set("AWS_ACCESS_KEY_ID", "somebody");
        self.set("AWS_SECRET_ACCESS_KEY", "secret");
    }

    /// Removes a variable.
    pub fn unset(&mut self, name: &str) {
        self.environment.retain(|(known, _)| known != name);
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&*KURMA);
        command.args(["up", "--data"]).arg(&self.data);
        command.args(["--nfs", &self.nfs.to_string(), "--admin", &self.admin.to_string()]);
        command.args(self.take_over.then_some("--take-over"));
        command.env_remove("KURMA_ADMIN").env_remove("KURMA_FAILPOINT");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts the process and returns when a client can mount.
    pub fn launch(&mut self) {
        assert!(self.try_launch(), "the gateway ended before it was ready; log:\n{}", self.log());
    }

    /// As [`Gateway::launch`]; false when the process ends first (an armed failpoint may lie in the start).
    pub fn try_launch(&mut self) -> bool {
        assert!(self.child.is_none(), "already running");
        self.ended = None;
        self.logged = self.log().len();
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log_path()).unwrap();
        let mut child = self.command().stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        parallel(|| BufReader::new(child.stdout.take().unwrap()).read_line(&mut line)).unwrap();
        if line.starts_with("ready nfs=") {
            self.child = Some(child);
            return true;
        }
        self.ended = Some(child.wait().unwrap());
        false
    }

    /// Runs `kurma up` to its end, for starts that must fail.
    pub fn run_to_end(&self) -> Output {
        parallel(|| self.command().output()).unwrap()
    }

    fn log_path(&self) -> PathBuf {
        self.data.with_extension("log")
    }

    /// What the process wrote to standard error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(&mut self) {
        self.interrupt();
        self.child = None;
    }

    /// As [`Gateway::kill`]; how the process ended can still be asked.
    pub fn interrupt(&mut self) {
        if !self.has_died()
            && let Some(child) = &mut self.child
        {
            child.kill().unwrap();
            self.ended = Some(child.wait().unwrap());
        }
    }

    /// Whether the process has ended. Its sockets close before its parent can learn of its end, so one that is at a failpoint
    /// is waited for.
    pub fn has_died(&mut self) -> bool {
        if self.ended.is_none() {
            let dying = self.was_at_failpoint();
            self.ended = self.child.as_mut().and_then(|child| match dying {
                true => Some(parallel(|| child.wait()).unwrap()),
                false => child.try_wait().unwrap(),
            });
        }
        self.ended.is_some()
    }

    /// Whether the process of the last start was ended by SIGKILL, by its own or another's.
    pub fn was_killed(&self) -> bool {
        self.ended.is_some_and(|status| status.signal() == Some(9))
    }

    /// Whether the process of the last start has killed itself at a failpoint.
    pub fn was_at_failpoint(&self) -> bool {
        // A folder that is gone has no log.
        let log = self.log();
        log.get(self.logged..).is_some_and(|log| log.lines().any(|line| line.starts_with("failpoint ")))
    }

    /// SIGTERM, and waits for the end, which can still be asked for.
    pub fn terminate(&mut self) {
        let id = self.pid().to_string();
        // It may have ended already.
        Command::new("kill").args(["-TERM", &id]).stderr(Stdio::null()).status().unwrap();
        if let Some(child) = &mut self.child {
            self.ended = Some(parallel(|| child.wait()).unwrap());
        }
    }

    /// SIGTERM; returns the exit status, none when a signal ended the process.
    pub fn stop(&mut self) -> Option<i32> {
        self.terminate();
        self.child = None;
        self.ended.and_then(|status| status.code())
    }

    /// Waits for the end; returns the exit status, none when a signal ended the process.
    pub fn wait(&mut self) -> Option<i32> {
        let mut child = self.child.take().expect("running");
        self.ended = Some(parallel(|| child.wait()).unwrap());
        self.ended.and_then(|status| status.code())
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("running").id()
    }

    /// Resident memory now, in bytes; 0 when the process has just ended.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024)
    }

    /// Runs `kurma ARGS` against this gateway.
    pub fn kurma(&self, args: &[&str]) -> Output {
        let admin = format!("http://{}", self.admin);
        parallel(|| Command::new(&*KURMA).args(args).args(["--admin", &admin]).output()).unwrap()
    }

    /// Runs `kurma ARGS`, which must end with one of `codes`.
    pub fn kurma_ends(&self, args: &[&str], codes: &[i32]) -> Output {
        let output = self.kurma(args);
        assert!(
            codes.contains(&output.status.code().unwrap_or(-1)),
            "kurma {args:?}: {}\n{}{}\nlog:\n{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
            self.log()
        );
        output
    }

    /// Runs `kurma ARGS --json`, which must end with one of `codes`, and returns what it printed.
    pub fn json(&self, args: &[&str], codes: &[i32]) -> Value {
        serde_json::from_slice(&self.kurma_ends(&[args, &["--json"]].concat(), codes).stdout).unwrap()
    }

    /// What the admin interface answers: as the command would print it, for scenarios that ask very often.
    pub fn ask(&self, path: &str) -> Value {
        let token = std::fs::read_to_string(self.data.join("admin.token")).unwrap();
        let request = ureq::get(format!("http://{}{path}", self.admin));
        let request = request.header("authorization", format!("Bearer {}", token.trim()));
        let text = parallel(|| request.call()?.body_mut().read_to_string());
        serde_json::from_str(&text.unwrap()).unwrap()
    }

    /// Waits until everything is in the clouds and nothing needs repair.
    pub fn flush(&self) {
        self.kurma_ends(&["flush", "--timeout", "2m"], &[0]);
    }

    /// Forgets what could answer reads without the clouds.
    pub fn drop_cache(&self) {
        self.kurma_ends(&["cache", "drop"], &[0]);
    }

    /// The metadata has no finding.
    pub fn check(&self) {
        self.kurma_ends(&["meta", "check"], &[0]);
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs what blocks without holding up the other tasks of the test.
pub fn parallel<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// Every file below `folder`, sorted.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

/// Every fragment in a directory cloud, sorted: not what the cloud itself is marked with, nor backups of the metadata.
pub fn fragments_below(cloud: &Path) -> Vec<PathBuf> {
    let first = |file: &Path| {
        let mut byte = [0];
        // Gone meanwhile: no fragment.
        File::open(file).and_then(|mut file| file.read_exact(&mut byte)).map_or(0, |()| byte[0])
    };
    let mut files = files_below(cloud);
    files.retain(|file| !file.to_string_lossy().contains("/.kurma-") && [0xF1, 0xF2].contains(&first(file)));
    files
}

/// A port of loopback that nobody has now. Below those that connections begin at, so that none takes it while the one who is to
/// listen there is away; by chance, so that tests side by side do not take the same.
pub fn free_port() -> SocketAddr {
    let random = std::hash::RandomState::new();
    let ports = (0..1000u32).map(|at| 10_240 + (random.hash_one(at) % 22_000) as u16);
    let free = |port| TcpListener::bind(("127.0.0.1", port)).ok()?.local_addr().ok();
    ports.filter_map(free).next().expect("a free port")
}
