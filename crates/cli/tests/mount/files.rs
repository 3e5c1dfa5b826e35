//! System calls on files.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use std::thread;

use rustix::fs::{
    CWD, FallocateFlags, RenameFlags, SeekFrom as Place, XattrFlags, copy_file_range, fallocate, getxattr,
    listxattr, removexattr, renameat_with, seek, setxattr, statvfs,
};
use rustix::io::Errno;

use crate::support::Random;
use crate::world::{Mount, World, run};

#[test]
fn a_large_file_comes_back_byte_for_byte_and_is_copied_inside_the_server() {
    const BYTES: usize = 40 << 20;
    let world = World::new();
    let mount = world.mount("mnt", &[]);
    let data = Random::from_environment("large file").bytes(BYTES);
    fs::write(mount.path("large"), &data).unwrap();
    mount.unmount();
    let mount = world.mount("mnt", &[]);
    assert!(fs::read(mount.path("large")).unwrap() == data);
    let source = File::open(mount.path("large")).unwrap();
    let copy = OpenOptions::new().read(true).write(true).create_new(true).open(mount.path("copy")).unwrap();
    let mut left = BYTES;
    while left > 0 {
        let copied = copy_file_range(&source, None, &copy, None, left).unwrap();
        assert!(copied > 0);
        left -= copied;
    }
    drop(copy);
    assert!(fs::read(mount.path("copy")).unwrap() == data);
    run(Command::new("cmp").arg(mount.path("large")).arg(mount.path("copy")));
    drop(source);
    mount.unmount();
}

#[test]
fn a_file_without_a_name_is_there_until_it_is_closed() {
    let world = World::new();
    let mount = world.mount("mnt", &[]);
    let mut file =
        OpenOptions::new().read(true).write(true).create_new(true).open(mount.path("file")).unwrap();
    file.write_all(b"before").unwrap();
    fs::remove_file(mount.path("file")).unwrap();
    assert!(!mount.path("file").exists());
    file.write_all(b" and after").unwrap();
    file.sync_all().unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "before and after");
    drop(file);
    fs::write(mount.path("file"), "another").unwrap();
    assert_eq!(fs::read_to_string(mount.path("file")).unwrap(), "another");
    mount.unmount();
}

#[test]
fn names_change_as_rename_and_link_say() {
    let world = World::new();
    let mount = world.mount("mnt", &[]);
    let path = |name: &str| mount.path(name);
    fs::write(path("a"), "a").unwrap();
    fs::write(path("b"), "b").unwrap();
    let no_replace =
        |from: &str, to: &str| renameat_with(CWD, path(from), CWD, path(to), RenameFlags::NOREPLACE);
    assert_eq!(no_replace("a", "b"), Err(Errno::EXIST));
    assert_eq!(fs::read_to_string(path("b")).unwrap(), "b");
    no_replace("a", "c").unwrap();
    assert!(!path("a").exists());
    assert_eq!(fs::metadata(path("c")).unwrap().nlink(), 1);
    fs::create_dir(path("folder")).unwrap();
    fs::create_dir(path("empty")).unwrap();
    assert_eq!(no_replace("folder", "empty"), Err(Errno::EXIST));
    no_replace("folder", "moved").unwrap();
    let exchange = renameat_with(CWD, path("b"), CWD, path("c"), RenameFlags::EXCHANGE);
    assert_eq!(exchange, Err(Errno::INVAL));
    assert_eq!(fs::read_to_string(path("b")).unwrap(), "b");
    fs::rename(path("c"), path("b")).unwrap();
    assert_eq!(fs::read_to_string(path("b")).unwrap(), "a");
    fs::hard_link(path("b"), path("moved/link")).unwrap();
    assert_eq!(fs::metadata(path("b")).unwrap().nlink(), 2);
    symlink("../b", path("moved/symbolic")).unwrap();
    assert_eq!(fs::read_to_string(path("moved/symbolic")).unwrap(), "a");
    assert_eq!(fs::read_link(path("moved/symbolic")).unwrap().to_str(), Some("../b"));
    assert_eq!(
        fs::remove_dir(path("moved")).unwrap_err().raw_os_error(),
        Some(Errno::NOTEMPTY.raw_os_error())
    );
    run(Command::new("mkfifo").arg(path("fifo")));
    mount.unmount();
}

/// More than may wait in memory, so that all of it is made stable again and again while it is written.
#[test]
fn many_files_that_are_written_at_once_and_stay_open_are_all_there() {
    let world = World::new();
    let mount = world.mount("mnt", &[]);
    let content = |writer: usize, file: usize| vec![(writer * 31 + file) as u8; 1 << 20];
    let path = |writer: usize, file: usize| mount.path(&format!("{writer}-{file}"));
    thread::scope(|scope| {
        for writer in 0..4 {
            let (content, path) = (&content, &path);
            scope.spawn(move || {
                let mut files = Vec::new();
                for file in 0..40 {
                    let mut open = fs::File::create(path(writer, file)).unwrap();
                    // In pieces of all sorts: small ones are gathered, large ones go at once.
                    let mut rest = &content(writer, file)[..];
                    for size in [100, 5_000, 700_000, 1, 100_000].into_iter().cycle() {
                        let (piece, after) = rest.split_at(rest.len().min(size));
                        open.write_all(piece).unwrap();
                        rest = after;
                        if rest.is_empty() {
                            break;
                        }
                    }
                    files.push(open);
                }
                files.iter().for_each(|file| file.sync_all().unwrap());
            });
        }
    });
    let other = world.mount("other", &[]);
    for (writer, file) in (0..4).flat_map(|writer| (0..40).map(move |file| (writer, file))) {
        assert!(fs::read(path(writer, file)).unwrap() == content(writer, file), "{writer}-{file}");
        let there = other.path(&format!("{writer}-{file}"));
        assert!(fs::read(there).unwrap() == content(writer, file), "{writer}-{file} by the other mount");
    }
    mount.unmount();
    other.unmount();
}

#[test]
fn of_two_who_rename_to_one_new_name_one_succeeds_and_nothing_is_replaced() {
    let world = World::new();
    let mounts = [world.mount("one", &[]), world.mount("other", &[])];
    for (round, makes) in ["file", "empty", "full"].into_iter().cycle().take(60).enumerate() {
        let target = format!("target {round}");
        let sources = [0, 1].map(|number| format!("source {round} {number}"));
        for (mount, source) in mounts.iter().zip(&sources) {
            match makes {
                "file" => fs::write(mount.path(source), source).unwrap(),
                _ => fs::create_dir(mount.path(source)).unwrap(),
            }
            if makes == "full" {
                fs::write(mount.path(source).join("file"), source).unwrap();
            }
        }
        let together = Barrier::new(2);
        let renamed = thread::scope(|scope| {
            let rename = |(mount, source): (&Mount, &String)| {
                let (from, to) = (mount.path(source), mount.path(&target));
                let together = &together;
                scope.spawn(move || {
                    together.wait();
                    renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)
                })
            };
            let threads: Vec<_> = mounts.iter().zip(&sources).map(rename).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let won = renamed.iter().position(Result::is_ok).expect("somebody is first");
        assert_eq!(renamed[1 - won], Err(Errno::EXIST), "{makes}, round {round}");
        assert!(mounts[1 - won].path(&sources[1 - won]).exists(), "{makes}: it is where it was");
        let content = match makes {
            "file" => mounts[won].path(&target),
            _ => mounts[won].path(&target).join("file"),
        };
        if makes != "empty" {
            assert_eq!(fs::read_to_string(content).unwrap(), sources[won]);
        }
    }
    mounts.into_iter().for_each(Mount::unmount);
}

#[test]
fn a_directory_that_may_not_be_renamed_leaves_nothing_at_the_new_name() {
    let world = World::new();
    let everybody = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    everybody(world.folder.path(), 0o755);
    let mount = world.mount("mnt", &["-o", "allow_other,no_default_permissions"]);
    everybody(&mount.directory, 0o755);
    fs::create_dir_all(mount.path("from/folder")).unwrap();
    fs::create_dir(mount.path("to")).unwrap();
    everybody(&mount.path("to"), 0o777);
    let user = ["--reuid", "1234", "--regid", "1234", "--clear-groups"];
    let rename = ["mv", "--no-clobber", "--no-target-directory", "from/folder", "to/folder"];
    let mut command = Command::new("setpriv");
    let renamed = command.args(user).args(rename).current_dir(&mount.directory).output().unwrap();
    let said = String::from_utf8_lossy(&renamed.stderr);
    assert!(!renamed.status.success() && said.contains("Permission denied"), "{said}");
    assert!(mount.path("from/folder").exists());
    assert_eq!(fs::read_dir(mount.path("to")).unwrap().count(), 0);
    mount.unmount();
}

#[test]
fn space_is_allocated_given_back_and_found() {
    let world = World::new();
    let mount = world.mount("mnt", &[]);
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(mount.path("file")).unwrap();
    file.write_all_at(&[7; 400_000], 0).unwrap();
    file.set_len(1_000_000).unwrap();
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 65_536, 131_072).unwrap();
    let mut bytes = vec![1; 1_000_000];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let expected: Vec<u8> = (0..1_000_000)
        .map(|at| if at < 400_000 && !(65_536..196_608).contains(&at) { 7 } else { 0 })
        .collect();
    assert!(bytes == expected);
    assert_eq!(seek(&file, Place::Hole(0)), Ok(65_536));
    assert_eq!(seek(&file, Place::Data(65_536)), Ok(196_608));
    assert_eq!(seek(&file, Place::Data(900_000)), Err(Errno::NXIO));
    fallocate(&file, FallocateFlags::empty(), 0, 1_200_000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1_200_000);
    drop(file);
    let space = statvfs(&mount.directory).unwrap();
    assert!(space.f_blocks >= space.f_bavail && space.f_bavail > 0 && space.f_namemax >= 255);
    run(Command::new("df").arg(&mount.directory));
    mount.unmount();
}

#[test]
fn extended_attributes_are_kept_listed_and_removed() {
    let world = World::new();
    let mount = world.mount("mnt", &[]);
    let file = mount.path("file");
    fs::write(&file, "").unwrap();
    setxattr(&file, "user.colour", b"red", XattrFlags::CREATE).unwrap();
    assert_eq!(setxattr(&file, "user.colour", b"x", XattrFlags::CREATE), Err(Errno::EXIST));
    assert_eq!(setxattr(&file, "user.other", b"x", XattrFlags::REPLACE), Err(Errno::NODATA));
    setxattr(&file, "user.empty", b"", XattrFlags::empty()).unwrap();
    let mut value = [0; 10];
    assert_eq!(getxattr(&file, "user.colour", &mut value), Ok(3));
    assert_eq!(&value[..3], b"red");
    assert_eq!(getxattr(&file, "user.colour", &mut [0u8; 2]), Err(Errno::RANGE));
    let mut list = [0u8; 100];
    let length = listxattr(&file, &mut list).unwrap();
    let mut names: Vec<_> = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
    names.sort();
    assert_eq!(names, [b"user.colour".as_slice(), b"user.empty"]);
    removexattr(&file, "user.colour").unwrap();
    assert_eq!(getxattr(&file, "user.colour", &mut value), Err(Errno::NODATA));
    mount.unmount();
}

#[test]
fn a_directory_of_thousands_is_listed_once_each_while_it_changes() {
    const FILES: usize = 3000;
    let world = World::new();
    let mount = world.mount("mnt", &[]);
    let folder = mount.path("folder");
    fs::create_dir(&folder).unwrap();
    for number in 0..FILES {
        File::create(folder.join(format!("file{number}"))).unwrap();
    }
    let mut names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), FILES);
    // Each grows as it is met: no later part of the listing says the old size.
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"more").unwrap();
        drop(file);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"again").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"moreagain");
    }
    for entry in fs::read_dir(&folder).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    fs::remove_dir(&folder).unwrap();
    mount.unmount();
}
