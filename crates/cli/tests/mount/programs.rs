//! Programs that everybody uses.

use std::path::Path;

use crate::world::{World, shell};

/// A tree with a few hundred files, and its listing: kind, mode, size, time, target of every name.
fn source() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

const LISTING: &str =
    "find . -printf '%P %y %m %T@ %l ' \\( -type f -printf '%s' -o -true \\) -printf '\\n' | sort";

#[test]
fn a_tree_copied_in_is_the_same_tree_after_another_mount() {
    let world = World::new();
    let mount = world.mount("mnt", &[]);
    let copy = mount.path("tree");
    shell(&mount.directory, &format!("cp -a {} tree", source().display()));
    shell(source(), &format!("diff -r . {}", copy.display()));
    assert!(shell(&copy, LISTING) == shell(source(), LISTING));
    mount.unmount();
    let mount = world.mount("mnt", &[]);
    shell(source(), &format!("diff -r . {}", copy.display()));
    assert!(shell(&copy, LISTING) == shell(source(), LISTING));
    shell(&mount.directory, "rm -r tree && test -z \"$(ls -A)\"");
    mount.unmount();
    world.gateway.check();
}

#[test]
fn git_finds_its_repository_sound() {
    let world = World::new();
    let mount = world.mount("mnt", &[]);
    let script = format!(
        "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1
         git init -q repo && cd repo
         git config user.email a@example.com && git config user.name A
         cp -r {}/nfs4/src . && git add . && git commit -qm one
         for n in $(seq 20); do echo $n >>counter && git add counter && git commit -qm $n; done
         git gc -q && git fsck --strict && git status --porcelain
         git clone -q . ../clone && cd ../clone && git log --oneline | wc -l",
        source().display()
    );
    assert_eq!(shell(&mount.directory, &script).trim(), "21");
    mount.unmount();
}

#[test]
fn a_database_is_sound_and_seen_from_another_mount() {
    let world = World::new();
    let (one, other) = (world.mount("one", &[]), world.mount("other", &[]));
    let write = "import sqlite3
c = sqlite3.connect('data.db')
c.execute('create table if not exists t (n integer primary key, text)')
for n in range(60):
    with c: c.execute('insert into t (text) values (?)', ('x' * n * 40,))
c.close()";
    let check = "import sqlite3
c = sqlite3.connect('data.db')
print(c.execute('pragma integrity_check').fetchone()[0], c.execute('select count(*) from t').fetchone()[0])";
    for (round, (writer, reader)) in [(&one, &other), (&other, &one), (&one, &other)].into_iter().enumerate()
    {
        shell(&writer.directory, &format!("python3 -c \"{write}\""));
        let found = shell(&reader.directory, &format!("python3 -c \"{check}\""));
        assert_eq!(found.trim(), format!("ok {}", 60 * (round + 1)));
    }
    one.unmount();
    other.unmount();
}
