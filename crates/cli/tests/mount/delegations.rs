//! Files that the server has delegated: opened and read without it, until somebody else wants to change them.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::world::World;

/// Names are believed for so long that they are never asked for again.
const NAMES: &[&str] = &["-o", "actimeo=86400"];

impl World {
    /// A number of the gateway's metrics; `labels` as they are written there.
    fn metric(&self, name: &str, labels: &str) -> u64 {
        let address = format!("http://{}/metrics", self.gateway.admin);
        let text = ureq::get(address).call().unwrap().body_mut().read_to_string().unwrap();
        let line = format!("kurma_{name}{labels} ");
        let value = text.lines().find_map(|text| text.strip_prefix(&line));
        value.unwrap_or("0").parse::<f64>().unwrap() as u64
    }

    /// Operations that mounts have made of the gateway, but for those that renew a lease.
    fn operations(&self) -> u64 {
        let names = ["OPEN", "CLOSE", "READ", "GETATTR", "LOOKUP", "ACCESS", "PUTFH", "DELEGRETURN"];
        names
            .map(|name| self.metric("nfs_operations_total", &format!("{{operation=\"{name}\"}}")))
            .iter()
            .sum()
    }

    /// What all clients have delegated.
    fn delegations(&self) -> u64 {
        let clients = self.gateway.json(&["clients", "list"], &[0]);
        clients.as_array().unwrap().iter().map(|client| client["delegations"].as_u64().unwrap()).sum()
    }

    /// Writes files by a mount that is gone then.
    fn with_files(names: &[&str], content: &str) -> World {
        let world = World::new();
        let mount = world.mount("before", &[]);
        names.iter().for_each(|name| fs::write(mount.path(name), content).unwrap());
        mount.unmount();
        world
    }
}

#[test]
fn a_delegated_file_is_opened_read_and_looked_at_again_without_the_server() {
    let world = World::with_files(&["file"], "content");
    let mount = world.mount("mnt", NAMES);
    let look = || {
        assert_eq!(fs::read_to_string(mount.path("file")).unwrap(), "content");
        assert_eq!(fs::metadata(mount.path("file")).unwrap().len(), 7);
    };
    look();
    look();
    assert_eq!(world.delegations(), 1);
    let before = world.operations();
    assert!(before > 0);
    (0..20).for_each(|_| look());
    assert_eq!(world.operations(), before);
    mount.unmount();
}

#[test]
fn without_delegations_each_open_asks_the_server() {
    let world = World::with_files(&["file"], "content");
    let mount = world.mount("mnt", &["-o", "actimeo=86400,delegations=0"]);
    let read = || assert_eq!(fs::read_to_string(mount.path("file")).unwrap(), "content");
    read();
    let before = world.operations();
    read();
    assert!(world.operations() > before);
    assert_eq!(world.delegations(), 0);
    mount.unmount();
}

#[test]
fn what_another_client_changes_is_read_by_those_who_open_it_then_and_by_those_who_have_it_open() {
    let world = World::with_files(&["file"], "old content");
    let (one, other) = (world.mount("one", NAMES), world.mount("other", NAMES));
    let held = File::open(one.path("file")).unwrap();
    let mut bytes = [0; 11];
    held.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!((&bytes, world.delegations()), (b"old content", 1));
    fs::write(other.path("file"), "new content").unwrap();
    assert_eq!(world.metric("nfs_recalled_total", "{end=\"returned\"}"), 1);
    // Before anybody opens it anew, or asks for its size.
    held.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"new content");
    fs::write(other.path("file"), "newer content").unwrap();
    assert_eq!(fs::read_to_string(one.path("file")).unwrap(), "newer content");
    drop(held);
    assert_eq!(world.metric("nfs_recalled_total", "{end=\"revoked\"}"), 0);
    one.unmount();
    other.unmount();
}

#[test]
fn attributes_that_another_client_changes_are_seen_and_the_right_to_open_ends() {
    let world = World::with_files(&["file"], "content");
    let (one, other) = (world.mount("one", NAMES), world.mount("other", NAMES));
    assert_eq!(fs::read_to_string(one.path("file")).unwrap(), "content");
    fs::set_permissions(other.path("file"), Permissions::from_mode(0o640)).unwrap();
    assert_eq!(fs::metadata(one.path("file")).unwrap().mode() & 0o777, 0o640);
    assert_eq!(world.metric("nfs_recalled_total", "{end=\"returned\"}"), 1);
    one.unmount();
    other.unmount();
}

/// Reads a file as a user who is not root; what he gets, or `None` if he may not.
fn read_as_user(path: &Path) -> Option<String> {
    let user = ["--reuid", "1234", "--regid", "1234", "--clear-groups", "cat"];
    let output = Command::new("setpriv").args(user).arg(path).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() || said.contains("Permission denied"), "{said}");
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

#[test]
fn what_one_user_may_read_another_may_not_and_who_may_no_more_cannot() {
    let world = World::with_files(&["file"], "content");
    fs::set_permissions(world.folder.path(), Permissions::from_mode(0o755)).unwrap();
    let mount = world.mount("mnt", &["-o", "allow_other,no_default_permissions,actimeo=86400"]);
    let file = mount.path("file");
    fs::set_permissions(&mount.directory, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    for _ in 0..2 {
        // Delegated in root's name.
        assert_eq!(fs::read_to_string(&file).unwrap(), "content");
        assert_eq!(world.delegations(), 1);
        assert_eq!(read_as_user(&file), None);
    }
    mount.unmount();
    let mount = world.mount("mnt", &["-o", "allow_other,no_default_permissions,actimeo=86400"]);
    chown(&file, Some(1234), Some(1234)).unwrap();
    for _ in 0..2 {
        // Delegated in his.
        assert_eq!(read_as_user(&file).as_deref(), Some("content"));
        assert_eq!(world.delegations(), 1);
    }
    chown(&file, Some(0), Some(0)).unwrap();
    assert_eq!(read_as_user(&file), None);
    assert_eq!(fs::read_to_string(&file).unwrap(), "content");
    mount.unmount();
}

#[test]
fn changes_made_here_are_seen_here() {
    let world = World::with_files(&["file"], "one");
    // The kernel asks each time.
    let mount = world.mount("mnt", &["-o", "actimeo=0"]);
    let file = mount.path("file");
    let read = || fs::read_to_string(&file).unwrap();
    assert_eq!(read(), "one");
    assert_eq!(world.delegations(), 1);
    let mut appended = OpenOptions::new().append(true).open(&file).unwrap();
    appended.write_all(b" two").unwrap();
    assert_eq!((read(), file.metadata().unwrap().len()), ("one two".into(), 7));
    appended.write_all(b" three").unwrap();
    assert_eq!(file.metadata().unwrap().len(), 13);
    drop(appended);
    assert_eq!(read(), "one two three");
    fs::write(&file, "1").unwrap();
    assert_eq!((read(), file.metadata().unwrap().len()), ("1".into(), 1));
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(read(), "1");
    fs::hard_link(&file, mount.path("link")).unwrap();
    assert_eq!((read(), file.metadata().unwrap().nlink()), ("1".into(), 2));
    fs::remove_file(mount.path("link")).unwrap();
    assert_eq!((read(), file.metadata().unwrap().nlink()), ("1".into(), 1));
    let mut held = File::open(&file).unwrap();
    fs::write(mount.path("new"), "2").unwrap();
    fs::rename(mount.path("new"), &file).unwrap();
    assert_eq!((read(), held.metadata().unwrap().nlink()), ("2".into(), 0));
    let mut text = String::new();
    held.read_to_string(&mut text).unwrap();
    assert_eq!(text, "1");
    held = File::open(&file).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(held.metadata().unwrap().nlink(), 0);
    drop(held);
    mount.unmount();
}

#[test]
fn a_delegated_file_can_be_locked_by_those_who_only_read_it() {
    let world = World::with_files(&["file"], "content");
    let (one, other) = (world.mount("one", NAMES), world.mount("other", NAMES));
    let open = |path| File::open(path).unwrap();
    let (first, second) = (open(one.path("file")), open(one.path("file")));
    let elsewhere = open(other.path("file"));
    flock(&first, FlockOperation::LockExclusive).unwrap();
    for file in [&second, &elsewhere] {
        assert_eq!(flock(file, FlockOperation::NonBlockingLockShared), Err(Errno::AGAIN));
    }
    drop(first);
    flock(&elsewhere, FlockOperation::LockExclusive).unwrap();
    drop((second, elsewhere));
    one.unmount();
    other.unmount();
}

#[test]
fn there_are_no_more_delegations_than_allowed_and_none_after_the_end() {
    let names: Vec<String> = (0..12).map(|number| format!("file{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::with_files(&names, "content");
    let mount = world.mount("mnt", &["-o", "actimeo=86400,delegations=3"]);
    names.iter().for_each(|name| assert_eq!(fs::read_to_string(mount.path(name)).unwrap(), "content"));
    // Those that made room go back in the background.
    let are_three = (0..1000).any(|_| world.delegations() == 3);
    assert!(are_three);
    let before = world.operations();
    for name in &names[9..] {
        assert_eq!(fs::read_to_string(mount.path(name)).unwrap(), "content");
    }
    assert_eq!(world.operations(), before, "those used last are kept");
    mount.unmount();
    let other = world.mount("other", &[]);
    names.iter().for_each(|name| fs::write(other.path(name), "new").unwrap());
    assert_eq!(world.metric("nfs_callbacks_total", "{kind=\"recall\",result=\"answered\"}"), 0);
    other.unmount();
}

#[test]
fn nothing_that_was_promised_before_a_restart_counts_after_it() {
    let mut world = World::with_files(&["file"], "old content");
    let (one, other) = (world.mount("one", NAMES), world.mount("other", NAMES));
    let held = File::open(one.path("file")).unwrap();
    for round in 0..3 {
        let _ = fs::read(one.path("file")).unwrap();
        world.gateway.kill();
        world.gateway.launch();
        let text = format!("content {round}");
        fs::write(other.path("file"), &text).unwrap();
        assert_eq!(fs::read_to_string(one.path("file")).unwrap(), text);
    }
    drop(held);
    one.unmount();
    other.unmount();
    assert_eq!(world.delegations(), 0);
}
