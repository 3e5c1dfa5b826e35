//! What somebody else may not do.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::KURMA;
use crate::world::{Said, World, output, real, tool};

/// A tool run by nobody.
fn nobody(name: &str, folder: &Path) -> Command {
    let mut command = tool("setpriv", folder);
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", name]);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_forbidden_is_said_and_the_rest_is_done() {
    let world = World::new();
    let folder = world.local("here");
    let can_be_nobody = output(nobody(&KURMA.to_string_lossy(), &folder).arg("--version")).status.success();
    if !can_be_nobody {
        println!("skipped: this user cannot run the command as nobody");
        return;
    }
    let open = folder.join("open");
    for directory in ["open", "open/locked", "open/closed"] {
        std::fs::create_dir(folder.join(directory)).unwrap();
    }
    for file in ["open/readable", "open/secret", "open/locked/inside", "open/closed/inside"] {
        std::fs::write(folder.join(file), "x\n").unwrap();
    }
    for (path, mode) in
        [("open/secret", 0o600), ("open/locked", 0o700), ("open/closed", 0o755), ("open", 0o755)]
    {
        std::fs::set_permissions(folder.join(path), PermissionsExt::from_mode(mode)).unwrap();
    }
    world.kurma(&folder, &["cp", "-a", "open", &world.url("")]);
    let prefix = world.url("open/");
    std::fs::set_permissions(world.local("out"), PermissionsExt::from_mode(0o777)).unwrap();
    for words in [
        &["ls", "@locked"][..],
        &["ls", "@locked", "@closed"],
        &["ls", "-R", "@."],
        &["cat", "@secret", "@readable"],
        &["find", "@.", "-type", "f"],
        &["cp", "@secret", "@readable", "../../out"],
        &["cp", "-r", "@closed", "@locked", "../../out"],
        &["rm", "-r", "@closed"],
        &["rm", "@readable"],
        &["mkdir", "@closed/new"],
        &["mkdir", "@locked/new"],
        &["mv", "@readable", "@moved"],
        &["ln", "-s", "x", "@link"],
        &["cp", "@readable", "@copy"],
        &["cp", "@readable", "@secret"],
    ] {
        let local: Vec<String> = words[1..].iter().map(|word| word.replace('@', "")).collect();
        let expected = Said::of(&output(nobody(words[0], &open).args(&local)), "");
        assert_ne!(expected.status, Some(0), "{words:?}");
        for file in ["readable", "closed"] {
            let _ = std::fs::remove_file(world.folder.path().join("out").join(file));
            let _ = std::fs::remove_dir_all(world.folder.path().join("out").join(file));
        }
        let kurma = KURMA.to_string_lossy();
        let got = output(nobody(&kurma, &open).arg(words[0]).args(&local));
        assert_eq!(Said::of(&got, ""), expected, "{words:?}");
        let remote: Vec<String> = words[1..].iter().map(|word| word.replace('@', &prefix)).collect();
        let got = output(nobody(&kurma, &open).arg(words[0]).args(&remote));
        assert_eq!(Said::of(&got, &prefix), expected, "{words:?} on the server");
        let _ = std::fs::remove_dir_all(world.folder.path().join("out"));
        std::fs::set_permissions(world.local("out"), PermissionsExt::from_mode(0o777)).unwrap();
    }
    archives(&world, &folder, &prefix);
}

/// What of `folder`/open nobody may put into an archive, take out of one, or synchronize.
fn archives(world: &World, folder: &Path, prefix: &str) {
    let kurma = KURMA.to_string_lossy();
    let as_nobody = |name: &str, words: &[&str]| output(nobody(name, folder).args(words));
    let errors = |output: &std::process::Output| {
        let Said { errors, .. } = Said::of(output, "");
        errors.into_iter().filter(|line| !line.contains("Exiting with failure")).collect::<Vec<_>>()
    };
    let expected = as_nobody("tar", &["-cf", "../out/theirs.tar", "open"]);
    assert_eq!(expected.status.code(), Some(2));
    let remote = prefix.trim_end_matches('/');
    for from in ["open", remote] {
        let got = as_nobody(&kurma, &["tar", "-f", "../out/ours.tar", from]);
        let told = errors(&got).iter().map(|line| line.replace(from, "open")).collect::<Vec<_>>();
        assert_eq!((told, got.status.code()), (errors(&expected), Some(2)), "{from}");
        let listed = real("tar", folder, &["-tf", "../out/ours.tar"]);
        assert!(listed.contains("open/closed/inside") && !listed.contains("secret"), "{listed}");
    }
    real("tar", folder, &["-cf", "../out/all.tar", "open"]);
    // A directory in which nobody may make anything, and one with one such directory in it.
    let forbidden = folder.join("forbidden");
    std::fs::create_dir(&forbidden).unwrap();
    let somewhere = folder.join("somewhere");
    for (directory, mode) in [("", 0o777), ("open", 0o777), ("open/closed", 0o555)] {
        std::fs::create_dir(somewhere.join(directory)).unwrap();
        std::fs::set_permissions(somewhere.join(directory), PermissionsExt::from_mode(mode)).unwrap();
    }
    let there = world.url("");
    world.kurma(folder, &["cp", "-a", "forbidden", "somewhere", &there]);
    for at in ["", &there] {
        let untar = |to: &str| {
            let got = as_nobody(&kurma, &["untar", "-f", "../out/all.tar", "-C", &format!("{at}{to}")]);
            assert_eq!(got.status.code(), Some(2));
            errors(&got).iter().map(|line| line.replace(at, "")).collect::<Vec<_>>()
        };
        let told = untar("forbidden");
        assert!(told.contains(&"untar: forbidden/open: Cannot mkdir: Permission denied".into()), "{told:?}");
        let inside = "untar: forbidden/open/closed/inside: Cannot open: No such file or directory";
        assert_eq!(told.iter().filter(|line| *line == inside).count(), 1, "{told:?}");
        assert_eq!(told.len(), 7, "each member is named once: {told:?}");
        let told = untar("somewhere");
        let expected = [
            "untar: somewhere/open/closed/inside: Cannot open: Permission denied",
            "untar: somewhere/open/closed: Cannot change owner, mode or time: Operation not permitted",
            "untar: somewhere/open: Cannot change owner, mode or time: Operation not permitted",
        ];
        assert_eq!(told, expected);
        let readable = world.kurma(folder, &["cat", &format!("{at}somewhere/open/readable")]);
        assert_eq!(readable, "x\n");
        let got = as_nobody(&kurma, &["sync", "open", &format!("{at}somewhere/copy")]);
        let told = errors(&got);
        assert_eq!((told.len(), got.status.code()), (2, Some(1)), "{told:?}");
        for path in ["open/secret", "open/locked"] {
            let is_named =
                |line: &String| line.contains(&format!("'{path}'")) && line.ends_with("Permission denied");
            assert!(told.iter().any(is_named), "{told:?}");
        }
        let found = world.kurma(folder, &["find", &format!("{at}somewhere/copy"), "-type", "f"]);
        assert_eq!(found.lines().count(), 2, "{found}");
    }
}
