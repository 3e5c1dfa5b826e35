//! `find`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::Value;

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

/// What `find` printed, an object a line, by path.
fn objects(printed: &str) -> BTreeMap<String, Value> {
    let object = |line: &str| {
        let mut object: Value = serde_json::from_str(line).unwrap();
        (object["path"].take().as_str().unwrap().to_owned(), without_access(object))
    };
    printed.lines().map(object).collect()
}

/// Somebody may have read it meanwhile.
fn without_access(mut object: Value) -> Value {
    let object_fields = object.as_object_mut().unwrap();
    object_fields.remove("path");
    object_fields.remove("directory");
    assert!(object_fields.remove("accessed").unwrap().is_number());
    object
}

/// What `ls` shows of a tree and of its root, by path.
fn listed(world: &World, folder: &Path, tree: &str) -> BTreeMap<String, Value> {
    let parsed =
        |words: &[&str]| -> Vec<Value> { serde_json::from_str(&world.kurma(folder, words)).unwrap() };
    let mut root = parsed(&["ls", "-d", "--json", tree]).remove(0);
    root["name"] = "tree".into();
    let mut all = BTreeMap::from([(tree.to_owned(), without_access(root))]);
    for object in parsed(&["ls", "-AR", "--json", tree]) {
        let part = |field: &str| object[field].as_str().unwrap().to_owned();
        all.insert(format!("{}/{}", part("directory"), part("name")), without_access(object));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn json_has_an_object_on_each_line_as_ls_tells_it() {
    let world = World::new();
    let folder = world.local("here");
    plant(&folder.join("tree"));
    world.kurma(&folder, &["cp", "-a", "tree", &world.url("")]);
    // A server may refuse such a name; on this machine there is one.
    std::fs::write(folder.join("tree").join(OsStr::from_bytes(b"not\xffUTF-8")), "x").unwrap();
    std::fs::write(folder.join("tree/two\nlines"), "x").unwrap();
    for tree in ["tree".to_owned(), world.url("tree")] {
        let expected = listed(&world, &folder, &tree);
        assert!(expected.len() > 60, "{}", expected.len());
        let found = world.kurma(&folder, &["find", &tree, "--json"]);
        assert_eq!(found.lines().count(), expected.len());
        assert_eq!(objects(&found), expected);
        assert_eq!(expected.contains_key("tree/not\u{fffd}UTF-8"), tree == "tree");
        let file = &expected[&format!("{tree}/file")];
        assert_eq!(
            (&file["kind"], &file["size"], &file["mode"]),
            (&"regular file".into(), &5.into(), &"0644".into())
        );
        // What is found is another matter than how it is shown.
        let large = world.kurma(&folder, &["find", "--json", &tree, "-type", "f", "-size", "+1k", "-print0"]);
        let mut only = expected;
        only.retain(|_, it| it["kind"] == "regular file" && it["size"].as_u64().unwrap() > 1024);
        assert_eq!(objects(&large), only);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn options_may_stand_anywhere_but_not_in_the_place_of_an_argument() {
    let world = World::new();
    let folder = world.local("here");
    std::fs::create_dir(folder.join("tree")).unwrap();
    for name in ["--json", "--stats", "--atomic", "plain"] {
        std::fs::write(folder.join("tree").join(name), "x").unwrap();
    }
    for words in [
        "--json --stats --atomic tree -type f -name plain",
        "tree --json --stats --atomic -type f -name plain",
        "tree -type f --atomic -name plain --stats --json",
        "tree ( --stats -type f ) --json --atomic --json -name plain",
    ] {
        let said = output(kurma(&folder).arg("find").args(words.split(' ')));
        let [out, errors] = [&said.stdout, &said.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert_eq!(objects(&out).keys().collect::<Vec<_>>(), ["tree/plain"], "{words}: {errors}");
        assert!(errors.starts_with("0 round trips, "), "{words}: {errors}");
    }
    for name in ["--json", "--stats", "--atomic"] {
        let said = Said::of(&output(kurma(&folder).args(["find", "tree", "-name", name])), "");
        assert_eq!((said.out, said.errors), (vec![format!("tree/{name}")], Vec::new()));
    }
}
