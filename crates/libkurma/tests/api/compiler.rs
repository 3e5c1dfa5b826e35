//! The C compiler of the machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// What strict users of the header turn on.
const STRICT: &[&str] = &["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g", "-pthread"];

/// The cases, looked after by the address sanitizer, leaks included.
pub static SUITE: LazyLock<PathBuf> = LazyLock::new(|| {
    let program = folder().join("suite");
    let sources = std::fs::read_dir(root().join("tests/suite")).unwrap();
    let sources = sources.map(|entry| entry.unwrap().path());
    let sources = sources.filter(|path| path.extension().is_some_and(|extension| extension == "c"));
    run(cc()
        .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
        .args(sources)
        .args(linked())
        .arg("-o")
        .arg(&program));
    program
});

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo has put the libraries that C programs are linked to.
pub fn libraries() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    here.parent().unwrap().to_path_buf()
}

/// A folder for what is built, with the shared library under the name that the loader looks for.
pub fn folder() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libkurma");
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["libkurma.so", "libkurma.so.0"] {
            let _ = std::fs::remove_file(folder.join(name));
            std::os::unix::fs::symlink(libraries().join("libkurma.so"), folder.join(name)).unwrap();
        }
        folder
    });
    &FOLDER
}

/// What links a program to the shared library there.
pub fn linked() -> [String; 4] {
    let folder = folder().display();
    ["-L".to_owned() + &folder.to_string(), format!("-Wl,-rpath,{folder}"), "-lkurma".into(), "-lm".into()]
}

/// Runs a command, which has to succeed; its output.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}

/// The compiler with strict flags.
pub fn cc() -> Command {
    let mut cc = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    cc.args(STRICT).arg("-I").arg(root().join("include"));
    cc
}
