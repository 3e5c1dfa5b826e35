//! A gateway, a folder of this machine, and tools run on both.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::support::{Gateway, KURMA, Settings};

pub struct World {
    pub folder: TempDir,
    pub gateway: Gateway,
}

/// What a tool said and how it ended; lines in order of their text, as the order of files may differ.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    pub out: Vec<String>,
    pub errors: Vec<String>,
    pub status: Option<i32>,
}

impl World {
    pub fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let gateway = Gateway::start_with(&folder.path().join("data"), &Settings::in_folder(folder.path()));
        World { folder, gateway }
    }

    /// A directory of this machine.
    pub fn local(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// The URL of a path in the volume.
    pub fn url(&self, path: &str) -> String {
        format!("nfs://{}/home/{path}", self.gateway.nfs)
    }

    /// Runs `kurma`, which must end well; what it printed.
    pub fn kurma(&self, folder: &Path, words: &[&str]) -> String {
        let output = output(kurma(folder).args(words));
        assert!(
            output.status.success(),
            "kurma {words:?}: {}\n{}",
            String::from_utf8_lossy(&output.stderr),
            self.gateway.log()
        );
        String::from_utf8(output.stdout).unwrap()
    }
}

/// `kurma` in this folder.
pub fn kurma(folder: &Path) -> Command {
    tool(&KURMA.to_string_lossy(), folder)
}

/// A tool of the machine in this folder, with the words of the C locale.
pub fn tool(name: &str, folder: &Path) -> Command {
    let mut command = Command::new(name);
    command.current_dir(folder).env("LC_ALL", "C").env("TZ", "UTC").env_remove("KURMA_ADMIN");
    command
}

pub fn output(command: &mut Command) -> Output {
    crate::support::parallel(|| command.output()).unwrap()
}

/// What a tool of the machine prints, which must end well.
pub fn real(name: &str, folder: &Path, words: &[&str]) -> String {
    let output = output(tool(name, folder).args(words));
    assert!(output.status.success(), "{name} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

impl Said {
    /// With `prefix` taken out of the text.
    pub fn of(output: &Output, prefix: &str) -> Said {
        let lines = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).replace(prefix, "");
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        Said { out: lines(&output.stdout), errors: lines(&output.stderr), status: output.status.code() }
    }
}

pub fn set_age(path: &Path, age: i64) {
    let now = SystemTime::now();
    let time = match u64::try_from(age) {
        Ok(age) => now - Duration::from_secs(age),
        Err(_) => now + Duration::from_secs(age.unsigned_abs()),
    };
    std::fs::File::open(path).unwrap().set_modified(time).unwrap();
}

/// A tree with all that there is: directories in directories, empty ones, files of all sizes and ages, names of all sorts, links of
/// both kinds.
pub fn plant(root: &Path) {
    let day = 86_400;
    for directory in ["", "a", "a/deep", "a/deep/er", "B", "empty", ".hidden", "with space"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    for (name, size, mode, age) in [
        ("file", 5, 0o644, 60),
        ("old", 0, 0o600, 400 * day),
        ("future", 17, 0o444, -3 * day),
        ("program", 4096, 0o755, 10 * day),
        (".dot", 1, 0o644, 3 * day),
        // Not on the border between one day and two.
        ("special-bits", 3, 0o7755, day + 3_600),
        ("a/one", 1023, 0o640, 100 * day),
        ("a/two", 1024, 0o640, 100 * day),
        ("a/three", 1025, 0o640, 100 * day),
        ("a/deep/large", 3 << 20, 0o664, 200 * day),
        ("a/deep/er/x", 100_000, 0o664, 5),
        ("B/odd", 700_000, 0o777, 20),
        ("with space/it's", 10, 0o644, 7),
        ("with space/UPPER", 10_000, 0o644, 8),
        (".hidden/inside", 99, 0o644, 9),
    ] {
        let path = root.join(name);
        let content: Vec<u8> = (0..size).map(|n| (n * 7 % 251) as u8).collect();
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        set_age(&path, age);
    }
    for n in 0..40 {
        std::fs::write(root.join(format!("B/n{n}")), format!("{n}\n")).unwrap();
    }
    symlink("a/one", root.join("link")).unwrap();
    symlink("nowhere", root.join("broken")).unwrap();
    symlink("a", root.join("to-directory")).unwrap();
    std::fs::hard_link(root.join("a/one"), root.join("B/same")).unwrap();
    for directory in ["a/deep/er", "a", "empty"] {
        set_age(&root.join(directory), 50 * day);
    }
}
