//! How a mount begins and ends.

use std::fs;
use std::process::Command;

use crate::support::{KURMA, free_port};
use crate::world::{World, run};

fn is_mounted(directory: &std::path::Path) -> bool {
    fs::read_to_string("/proc/self/mounts").unwrap().contains(directory.to_str().unwrap())
}

#[test]
fn a_signal_unmounts_and_nothing_that_was_written_is_lost() {
    for signal in ["TERM", "INT"] {
        let world = World::new();
        let mut mount = world.mount("mnt", &[]);
        fs::write(mount.path("file"), "content").unwrap();
        mount.signal(signal);
        let (status, said) = mount.finish();
        assert!(status.success(), "{status}: {said}");
        assert!(!is_mounted(&mount.directory));
        let mount = world.mount("mnt", &[]);
        assert_eq!(fs::read_to_string(mount.path("file")).unwrap(), "content");
        mount.unmount();
    }
}

#[test]
fn a_server_that_is_gone_does_not_keep_the_file_system_mounted() {
    let mut world = World::new();
    let mut mount = world.mount("mnt", &[]);
    fs::write(mount.path("file"), "content").unwrap();
    world.gateway.kill();
    mount.signal("TERM");
    let (status, said) = mount.finish();
    assert!(status.success(), "{status}: {said}");
    assert!(!is_mounted(&mount.directory));
}

#[test]
fn it_goes_to_the_background_and_ends_with_umount() {
    let world = World::new();
    let directory = world.folder.path().join("mnt");
    fs::create_dir(&directory).unwrap();
    let mount = || run(Command::new(&*KURMA).arg("mount").arg(world.url("/home")).arg(&directory));
    mount();
    assert!(is_mounted(&directory));
    fs::write(directory.join("file"), "content").unwrap();
    let again = Command::new(&*KURMA).arg("mount").arg(world.url("/home")).arg(&directory).output().unwrap();
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("mounted there already"), "{again:?}");
    run(Command::new("umount").arg(&directory));
    assert!(!is_mounted(&directory));
    mount();
    assert_eq!(fs::read_to_string(directory.join("file")).unwrap(), "content");
    run(Command::new("umount").arg(&directory));
}

#[test]
fn what_cannot_be_mounted_is_said_and_why() {
    let world = World::new();
    let directory = world.folder.path().to_str().unwrap().to_owned();
    let file = world.folder.path().join("file");
    fs::write(&file, "").unwrap();
    let nobody = format!("nfs://{}/", free_port());
    let (home, none) = (world.url("/home"), world.url("/nothing"));
    for (arguments, code, words) in [
        (["/home", &directory, "-oro"], 2, "nfs://HOST[:PORT]/PATH"),
        (["nfs:///home", &directory, "-oro"], 2, "no host"),
        ([&home, &directory, "-osoft=x"], 2, "soft=x"),
        ([&home, &directory, "-oasync"], 2, "allow_other"),
        ([&home, file.to_str().unwrap(), "-oro"], 2, "not a directory"),
        ([&home, "/nowhere/at/all", "-oro"], 2, "/nowhere/at/all"),
        ([&none, &directory, "-oro"], 1, "/nothing"),
        ([&nobody, &directory, "-oro"], 1, "no NFS server answers"),
    ] {
        let ended = Command::new(&*KURMA).arg("mount").args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.code() == Some(code) && said.contains(words), "{arguments:?}: {ended:?}");
    }
    assert!(!is_mounted(world.folder.path()));
}

#[test]
fn a_read_only_mount_takes_no_changes() {
    let world = World::new();
    let (writes, reads) = (world.mount("one", &[]), world.mount("other", &["-o", "ro"]));
    fs::write(writes.path("file"), "content").unwrap();
    assert_eq!(fs::read_to_string(reads.path("file")).unwrap(), "content");
    let error = fs::write(reads.path("file"), "other").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::ROFS.raw_os_error()));
    writes.unmount();
    reads.unmount();
}
