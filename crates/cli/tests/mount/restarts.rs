//! The gateway ends and starts again; programs do not notice.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::world::{Mount, World};

/// Writes every third file, until there is one that says otherwise: `0 directory, 1 number, 2 stop`. A program of its own, as one that
/// starts another closes in that what it has open, which waits for the gateway: here, for the one that is about to be started.
const LANE: &str = r#"
number=$1
while [ ! -e "$2" ]; do
    yes "$(printf %08d $number)" | tr -d '\n' | head -c $((8 * (1 + number * 97 % 40000))) >"$0/file$number" || exit 1
    echo $number
    number=$((number + 3))
done
"#;

#[test]
fn a_gateway_killed_under_load_is_waited_for_and_nothing_is_lost() {
    let mut world = World::new();
    let (mount, other) = (world.mount("one", &[]), world.mount("other", &[]));
    let held = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(mount.path("held"))
        .unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let without_name = mount.path("without a name");
    let mut nameless =
        OpenOptions::new().read(true).write(true).create_new(true).open(&without_name).unwrap();
    nameless.write_all(b"still here").unwrap();
    nameless.sync_all().unwrap();
    fs::remove_file(&without_name).unwrap();
    let (stop, written) = (world.folder.path().join("stop"), AtomicU32::new(0));
    let content = |number: u32| format!("{number:08}").repeat(1 + number as usize * 97 % 40_000);
    let lanes = ["0", "1", "2"].map(|number| {
        let mut lane = Command::new("sh");
        lane.args(["-c", LANE]).arg(&mount.directory).arg(number).arg(&stop);
        lane.stdout(Stdio::piped()).spawn().unwrap()
    });
    thread::scope(|scope| {
        for mut lane in lanes {
            let written = &written;
            scope.spawn(move || {
                for number in BufReader::new(lane.stdout.take().unwrap()).lines() {
                    written.fetch_max(number.unwrap().parse().unwrap(), Ordering::SeqCst);
                }
                assert!(lane.wait().unwrap().success(), "a file could not be written");
            });
        }
        for _ in 0..3 {
            let before = written.load(Ordering::SeqCst);
            while written.load(Ordering::SeqCst) < before + 12 {
                thread::yield_now();
            }
            world.gateway.kill();
            world.gateway.launch();
        }
        let before = written.load(Ordering::SeqCst);
        while written.load(Ordering::SeqCst) < before + 12 {
            thread::yield_now();
        }
        fs::write(&stop, "").unwrap();
    });
    let mut files = 0;
    for entry in fs::read_dir(&other.directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(number) = name.strip_prefix("file") else { continue };
        assert!(fs::read_to_string(other.path(&name)).unwrap() == content(number.parse().unwrap()), "{name}");
        files += 1;
    }
    assert!(files > written.load(Ordering::SeqCst) / 2);
    let elsewhere = OpenOptions::new().read(true).write(true).open(other.path("held")).unwrap();
    assert_eq!(flock(&elsewhere, FlockOperation::NonBlockingLockExclusive), Err(Errno::AGAIN));
    let mut text = String::new();
    std::io::Seek::rewind(&mut nameless).unwrap();
    std::io::Read::read_to_string(&mut nameless, &mut text).unwrap();
    assert_eq!(text, "still here");
    drop((held, elsewhere, nameless));
    mount.unmount();
    other.unmount();
    world.gateway.check();
}

/// Writes a file whole, and again when it is told to; then makes it stable. A program of its own for the same reason.
const TWICE: &str = "import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
for byte in sys.argv[2:]:
    os.pwrite(file, bytes([int(byte)]) * (1 << 20), 0)
    print(byte, flush=True)
    sys.stdin.readline()
os.fsync(file)";

/// What a killed gateway has lost is sent again, but not over what was written since.
#[test]
fn bytes_that_were_lost_do_not_come_back_over_newer_ones() {
    let mut world = World::new();
    let mounts = ["one", "other"].map(|name| world.mount(name, &["-o", "delegations=0"]));
    for round in 0..4_u8 {
        let [path, there] = [&mounts[0], &mounts[1]].map(|mount| mount.path(&format!("file{round}")));
        let [old, new] = [round * 2 + 1, round * 2 + 2];
        let mut program = Command::new("python3");
        program.args(["-c", TWICE]).arg(path).args([old.to_string(), new.to_string()]);
        let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut go_on = program.stdin.take().unwrap();
        let mut said = BufReader::new(program.stdout.take().unwrap()).lines();
        assert_eq!(said.next().unwrap().unwrap(), old.to_string());
        // It is at the gateway, and need not be stable there.
        while fs::metadata(&there).map_or(0, |it| it.len()) < 1 << 20 {
            thread::yield_now();
        }
        world.gateway.kill();
        world.gateway.launch();
        go_on.write_all(b"\n").unwrap();
        assert_eq!(said.next().unwrap().unwrap(), new.to_string());
        go_on.write_all(b"\n").unwrap();
        assert!(program.wait().unwrap().success());
        assert!(fs::read(&there).unwrap() == vec![new; 1 << 20], "round {round}");
    }
    mounts.into_iter().for_each(Mount::unmount);
}
