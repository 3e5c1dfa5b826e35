//! What cannot be done: who is told, and when.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use rustix::io::Errno;

use crate::small_server::SmallServer;
use crate::support::parallel;
use crate::world::{Mount, World, run};

/// No file of the gateway's goes beyond; the kernel lets it pass.
const TOO_FAR: u64 = 1 << 60;

fn open(mount: &Mount, writes: bool) -> File {
    OpenOptions::new().read(true).write(writes).open(mount.path("file")).unwrap()
}

fn code<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn an_error_of_writing_is_told_once_to_each_who_had_the_file_open() {
    let world = World::new();
    let mount = world.mount("mnt", &[]);
    fs::write(mount.path("file"), "content").unwrap();
    let [one, other] = [(); 2].map(|()| open(&mount, true));
    let reads = open(&mount, false);
    one.write_all_at(b"x", TOO_FAR).unwrap();
    let too_large = Some(Errno::FBIG.raw_os_error());
    for file in [&one, &other] {
        assert_eq!(code(file.sync_all()), too_large);
        file.sync_all().unwrap();
    }
    // Who opens it now has nothing to do with it; who only reads is told if he asks.
    let late = open(&mount, true);
    late.sync_all().unwrap();
    assert_eq!(code(reads.sync_all()), too_large);
    // Afterwards it can be written, and has all that could be.
    other.write_all_at(b"CON", 0).unwrap();
    [&one, &other, &late].iter().for_each(|file| file.sync_all().unwrap());
    drop((one, other, late, reads));
    assert_eq!(fs::read_to_string(mount.path("file")).unwrap(), "CONtent");
    mount.unmount();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_full_server_is_said_and_takes_more_when_something_goes() {
    let server = SmallServer::start(4 << 20).await;
    let folder = tempfile::tempdir().unwrap();
    let mount = Mount::start(&format!("nfs://{}/home", server.address), folder.path(), &[]);
    let piece = vec![b'x'; 3 << 20];
    parallel(|| {
        let no_space = Some(Errno::NOSPC.raw_os_error());
        fs::write(mount.path("first"), &piece).unwrap();
        let second = File::create(mount.path("second")).unwrap();
        let written = second.write_all_at(&piece, 0).and_then(|()| second.sync_all());
        assert_eq!(code(written), no_space);
        fs::remove_file(mount.path("first")).unwrap();
        second.write_all_at(&piece, 0).unwrap();
        second.sync_all().unwrap();
        assert!(fs::read(mount.path("second")).unwrap() == piece);
        drop(second);
        // The kernel says nothing of it at the end of a program, but `cp` and the like look.
        let copied = Command::new("cp").arg(mount.path("second")).arg(mount.path("third")).output().unwrap();
        assert!(!copied.status.success());
        assert!(String::from_utf8_lossy(&copied.stderr).contains("No space left on device"), "{copied:?}");
        fs::remove_file(mount.path("third")).unwrap();
    });
    drop(mount);
}

#[test]
fn who_only_writes_is_told_by_the_next_write_and_goes_on() {
    let world = World::new();
    let mount = world.mount("mnt", &[]);
    fs::write(mount.path("file"), "content").unwrap();
    let (one, other) = (open(&mount, true), open(&mount, true));
    one.write_all_at(b"x", TOO_FAR).unwrap();
    assert!(other.sync_all().is_err());
    assert_eq!(code(one.write_all_at(b"CON", 0)), Some(Errno::FBIG.raw_os_error()));
    one.write_all_at(b"CON", 0).unwrap();
    drop((one, other));
    assert_eq!(fs::read_to_string(mount.path("file")).unwrap(), "CONtent");
    mount.unmount();
}

/// What a process writes that ends without a word.
const ENDS: &str = r#"
import errno, os
file = os.open("file", os.O_RDWR | os.O_CREAT)
if os.fork() == 0:
    os.pwrite(file, b"x", 1 << 60)
    os._exit(0)
assert os.wait()[1] == 0
try:
    os.fsync(file)
except OSError as error:
    assert error.errno == errno.EFBIG
else:
    raise SystemExit("nobody said it")
"#;

#[test]
fn the_end_of_a_process_does_not_swallow_what_others_have_to_know() {
    let world = World::new();
    let mount = world.mount("mnt", &[]);
    run(Command::new("python3").args(["-c", ENDS]).current_dir(&mount.directory));
    mount.unmount();
}

#[test]
fn without_the_server_a_soft_mount_fails_and_goes_on_when_it_is_back() {
    let mut world = World::new();
    let mount = world.mount("mnt", &["-o", "soft=1,actimeo=0,delegations=0"]);
    fs::write(mount.path("file"), "content").unwrap();
    world.gateway.kill();
    assert_eq!(code(fs::metadata(mount.path("file"))), Some(Errno::TIMEDOUT.raw_os_error()));
    assert_eq!(code(fs::create_dir(mount.path("new"))), Some(Errno::TIMEDOUT.raw_os_error()));
    world.gateway.launch();
    // It is allowed no more than a second, and may just have begun to wait before it tries again.
    let read = || fs::read_to_string(mount.path("file"));
    let is_late =
        |read: &io::Result<String>| matches!(read, Err(error) if error.kind() == io::ErrorKind::TimedOut);
    let read = std::iter::repeat_with(read).take(60).find(|read| !is_late(read)).expect("it came back");
    assert_eq!(read.unwrap(), "content");
    fs::create_dir(mount.path("new")).unwrap();
    mount.unmount();
}

/// Writes by a mapping that outlives the descriptor, so that there is nothing whose end could say what became of it.
const MAPPED: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
file = os.open("mapped", os.O_RDWR | os.O_CREAT)
os.write(file, b"early" + bytes(4091))
place = libc.mmap(None, 4096, 3, 1, file, 0)
os.close(file)
ctypes.memmove(place, b"later", 5)
print("ready", flush=True)
sys.stdin.readline()
assert libc.munmap(place, 4096) == 0
"#;

#[test]
fn what_is_lost_and_nobody_was_told_of_is_said_at_the_end_of_the_mount() {
    for is_lost in [false, true] {
        let mut world = World::new();
        let mut mount = world.mount("mnt", &["-o", "soft=1"]);
        let mut program = Command::new("python3");
        program.args(["-c", MAPPED]).current_dir(&mount.directory);
        let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        if is_lost {
            world.gateway.kill();
        }
        program.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert!(program.wait().unwrap().success());
        mount.signal("TERM");
        let (status, said) = mount.finish();
        assert_eq!(status.code(), Some(i32::from(is_lost)), "{said}");
        assert_eq!(
            said.contains("not everything that was written has reached the server"),
            is_lost,
            "{said}"
        );
        if is_lost {
            world.gateway.launch();
        }
        let mount = world.mount("mnt", &[]);
        let content = fs::read(mount.path("mapped")).unwrap();
        assert_eq!(&content[..5], if is_lost { b"early" } else { b"later" });
        mount.unmount();
    }
}

#[test]
fn there_are_as_many_connections_as_asked_for() {
    let world = World::new();
    for count in [1, 3] {
        let mount = world.mount("mnt", &["-o", &format!("nconnect={count}")]);
        fs::write(mount.path("file"), "content").unwrap();
        assert_eq!(mount.connections_to(world.gateway.nfs), count);
        mount.unmount();
    }
}
