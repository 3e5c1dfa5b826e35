//! What serves a mount point, and how it is started and killed.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::peer::{self, CloudUse, Kurma, Peer};

/// How long a peer may take to mount.
const PATIENCE: Duration = Duration::from_secs(30);

/// A peer with its mount point.
pub struct Mounted {
    name: String,
    promise: String,
    data: PathBuf,
    directory: PathBuf,
    serves: Serves,
    /// What has the mount point.
    child: Option<Child>,
}

enum Serves {
    /// A gateway, and `kurma mount` on it.
    Kurma {
        gateway: Box<Kurma>,
        binary: PathBuf,
    },
    Script(PathBuf),
}

impl Mounted {
    pub fn kurma(binary: &Path, data: &Path) -> Result<Mounted> {
        let gateway = Box::new(Kurma::new(binary)?);
        let promise = format!("{}; over `kurma mount` (FUSE)", gateway.durability());
        let serves = Serves::Kurma { gateway, binary: binary.to_owned() };
        Self::new("kurma".into(), promise, data, serves)
    }

    /// `SCRIPT DATA MOUNT`, with its data below `folder`.
    pub fn script(script: &Path, folder: &Path) -> Result<Mounted> {
        let name = script.file_stem().with_context(|| format!("{} has no name", script.display()))?;
        let name = name.to_string_lossy().into_owned();
        let text = fs::read_to_string(script).with_context(|| format!("reading {}", script.display()))?;
        let promise = text.lines().find_map(|line| line.strip_prefix("# promise: "));
        let promise = promise.with_context(|| format!("{} has no line `# promise: `", script.display()))?;
        let data = folder.join(&name);
        Self::new(name, promise.to_owned(), &data, Serves::Script(script.canonicalize()?))
    }

    fn new(name: String, promise: String, data: &Path, serves: Serves) -> Result<Mounted> {
        let directory = data.with_extension("mounted");
        fs::create_dir_all(data)?;
        fs::create_dir_all(&directory)?;
        Ok(Mounted { name, promise, data: data.to_owned(), directory, serves, child: None })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn promise(&self) -> &str {
        &self.promise
    }

    /// Where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns when it is mounted. A restart finds what was there.
    pub fn start(&mut self) -> Result<()> {
        let mut command = match &mut self.serves {
            Serves::Kurma { gateway, binary } => {
                gateway.start(&self.data)?;
                let mut command = Command::new(binary);
                let url = format!("nfs://{}/{}", gateway.address(), gateway.export().join("/"));
                command.args(["mount", "--foreground", &url]).arg(&self.directory);
                command
            }
            Serves::Script(script) => {
                let mut command = Command::new(script);
                command.arg(&self.data).arg(&self.directory);
                command
            }
        };
        let log = self.data.with_extension("mount.log");
        let output = File::options().create(true).append(true).open(&log)?;
        // A group of its own, so that nothing that a script has started outlives it.
        let child = command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = self.child.insert(child.process_group(0).spawn()?);
        let limit = Instant::now() + PATIENCE;
        while !is_mounted(&self.directory)? {
            if let Some(status) = child.try_wait()? {
                bail!("{} ended with {status}; see {}", self.name, log.display());
            }
            ensure!(Instant::now() < limit, "{} has not mounted after {PATIENCE:?}", self.name);
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// SIGKILL for all that serves it; the mount point that is left goes, too.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            if let Some(group) = rustix::process::Pid::from_raw(child.id() as i32) {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            let _ = child.wait();
        }
        if let Serves::Kurma { gateway, .. } = &mut self.serves {
            gateway.kill();
        }
        // As root, or as whoever has mounted it.
        let is_gone = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            let status = command.args(arguments).arg(&self.directory).stderr(Stdio::null()).status();
            status.is_ok_and(|it| it.success())
        };
        let _ = is_gone("umount", &["-l"]) || is_gone("fusermount3", &["-u", "-z"]);
    }

    /// Returns when everything is where it shall last.
    pub fn settle(&self) -> Result<()> {
        peer::write_out();
        match &self.serves {
            Serves::Kurma { gateway, .. } => gateway.flush(),
            Serves::Script(_) => Ok(()),
        }
    }

    /// What its clouds have been asked for so far, if it has any.
    pub fn clouds(&self) -> Result<Vec<CloudUse>> {
        match &self.serves {
            Serves::Kurma { gateway, .. } => gateway.clouds(),
            Serves::Script(_) => Ok(Vec::new()),
        }
    }

    /// Processor time so far, of all processes that serve it.
    pub fn cpu_micros(&self) -> Result<u64> {
        let mount = self.child.as_ref().map_or(Ok(0), |child| cpu_micros_with_children(child.id()))?;
        Ok(match &self.serves {
            Serves::Kurma { gateway, .. } => mount + peer::cpu_micros(gateway.pid())?,
            Serves::Script(_) => mount,
        })
    }
}

/// Of a script and what it has started, such as the server behind its mount point.
fn cpu_micros_with_children(pid: u32) -> Result<u64> {
    let mut sum = peer::cpu_micros(pid)?;
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))?;
    for task in tasks {
        let children = fs::read_to_string(task?.path().join("children"))?;
        for child in children.split_whitespace() {
            // One that has just ended is not counted.
            sum += peer::cpu_micros(child.parse()?).unwrap_or(0);
        }
    }
    Ok(sum)
}

fn is_mounted(directory: &Path) -> Result<bool> {
    let directory = directory.canonicalize()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    // The fifth field is where (proc(5)).
    Ok(mounts.lines().any(|line| line.split(' ').nth(4).map(Path::new) == Some(&directory)))
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.kill();
    }
}
