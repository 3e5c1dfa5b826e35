//! What only files of this machine have: a root that nothing leads out of, a `umask`, other kinds of files.

use std::os::unix::fs::{PermissionsExt, symlink};

use vector_client::{AttributeSet, Client, Kind, NewAttributes, Open, Read, Step, Target, Write};

use crate::world::World;

#[tokio::test]
async fn nothing_leads_out_of_the_root() {
    let world = World::local();
    let root = world.directory().unwrap();
    std::fs::write(root.join("secret"), "inside").unwrap();
    symlink("/secret", root.join("home/absolute")).unwrap();
    symlink("../../../../../../secret", root.join("home/up")).unwrap();
    symlink("/", root.join("home/top")).unwrap();
    for path in [
        "/../../secret",
        "/home/absolute",
        "/home/up",
        "/home/top/secret",
        "/home/../../secret",
        "/home/top/../../secret",
    ] {
        let data = world.client.vread(vec![Read::new(path, 0, 9)]).await.unwrap().remove(0);
        assert_eq!(data.into_bytes(), "inside", "{path}");
    }
    let outside = root.parent().unwrap().join("not-here").into_os_string().into_encoded_bytes();
    let outside = [&b"/home/top/.."[..], &outside].concat();
    let failure = world.client.vwrite(vec![Write::whole(outside, 0o600, "x")]).await.unwrap_err();
    assert!(failure.error.is_not_found(), "{failure}");
}

#[tokio::test]
async fn the_whole_machine_is_what_everybody_sees() {
    let world = World::local();
    let path = world.directory().unwrap().join("home/file");
    let machine = Client::local("/").unwrap();
    machine.vwrite(vec![Write::whole(&*path, 0o600, "there")]).await.unwrap();
    let data = world.client.vread(vec![Read::new("/home/file", 0, 9)]).await.unwrap().remove(0);
    assert_eq!(data.into_bytes(), "there");
    // A file that does not say how long it is.
    let data = machine.vread(vec![Read::new("/proc/self/status", 0, 1 << 20)]).await.unwrap().remove(0);
    assert!(data.len() > 100 && data.end_of_file);
    assert!(Client::local(&path).is_err_and(|error| error.errno() == 20));
}

#[tokio::test]
async fn new_files_have_exactly_the_permission_bits_that_were_asked_for() {
    let world = World::local();
    for mode in [0o666, 0o777, 0o7777, 0o2755, 0o200, 0] {
        let (file, directory) = (format!("/home/f{mode:o}"), format!("/home/d{mode:o}"));
        world.client.vwrite(vec![Write::whole(&file, mode, "x")]).await.unwrap();
        world.client.vmkdir(vec![(Target::from(&directory), mode)]).await.unwrap();
        for path in [&file, &directory] {
            let there = std::fs::metadata(world.directory().unwrap().join(&path[1..])).unwrap();
            assert_eq!(there.permissions().mode() & 0o7777, mode, "{path}");
        }
    }
    let failure = world.client.vmkdir(vec![("/home/other".into(), 0o10000)]).await.unwrap_err();
    assert_eq!(failure.error.errno(), 22, "{failure}");
}

#[tokio::test]
async fn what_is_no_regular_file_is_neither_read_nor_waited_for() {
    let world = World::local();
    let path = world.directory().unwrap().join("home/pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let pipe = Target::from("/home/pipe");
    let steps = [
        Step::Read(Read::new(&pipe, 0, 9)),
        Step::Write(Write::whole(&pipe, 0o600, "x")),
        Step::Open(Open::read(&pipe)),
        Step::SetAttributes { target: pipe.clone(), attributes: NewAttributes::size(0), follow: true },
    ];
    for step in steps {
        let failure = world.client.execute(vec![step]).await.unwrap_err();
        assert_eq!(failure.error.errno(), 22, "{failure}");
    }
    let failure = world.client.vread(vec![Read::new("/home", 0, 9)]).await.unwrap_err();
    assert_eq!(failure.error.errno(), 21, "{failure}");
    let there = world.client.vgetattrs(vec![pipe.clone()], AttributeSet::KIND).await.unwrap();
    assert!(there[0].is(Kind::Fifo));
    world.client.vsetattrs(vec![(pipe.clone(), NewAttributes::mode(0o644))]).await.unwrap();
    world.client.vremove(vec![pipe]).await.unwrap();
}

#[tokio::test]
async fn a_tree_deeper_than_the_longest_path_can_be_made_listed_and_removed() {
    let world = World::local();
    let name = "x".repeat(200);
    let paths: Vec<String> =
        (1..=40).map(|depth| "/home".to_owned() + &format!("/{name}").repeat(depth)).collect();
    assert!(paths[39].len() > 8000);
    world.client.vmkdir(paths.iter().map(|path| (path.into(), 0o755)).collect()).await.unwrap();
    let file = format!("{}/file", paths[39]);
    world.client.vwrite(vec![Write::whole(&file, 0o600, "deep")]).await.unwrap();
    let mut found = 0;
    let listed = world.client.vlistdir(vec!["/home".into()], AttributeSet::SIZE, true, |_, _| found += 1);
    assert_eq!(listed.await.unwrap(), 41);
    assert_eq!(found, 41);
    let all = std::iter::once(&file).chain(paths.iter().rev()).map(Target::from);
    world.client.vremove(all.collect()).await.unwrap();
    let left = world.client.vgetattrs(vec![paths[0].as_str().into()], AttributeSet::KIND).await;
    assert!(left.unwrap_err().error.is_not_found());
}

#[tokio::test]
async fn holes_stay_holes_in_a_copy() {
    let world = World::local();
    let size = 64 << 20;
    world.client.vwrite(vec![Write::whole("/home/a", 0o600, "begin")]).await.unwrap();
    world.client.vwrite(vec![Write::new("/home/a", 40 << 20, "middle")]).await.unwrap();
    world.client.vsetattrs(vec![("/home/a".into(), NewAttributes::size(size))]).await.unwrap();
    let copy = vector_client::Copy::whole("/home/a", "/home/b", 0o600);
    assert_eq!(world.client.vsscopy(vec![copy]).await.unwrap(), [size]);
    let wanted = AttributeSet::SIZE | AttributeSet::SPACE_USED;
    let both = world.client.vgetattrs(vec!["/home/a".into(), "/home/b".into()], wanted).await.unwrap();
    assert_eq!(both[0].size, both[1].size);
    assert!(both[1].space_used.unwrap() <= both[0].space_used.unwrap() + 8192, "{both:?}");
    let reads = [0, 40 << 20].map(|offset| Read::new("/home/b", offset, 6));
    let data = world.client.vread(reads.into()).await.unwrap();
    assert_eq!(data[0].clone().into_bytes(), "begin\0");
    assert_eq!(data[1].clone().into_bytes(), "middle");
}

#[tokio::test]
async fn a_closed_client_does_nothing_more() {
    let world = World::local();
    world.client.close().await.unwrap();
    let failure = world.client.vmkdir(vec![("/home/a".into(), 0o755)]).await.unwrap_err();
    assert_eq!(failure.error.errno(), 5, "{failure}");
    assert!(!world.directory().unwrap().join("home/a").exists());
}

/// Somebody who may write into a tree puts a symbolic link in a directory's place while it is removed, before and after it was read.
#[tokio::test]
async fn no_link_leads_out_of_a_tree_that_is_removed() {
    for (when, goes) in [("/tree/way/in", true), ("/tree/way/in/a", false)] {
        let directory = tempfile::tempdir().unwrap();
        for root in ["/", directory.path().to_str().unwrap()] {
            let base = if root == "/" { directory.path().to_str().unwrap() } else { "" };
            let client = Client::local(root).unwrap();
            for made in ["tree/way/in", "outside"].map(|name| directory.path().join(name)) {
                std::fs::create_dir_all(&made).unwrap();
                std::fs::write(made.join("a"), "x").unwrap();
            }
            let inner = directory.path().join("tree/way/in");
            let swap = |target: &Target| {
                if target.path()[..] == *format!("{base}{when}").as_bytes() {
                    std::fs::rename(&inner, directory.path().join("tree-of-others")).unwrap();
                    symlink("../../outside", &inner).unwrap();
                }
                false
            };
            let mut failures = Vec::new();
            let failed = client.rm_recursive_but(vec![format!("{base}/tree").into()], swap, |removal| {
                failures.extend(removal.result.err().map(|error| error.errno()));
            });
            // The link itself is a name in the tree.
            assert_eq!(failed.await.unwrap(), failures.len() as u64);
            assert_eq!(failures, if goes { vec![] } else { vec![40] }, "{when} from {root}");
            assert_eq!(directory.path().join("tree").exists(), !goes);
            assert!(directory.path().join("outside/a").exists(), "{when} from {root}");
            client
                .rm_recursive(
                    vec![format!("{base}/tree").into(), format!("{base}/tree-of-others").into()],
                    |_| {},
                )
                .await
                .unwrap();
        }
    }
}
