//! The sources of more than ten thousand files that this program is built of, there and back, beside the tools of the machine.

use std::path::PathBuf;
use std::process::Stdio;

use crate::listing::comparable;
use crate::statistics::trips;
use crate::support::parallel;
use crate::world::{World, kurma, real};

const FILES: usize = 10_000;

/// Where Cargo keeps the sources of crates.
fn sources() -> PathBuf {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.unwrap_or_else(|| std::env::home_dir().unwrap().join(".cargo"));
    home.join("registry/src")
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn count(world: &World, url: &str, kind: &str) -> u64 {
    world.kurma(&world.local("here"), &["find", url, "-type", kind]).lines().count() as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_source_tree_is_to_the_tools_what_it_is_to_those_of_the_machine() {
    let world = World::new();
    let (folder, tree) = (world.local("here"), world.local("here/tree"));
    let sources = sources();
    let text = sources.to_str().unwrap();
    let packages = real("find", &folder, &[text, "-mindepth", "2", "-maxdepth", "2", "-type", "d"]);
    let mut files = 0;
    for package in sorted(&packages) {
        // Those that are nothing but large are no test of many files.
        let count = real("find", &folder, &[&package, "-type", "f", "-size", "-64k"]).lines().count();
        if count < 10 {
            continue;
        }
        real("cp", &folder, &["-a", &package, tree.to_str().unwrap()]);
        files += count;
        if files > FILES {
            break;
        }
    }
    assert!(files > FILES, "{} has only {files} files", sources.display());

    let url = world.url("tree");
    world.kurma(&folder, &["cp", "-a", "tree", &url]);
    let listed = world.kurma(&folder, &["ls", "-lR", &url]).replace(&url, "tree");
    assert!(comparable(&listed) == comparable(&real("ls", &folder, &["-lR", "tree"])), "ls -lR");
    let found = world.kurma(&folder, &["find", &url]).replace(&url, "tree");
    assert!(sorted(&found) == sorted(&real("find", &folder, &["tree"])), "find");
    // Some of them by their names.
    let named: Vec<&str> = found.lines().filter(|name| name.ends_with(".toml")).take(2000).collect();
    let there: Vec<String> = named.iter().map(|name| name.replacen("tree", &url, 1)).collect();
    let there: Vec<&str> = there.iter().map(String::as_str).collect();
    for words in [&["cat"][..], &["stat", "-c", "%n %F %s %a %u %g %h %Y"]] {
        let said = world.kurma(&folder, &[words, &there].concat()).replace(&url, "tree");
        assert!(said == real(words[0], &folder, &[&words[1..], &named].concat()), "{words:?}");
    }
    world.kurma(&folder, &["cp", "-a", &url, "back"]);
    real("diff", &folder, &["-r", "--no-dereference", "tree", "back"]);
    // To another place, which is a copy, and within it, which is none.
    let [moved, again] = ["moved", "moved again"].map(|name| world.url(name).replace(' ', "%20"));
    world.kurma(&folder, &["mv", "back", &moved]);
    assert!(!folder.join("back").exists());
    world.kurma(&folder, &["mv", &moved, &again]);
    world.kurma(&folder, &["mv", &again, "back"]);
    real("diff", &folder, &["-r", "--no-dereference", "tree", "back"]);
    real("rm", &folder, &["-r", "back"]);

    world.kurma(&folder, &["tar", "-f", "ours.tar", &url]);
    real("tar", &folder, &["-cf", "theirs.tar", "tree"]);
    let members = |archive: &str| {
        let listed = real("tar", &folder, &["-tvf", archive]);
        sorted(
            &listed
                .lines()
                .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n")
                .collect::<String>(),
        )
    };
    assert!(members("ours.tar") == members("theirs.tar"), "tar -tvf");
    let unpacked = world.url("unpacked");
    world.kurma(&folder, &["mkdir", &unpacked]);
    world.kurma(&folder, &["untar", "-f", "theirs.tar", "-C", &unpacked]);
    let unpacked = format!("{unpacked}/tree");
    let listed = world.kurma(&folder, &["ls", "-lR", &unpacked]).replace(&unpacked, "tree");
    let expected = real("ls", &folder, &["-lR", "tree"]);
    assert!(comparable(&listed) == comparable(&expected), "ls -lR of what was unpacked");

    // Interrupted, and then to its end.
    let synced = world.url("synced");
    let mut command = kurma(&folder);
    let mut child = command.args(["sync", "-v", "tree", &synced]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    parallel(|| lines.take(3000).count());
    child.kill().unwrap();
    child.wait().unwrap();
    world.kurma(&folder, &["sync", "tree", &synced]);
    world.kurma(&folder, &["cp", "-a", &synced, "back"]);
    real("diff", &folder, &["-r", "--no-dereference", "tree", "back"]);

    // V36, V37: a program that uses one file after the other has, for a file, OPEN and READ there, OPEN and WRITE here, and REMOVE;
    // for a directory READDIR and CREATE, and READDIR and REMOVE. The kernel's clients have some more of each. Removals are to be 0.3 % of that.
    let (directories, files) = (count(&world, &url, "d"), count(&world, &url, "f"));
    let cp = trips(&world, &["cp", "-r", &url, &world.url("copy")]);
    world.kurma(&folder, &["cp", "-r", &world.url("copy"), "copy"]);
    real("diff", &folder, &["-r", "tree", "copy"]);
    let one_by_one = 4 * files + 2 * directories;
    assert!(cp * 100 < one_by_one, "cp -r: {cp} round trips, one at a time {one_by_one}");
    let links = trips(&world, &["cp", "-rs", &url, &world.url("links")]);
    world.kurma(&folder, &["cp", "-rL", &world.url("links"), "linked"]);
    real("diff", &folder, &["-r", "tree", "linked"]);
    let one_by_one = files + 2 * directories;
    assert!(links * 100 < one_by_one, "cp -rs: {links} round trips, one at a time {one_by_one}");
    let rm = trips(&world, &["rm", "-r", &url]);
    println!("{files} files: cp -r {cp} round trips, cp -rs {links}, rm -r {rm}, one at a time {one_by_one}");
    assert!(rm * 10_000 < one_by_one * 35, "rm -r: {rm} round trips, one at a time {one_by_one}");

    world.kurma(
        &folder,
        &["rm", "-r", &world.url("copy"), &world.url("links"), &synced, &world.url("unpacked")],
    );
    assert_eq!(world.kurma(&folder, &["ls", "-A", &world.url("")]), "");
    world.gateway.check();
}
