//! `ls` and `stat`.

use crate::world::{Said, World, kurma, output, plant, real, tool};

/// What is the server's own affair: blocks, and the sizes and names of directories.
pub fn comparable(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first().is_some_and(|word| word.starts_with('d') && word.len() == 10) {
            return [&words[..1], &words[2..4], &words[5..]].concat().join(" ");
        }
        words.join(" ")
    };
    text.lines().filter(|it| !it.starts_with("total ")).map(line).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_listing_is_that_of_ls() {
    let world = World::new();
    let folder = world.local("here");
    plant(&folder.join("tree"));
    for options in [
        &["tree"][..],
        &["-a", "tree"],
        &["-A", "tree"],
        &["-1R", "tree"],
        &["-l", "tree"],
        &["-la", "tree"],
        &["-lR", "tree"],
        &["-lAR", "tree"],
        &["-laR", "tree"],
        &["-lRh", "tree"],
        &["-ln", "tree"],
        &["-n", "tree"],
        &["-lt", "tree"],
        &["-ltr", "tree"],
        &["-lSr", "tree"],
        &["-S", "tree/a"],
        &["-tR", "tree"],
        &["-rR", "tree"],
        &["-d", "tree"],
        &["-ld", "tree", "tree/link", "tree/a"],
        &["-F", "tree"],
        &["-v", "tree/B"],
        &["-lvr", "tree"],
        &["-X", "tree"],
        &["-lXR", "tree"],
        &["--sort=version", "tree/B"],
        &["--sort=extension", "-t", "tree"],
        &["-t", "--sort=width", "tree"],
        &["--sort=size", "tree/a"],
        &["--sort=size", "--sort=width", "-v", "-v", "--time=status", "--time=access", "-a", "-a", "tree/a"],
        &["--sort=none", "-l", "tree/file"],
        &["-u", "tree/a"],
        &["-lu", "tree/a"],
        &["-lut", "tree/a"],
        &["-lc", "tree/a"],
        &["-lct", "tree/a"],
        &["-cr", "tree/a"],
        &["-lt", "--time=access", "tree/a"],
        &["-l", "--time=status", "tree/a"],
        &["-C", "tree/B"],
        &["-CR", "tree"],
        &["-l", "tree/to-directory/"],
        &["-l", "/dev/null", "/dev/zero", "tree/file"],
        &["-lF", "tree"],
        &["-p", "tree"],
        &["-i", "tree"],
        &["-liR", "tree"],
        &["-s", "tree"],
        &["-lsh", "tree"],
        &["-siR", "tree"],
        &["-sC", "tree/B"],
        &["-s", "tree/file", "tree/a"],
        &["-g", "tree"],
        &["-o", "tree"],
        &["-lG", "tree"],
        &["-go", "tree"],
        &["--group-directories-first", "tree"],
        &["-lR", "--group-directories-first", "-r", "tree"],
        &["-lp", "tree"],
        &["-L", "tree/to-directory"],
        &["-lL", "tree/link", "tree/a"],
        &["tree/link", "tree/to-directory", "tree/file", "tree/a"],
        &["-l", "tree/link", "tree/to-directory", "tree/file", "tree/a", "tree/broken"],
        &["-l", "--full-time", "tree"],
        &["-l", "--time-style=long-iso", "tree"],
        &["-lR", "--color=never", "tree"],
        &["tree/none", "tree/a"],
        &["-l", "tree/none"],
    ] {
        let expected = output(tool("ls", &folder).args(options));
        let got = output(kurma(&folder).arg("ls").args(options));
        assert_eq!(
            String::from_utf8_lossy(&got.stdout),
            String::from_utf8_lossy(&expected.stdout),
            "{options:?}"
        );
        assert_eq!(Said::of(&got, ""), Said::of(&expected, ""), "{options:?}");
    }
    assert_eq!(world.kurma(&folder.join("tree"), &["ls", "-lR"]), real("ls", &folder.join("tree"), &["-lR"]));

    world.kurma(&folder, &["cp", "-a", "tree", &world.url("")]);
    let url = world.url("tree");
    for options in
        ["-1R", "-aR", "-lR", "-lAR", "-lRh", "-lRn", "-ltr", "-tR", "-rR", "-F", "-lF", "-p", "-ld"]
    {
        let expected = real("ls", &folder, &[options, "tree"]);
        let got = world.kurma(&folder, &["ls", options, &url]).replace(&url, "tree");
        assert_eq!(comparable(&got), comparable(&expected), "{options}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn attributes_are_those_of_stat() {
    let world = World::new();
    let folder = world.local("here");
    plant(&folder.join("tree"));
    // So that the one who comes first and reads where the link leads does not change it for the other (relatime).
    real("touch", &folder, &["-h", "-a", "-d", "1 hour", "tree/link"]);
    let files = ["tree/file", "tree/link", "tree/a", "tree/program", "tree/old", "tree/none", "/dev/null"];
    let local = "%n|%N|%s|%b|%B|%f|%F|%a|%A|%u|%U|%g|%G|%h|%i|%X|%y|%Y|%z|%Z|%t|%T|%10s|%-8a|%05a|%%";
    for options in [&["-c", local][..], &["-L", "-c", local], &["--printf", r"%n\t%s\n"]] {
        let expected = output(tool("stat", &folder).args(options).args(files));
        let got = output(kurma(&folder).arg("stat").args(options).args(files));
        assert_eq!(Said::of(&got, ""), Said::of(&expected, ""), "{options:?}");
    }
    let whole = |text: String| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with(" Birth")).map(str::to_owned).collect()
    };
    for file in ["tree/file", "tree/link", "tree/a", "/dev/null"] {
        let expected = whole(real("stat", &folder, &[file]));
        assert_eq!(whole(world.kurma(&folder, &["stat", file])), expected);
    }
    world.kurma(&folder, &["cp", "-a", "tree", &world.url("")]);
    let remote = "%s|%f|%F|%a|%A|%u|%U|%g|%G|%h|%y|%Y";
    for file in ["file", "link", "program", "old", "special-bits"] {
        let expected = real("stat", &folder, &["-c", remote, &format!("tree/{file}")]);
        assert_eq!(
            world.kurma(&folder, &["stat", "-c", remote, &world.url(&format!("tree/{file}"))]),
            expected
        );
    }
    let wrong = output(kurma(&folder).args(["stat", "-c", "%q", "tree"]));
    assert_eq!(wrong.status.code(), Some(2));
    let json: serde_json::Value =
        serde_json::from_str(&world.kurma(&folder, &["stat", "--json", "tree/file"])).unwrap();
    assert_eq!((json[0]["size"].as_u64(), json[0]["mode"].as_str()), (Some(5), Some("0644")));
}
