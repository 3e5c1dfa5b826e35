//! `sync`.

use std::os::unix::fs::symlink;
use std::process::Stdio;

use crate::world::{World, kurma, output, plant, real, set_age};

fn copied(world: &World, words: &[&str]) -> Vec<String> {
    let folder = world.local("here");
    let text = world.kurma(&folder, words);
    let mut lines: Vec<String> = text.lines().map(|line| line.replace(&world.url("tree"), "URL")).collect();
    lines.sort();
    lines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn only_what_differs_is_copied_and_what_is_gone_goes() {
    let world = World::new();
    let folder = world.local("here");
    let tree = folder.join("tree");
    plant(&tree);
    let url = world.url("tree");
    let sync = ["sync", "-v", "--delete", "tree", &url];
    assert!(copied(&world, &sync).len() > 60);
    assert_eq!(copied(&world, &sync), [""; 0]);
    world.kurma(&folder, &["sync", &url, "back"]);
    real("diff", &folder, &["-r", "--no-dereference", "tree", "back"]);

    std::fs::write(tree.join("file"), "changed").unwrap();
    set_age(&tree.join("a/two"), 1234);
    std::fs::remove_dir_all(tree.join("a/deep")).unwrap();
    std::fs::remove_file(tree.join("old")).unwrap();
    std::fs::create_dir(tree.join("old")).unwrap();
    std::fs::remove_file(tree.join("link")).unwrap();
    symlink("elsewhere", tree.join("link")).unwrap();
    assert_eq!(
        copied(&world, &sync),
        [
            "'tree/a/two' -> 'URL/a/two'",
            "'tree/file' -> 'URL/file'",
            "'tree/link' -> 'URL/link'",
            "'tree/old' -> 'URL/old'",
            "removed 'URL/a/deep/er/x'",
            "removed 'URL/a/deep/large'",
            "removed 'URL/old'",
            "removed directory 'URL/a/deep'",
            "removed directory 'URL/a/deep/er'",
        ]
    );
    world.kurma(&folder, &["sync", "--delete", &url, "back"]);
    real("diff", &folder, &["-r", "--no-dereference", "tree", "back"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_interrupted_is_finished_the_next_time() {
    let world = World::new();
    let folder = world.local("here");
    let tree = folder.join("tree");
    for n in 0..30 {
        std::fs::create_dir_all(tree.join(format!("d{n}"))).unwrap();
        for m in 0..20 {
            std::fs::write(tree.join(format!("d{n}/f{m}")), vec![m as u8; 20_000]).unwrap();
        }
        std::fs::write(tree.join(format!("d{n}/large")), vec![n as u8; 2 << 20]).unwrap();
    }
    let url = world.url("tree");
    for stop_after in [1, 40, 200] {
        let mut command = kurma(&folder);
        let mut child = command.args(["sync", "-v", "tree", &url]).stdout(Stdio::piped()).spawn().unwrap();
        // After some of it was done.
        let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        crate::support::parallel(|| lines.take(stop_after).count());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let output = output(kurma(&folder).args(["sync", "tree", &url]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    world.kurma(&folder, &["cp", "-a", &url, "back"]);
    real("diff", &folder, &["-r", "--no-dereference", "tree", "back"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_left_out_is_neither_copied_nor_removed() {
    let world = World::new();
    let folder = world.local("here");
    let url = world.url("tree");
    let plant = |tree: &str, files: &[&str]| {
        for file in files {
            let path = folder.join(tree).join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
    };
    plant("tree", &["kept", "top", "a/top", "a/x.o", "target/debug/x", "b/target/y", ".git/config"]);
    // What is there is gone at the source, but for `kept`.
    let gone = [
        "kept",
        "old",
        "a/old.o",
        "gone/x.o",
        "gone/deep/er/y.o",
        "gone/deep/er/y",
        "gone/deep/z",
        "gone/all/z",
    ];
    plant("there", &gone);
    plant("there", &["gone/target/z.o", "gone/target/z", "target/here"]);
    world.kurma(&folder, &["cp", "-a", "there", &url]);
    let names = |tree: &str| real("find", &folder.join(tree), &[".", "-type", "f"]);
    let sorted = |text: String| {
        let mut lines: Vec<String> = text.lines().map(|line| line.replacen("./", "", 1)).collect();
        lines.sort();
        lines.join(" ")
    };
    let leave_out = ["--exclude", "target", "--exclude", "*.o", "--exclude", "/top"];
    for target in [url.as_str(), "there"] {
        world.kurma(&folder, &[&["sync", "--delete"][..], &leave_out, &["tree", target]].concat());
    }
    world.kurma(&folder, &["cp", "-a", &url, "back"]);
    assert_eq!(
        sorted(names("back")),
        ".git/config a/old.o a/top gone/deep/er/y.o gone/target/z gone/target/z.o gone/x.o kept target/here"
    );
    real("diff", &folder, &["-r", "back", "there"]);
    // What is excluded is not replaced by a file either.
    plant("other", &["gone"]);
    let ended = output(kurma(&folder).args(["sync", "--delete", "--exclude", "*.o/", "other", "there"]));
    assert_eq!(ended.status.code(), Some(1));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("cannot overwrite directory 'there/gone' with non-directory"), "{said}");
    assert_eq!(sorted(names("there")), "a/old.o gone/deep/er/y.o gone/target/z.o gone/x.o");
    for pattern in ["", "/"] {
        let ended = output(kurma(&folder).args(["sync", "--exclude", pattern, "tree", "there"]));
        assert_eq!(ended.status.code(), Some(2), "{pattern}");
    }

    // Without it, all is the same again.
    world.kurma(&folder, &["sync", "--delete", "tree", &url]);
    world.kurma(&folder, &["cp", "-a", &url, "again"]);
    real("diff", &folder, &["-r", "tree", "again"]);
}
