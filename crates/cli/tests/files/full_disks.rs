//! Disks and servers that are full: it is said, and the rest is done.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::small_server::SmallServer;
use crate::support::KURMA;
use crate::world::{Said, World, kurma, output, real, tool};

/// A tool of the machine, or `kurma` with it, in a place of its own where `full` has room for a MiB.
fn cramped(program: &str, folder: &Path, words: &[&str]) -> Command {
    let mut command = tool("unshare", folder);
    let script = r#"mount -t tmpfs -o size=1m none full && "$@"; said=$?; ls -l full/tree | awk '{ print $5, $9 }' >listed; exit $said"#;
    command.args(["-rm", "sh", "-c", script, "sh"]);
    command.args(program.split(' ')).args(words);
    command
}

/// Files of more than a MiB; their sizes.
fn plant_too_much(tree: &Path) -> BTreeMap<String, u64> {
    let mut sizes = BTreeMap::new();
    for n in 0..40 {
        let (name, size) = match n % 20 {
            7 => (format!("large{n}"), 700 << 10),
            _ => (format!("small{n}"), 1000 * n),
        };
        std::fs::write(tree.join(&name), vec![b'x'; size]).unwrap();
        sizes.insert(name, size as u64);
    }
    sizes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_full_disk_is_said_and_what_has_room_is_copied() {
    let world = World::new();
    let folder = world.local("here");
    world.local("here/full");
    let sizes = plant_too_much(&world.local("here/tree"));
    let url = world.url("tree");
    world.kurma(&folder, &["cp", "-a", "tree", &url]);
    let ours = KURMA.to_string_lossy();
    for (program, from) in [("cp", "tree"), (&format!("{ours} cp"), "tree"), (&format!("{ours} cp"), &url)] {
        let said = Said::of(&output(&mut cramped(program, &folder, &["-r", from, "full"])), "");
        let listed = std::fs::read_to_string(folder.join("listed")).unwrap();
        let listed: BTreeMap<&str, u64> = listed
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(size, name)| Some((name, size.parse().ok()?)))
            .collect();
        assert_eq!(said.status, Some(1), "{said:?}");
        let mut whole = 0;
        for (name, size) in &sizes {
            let error = format!("cp: error writing 'full/tree/{name}': No space left on device");
            match said.errors.contains(&error) {
                true => {}
                false => {
                    assert_eq!(listed.get(&name[..]), Some(size), "{program} {from}: {name}, {said:?}");
                    whole += 1;
                }
            }
        }
        assert_eq!(whole + said.errors.len(), sizes.len(), "{program} {from}: {said:?}");
        assert!(said.errors.len() < sizes.len(), "{program} {from}: nothing was copied");
    }
    real("tar", &folder, &["-cf", "tree.tar", "tree"]);
    for (program, words) in [
        ("tar", &["-xf", "tree.tar", "-C", "full"][..]),
        (&format!("{ours} untar"), &["-f", "tree.tar", "-C", "full"]),
        (&format!("{ours} sync"), &["tree", "full/tree"]),
        (&format!("{ours} sync"), &[&url, "full/tree"]),
    ] {
        let output = output(&mut cramped(program, &folder, words));
        let said = Said::of(&output, "");
        assert_eq!(said.status, Some(if program.ends_with("tar") { 2 } else { 1 }), "{said:?}");
        let listed = std::fs::read_to_string(folder.join("listed")).unwrap();
        let is_told = |name: &str| said.errors.iter().any(|line| line.contains(&format!("tree/{name}")));
        let is_whole = |name: &str, size: &u64| listed.lines().any(|line| line == format!("{size} {name}"));
        for (name, size) in &sizes {
            assert!(
                is_told(name) || is_whole(name, size),
                "{program}: {name} is neither there nor told: {said:?}"
            );
        }
        let told =
            said.errors.iter().filter(|line| line.contains("No space left") || line.contains("Wrote only"));
        assert!((1..sizes.len()).contains(&told.count()), "{program}: {said:?}");
    }
    let prefix = world.url("tree/");
    for words in [&["cat", "@large7"][..], &["ls", "-l", "@"]] {
        let line = |tool: &str, prefix: &str| {
            let words: Vec<String> = words.iter().map(|word| word.replace('@', prefix)).collect();
            format!("{tool}{} >/dev/full", words.join(" "))
        };
        let shell = |line: String| output(tool("sh", &folder).args(["-c", &line]));
        let expected = Said::of(&shell(line("", "tree/")), "");
        assert_ne!(expected.status, Some(0));
        for from in ["tree/", &prefix] {
            assert_eq!(
                Said::of(&shell(line(&format!("{ours} "), from)), ""),
                expected,
                "{words:?} from {from}"
            );
        }
    }
    world.gateway.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_full_server_is_said_and_what_has_room_is_there() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    std::fs::create_dir(folder.join("tree")).unwrap();
    let sizes = plant_too_much(&folder.join("tree"));
    real("tar", folder, &["-cf", "tree.tar", "tree"]);
    let large = SmallServer::start(1 << 30).await;
    let source = format!("nfs://{}/home/tree", large.address);
    assert!(output(kurma(folder).args(["cp", "-r", "tree", &source])).status.success());
    for (words, status) in [
        (&["cp", "-r", "tree", "@"][..], 1),
        (&["cp", "-r", &source, "@"], 1),
        (&["cp", "-r", "--atomic", "tree", "@"], 1),
        (&["sync", "tree", "@/tree"], 1),
        (&["untar", "-f", "tree.tar", "-C", "@"], 2),
    ] {
        let small = SmallServer::start(1 << 20).await;
        let url = format!("nfs://{}/home", small.address);
        let words: Vec<String> = words.iter().map(|word| word.replace('@', &url)).collect();
        let said = Said::of(&output(kurma(folder).args(&words)), &url);
        assert_eq!(said.status, Some(status), "{words:?}: {said:?}");
        let listed = output(kurma(folder).args(["ls", "-l", &format!("{url}/tree")]));
        let listed = String::from_utf8(listed.stdout).unwrap();
        let listed: BTreeMap<&str, u64> = listed
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter_map(|words| Some((*words.get(8)?, words[4].parse().ok()?)))
            .collect();
        let (mut whole, mut told) = (0, 0);
        for (name, size) in &sizes {
            let names = |line: &&String| {
                let rest = line.split(&format!("tree/{name}")).nth(1);
                rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric()))
            };
            let is_told =
                said.errors.iter().filter(names).any(|line| line.contains("No space left on device"));
            let is_whole = listed.get(&name[..]) == Some(size);
            assert!(is_told != is_whole, "{words:?}: {name} has to be there or told: {said:?}");
            (whole, told) = (whole + usize::from(is_whole), told + usize::from(is_told));
        }
        assert!(told >= 1 && whole >= 10, "{words:?}: {whole} whole, {told} told");
        // There is room again when something goes, and the rest follows.
        for name in ["large7", "large27"] {
            let _ = output(kurma(folder).args(["rm", "-f", &format!("{url}/tree/{name}")]));
            let _ = std::fs::rename(folder.join("tree").join(name), folder.join(name));
        }
        let again = output(kurma(folder).args(["sync", "tree", &format!("{url}/tree")]));
        assert!(again.status.success(), "{words:?}: {again:?}");
        for name in ["large7", "large27"] {
            std::fs::rename(folder.join(name), folder.join("tree").join(name)).unwrap();
        }
    }
}
