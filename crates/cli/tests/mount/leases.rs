//! A mount that is away for longer than its lease, as with a suspended machine: the server forgets it, and others take what it
//! had.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};

use rustix::fs::{FlockOperation, flock};

use crate::world::{Mount, World};

/// A process of its own: whatever ends one that has files of a stopped mount open has to wait, a copy of this one on its way to be
/// another program, too.
struct Program(Child);

impl Program {
    /// Returns when it has all that it is to have.
    fn start(mount: &Mount) -> Program {
        let mut command = Command::new("python3");
        command.args(["-c", include_str!("leases.py")]).current_dir(&mount.directory);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Program(child)
    }

    /// Has it look after its files.
    fn go_on(mut self) {
        self.0.stdin.take().unwrap().write_all(b"go on\n").unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

/// Changes what another mount has locked or delegated. Each of it waits until the server has given up that one.
fn change(mount: &Mount) {
    let locked = OpenOptions::new().read(true).write(true).open(mount.path("locked")).unwrap();
    flock(&locked, FlockOperation::LockExclusive).unwrap();
    locked.write_all_at(b"changed", 0).unwrap();
    drop(locked);
    for name in ["read", "looked at"] {
        fs::write(mount.path(name), "changed").unwrap();
    }
}

/// The program's mount is stopped while that happens to the server, and another one takes what it had.
fn only_locks_are_lost(happens: impl FnOnce(&mut World)) {
    let mut world = World::new();
    let (mount, other) = (world.mount("one", &[]), world.mount("other", &[]));
    let program = Program::start(&mount);
    mount.signal("STOP");
    happens(&mut world);
    change(&other);
    mount.signal("CONT");
    program.go_on();
    assert_eq!(fs::read_to_string(other.path("written")).unwrap(), "before and behind");
    assert!(fs::read(other.path("unsafe yet")).unwrap() == [b'x'; 100_000]);
    assert_eq!(fs::read_to_string(other.path("locked")).unwrap(), "changed again");
    mount.unmount();
    other.unmount();
    world.gateway.check();
}

#[test]
fn a_mount_that_was_away_for_longer_than_its_lease_loses_locks_and_nothing_else() {
    only_locks_are_lost(|_| {});
}

#[test]
fn a_mount_that_missed_the_grace_period_of_a_restarted_server_loses_locks_and_nothing_else() {
    only_locks_are_lost(|world| {
        world.gateway.kill();
        world.gateway.launch();
    });
}
