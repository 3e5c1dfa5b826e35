//! What somebody else may not do.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::KURMA;
use crate::world::{Said, World, output, tool};

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
}
