//! What is installed is what programs need: by pkg-config, shared and static, from C and C++.

use std::path::Path;
use std::process::Command;

use nfs4_server::Limits;

use crate::compiler::{cc, folder, libraries, root, run};
use crate::world::World;

/// What `pkg-config` says of what was installed under `prefix`.
fn flags(prefix: &Path, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    let text = run(command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(arguments).arg("kurma"));
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_examples_run_with_what_is_installed() {
    let prefix = tempfile::tempdir_in(folder()).unwrap();
    let prefix = prefix.path();
    run(Command::new(root().join("install")).arg(prefix).arg(libraries()));
    for file in ["include/kurma.h", "lib/libkurma.a", "lib/libkurma.so", "share/man/man3/libkurma.3"] {
        assert!(prefix.join(file).exists(), "{file}");
    }
    let soname = run(Command::new("readelf").arg("-d").arg(prefix.join("lib/libkurma.so")));
    assert!(soname.contains("[libkurma.so.0]"), "{soname}");

    let world = World::nfs(Limits::default());
    let [_, server] = world.arguments();
    for (example, expected) in
        [("read_many", "8 files, 72 bytes, 1 round trip\n"), ("transaction", "joe is there\n")]
    {
        let source = root().join("examples").join(format!("{example}.c"));
        for (kind, how) in
            [("shared", &["--cflags", "--libs"][..]), ("static", &["--cflags", "--libs", "--static"])]
        {
            let mut flags = flags(prefix, how);
            if kind == "static" {
                flags.insert(0, "-Wl,-Bstatic".into());
                let library = flags.iter().position(|flag| flag == "-lkurma").unwrap();
                flags.insert(library + 1, "-Wl,-Bdynamic".into());
            }
            let program = prefix.join(format!("{example}-{kind}"));
            run(cc()
                .arg(&source)
                .args(&flags)
                .arg(format!("-Wl,-rpath,{}/lib", prefix.display()))
                .arg("-o")
                .arg(&program));
            let linked = run(Command::new("readelf").arg("-d").arg(&program)).contains("libkurma.so.0");
            assert_eq!(linked, kind == "shared");
            let directory = format!("/home/{example}-{kind}");
            assert_eq!(run(Command::new(&program).arg(server).arg(directory)), expected);
        }
    }
}

#[test]
fn the_header_is_one_for_cxx_too() {
    let mut cxx = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
    let header = root().join("include/kurma.h");
    run(cxx
        .args(["-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-x", "c++"])
        .arg(header));
}
