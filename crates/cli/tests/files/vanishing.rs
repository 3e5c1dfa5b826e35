//! Files and directories that vanish while a tool is on its way: it is said, as the tool of the same name says it, and the rest is done.
//! But for `rm`, whose work it is.

use std::collections::BTreeSet;
use std::io::{BufReader, Read};
use std::path::Path;
use std::process::Stdio;

use crate::support::parallel;
use crate::world::{Said, World, kurma, output, real, tool};

/// What a tool says while a part of what it goes through is removed by somebody else.
struct Watched {
    out: Vec<u8>,
    errors: String,
    status: Option<i32>,
}

impl Watched {
    /// Runs `kurma` until it prints, and removes these then. It cannot go on for long, as what it prints goes nowhere.
    fn run(world: &World, words: &[&str], gone: &[String]) -> Watched {
        let folder = world.local("here");
        let mut command = kurma(&folder);
        let mut child = command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut out, mut errors) =
            (BufReader::with_capacity(1, child.stdout.take().unwrap()), child.stderr.take().unwrap());
        let mut first = [0];
        parallel(|| out.read_exact(&mut first).unwrap());
        for some in gone.chunks(100) {
            let some: Vec<&str> = some.iter().map(String::as_str).collect();
            match some[0].starts_with("nfs:") {
                true => world.kurma(&folder, &[&["rm", "-rf"][..], &some].concat()),
                false => real("rm", &folder, &[&["-rf"][..], &some].concat()),
            };
        }
        let reading = std::thread::spawn(move || {
            let mut all = first.to_vec();
            out.read_to_end(&mut all).unwrap();
            all
        });
        let mut said = String::new();
        parallel(|| errors.read_to_string(&mut said).unwrap());
        let status = parallel(|| child.wait().unwrap()).code();
        Watched { out: parallel(|| reading.join().unwrap()), errors: said, status }
    }

    /// Each complaint must be this one, of something that is gone; of how many.
    fn complaints(&self, message: &str, gone: &[String]) -> usize {
        assert_eq!(self.status, Some(1), "{}", self.errors);
        let expected: BTreeSet<String> = gone.iter().map(|path| message.replace('@', path)).collect();
        for line in self.errors.lines() {
            assert!(expected.contains(line), "{line}");
        }
        assert!(!self.errors.is_empty(), "all of it was seen before anything was gone");
        self.errors.lines().count()
    }
}

/// Many files, so many in a directory, whose names fill a pipe.
fn plant_files(tree: &Path, width: usize) -> BTreeSet<String> {
    let names: BTreeSet<String> =
        (0..4000).map(|n| format!("{:04}/{}{n:04}", n / width, "n".repeat(100))).collect();
    for name in &names {
        std::fs::create_dir_all(tree.join(name).parent().unwrap()).unwrap();
        std::fs::write(tree.join(name), name).unwrap();
    }
    names
}

fn with_parent(parent: &str, names: &[&String]) -> Vec<String> {
    names.iter().map(|name| format!("{parent}/{name}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_that_vanish_are_said_and_the_rest_is_copied() {
    let world = World::new();
    let folder = world.local("here");
    let names = plant_files(&folder.join("tree"), 100);
    let gone: Vec<&String> = names.iter().filter(|name| name.ends_with('7')).collect();
    let [there, copy] = ["there", "copy"].map(|name| world.url(name));
    world.kurma(&folder, &["cp", "-r", "tree", &there]);
    for tool in [&["cp", "-rv"][..], &["sync", "-v"]] {
        let message = format!("{}: cannot open '@' for reading: No such file or directory", tool[0]);
        for (from, to) in [("tree", copy.as_str()), (&there, "copy")] {
            let paths = with_parent(from, &gone);
            let said = Watched::run(&world, &[tool, &[from, to]].concat(), &paths);
            let missing = said.complaints(&message, &paths);
            let listed = world.kurma(&folder, &["find", to, "-type", "f"]);
            let copied: BTreeSet<String> =
                listed.lines().map(|line| line.replacen(&format!("{to}/"), "", 1)).collect();
            assert_eq!(copied.len() + missing, names.len(), "each is there, or its absence is said");
            assert!(names.iter().filter(|name| !name.ends_with('7')).all(|name| copied.contains(name)));
            world.kurma(&folder, &["rm", "-r", to]);
            for name in &gone {
                std::fs::write(folder.join("tree").join(name), name).unwrap();
            }
            world.kurma(&folder, &["cp", "-r", "tree/.", &there]);
        }
    }
    world.gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_that_vanish_are_said_and_the_rest_is_in_the_archive() {
    let world = World::new();
    let folder = world.local("here");
    let names = plant_files(&folder.join("tree"), 100);
    let gone: Vec<&String> = names.iter().filter(|name| name.ends_with('7')).collect();
    // They have second names, which stay.
    std::fs::create_dir(folder.join("tree/zz")).unwrap();
    for name in &gone {
        let second = folder.join("tree/zz").join(&name[5..]);
        std::fs::hard_link(folder.join("tree").join(name), second).unwrap();
    }
    let there = world.url("tree");
    world.kurma(&folder, &["cp", "-a", "tree", &there]);
    for from in ["tree", &there] {
        let paths = with_parent(from, &gone);
        let said = Watched::run(&world, &["tar", "-f", "-", from], &paths);
        let missing = said.complaints("tar: @: File removed before we read it", &paths);
        std::fs::write(folder.join("archive"), &said.out).unwrap();
        let listed = real("tar", &folder, &["-tf", "archive"]);
        let members: BTreeSet<&str> = listed.lines().filter(|line| !line.ends_with('/')).collect();
        assert_eq!(
            members.len() + missing,
            names.len() + gone.len(),
            "each is there, or its absence is said"
        );
        let stays = names.iter().filter(|name| !name.ends_with('7')).cloned();
        let stays = stays.chain(gone.iter().map(|name| format!("zz/{}", &name[5..])));
        assert!(stays.map(|name| format!("tree/{name}")).all(|name| members.contains(&name[..])));
        // What is in it is whole.
        std::fs::create_dir(folder.join("out")).unwrap();
        real("tar", &folder, &["-xf", "archive", "-C", "out"]);
        for member in members {
            let content = std::fs::read_to_string(folder.join("out").join(member)).unwrap();
            assert!(member.ends_with(&content[4..]), "{member}: {content}");
        }
        real("rm", &folder, &["-r", "out"]);
    }
    // What was named is another matter, as it is to GNU tar.
    for (program, words) in
        [("tar", &["-cf", "none", "nowhere"][..]), ("kurma", &["tar", "-f", "none", "nowhere"])]
    {
        let mut command = if program == "tar" { tool("tar", &folder) } else { kurma(&folder) };
        let said = Said::of(&output(command.args(words)), "");
        assert_eq!(said.status, Some(2), "{said:?}");
        assert!(said.errors.contains(&"tar: nowhere: Cannot stat: No such file or directory".to_owned()));
    }
    world.gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_somebody_else_removes_first_is_no_error_of_rm() {
    let world = World::new();
    let folder = world.local("here");
    let there = world.url("tree");
    for from in ["tree", &there] {
        for options in ["-rv", "-rfv"] {
            let names = plant_files(&folder.join("tree"), 3);
            if from == there {
                world.kurma(&folder, &["cp", "-r", "tree", &there]);
            }
            let paths = with_parent(from, &names.iter().collect::<Vec<_>>());
            let said = Watched::run(&world, &["rm", options, from], &paths);
            assert_eq!((said.status, &said.errors[..]), (Some(0), ""), "{options} {from}");
            let removed = String::from_utf8_lossy(&said.out).matches("removed '").count();
            assert!(removed < names.len(), "all of it was gone before anybody else could remove it");
            let left = output(kurma(&folder).args(["ls", "-d", from]));
            assert_eq!(left.status.code(), Some(2), "{left:?}");
        }
    }
    world.gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn directories_that_vanish_are_said_and_the_rest_is_found() {
    let world = World::new();
    let folder = world.local("here");
    let there = world.url("tree");
    let names: BTreeSet<String> = (0..3000).map(|n| format!("{}{n:04}", "n".repeat(100))).collect();
    let gone: Vec<&String> = names.iter().filter(|name| name.ends_with('7')).collect();
    for (tool, message) in [
        (&["find"][..], "find: '@': No such file or directory"),
        (&["ls", "-R"], "ls: cannot open directory '@': No such file or directory"),
        (&["tar", "-f", "-"], "tar: @: File removed before we read it"),
    ] {
        for from in ["tree", &there] {
            for name in &names {
                std::fs::create_dir_all(folder.join("tree").join(name).join("below")).unwrap();
            }
            if from == there {
                world.kurma(&folder, &["cp", "-r", "tree", &there]);
            }
            let paths = with_parent(from, &gone);
            let said = Watched::run(&world, &[tool, &[from]].concat(), &paths);
            // Those in it are told of, too, if it was listed already.
            let all = paths.iter().flat_map(|path| [path.clone(), format!("{path}/below")]);
            said.complaints(message, &all.collect::<Vec<_>>());
            let out = String::from_utf8_lossy(&said.out);
            for name in names.iter().filter(|name| !name.ends_with('7')) {
                assert!(out.contains(&format!("tree/{name}")), "{tool:?}: {name}");
            }
            world.kurma(&folder, &["rm", "-r", from]);
        }
    }
    world.gateway.check();
}
