//! `--stats`: how little is sent.

use crate::world::{World, kurma, output, real, tool};

/// How many round trips `kurma` makes for this, which must end well.
pub fn trips(world: &World, words: &[&str]) -> u64 {
    let folder = world.local("here");
    let output = output(kurma(&folder).args(words).arg("--stats"));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    let line = text.lines().last().unwrap();
    assert!(line.contains(" operations per round trip, "), "{line}");
    line.split(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hundreds_of_files_take_a_few_round_trips() {
    let world = World::new();
    let tree = world.local("here/tree");
    for n in 0..500 {
        let directory = tree.join(format!("d{}", n % 20));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("f{n}")), format!("content {n}")).unwrap();
    }
    let url = world.url("tree");
    assert_eq!(trips(&world, &["ls", "-lR", "tree"]), 0);
    // What it takes to begin.
    let first = trips(&world, &["mkdir", &world.url("one")]) - 1;
    let trips = |words: &[&str]| trips(&world, words) - first;
    for atomic in [&[][..], &["--atomic"]] {
        let trips = |words: &[&str]| trips(&[words, atomic].concat());
        // Finding out about the target, the directories, four batches, the attributes of directories.
        let copied = trips(&["cp", "-a", "tree", &url]);
        assert!(copied <= 16, "cp: {copied} {atomic:?}");
        let listed = trips(&["ls", "-lR", &url]);
        assert!(listed <= 3, "ls: {listed} {atomic:?}");
        world.kurma(&world.local("here"), &["cp", "-r", &url, "back"]);
        let compared = tool("diff", &world.local("here")).args(["-r", "tree", "back"]).status().unwrap();
        assert!(compared.success(), "{atomic:?}");
        std::fs::remove_dir_all(world.local("here/back")).unwrap();
        // There are such files already, and whether something is a directory is asked: in a compound of its own if the others are transactions.
        real("tar", &world.local("here"), &["-cf", "tree.tar", "tree"]);
        let unpacked = trips(&["untar", "-f", "tree.tar", "-C", &world.url("")]);
        let most = if atomic.is_empty() { 16 } else { 56 };
        assert!(unpacked <= most, "untar: {unpacked} {atomic:?}");
        let removed = trips(&["rm", "-r", &url]);
        assert!(removed <= 6, "rm: {removed} {atomic:?}");
    }
    world.kurma(&world.local("here"), &["cp", "-a", "tree", &url]);
    let found = trips(&["find", &url, "-type", "f"]);
    assert!(found <= 3, "find: {found}");
}
