//! `cp` of whole trees, there and back.

use crate::world::{World, kurma, output, plant, real};

/// All that a copy has to have in common with the original; of directories, what does not depend on the file system.
const FORMAT: &str = "%P|%y|%m|%U|%G|%n|%s|%T@|%l\n";
const DIRECTORIES: &str = "%P|%y|%m|%U|%G|%T@\n";

fn picture(folder: &std::path::Path, tree: &str) -> Vec<String> {
    let files = real("find", folder, &[tree, "!", "-type", "d", "-printf", FORMAT]);
    let directories = real("find", folder, &[tree, "-type", "d", "-printf", DIRECTORIES]);
    let mut lines: Vec<String> = files.lines().chain(directories.lines()).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_tree_comes_back_as_it_went() {
    let world = World::new();
    let folder = world.local("here");
    plant(&folder.join("tree"));
    let url = world.url("tree");
    world.kurma(&folder, &["cp", "-a", "tree", &url]);
    world.kurma(&folder, &["cp", "-a", &url, "back"]);
    assert_eq!(picture(&folder, "back"), picture(&folder, "tree"));
    real("diff", &folder, &["-r", "--no-dereference", "tree", "back"]);
    // The server copies by itself.
    let twin = world.url("twin");
    let output = output(kurma(&folder).args(["cp", "-a", "--stats", &url, &twin]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    world.kurma(&folder, &["cp", "-a", &twin, "twin"]);
    assert_eq!(picture(&folder, "twin"), picture(&folder, "tree"));
    real("diff", &folder, &["-r", "--no-dereference", "tree", "twin"]);
    // And on this machine.
    world.kurma(&folder, &["cp", "-a", "tree", "third"]);
    assert_eq!(picture(&folder, "third"), picture(&folder, "tree"));
    real("cp", &folder, &["-r", "tree", "plain"]);
    world.kurma(&folder, &["cp", "-r", "tree", "plain-too"]);
    let plain = |tree: &str| real("find", &folder, &[tree, "-printf", "%P|%y|%m|%U|%G|%n|%l\n"]);
    let sorted = |text: String| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(plain("plain-too")), sorted(plain("plain")));

    world.kurma(&folder, &["mv", &twin, "moved"]);
    assert_eq!(picture(&folder, "moved"), picture(&folder, "tree"));
    assert_eq!(world.kurma(&folder, &["ls", &world.url("")]), "tree\n");
    world.kurma(&folder, &["rm", "-r", &url, "back", "plain-too"]);
    assert_eq!(world.kurma(&folder, &["find", &world.url("")]), format!("{}\n", world.url("")));
    assert!(!folder.join("back").exists());
    world.gateway.check();
}
