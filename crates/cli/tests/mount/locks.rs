//! Locks exclude those of another mount as those of this one.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;

use crate::world::World;

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

type Lock = fn(&File, FlockOperation) -> Result<(), Errno>;

#[test]
fn locks_of_both_kinds_exclude_another_mount_and_are_waited_for() {
    let kinds: [Lock; 2] = [|file, how| flock(file, how), |file, how| fcntl_lock(file, how)];
    let world = World::new();
    let (one, other) = (world.mount("one", &[]), world.mount("other", &[]));
    for (kind, lock) in kinds.into_iter().enumerate() {
        let name = format!("file{kind}");
        let (here, there) = (open(&one.path(&name)), open(&other.path(&name)));
        lock(&here, FlockOperation::LockShared).unwrap();
        lock(&there, FlockOperation::NonBlockingLockShared).unwrap();
        lock(&there, FlockOperation::Unlock).unwrap();
        lock(&here, FlockOperation::LockExclusive).unwrap();
        assert_eq!(lock(&there, FlockOperation::NonBlockingLockShared), Err(Errno::AGAIN), "kind {kind}");
        let (tell, told) = mpsc::channel();
        let waiter = thread::spawn(move || {
            let result = lock(&there, FlockOperation::LockExclusive);
            tell.send(()).unwrap();
            result.map(|()| there)
        });
        assert!(told.try_recv().is_err());
        lock(&here, FlockOperation::Unlock).unwrap();
        let there = waiter.join().unwrap().unwrap();
        assert_eq!(lock(&here, FlockOperation::NonBlockingLockExclusive), Err(Errno::AGAIN), "kind {kind}");
        // Closing gives back what is locked.
        drop(there);
        lock(&here, FlockOperation::LockExclusive).unwrap();
    }
    one.unmount();
    other.unmount();
}

#[test]
fn whoever_waits_for_a_lock_can_be_killed() {
    let world = World::new();
    let mount = world.mount("mnt", &[]);
    let held = open(&mount.path("file"));
    flock(&held, FlockOperation::LockExclusive).unwrap();
    for signal in ["TERM", "KILL"] {
        let script = "echo waits; exec flock file true";
        let mut waiter = Command::new("bash");
        let waiter = waiter.args(["-c", script]).current_dir(&mount.directory).stdout(Stdio::piped());
        let mut waiter = waiter.spawn().unwrap();
        // It waits for the lock as soon as the kernel says so.
        let status = format!("/proc/{}/wchan", waiter.id());
        while !std::fs::read_to_string(&status).unwrap().contains("request_wait_answer") {
            thread::yield_now();
        }
        crate::world::run(Command::new("kill").arg(format!("-{signal}")).arg(waiter.id().to_string()));
        assert!(!waiter.wait().unwrap().success());
    }
    drop(held);
    mount.unmount();
}
