//! What each tool says and does, case by case, beside the tool of the machine.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::world::{Said, World, kurma, output, real, set_age, tool};

fn plant(root: &Path) {
    for directory in ["d/sub", "e"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    for (name, text) in [("a", "one\ntwo\n"), ("b", "b\n"), ("d/f", "no line end"), ("d/sub/g", "")] {
        std::fs::write(root.join(name), text).unwrap();
        set_age(&root.join(name), if name == "b" { 5000 } else { 1000 });
    }
    for (text, name) in [("a", "l"), ("d", "dl"), ("nowhere", "broken")] {
        symlink(text, root.join(name)).unwrap();
    }
}

/// What is there: names, kinds, permissions, content.
fn picture(root: &Path) -> Vec<String> {
    let list =
        |words: &[&str]| -> Vec<String> { real("find", root, words).lines().map(str::to_owned).collect() };
    let mut lines = list(&[".", "-printf", "%P|%y|%m|%l\n"]);
    lines.extend(list(&[".", "-type", "f", "-printf", "%P %n %s\n"]));
    for name in real("find", root, &[".", "-type", "f", "-printf", "%P\n"]).lines() {
        lines.push(format!("{name}: {}", std::fs::read_to_string(root.join(name)).unwrap()));
    }
    lines.sort();
    lines
}

/// Runs each case three times: the tool of the machine, ours on this machine, ours on the server. What comes after `<` is typed, a line
/// for each letter.
fn compare(cases: &[&str]) {
    let world = World::new();
    let template = world.local("template");
    plant(&template);
    for (number, case) in cases.iter().enumerate() {
        let (line, typed) = case.split_once(" <").unwrap_or((case, ""));
        let typed: String = typed.chars().map(|letter| format!("{letter}\n")).collect();
        let keyboard = world.folder.path().join("keyboard");
        std::fs::write(&keyboard, typed).unwrap();
        let output = |mut command: Command| output(command.stdin(std::fs::File::open(&keyboard).unwrap()));
        let with = |mut command: Command, words: &[String]| {
            command.args(words);
            command
        };
        let words: Vec<&str> = line.split(' ').collect();
        let local: Vec<String> = words[1..].iter().map(|word| word.replace('@', "")).collect();
        let [theirs, ours, back] =
            ["theirs", "ours", "back"].map(|name| world.folder.path().join(format!("{name}{number}")));
        for root in [&theirs, &ours] {
            real("cp", world.folder.path(), &["-a", "template", root.to_str().unwrap()]);
        }
        let expected = Said::of(&output(with(tool(words[0], &theirs), &local)), "");
        let own =
            |words: &[String]| with(with(kurma(&ours), &[line.split(' ').next().unwrap().into()]), words);
        let got = Said::of(&output(own(&local)), "");
        assert_eq!(got, expected, "{case}");
        assert_eq!(picture(&ours), picture(&theirs), "{case}");
        let prefix = format!("{}/", world.url(&format!("case{number}")));
        world.kurma(world.folder.path(), &["cp", "-a", "template", prefix.trim_end_matches('/')]);
        let remote: Vec<String> = words[1..].iter().map(|word| word.replace('@', &prefix)).collect();
        let got = Said::of(&output(own(&remote)), &prefix);
        assert_eq!(got, expected, "{case} on the server");
        world.kurma(world.folder.path(), &["cp", "-a", &prefix, back.to_str().unwrap()]);
        assert_eq!(picture(&back), picture(&theirs), "{case} on the server");
    }
    world.gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cat_shows_lines_as_cat_does() {
    let world = World::new();
    let folder = world.local("here");
    let all: Vec<u8> = (0..=255).collect();
    std::fs::write(folder.join("all"), [&all[..], b"\n"].concat()).unwrap();
    std::fs::write(folder.join("lines"), "one\n\n\n\n\ttwo\r\n\r\nthree\n\n").unwrap();
    std::fs::write(folder.join("open"), "\n\nends in the middle").unwrap();
    std::fs::write(folder.join("large"), "line\n\n\n".repeat(400_000)).unwrap();
    let names = ["lines", "open", "all", "lines", "large", "open"];
    for name in &names {
        world.kurma(&folder, &["cp", name, &world.url("")]);
    }
    for flags in
        ["", "-n", "-b", "-s", "-E", "-T", "-v", "-A", "-e", "-t", "-ns", "-bsE", "-nb", "-sA", "-nET"]
    {
        let flags = || flags.split_whitespace();
        let expected = output(tool("cat", &folder).args(flags()).args(names)).stdout;
        let local = output(kurma(&folder).arg("cat").args(flags()).args(names)).stdout;
        assert!(local == expected, "{:?}", flags().collect::<Vec<_>>());
        let urls = names.map(|name| world.url(name));
        let remote = output(kurma(&folder).arg("cat").args(flags()).args(urls)).stdout;
        assert!(remote == expected, "{:?} on the server", flags().collect::<Vec<_>>());
    }
    world.gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rm_removes_as_rm_does() {
    compare(&[
        "rm @a",
        "rm @none",
        "rm -f @none @a",
        "rm -f",
        "rm @d @a",
        "rm -d @e",
        "rm -d @d",
        "rm -r @d @none @a",
        "rm -rf @d @none",
        "rm -rv @d @a",
        "rm -v @a @b",
        "rm @l @broken",
        "rm -r @dl",
        "rm -r @.",
        "rm @a/x",
        "rm @l/ @b",
        "rm -i @a @b <yn",
        "rm -i @a @none @b",
        "rm -ri @d/sub @a <yyyy",
        "rm -ri @d/sub <yn",
        "rm -ri @d <n",
    ]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn mkdir_makes_as_mkdir_does() {
    compare(&[
        "mkdir @n",
        "mkdir @d",
        "mkdir @a/x",
        "mkdir @none/x @n",
        "mkdir -p @n/o/p @d/q @d",
        "mkdir -pv @n/o",
        "mkdir -p @a",
        "mkdir -p @a/b/c",
        "mkdir -p @l @broken @dl/x",
        "mkdir -m 700 @n",
        "mkdir -m u=rwx,go=x @n @o",
        "mkdir -p -m 711 @n/o",
        "mkdir -v @n @a",
    ]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cat_prints_as_cat_does() {
    compare(&[
        "cat @a @b @d/f",
        "cat @none @a",
        "cat @d @b",
        "cat -n @a @d/f @b",
        "cat @l @broken",
        "cat @d/sub/g",
    ]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cp_copies_as_cp_does() {
    compare(&[
        "cp @a @n",
        "cp @a @b",
        "cp @a @d",
        "cp @a @b @d",
        "cp -v @a @b @d",
        "cp @none @n",
        "cp @d @n",
        "cp -r @d @n",
        "cp -r @d @e",
        "cp -rv @d @n",
        "cp -r @d @a",
        "cp @a @a",
        "cp @a @l",
        "cp @a @b @none",
        "cp @a @b @l",
        "cp -n @a @b",
        "cp -T @a @d",
        "cp -rT @d @e",
        "cp @a @none/x",
        "cp @a @none/",
        "cp -r @e @e/x",
        "cp @l @n",
        "cp -P @l @n",
        "cp -d @l @broken @e",
        "cp -r @dl @n",
        "cp -rL @dl @n",
        "cp -rH @dl @n",
        "cp -a @dl @broken @d @e",
        "cp @broken @n",
        "cp -l @a @n",
        "cp -rl @d @n",
        "cp -t @d @a @b",
        "cp -t @none @a",
        "cp -u @a @b",
        "cp -u @b @a",
        "cp -p @a @n",
        "cp --remove-destination @b @l",
        "cp @b @l",
        "cp -a @l @b",
        "cp -r @d/. @e",
        "cp @d/f @d/sub/g @e",
        "cp @a @a/x",
        "cp -r @dl/ @n",
        "cp -i @a @b <y",
        "cp -i @a @b <n",
        "cp -i @a @n",
        "cp -ri @d @e <y",
    ]);
}

/// The links on the server have paths from its root.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cp_makes_symbolic_links_instead_of_copies() {
    let world = World::new();
    let [theirs, ours] = ["theirs", "ours"].map(|name| world.local(name));
    for root in [&theirs, &ours] {
        plant(root);
    }
    for words in [
        "-s @a n",
        "-s @d/f e/x",
        "-rs @d n2",
        "-s @a b",
        "-rs @d n2",
        "-sf @a b",
        "-s --remove-destination @a d/f",
        "-l a d/sub/g",
        "-lf a d/sub/g",
    ] {
        let said = |mut command: Command, root: &Path| {
            let root = root.to_str().unwrap();
            let words = words.replace('@', &format!("{root}/"));
            Said::of(&output(command.args(words.split(' '))), root)
        };
        let mut own = kurma(&ours);
        own.arg("cp");
        assert_eq!(said(own, &ours), said(tool("cp", &theirs), &theirs), "{words}");
    }
    let own = |root: &Path| -> Vec<String> {
        picture(root).into_iter().map(|line| line.replace(root.to_str().unwrap(), "")).collect()
    };
    assert_eq!(own(&ours), own(&theirs));

    let [tree, links] = ["tree", "links"].map(|name| world.url(name));
    let fresh = world.local("fresh");
    plant(&fresh);
    world.kurma(&fresh, &["cp", "-a", "d", &tree]);
    world.kurma(&fresh, &["cp", "-rs", &tree, &links]);
    let listed = world.kurma(&fresh, &["find", &links, "-type", "l"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    world.kurma(&fresh, &["cp", "-rL", &links, "back"]);
    real("diff", &fresh, &["-r", "d", "back"]);
}

/// GNU's leaves out, too, what its directory lists after the copy, so this has no tool to stand beside.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_copy_into_itself_holds_all_but_itself() {
    let world = World::new();
    let folder = world.local("here");
    plant(&folder);
    let prefix = format!("{}/", world.url("there"));
    world.kurma(world.folder.path(), &["cp", "-a", "here", prefix.trim_end_matches('/')]);
    for (prefix, root) in [("", "d"), (prefix.as_str(), "back")] {
        let [from, to] = ["d", "d/x"].map(|name| format!("{prefix}{name}"));
        let said = Said::of(&output(kurma(&folder).args(["cp", "-r", &from, &to])), prefix);
        assert_eq!(said.errors, ["cp: cannot copy a directory, 'd', into itself, 'd/x'"]);
        assert_eq!(said.status, Some(1));
        if !prefix.is_empty() {
            world.kurma(&folder, &["cp", "-a", &from, root]);
        }
        let mut names: Vec<_> =
            real("find", &folder.join(root), &[".", "-printf", "%P\n"]).lines().map(str::to_owned).collect();
        names.sort();
        assert_eq!(names, ["", "f", "sub", "sub/g", "x", "x/f", "x/sub", "x/sub/g"]);
    }
    world.gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn mv_moves_as_mv_does() {
    compare(&[
        "mv @a @n",
        "mv @a @b",
        "mv @a @d",
        "mv @d @n",
        "mv @d @e",
        "mv @d @d/x",
        "mv @d @a",
        "mv -T @a @d",
        "mv -T @e @d",
        "mv -T @d @e",
        "mv @none @n",
        "mv @a @a",
        "mv -v @a @n",
        "mv -n @a @b",
        "mv @a @b @none",
        "mv @a @b @d",
        "mv @a @none @b @d",
        "mv @l @n",
        "mv @broken @n",
        "mv -u @b @a",
        "mv -u @a @b",
        "mv -t @d @a @b",
        "mv @a @none/x",
        "mv @a @none/",
        "mv @a @b/x",
        "mv -i @a @b <y",
        "mv -i @a @b <n",
        "mv -i @a @n",
    ]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ln_links_as_ln_does() {
    compare(&[
        "ln @a @n",
        "ln -s a @n",
        "ln @a @b",
        "ln -s a @b",
        "ln -sf a @b",
        "ln -f @a @b",
        "ln -v @a @n",
        "ln -sv a @n",
        "ln @d @n",
        "ln @none @n",
        "ln @a @b @none",
        "ln @a @d",
        "ln @a @b @d",
        "ln -s ../a @d/up",
        "ln -sfn e @dl",
        "ln -sf e @dl",
        "ln -f @a @a",
        "ln -s x @none/y",
        "ln @a @b/x",
        "ln -i @a @b <y",
        "ln -si a @b <n",
    ]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_just_made_is_not_replaced_and_nothing_replaces_itself() {
    let world = World::new();
    let [theirs, ours] = ["theirs", "ours"].map(|name| world.local(name));
    let two = |root: &Path| {
        for (directory, text) in [("x", "one"), ("y", "two"), ("z", "")] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
            if !text.is_empty() {
                std::fs::write(root.join(directory).join("f"), text).unwrap();
            }
        }
    };
    for words in [
        "cp -r @x/f @y/f @z",
        "cp -n @x/f @y/f @z",
        "mv @x/f @y/f @z",
        "mv -n @x/f @y/f @z",
        "ln -sf x/f x",
        "ln -sf x/f x/f",
        "ln -sf x/f .",
        "ln -f x/f y/f",
    ] {
        let said = |mut command: Command, root: &Path| {
            let _ = std::fs::remove_dir_all(root);
            two(root);
            let root = root.to_str().unwrap();
            let words = words.split(' ').skip(1).map(|word| word.replace('@', &format!("{root}/")));
            Said::of(&output(command.args(words)), root)
        };
        let name = words.split(' ').next().unwrap();
        two(&ours);
        two(&theirs);
        let mut own = kurma(&ours);
        own.arg(name);
        assert_eq!(said(own, &ours), said(tool(name, &theirs), &theirs), "{words}");
        let contents = |root: &Path| real("sh", root, &["-c", "find . -type f -exec grep -H . {} + | sort"]);
        assert_eq!(contents(&ours), contents(&theirs), "{words}");
    }

    // To a server, where GNU's cannot go.
    let (folder, url) = (world.local("here"), world.url("there"));
    two(&folder);
    world.kurma(&folder, &["mkdir", &url]);
    let ended = output(kurma(&folder).args(["mv", "x/f", "y/f", &url]));
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(errors.starts_with("mv: will not overwrite just-created"), "{errors}");
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(world.kurma(&folder, &["cat", &format!("{url}/f"), "y/f"]), "onetwo");
    world.gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_directory_that_is_moved_to_a_server_takes_the_place_of_none_with_something_in_it() {
    let world = World::new();
    let (folder, url) = (world.local("here"), world.url("there"));
    for directory in ["full", "empty"] {
        std::fs::create_dir(folder.join(directory)).unwrap();
    }
    std::fs::write(folder.join("full/f"), "there").unwrap();
    world.kurma(&folder, &["cp", "-r", ".", &url]);
    std::fs::write(folder.join("full/f"), "here").unwrap();
    std::fs::write(folder.join("empty/f"), "here").unwrap();
    let ended = output(kurma(&folder).args(["mv", "full", "empty", &format!("{url}/")]));
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(errors.contains("unable to remove target: Directory not empty"), "{errors}");
    assert_eq!((ended.status.code(), errors.lines().count()), (Some(1), 1), "{errors}");
    let there = ["full", "empty"].map(|name| format!("{url}/{name}/f"));
    assert_eq!(world.kurma(&folder, &["cat", &there[0], "full/f", &there[1]]), "thereherehere");
    assert!(!folder.join("empty").exists());
    world.gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_with_two_names_is_one() {
    let world = World::new();
    let folder = world.local("here");
    std::fs::write(folder.join("f"), vec![7; 1 << 20]).unwrap();
    let url = world.url("f");
    let other = url.replace("127.0.0.1", "localhost");
    assert_ne!(url, other);
    world.kurma(&folder, &["cp", "f", &url]);
    for words in [["cp", &url, &other], ["mv", &url, &other]] {
        let ended = output(kurma(&folder).args(words));
        let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(errors.contains("are the same file"), "{errors}");
        assert_eq!(ended.status.code(), Some(1));
        world.kurma(&folder, &["cp", &other, "back"]);
        real("cmp", &folder, &["f", "back"]);
    }
    world.gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn from_a_directory_that_was_removed_no_name_leads_anywhere() {
    let world = World::new();
    let folder = world.local("here");
    let run = format!(
        "mkdir gone && cd gone && rmdir ../gone && exec {} cat etc/passwd",
        crate::support::KURMA.display()
    );
    let said = Said::of(&output(tool("sh", &folder).args(["-c", &run])), "");
    assert_eq!(said.errors, ["cat: etc/passwd: No such file or directory"]);
    assert_eq!((said.out, said.status), (vec![], Some(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_says_that_it_is_empty_is_read_all_the_same() {
    let world = World::new();
    let (folder, url) = (world.local("here"), world.url("version"));
    world.kurma(&folder, &["cp", "/proc/version", &url]);
    let text = std::fs::read_to_string("/proc/version").unwrap();
    assert_eq!(world.kurma(&folder, &["cat", &url]), text);
}
