//! The tools with a server of another make. `make foreign` runs it.

use crate::ganesha_server::Ganesha;
use crate::listing::comparable;
use crate::world::{kurma, output, real};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs NFS-Ganesha: make foreign"]
async fn a_tree_is_to_the_tools_what_it_is_to_those_of_the_machine_with_ganesha() {
    let server = Ganesha::start().await;
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let url = |path: &str| format!("nfs://{}/home/{path}", server.address);
    let ours = |words: &[&str]| {
        let output = output(kurma(folder).args(words));
        assert!(output.status.success(), "kurma {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    for n in 0..600 {
        let path = folder.join(format!("tree/{}/{}/file-{n}", n % 7, n % 5));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{n} ").repeat(n * 13 % 9000)).unwrap();
    }
    for (text, name) in [("0/0/file-0", "link"), ("nowhere", "broken"), ("3", "to-directory")] {
        std::os::unix::fs::symlink(text, folder.join("tree").join(name)).unwrap();
    }
    let tree = url("tree");
    let is_like = |there: &str, here: &str| {
        let listed = ours(&["ls", "-lR", there]).replace(there, here);
        // In memory Ganesha gives links a mode and a size of its own.
        let without_links = |text: &str| -> Vec<String> {
            comparable(text).into_iter().filter(|line| !line.starts_with('l')).collect()
        };
        assert!(
            without_links(&listed) == without_links(&real("ls", folder, &["-lR", here])),
            "{there}:\n{listed}"
        );
        ours(&["cp", "-a", there, "back"]);
        real("diff", folder, &["-r", "--no-dereference", here, "back"]);
        real("rm", folder, &["-r", "back"]);
    };
    ours(&["cp", "-a", "tree", &tree]);
    is_like(&tree, "tree");
    let sorted = |text: String| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let found =
        |root: &str| sorted(ours(&["find", root, "-name", "*7*", "-type", "f"]).replace(root, "tree"));
    assert_eq!(found(&tree), sorted(real("find", folder, &["tree", "-name", "*7*", "-type", "f"])));

    ours(&["tar", "-f", "ours.tar.xz", &tree]);
    std::fs::create_dir(folder.join("unpacked")).unwrap();
    real("tar", folder, &["-xJf", "ours.tar.xz", "-C", "unpacked"]);
    real("diff", folder, &["-r", "--no-dereference", "tree", "unpacked/tree"]);
    real("tar", folder, &["-cf", "theirs.tar", "tree"]);
    ours(&["mkdir", &url("untarred")]);
    ours(&["untar", "-f", "theirs.tar", "-C", &url("untarred")]);
    is_like(&url("untarred/tree"), "tree");

    // No directory is renamed: in memory Ganesha does not find it again when it is to be removed.
    let copy = url("untarred/tree");
    ours(&["mv", &format!("{copy}/6/1/file-41"), &url("moved")]);
    ours(&["ln", "-s", "moved", &url("link")]);
    assert_eq!(ours(&["cat", &url("link")]), real("cat", folder, &["tree/6/1/file-41"]));
    std::fs::write(folder.join("tree/0/0/file-35"), "changed").unwrap();
    std::fs::remove_file(folder.join("tree/0/0/file-0")).unwrap();
    ours(&["sync", "--delete", "tree", &copy]);
    is_like(&copy, "tree");
    ours(&["rm", "-r", &tree, &url("moved"), &url("untarred"), &url("link")]);
    assert_eq!(ours(&["ls", "-A", &url("")]), "");
}
