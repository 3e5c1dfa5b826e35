//! What the tools keep in memory does not grow with the tree.
//!
//! `KURMA_TREE` is how many files the large tree has.

use std::path::Path;

use crate::support::KURMA;
use crate::world::{World, output, tool};

/// Files of the large tree, and of the small one.
const FILES: usize = 24_000;
const FEW: usize = 3_000;
const SIDE_BY_SIDE: usize = 100;
/// KiB that a tool may need more for the large tree than for the small one: queues are filled better, and what has been freed is kept.
const SLACK: u64 = 64 << 10;

/// Runs a command that must end well; the most memory that it had, in KiB.
const MEASURE: &str = "
import resource, subprocess, sys
ended = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(ended)
";

fn plant(root: &Path, files: usize) {
    for number in 0..files {
        let (directory, above) = (number / SIDE_BY_SIDE, number / SIDE_BY_SIDE / 20);
        let folder = root.join(format!("{above}/{directory}"));
        if number % SIDE_BY_SIDE == 0 {
            std::fs::create_dir_all(&folder).unwrap();
        }
        std::fs::write(folder.join(format!("a-file-with-a-name-of-some-length-{number}")), "x").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_large_tree_takes_no_more_memory_than_a_small_one() {
    let files = std::env::var("KURMA_TREE").map_or(FILES, |files| files.parse().expect("a number"));
    let world = World::new();
    let folder = world.local("here");
    let kurma = KURMA.to_string_lossy();
    let measure = |words: &[&str]| {
        let mut command = tool("python3", &folder);
        let output = output(command.args(["-c", MEASURE, &kurma]).args(words));
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().parse::<u64>().unwrap()
    };
    let mut peaks: Vec<(String, u64)> = Vec::new();
    for (name, files) in [("few", FEW), ("many", files)] {
        plant(&folder.join(name), files);
        let [there, copy, again] = ["", "-copy", "-again"].map(|end| world.url(&format!("{name}{end}")));
        let archive = format!("{name}.tar");
        for (at, words) in [
            &["cp", "-r", name, &there][..],
            &["ls", "-lR", &there],
            &["find", &there, "-type", "f", "-size", "+1M"],
            &["cp", "-r", &there, &copy],
            &["sync", &there, &copy],
            &["tar", "-f", &archive, &there],
            &["untar", "-f", &archive, "-C", &world.url("")],
            &["mv", &copy, &again],
            &["rm", "-r", &again],
        ]
        .into_iter()
        .enumerate()
        {
            let peak = measure(words);
            match peaks.get(at) {
                None => peaks.push((words[0].to_owned(), peak)),
                Some((tool, few)) => {
                    println!("{tool}: {few} KiB for {FEW} files, {peak} KiB for {files}");
                    assert!(
                        peak < few + SLACK,
                        "{tool} needs {few} KiB for {FEW} files, and {peak} for {files}"
                    );
                }
            }
        }
        std::fs::remove_dir_all(folder.join(name)).unwrap();
    }
}
