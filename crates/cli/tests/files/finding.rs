//! `find`.

use crate::world::{Said, World, kurma, output, plant, real, tool};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_found_is_what_find_finds() {
    let world = World::new();
    let folder = world.local("here");
    plant(&folder.join("tree"));
    world.kurma(&folder, &["cp", "-a", "tree", &world.url("")]);
    let url = world.url("tree");
    let prefix = world.url("");
    for words in [
        &[][..],
        &["-type", "f"],
        &["-type", "d"],
        &["-type", "l,d"],
        &["-name", "*o*"],
        &["-iname", "u*"],
        &["-path", "*deep*"],
        &["-name", "[a-n]*", "-type", "f"],
        &["-type", "f", "-size", "+1k"],
        &["-type", "f", "-size", "-2"],
        &["-type", "f", "-size", "1024c"],
        &["-type", "f", "-size", "3M"],
        &["-maxdepth", "1"],
        &["-maxdepth", "0"],
        &["-mindepth", "2"],
        &["-mindepth", "1", "-maxdepth", "2", "-type", "f"],
        &["-type", "f", "-mtime", "+30"],
        &["-type", "f", "-mtime", "-1"],
        &["-type", "f", "-mtime", "100"],
        &["-type", "f", "-mmin", "-30"],
        &["-type", "f", "-newer", "@tree/a/one"],
        &["-type", "f", "-empty"],
        &["(", "-name", "*e", "-o", "-name", "o*", ")", "-type", "f"],
        &["!", "-type", "f"],
        &["-not", "-name", "n*", "-print"],
        &["-type", "f", "-a", "-name", "n1*", "-o", "-type", "d", "-print"],
    ] {
        let there: Vec<String> = words.iter().map(|word| word.replace('@', "")).collect();
        let expected = Said::of(&output(tool("find", &folder).arg("tree").args(&there)), "");
        assert_eq!(expected.status, Some(0), "{words:?}");
        let local = output(kurma(&folder).args(["find", "tree"]).args(&there));
        assert_eq!(Said::of(&local, ""), expected, "{words:?}");
        let words: Vec<String> = words.iter().map(|word| word.replace('@', &prefix)).collect();
        let remote = output(kurma(&folder).args(["find", &url]).args(&words));
        assert_eq!(Said::of(&remote, &prefix), expected, "{words:?} on the server");
    }
    let zeros = world.kurma(&folder, &["find", "tree", "-name", "n1*", "-print0"]);
    let mut names: Vec<&str> = zeros.split_terminator('\0').collect();
    names.sort_unstable();
    let real = real("find", &folder, &["tree", "-name", "n1*", "-print0"]);
    let mut expected: Vec<&str> = real.split_terminator('\0').collect();
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!(
        Said::of(&output(kurma(&folder).args(["find", "none"])), "").errors,
        ["find: 'none': No such file or directory"]
    );
}
