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
        &["-empty"],
        &["-depth", "-empty"],
        &["-empty", "-prune", "-o", "-name", "*e*", "-print"],
        &["-maxdepth", "1", "-empty"],
        &["-perm", "644", "-type", "f"],
        &["-perm", "-u+rw,g+r", "-type", "f"],
        &["-perm", "/111", "-type", "f"],
        &["-user", "root", "-group", "0"],
        &["-uid", "+0"],
        &["-gid", "-1", "-links", "+1"],
        &["-links", "2", "-type", "f"],
        &["-false", "-o", "-name", "a"],
        &["-name", "deep", "-prune", "-o", "-print"],
        &["-name", "deep", "-prune"],
        &["-depth", "-name", "deep", "-prune", "-o", "-print"],
        &["-depth", "-mindepth", "1", "-maxdepth", "2", "-type", "d"],
        &[
            "-type",
            "f",
            "-printf",
            r"%p|%f|%h|%P|%d|%s|%m|%M|%u|%U|%g|%G|%n|%y|%T+|%TY-%Tm|%TS|%5f|%-9s|%%\t\101\n",
        ],
        &["-type", "l", "-printf", r"%f %y %M\n"],
        &["-mindepth", "1", "-printf", r"%H|%P|%h\n"],
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
    let local = &["-printf", r"%p %i %b %k %t %T@ %c %C@\n"];
    let expected = Said::of(&output(tool("find", &folder).arg("tree").args(local)), "");
    assert_eq!(Said::of(&output(kurma(&folder).args(["find", "tree"]).args(local)), ""), expected);
    let first = world.kurma(&folder, &["find", &url, "-type", "f", "-print", "-quit", "-print"]);
    assert_eq!(first.lines().count(), 1);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_deleted_is_what_find_deletes() {
    let world = World::new();
    let folder = world.local("here");
    for (number, words) in [
        &["-type", "f", "-size", "+1k", "-print", "-delete"][..],
        &["-name", "deep", "-delete"],
        &["-path", "*/deep*", "-delete"],
        &["-mindepth", "1", "-delete"],
        &["-empty", "-delete", "-print"],
        &["(", "-type", "f", "-o", "-empty", ")", "-delete"],
        &["-depth", "-name", "a", "-prune", "-o", "-delete"],
        &["-maxdepth", "1", "-type", "f", "-delete"],
        &["-maxdepth", "1", "-type", "l", "-delete", "-print"],
        &["-delete"],
    ]
    .into_iter()
    .enumerate()
    {
        let [theirs, ours] = ["theirs", "ours"].map(|who| format!("{who}{number}"));
        for root in [&theirs, &ours] {
            plant(&folder.join(root).join("tree"));
            std::fs::create_dir_all(folder.join(root).join("tree/many/empty/ones")).unwrap();
            std::fs::create_dir_all(folder.join(root).join("tree/many/empty/others")).unwrap();
        }
        let url = world.url(&ours);
        world.kurma(&folder, &["cp", "-a", &ours, &url]);
        let expected = output(tool("find", &folder.join(&theirs)).arg("tree").args(words));
        let expected = Said::of(&expected, "");
        let local = output(kurma(&folder.join(&ours)).args(["find", "tree"]).args(words));
        let text = |said: &Said| (said.out.clone(), said.status, said.errors.len());
        assert_eq!(text(&Said::of(&local, "")), text(&expected), "{words:?}");
        let remote = output(kurma(&folder).args(["find", &format!("{url}/tree")]).args(words));
        assert_eq!(text(&Said::of(&remote, &format!("{url}/"))), text(&expected), "{words:?} on the server");
        let mut left: Vec<String> =
            real("find", &folder.join(&theirs), &["."]).lines().map(str::to_owned).collect();
        left.sort();
        for folder in [folder.join(&ours), folder.join(format!("back{number}"))] {
            if !folder.exists() {
                world.kurma(folder.parent().unwrap(), &["cp", "-a", &url, &folder.to_string_lossy()]);
            }
            let mut here: Vec<String> = real("find", &folder, &["."]).lines().map(str::to_owned).collect();
            here.sort();
            assert_eq!(here, left, "{words:?}");
        }
    }
    for (number, start) in [
        ".",
        "./",
        "tree/",
        "tree/.",
        "tree/..",
        "tree/file",
        "tree/file/",
        "tree/file/.",
        "tree/to-directory",
        "tree/to-directory/",
        "tree/to-directory/.",
        "tree/none",
        "",
    ]
    .into_iter()
    .enumerate()
    {
        let [theirs, ours] = ["x", "y"].map(|who| folder.join(format!("{who}{number}")));
        for root in [&theirs, &ours] {
            plant(&root.join("tree"));
        }
        let url = world.url(&format!("y{number}"));
        world.kurma(&folder, &["cp", "-a", &ours.to_string_lossy(), &url]);
        let start = |prefix: &str| (!start.is_empty()).then(|| format!("{prefix}{start}"));
        let expected = output(tool("find", &theirs).args(start("")).arg("-delete"));
        let local = output(kurma(&ours).arg("find").args(start("")).arg("-delete"));
        let said = |output| {
            let mut said = Said::of(output, "");
            // By then it is gone, and so is the way there.
            said.errors.iter_mut().filter(|it| it.contains("tree/..")).for_each(String::clear);
            said
        };
        assert_eq!(said(&local), said(&expected), "{:?}", start(""));
        let left = |folder: &Path| {
            let mut left: Vec<String> = real("find", folder, &["."]).lines().map(str::to_owned).collect();
            left.sort();
            left
        };
        assert_eq!(left(&ours), left(&theirs), "{:?}", start(""));
        // What is shown of a URL is never just a dot.
        if let Some(there) = start(&format!("{url}/")).filter(|_| start("") != Some(".".to_owned())) {
            let remote = output(kurma(&folder).args(["find", &there, "-delete"]));
            assert_eq!(remote.status, expected.status, "{there}");
            let back = folder.join(format!("z{number}"));
            world.kurma(&folder, &["cp", "-a", &url, &back.to_string_lossy()]);
            assert_eq!(left(&back), left(&theirs), "{there}");
        }
    }
    // More names than are removed at once, and more than one page.
    let many = folder.join("many");
    std::fs::create_dir(&many).unwrap();
    (0..9_000).for_each(|n| std::fs::write(many.join(format!("n{n}")), "").unwrap());
    let url = world.url("many");
    world.kurma(&folder, &["cp", "-a", "many", &url]);
    for start in ["many", &url] {
        world.kurma(&folder, &["find", start, "-name", "n?*[05]", "-delete"]);
        assert_eq!(world.kurma(&folder, &["ls", start]).lines().count(), 7_202, "{start}");
        world.kurma(&folder, &["find", start, "-delete"]);
        assert_eq!(output(kurma(&folder).args(["ls", start])).status.code(), Some(2), "{start}");
    }
    world.gateway.check();
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
