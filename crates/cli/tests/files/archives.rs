//! `tar` and `untar`, with the archives of others.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use crate::world::{World, kurma, output, plant, real, tool};

const FORMAT: &str = "%P|%y|%m|%U|%G|%n|%l\n";

fn picture(folder: &Path, tree: &str) -> Vec<String> {
    let mut lines: Vec<String> =
        real("find", folder, &[tree, "-printf", FORMAT]).lines().map(str::to_owned).collect();
    // Archives have whole seconds.
    let times = real("find", folder, &[tree, "!", "-type", "l", "-printf", "%P %T@\n"]);
    lines.extend(times.lines().map(|line| line.split('.').next().unwrap().to_owned()));
    lines.sort();
    // Of directories, what the file system counts.
    lines.retain(|line| !line.contains("|d|"));
    lines
}

/// What `find` prints of a tree with these words, in the order of the names, which are second; with spaces for bars, and bars between lines.
fn below(folder: &Path, tree: &str, words: &str) -> String {
    let words: Vec<&str> = [tree, "-mindepth", "1"].into_iter().chain(words.split(' ')).collect();
    let found = real("find", folder, &words).replace('|', " ");
    let mut lines: Vec<&str> = found.lines().collect();
    lines.sort_unstable_by_key(|line| line.split(' ').nth(1));
    lines.join("|")
}

/// An archive of members with this name, kind, and what it links to, and with all permissions; files have their names as content.
fn archive(folder: &Path, name: &str, members: &str) {
    let make = format!(
        "
from io import BytesIO
from tarfile import DIRTYPE, LNKTYPE, REGTYPE, SYMTYPE, TarFile, TarInfo
with open('{name}', 'wb') as file, TarFile(fileobj=file, mode='w') as archive:
    for name, kind, link in {members}:
        member = TarInfo(name)
        member.type, member.linkname, member.mode = kind, link, 0o777
        content = name.encode() if kind == REGTYPE else b''
        member.size = len(content)
        archive.addfile(member, BytesIO(content))"
    );
    real("python3", folder, &["-c", &make]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn archives_go_from_each_to_each() {
    let world = World::new();
    let folder = world.local("here");
    plant(&folder.join("tree"));
    let long = "n".repeat(90);
    std::fs::create_dir_all(folder.join("tree").join(&long).join(&long)).unwrap();
    std::fs::write(folder.join("tree").join(&long).join(&long).join("deep"), "long name").unwrap();
    std::os::unix::fs::symlink("x".repeat(150), folder.join("tree/long-link")).unwrap();
    let url = world.url("tree");
    world.kurma(&folder, &["cp", "-a", "tree", &url]);
    let original = picture(&folder, "tree");
    let others = ["tar", "bsdtar"];
    for (suffix, flags) in [("tar", "-xf"), ("tar.gz", "-xzf"), ("tar.xz", "-xJf"), ("tar.zst", "-xf")] {
        let archive = format!("ours.{suffix}");
        world.kurma(&folder, &["tar", "-f", &archive, &url]);
        for other in &others {
            let out = format!("{other}-{suffix}");
            world.local(&format!("here/{out}"));
            real(other, &folder, &[flags, &archive, "-C", &out]);
            assert_eq!(picture(&folder, &format!("{out}/tree")), original, "{other} {suffix}");
            real("diff", &folder, &["-r", "--no-dereference", "tree", &format!("{out}/tree")]);
        }
        let out = world.url(&format!("out-{suffix}"));
        world.kurma(&folder, &["mkdir", &out]);
        world.kurma(&folder, &["untar", "-f", &archive, "-C", &out]);
        let back = format!("back-{suffix}");
        world.kurma(&folder, &["cp", "-a", &format!("{out}/tree"), &back]);
        assert_eq!(picture(&folder, &back), original, "{suffix}");
        real("diff", &folder, &["-r", "--no-dereference", "tree", &back]);
    }
    for other in &others {
        for format in ["--format=gnu", "--format=pax", "--format=ustar"] {
            if format == "--format=ustar" || (*other == "bsdtar" && format == "--format=gnu") {
                continue; // cannot say all of it
            }
            let archive = format!("{other}{format}.tar");
            real(other, &folder, &[format, "-cf", &archive, "tree"]);
            let out = format!("from-{archive}");
            world.local(&format!("here/{out}"));
            world.kurma(&folder, &["untar", "-f", &archive, "-C", &out]);
            assert_eq!(picture(&folder, &format!("{out}/tree")), original, "{archive}");
            real("diff", &folder, &["-r", "--no-dereference", "tree", &format!("{out}/tree")]);
            // And over what is there.
            world.kurma(&folder, &["untar", "-f", &archive, "-C", &out]);
            assert_eq!(picture(&folder, &format!("{out}/tree")), original, "{archive} again");
        }
    }
    let names = real("tar", &folder, &["-tf", "ours.tar"]);
    let mut names: Vec<&str> = names.lines().collect();
    names.sort_unstable();
    let theirs = real("tar", &folder, &["-tf", "tar--format=gnu.tar"]);
    let mut theirs: Vec<&str> = theirs.lines().collect();
    theirs.sort_unstable();
    assert_eq!(names, theirs);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn attributes_are_kept_or_not_as_by_tar() {
    let world = World::new();
    let folder = world.local("here");
    plant(&folder.join("tree"));
    let set = |name: &str, mode: u32| {
        let path = folder.join("tree").join(name);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for (name, mode) in [("all", 0o777), ("runs-as", 0o6755), ("read-only", 0o444), ("sticky", 0o1666)] {
        std::fs::write(folder.join("tree").join(name), name).unwrap();
        set(name, mode);
    }
    set("empty", 0o3777);
    real("tar", &folder, &["-cf", "a.tar", "--owner=4321", "--group=1234", "tree"]);
    let before = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let is_new = |path: &Path| {
        let modified = std::fs::symlink_metadata(path).unwrap().modified().unwrap();
        modified.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() >= before
    };
    for words in ["", "-m", "-o", "-m -o", "-p -m", "--no-same-permissions", "--no-same-permissions -m -o"] {
        let words = || words.split_whitespace();
        let name: String = words().collect();
        let [theirs, ours, back] = ["theirs", "ours", "back"].map(|who| format!("{who}{name}"));
        world.local(&format!("here/{theirs}"));
        world.local(&format!("here/{ours}"));
        let unpack = |tool: &mut Command, into: &str| {
            let ended = output(tool.args(["-f", "a.tar", "-C", into]).args(words()));
            assert!(ended.status.success(), "{name}: {}", String::from_utf8_lossy(&ended.stderr));
        };
        unpack(tool("tar", &folder).arg("-x"), &theirs);
        unpack(kurma(&folder).arg("untar"), &ours);
        let url = world.url(&ours);
        world.kurma(&folder, &["mkdir", &url]);
        unpack(kurma(&folder).arg("untar"), &url);
        world.kurma(&folder, &["cp", "-a", &url, &back]);
        let picture = |root: &str| {
            let mut lines = real("find", &folder.join(root), &["tree", "-printf", FORMAT])
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>();
            lines.sort();
            lines
        };
        for root in [&ours, &back] {
            assert_eq!(picture(root), picture(&theirs), "{root}");
            for file in ["old", "a/one", "empty"] {
                let [path, expected] = [root, &theirs].map(|root| folder.join(root).join("tree").join(file));
                assert_eq!(is_new(&path), is_new(&expected), "{}", path.display());
            }
        }
    }
    world.gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn archives_are_listed_and_leave_out_what_tar_leaves_out() {
    let world = World::new();
    let folder = world.local("here");
    plant(&folder.join("tree"));
    for name in ["two\nlines", "b\u{e4}r", "back\\slash", &"n".repeat(99), &"m".repeat(101)] {
        std::fs::write(folder.join("tree").join(name), "x").unwrap();
    }
    let url = world.url("");
    world.kurma(&folder, &["cp", "-a", "tree", &url]);
    let sorted = |text: String| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for (number, words) in [
        &["tree"][..],
        &["tree/a/", "tree/B/odd"],
        &["."],
        &["--exclude", "*.c", "--exclude", "n1*", "tree"],
        &["--exclude", "a", "tree"],
        &["--exclude", "a/deep", "tree"],
        &["--exclude", "tree/a/*", "tree"],
        &["--exclude", "deep/*x", "tree"],
        &["--exclude", "tree", "tree"],
        &["--exclude", "a", "tree/a/one", "tree/B/odd"],
    ]
    .into_iter()
    .enumerate()
    {
        let [theirs, local, remote] =
            ["theirs", "local", "remote"].map(|who| format!("../{who}{number}.tar.gz"));
        real("tar", &folder, &[&["-czf", &theirs, "-C", &folder.to_string_lossy()], words].concat());
        world.kurma(&folder, &[&["tar", "-zf", &local, "-C", &folder.to_string_lossy()], words].concat());
        world.kurma(&folder, &[&["tar", "-zf", &remote, "-C", &url], words].concat());
        for archive in [&theirs, &local, &remote] {
            for flags in ["-tf", "-tvf"] {
                let listed = real("tar", &folder, &[flags, archive]);
                assert_eq!(world.kurma(&folder, &["tar", flags, archive]), listed, "{words:?}");
            }
        }
        let names = |archive: &str| sorted(real("tar", &folder, &["-tf", archive]));
        assert_eq!(names(&local), names(&theirs), "{words:?}");
        let mut expected = names(&theirs);
        // There is nothing else on the server.
        expected.retain(|name| words != ["."] || name == "./" || name.starts_with("./tree"));
        assert_eq!(names(&remote), expected, "{words:?}");
    }
    for words in [&["-C", &url, "/tree"][..], &["-C", &url, "tree/../tree"], &["-t", "tree"], &[]] {
        let ended = output(kurma(&folder).args(["tar", "-f", "none.tar"]).args(words));
        assert_eq!(ended.status.code(), Some(2), "{words:?}");
    }
    let ended = output(kurma(&folder).args(["tar", "-tf", "tree/file"]));
    assert_eq!(ended.status.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_written_through_links_of_an_archive_or_above_the_directory() {
    let world = World::new();
    let folder = world.local("here");
    for directory in ["make/real", "outside", "out"] {
        world.local(&format!("here/{directory}"));
    }
    let make = folder.join("make");
    std::os::unix::fs::symlink("../../outside", make.join("link")).unwrap();
    real("tar", &make, &["-cf", "../evil.tar", "link"]);
    std::fs::remove_file(make.join("link")).unwrap();
    std::fs::create_dir(make.join("link")).unwrap();
    std::fs::write(make.join("link/file"), "evil").unwrap();
    real("tar", &make, &["-rf", "../evil.tar", "link/file"]);
    real("tar", &make, &["-P", "-rf", "../evil.tar", "--transform=s,real,../../outside/dir,", "real"]);
    let ended = output(kurma(&folder).args(["untar", "-f", "evil.tar", "-C", "out"]));
    assert_ne!(ended.status.code(), Some(0));
    assert_eq!(std::fs::read_dir(folder.join("outside")).unwrap().count(), 0);
    let cut = output(tool("sh", &folder).args(["-c", "head -c 700 evil.tar > cut.tar"]));
    assert!(cut.status.success());
    let ended = output(kurma(&folder).args(["untar", "-f", "cut.tar", "-C", "out"]));
    assert_eq!(ended.status.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_hard_link_of_an_archive_leads_out_through_a_symbolic_one() {
    let world = World::new();
    let folder = world.local("here");
    for (number, members) in [
        // A directory that the link is to take the place of, whose mode the file outside would get.
        "[('s', SYMTYPE, '../outside'), ('h', DIRTYPE, ''), ('h', LNKTYPE, 's/secret')]",
        // What is outside would be replaced.
        "[('s', DIRTYPE, ''), ('in', REGTYPE, ''), ('s', SYMTYPE, '../outside'), ('l', SYMTYPE, 'l'), ('s/secret', LNKTYPE, 'l/f')]",
        // The hard link is a symbolic one, too.
        "[('s', SYMTYPE, '../outside'), ('h', LNKTYPE, 's'), ('h/secret', SYMTYPE, 'elsewhere')]",
        "[('s', SYMTYPE, '../outside'), ('h', LNKTYPE, 's'), ('h/secret', LNKTYPE, 'in'), ('in', REGTYPE, '')]",
        "[('h', LNKTYPE, 's'), ('s', SYMTYPE, '../outside'), ('h/secret', LNKTYPE, 'in'), ('in', REGTYPE, '')]",
        "[('s', SYMTYPE, '../outside'), ('h', LNKTYPE, 's'), ('i', LNKTYPE, 'h'), ('i/secret', SYMTYPE, 'elsewhere')]",
    ]
    .into_iter()
    .enumerate()
    {
        let outside = world.local("here/outside").join("secret");
        std::fs::write(&outside, "secret").unwrap();
        std::fs::set_permissions(&outside, std::fs::Permissions::from_mode(0o600)).unwrap();
        archive(&folder, "evil.tar", members);
        let out = format!("out{number}");
        world.local(&format!("here/{out}"));
        let ended = output(kurma(&folder).args(["untar", "-f", "evil.tar", "-C", &out]));
        assert_eq!(ended.status.code(), Some(2), "{members}");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(said.contains(": Cannot "), "{said}");
        let [links, mode] = ["%h", "%a"].map(|what| real("stat", &folder, &["-c", what, "outside/secret"]));
        assert_eq!([links.trim(), mode.trim()], ["1", "600"], "{members}");
        assert_eq!(std::fs::read(&outside).unwrap(), b"secret");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_further_name_is_of_the_file_of_the_archive_and_not_of_what_was_there() {
    let world = World::new();
    let folder = world.local("here");
    std::fs::write(folder.join("a"), "new").unwrap();
    std::fs::hard_link(folder.join("a"), folder.join("b")).unwrap();
    real("tar", &folder, &["-cf", "links.tar", "a", "b"]);
    std::fs::write(world.local("here/out").join("a"), "old").unwrap();
    let url = world.url("out");
    world.kurma(&folder, &["cp", "-r", "out", &url]);
    world.kurma(&folder, &["untar", "-f", "links.tar", "-C", &url]);
    world.kurma(&folder, &["untar", "-f", "links.tar", "-C", "out"]);
    world.kurma(&folder, &["cp", "-a", &url, "back"]);
    for root in ["out", "back"] {
        let names = ["a", "b"].map(|name| folder.join(root).join(name));
        assert_eq!(names.map(|name| std::fs::read_to_string(name).unwrap()), ["new", "new"], "{root}");
        assert_eq!(real("stat", &folder.join(root), &["-c", "%h", "b"]).trim(), "2", "{root}");
    }
}

/// Some names are taken, some are not, and by what has nothing to do with what is to be there.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_in_the_way_is_replaced_as_by_the_tar_of_others() {
    let world = World::new();
    let folder = world.local("here");
    let tree = folder.join("tree");
    for directory in 0..7 {
        let inside = tree.join(directory.to_string());
        std::fs::create_dir_all(&inside).unwrap();
        for file in 0..40 {
            std::fs::write(inside.join(format!("file{file}")), format!("new {directory} {file}")).unwrap();
        }
        std::fs::write(inside.join("long"), vec![directory; 3 << 20]).unwrap();
        std::os::unix::fs::symlink("file0", inside.join("link")).unwrap();
        std::fs::hard_link(inside.join("file1"), inside.join("second")).unwrap();
    }
    real("tar", &folder, &["-cf", "tree.tar", "tree"]);
    let outside = folder.join("outside");
    std::fs::write(&outside, "outside").unwrap();
    let old = world.local("here/old/tree");
    for directory in [0, 1, 2, 4, 6] {
        let inside = old.join(directory.to_string());
        std::fs::create_dir_all(&inside).unwrap();
        for file in (0..40_usize).filter(|file| match directory {
            0 | 1 => true,
            _ => file % (directory + 1) < 2,
        }) {
            let path = inside.join(format!("file{file}"));
            match file % 4 {
                0 => std::fs::create_dir(path).unwrap(),
                1 => std::os::unix::fs::symlink(&outside, path).unwrap(),
                _ => std::fs::write(path, "old").unwrap(),
            }
        }
        match directory {
            0 => std::fs::create_dir(inside.join("long")).unwrap(),
            1 => std::os::unix::fs::symlink(&outside, inside.join("long")).unwrap(),
            2 => std::fs::create_dir(inside.join("link")).unwrap(),
            4 => std::fs::write(inside.join("link"), "old").unwrap(),
            _ => std::fs::hard_link(inside.join("file7"), inside.join("second")).unwrap(),
        }
    }
    let url = world.url("old");
    world.kurma(&folder, &["cp", "-a", "old", &url]);
    world.kurma(&folder, &["untar", "-f", "tree.tar", "-C", "old"]);
    world.kurma(&folder, &["untar", "-f", "tree.tar", "-C", &url]);
    world.kurma(&folder, &["cp", "-a", &url, "back"]);
    for out in ["old/tree", "back/tree"] {
        assert_eq!(picture(&folder, out), picture(&folder, "tree"), "{out}");
        real("diff", &folder, &["-r", "--no-dereference", "tree", out]);
    }
    assert_eq!(std::fs::read(&outside).unwrap(), b"outside");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_directory_takes_the_place_of_nothing() {
    let world = World::new();
    let folder = world.local("here");
    std::fs::create_dir(world.local("here/make").join("taken")).unwrap();
    std::fs::create_dir(folder.join("make/linked")).unwrap();
    std::fs::create_dir(folder.join("make/dangling")).unwrap();
    std::fs::write(folder.join("make/linked/file"), "new").unwrap();
    real("chmod", &folder, &["-R", "u=rwX,go=", "make"]);
    real("tar", &folder, &["-cf", "tree.tar", "-C", "make", "taken", "linked", "dangling"]);
    let out = world.local("here/out");
    std::fs::write(out.join("taken"), "old").unwrap();
    std::fs::set_permissions(out.join("taken"), std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::create_dir(out.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", out.join("linked")).unwrap();
    std::os::unix::fs::symlink("nowhere", out.join("dangling")).unwrap();
    let url = world.url("out");
    world.kurma(&folder, &["cp", "-a", "out", &url]);
    for place in ["out", &url] {
        let ended = output(kurma(&folder).args(["untar", "-f", "tree.tar", "-C", place]));
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        let told = |name: &str| format!("{name}: Cannot mkdir: File exists");
        assert!(said.contains(&told("taken")) && said.contains(&told("dangling")), "{said}");
        assert_eq!((ended.status.code(), said.matches("Cannot mkdir").count()), (Some(2), 2), "{said}");
    }
    world.kurma(&folder, &["cp", "-a", &url, "back"]);
    for out in ["out", "back"] {
        assert_eq!(std::fs::read_to_string(folder.join(out).join("taken")).unwrap(), "old");
        assert_eq!(real("stat", &folder.join(out), &["-c", "%a", "taken"]).trim(), "644");
        assert_eq!(std::fs::read_to_string(folder.join(out).join("elsewhere/file")).unwrap(), "new");
        assert_eq!(std::fs::read_link(folder.join(out).join("dangling")).unwrap(), Path::new("nowhere"));
    }
}

/// A directory of the old tree has two names, of which the archive uses both.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_link_of_an_archive_leads_out_by_way_of_one_that_was_there() {
    let world = World::new();
    let folder = world.local("here");
    for (number, members) in [
        "[('usr/lib/s', SYMTYPE, '../../../outside'), ('lib/s/evil', SYMTYPE, 'x'), ('lib/s/secret', SYMTYPE, 'x')]",
        "[('usr/lib/s', SYMTYPE, '../../../outside'), ('h', LNKTYPE, 'lib/s/secret')]",
        "[('usr/lib/s', SYMTYPE, '../../../outside'), ('x', SYMTYPE, 'y'), ('lib/s/secret', LNKTYPE, 'x')]",
        "[('usr/lib/s', SYMTYPE, '../../../outside'), ('lib/s/in', DIRTYPE, ''), ('lib/s/in/evil', REGTYPE, '')]",
        "[('here/link', SYMTYPE, '../outside'), ('link/evil', SYMTYPE, 'x')]",
        "[('usr/lib/file', SYMTYPE, '../../../outside'), ('lib/file/in/evil', SYMTYPE, 'x')]",
        "[('usr/lib/d', SYMTYPE, '../../../outside'), ('lib/d/in', DIRTYPE, '')]",
        "[('also/in', DIRTYPE, ''), ('lib', SYMTYPE, '../outside')]",
        "[('also/in', DIRTYPE, ''), ('also/in/in', DIRTYPE, ''), ('lib', SYMTYPE, '../outside/..')]",
    ]
    .into_iter()
    .enumerate()
    {
        archive(&folder, "evil.tar", members);
        let (near, far) = (format!("box{number}"), world.url(&format!("box{number}")));
        for directory in ["outside/in", "out/usr/lib/d"] {
            world.local(&format!("here/{near}/{directory}"));
        }
        let there = folder.join(&near);
        std::fs::write(there.join("outside/secret"), "secret").unwrap();
        std::fs::write(there.join("out/usr/lib/file"), "old").unwrap();
        for (text, name) in [("usr/lib", "lib"), (".", "here"), ("nowhere", "link"), ("lib", "also")] {
            std::os::unix::fs::symlink(text, there.join("out").join(name)).unwrap();
        }
        let outside = picture(&there, "outside");
        world.kurma(&folder, &["cp", "-a", &near, &far]);
        for place in [&near, &far] {
            let ended = output(kurma(&folder).args(["untar", "-f", "evil.tar", "-C", &format!("{place}/out")]));
            assert_eq!(ended.status.code(), Some(2), "{members} {}", String::from_utf8_lossy(&ended.stderr));
        }
        let back = format!("back{number}");
        world.kurma(&folder, &["cp", "-a", &far, &back]);
        for place in [&near, &back] {
            assert_eq!(picture(&folder.join(place), "outside"), outside, "{members}");
            assert_eq!(std::fs::read(folder.join(place).join("outside/secret")).unwrap(), b"secret", "{members}");
        }
    }
}

/// Further names are those of a file, whatever it is called.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_place_of_a_symbolic_link_is_left_empty() {
    let world = World::new();
    let folder = world.local("here");
    let many: String = (0..600).map(|n| format!("('many{n}', SYMTYPE, 'many'), ")).collect();
    // Whether those that another name has replaced are spoken of depends on the file system.
    for (number, (members, expected, code)) in [
        ("('d/l', SYMTYPE, 't'), ('h', LNKTYPE, 'x/l')", "link d/l t 2|link h t 2", Some(0)),
        ("('d/l', SYMTYPE, 't'), ('d/l', LNKTYPE, 'x/l')", "link d/l t 1", Some(0)),
        ("('d/l', SYMTYPE, 't'), ('x/l', LNKTYPE, 'd/l')", "link d/l t 1", Some(0)),
        ("('d/l', SYMTYPE, 't'), ('x/l', REGTYPE, ''), ('h', LNKTYPE, 'd/l')", "file d/l  2|file h  2", None),
        (
            "('d/l', SYMTYPE, 't'), ('x/l', LNKTYPE, 'd/l'), ('h', LNKTYPE, 'x/l'), ('i', LNKTYPE, 'd/l')",
            "link d/l t 3|link h t 3|link i t 3",
            Some(0),
        ),
        ("('s', SYMTYPE, 't'), ('s', LNKTYPE, 'missing')", "link s t 1", Some(2)),
        (&format!("('d/l', SYMTYPE, 't'), {many} ('x/l', SYMTYPE, 'u')"), "link d/l u 1", None),
        ("('d/s', DIRTYPE, ''), ('x/s', SYMTYPE, 't')", "link d/s t 1", Some(2)),
        ("('p/l', SYMTYPE, 't'), ('x', SYMTYPE, 'u'), ('x', DIRTYPE, ''), ('x/l', REGTYPE, '')", "file d/l  1|file x/l  1", Some(2)),
        ("('s1', SYMTYPE, 'a'), ('s2', SYMTYPE, 'b'), ('s2', LNKTYPE, 's1'), ('s3', SYMTYPE, 'c')", "link s1 a 2|link s2 a 2|link s3 c 1", Some(0)),
        ("('l', SYMTYPE, 'a'), ('h', LNKTYPE, 'l'), ('h', SYMTYPE, 'b')", "link h b 1|link l a 1", Some(0)),
        ("('l', SYMTYPE, 'a'), ('h', LNKTYPE, 'l'), ('h', DIRTYPE, '')", "link l a 1", Some(0)),
        ("('l', SYMTYPE, 'a'), ('h', LNKTYPE, 'l'), ('q/f', REGTYPE, ''), ('h', DIRTYPE, ''), ('h', LNKTYPE, 'l')", "link h a 2|link l a 2|file q/f  1", Some(0)),
    ]
    .into_iter()
    .enumerate()
    {
        archive(&folder, "places.tar", &format!("[{members}]"));
        let (near, far) = (format!("out{number}"), world.url(&format!("out{number}")));
        world.local(&format!("here/{near}/d"));
        std::os::unix::fs::symlink("d", folder.join(&near).join("x")).unwrap();
        std::os::unix::fs::symlink("x", folder.join(&near).join("p")).unwrap();
        world.kurma(&folder, &["cp", "-a", &near, &far]);
        for place in [&near, &far] {
            let ended = output(kurma(&folder).args(["untar", "-f", "places.tar", "-C", place]));
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert!(code.is_none_or(|code| ended.status.code() == Some(code)), "{members}: {said}");
        }
        let back = format!("back{number}");
        world.kurma(&folder, &["cp", "-a", &far, &back]);
        for place in [&near, &back] {
            let rest = "-type d -o ( -name [px] -type l ) -o -name many* -o -type l -printf link|%P|%l|%n\\n -o -printf file|%P|%l|%n\\n";
            assert_eq!(below(&folder, place, rest), expected, "{members} {place}");
        }
    }
}

/// As of archives that were added to.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_several_members_of_one_name_the_last_one_stays() {
    let world = World::new();
    let folder = world.local("here");
    for (number, (members, expected)) in [
        ("[('x', SYMTYPE, 't'), ('x', REGTYPE, '')]", "file x 1"),
        ("[('x', REGTYPE, ''), ('x', SYMTYPE, 't')]", "link x t"),
        ("[('x', SYMTYPE, 't'), ('x', SYMTYPE, 'u')]", "link x u"),
        ("[('x', SYMTYPE, 't'), ('x', DIRTYPE, ''), ('x/f', REGTYPE, '')]", "directory x|file x/f 1"),
        ("[('f', REGTYPE, ''), ('x', SYMTYPE, 't'), ('x', LNKTYPE, 'f')]", "file f 2|file x 2"),
        ("[('x', SYMTYPE, 't'), ('y', LNKTYPE, 'x')]", "link x t|link y t"),
        ("[('x', SYMTYPE, 't'), ('x', REGTYPE, ''), ('y', LNKTYPE, 'x')]", "file x 2|file y 2"),
        ("[('x', SYMTYPE, 't'), ('y', LNKTYPE, 'x'), ('x', REGTYPE, '')]", "file x 1|link y t"),
        ("[('d', DIRTYPE, ''), ('d', SYMTYPE, 't')]", "link d t"),
        ("[('x', SYMTYPE, 't'), ('y', LNKTYPE, 'x'), ('x', SYMTYPE, 'u')]", "link x u|link y t"),
    ]
    .into_iter()
    .enumerate()
    {
        archive(&folder, "twice.tar", members);
        let (near, far) = (format!("out{number}"), world.url(&format!("out{number}")));
        world.local(&format!("here/{near}"));
        world.kurma(&folder, &["mkdir", &far]);
        for round in 0..2 {
            for place in [&near, &far] {
                let ended = output(kurma(&folder).args(["untar", "-f", "twice.tar", "-C", place]));
                // The second time something is in the way of a directory, or the other way round.
                let is_told = round == 1 && members.contains("DIRTYPE");
                let said = String::from_utf8_lossy(&ended.stderr).into_owned();
                assert_eq!(ended.status.code(), Some(if is_told { 2 } else { 0 }), "{members}: {said}");
            }
            let back = format!("back{number}.{round}");
            world.kurma(&folder, &["cp", "-a", &far, &back]);
            for place in [&near, &back] {
                let rest = "-type d -printf directory|%P\\n -o -type l -printf link|%P|%l\\n -o -printf file|%P|%n\\n";
                assert_eq!(below(&folder, place, rest), expected, "{members} {place}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_directory_to_unpack_into_is_replaced_by_nothing() {
    let world = World::new();
    let folder = world.local("here");
    let secret = world.local("here/outside").join("secret");
    std::fs::write(&secret, "secret").unwrap();
    for (number, members) in [
        "[('.', SYMTYPE, '../outside'), ('secret', SYMTYPE, 'elsewhere')]",
        "[('.', LNKTYPE, 'secret'), ('.', REGTYPE, ''), ('secret', SYMTYPE, 'elsewhere')]",
    ]
    .into_iter()
    .enumerate()
    {
        archive(&folder, "evil.tar", members);
        let (out, url) = (format!("out{number}"), world.url(&format!("out{number}")));
        world.local(&format!("here/{out}"));
        world.kurma(&folder, &["mkdir", &url]);
        for place in [&out, &url] {
            let ended = output(kurma(&folder).args(["untar", "-f", "evil.tar", "-C", place]));
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert_eq!(ended.status.code(), Some(2), "{said}");
            assert!(said.contains("is the directory itself"), "{said}");
            assert_eq!(
                world.kurma(&folder, &["find", place, "-name", "secret", "-type", "l"]).lines().count(),
                1
            );
        }
        assert_eq!(std::fs::read(&secret).unwrap(), b"secret");
    }
}

/// What was in the way stays if nothing can come in its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn links_that_cannot_be_made_remove_nothing() {
    let world = World::new();
    let folder = world.local("here");
    let mut members: Vec<String> = (0..8).map(|n| format!("('file{n}', REGTYPE, '')")).collect();
    members.push("('empty', SYMTYPE, '')".into());
    members.push(format!("('long', SYMTYPE, '{}')", "x".repeat(5000)));
    members.push("('directory', DIRTYPE, ''), ('hard', LNKTYPE, 'directory')".into());
    archive(&folder, "links.tar", &format!("[{}]", members.join(",")));
    let old = world.local("here/out");
    let kept = ["empty", "long", "hard"];
    for name in kept.iter().map(|name| (*name).to_owned()).chain((0..8).map(|n| format!("file{n}"))) {
        std::fs::write(old.join(name), "old").unwrap();
    }
    let url = world.url("out");
    world.kurma(&folder, &["cp", "-r", "out", &url]);
    for place in ["out", &url] {
        let ended = output(kurma(&folder).args(["untar", "-f", "links.tar", "-C", place]));
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!((ended.status.code(), said.lines().count()), (Some(2), 3), "{said}");
    }
    world.kurma(&folder, &["cp", "-r", &url, "back"]);
    for out in ["out", "back"] {
        for name in kept {
            let content = std::fs::read_to_string(folder.join(out).join(name));
            assert_eq!(content.unwrap_or_else(|error| error.to_string()), "old", "{out}/{name}");
        }
        assert_eq!(std::fs::read_to_string(folder.join(out).join("file7")).unwrap(), "file7", "{out}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_further_name_of_a_symbolic_link_is_of_that_of_the_archive() {
    let world = World::new();
    let folder = world.local("here");
    archive(&folder, "links.tar", "[('s', SYMTYPE, 'new'), ('h', LNKTYPE, 's')]");
    world.local("here/out");
    for name in ["s", "h"] {
        std::os::unix::fs::symlink("old", folder.join("out").join(name)).unwrap();
    }
    let url = world.url("out");
    world.kurma(&folder, &["cp", "-a", "out", &url]);
    world.kurma(&folder, &["untar", "-f", "links.tar", "-C", "out"]);
    world.kurma(&folder, &["untar", "-f", "links.tar", "-C", &url]);
    world.kurma(&folder, &["cp", "-a", &url, "back"]);
    for path in ["out/s", "out/h", "back/s", "back/h"] {
        assert_eq!(std::fs::read_link(folder.join(path)).unwrap(), Path::new("new"), "{path}");
    }
}

/// Also one that a file was to replace, which something is in.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_directory_that_stays_has_its_attributes() {
    let world = World::new();
    let folder = world.local("here");
    let large = "import tarfile, io
archive = tarfile.open('stays.tar', 'w')
for name, kind, mode, size in [('d', tarfile.DIRTYPE, 0o711, 0), ('d/f', tarfile.REGTYPE, 0o600, 0), ('d', tarfile.REGTYPE, 0o600, SIZE)]:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.size = kind, mode, size
    archive.addfile(member, io.BytesIO(bytes(size)))
archive.close()";
    for (number, size) in ["1", "3 << 20"].into_iter().enumerate() {
        real("python3", &folder, &["-c", &large.replace("SIZE", size)]);
        let (out, url) = (format!("out{number}"), world.url(&format!("out{number}")));
        world.local(&format!("here/{out}"));
        world.kurma(&folder, &["mkdir", &url]);
        for place in [&out, &url] {
            let ended = output(kurma(&folder).args(["untar", "-p", "-f", "stays.tar", "-C", place]));
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert_eq!((ended.status.code(), said.lines().count()), (Some(2), 1), "{said}");
            let place = format!("{place}/d");
            assert_eq!(
                world.kurma(&folder, &["stat", "-c", "%a %F", &place]).trim(),
                "711 directory",
                "{size}"
            );
        }
    }
}

/// To make way for the link would be to lose what it leads to.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hard_link_to_itself_leaves_the_file() {
    let world = World::new();
    let folder = world.local("here");
    let members = "[('real/file', LNKTYPE, './real//file'), ('also/file', LNKTYPE, 'real/file')]";
    archive(&folder, "links.tar", members);
    std::fs::write(world.local("here/out/real").join("file"), "content").unwrap();
    std::os::unix::fs::symlink("real", folder.join("out/also")).unwrap();
    let url = world.url("out");
    world.kurma(&folder, &["cp", "-a", "out", &url]);
    world.kurma(&folder, &["untar", "-f", "links.tar", "-C", "out"]);
    world.kurma(&folder, &["untar", "-f", "links.tar", "-C", &url]);
    world.kurma(&folder, &["cp", "-a", &url, "back"]);
    for out in ["out", "back"] {
        assert_eq!(std::fs::read_to_string(folder.join(out).join("real/file")).unwrap(), "content", "{out}");
    }
}

/// Its content is a map and what is between the holes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_file_with_holes_that_cannot_be_unpacked_is_not_unpacked_wrongly() {
    let world = World::new();
    let folder = world.local("here");
    std::fs::File::create(folder.join("holes")).unwrap().set_len(10 << 20).unwrap();
    std::fs::write(folder.join("whole"), "whole").unwrap();
    real("tar", &folder, &["--format=posix", "-S", "-cf", "pax.tar", "holes", "whole"]);
    world.local("here/out");
    let ended = output(kurma(&folder).args(["untar", "-f", "pax.tar", "-C", "out"]));
    assert_eq!(ended.status.code(), Some(2));
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains("holes") && said.contains("--format=gnu"), "{said}");
    let names: Vec<_> =
        std::fs::read_dir(folder.join("out")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names, ["whole"]);
    real("tar", &folder, &["--format=gnu", "-S", "-cf", "gnu.tar", "holes"]);
    world.kurma(&folder, &["untar", "-f", "gnu.tar", "-C", "out"]);
    real("cmp", &folder, &["holes", "out/holes"]);
}
