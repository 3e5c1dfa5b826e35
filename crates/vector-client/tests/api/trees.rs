//! Trees: made, removed, copied (V13, V15, V19).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;
use tokio::runtime::Runtime;
use vector_client::{
    AttributeSet, Client, Copy, CopyAct, CopyItem, CopyOptions, CopyWatch, Error, Kind, Make, NewAttributes,
    Preserve, Read, SetTime, Target, Time, Write,
};

use crate::world::World;

#[tokio::test]
async fn a_deep_directory_takes_two_round_trips() {
    for world in World::each().await {
        let client = &world.client;
        client.vmkdir(vec![("/home/a".into(), 0o755), ("/home/a/b".into(), 0o755)]).await.unwrap();
        let deep = "/home/a/b/c/d/e/f";
        let made = world.costing(2, client.ensure_directory(deep, 0o750)).await.unwrap();
        let made: Vec<String> = made.iter().map(ToString::to_string).collect();
        assert_eq!(made, ["/home/a/b/c", "/home/a/b/c/d", "/home/a/b/c/d/e", "/home/a/b/c/d/e/f"]);
        assert_eq!(client.lstat(deep).await.unwrap().mode, Some(0o750));
        assert_eq!(world.costing(1, client.ensure_directory(deep, 0o750)).await.unwrap(), []);
    }
}

#[tokio::test]
async fn several_may_make_the_same_directory_at_once() {
    for world in World::each().await {
        let others = [world.another().await, world.another().await, world.another().await];
        let all = others.iter().map(|client| client.ensure_directory("/home/x/y/z", 0o755));
        for made in futures::future::join_all(all).await {
            made.unwrap();
        }
        assert!(world.client.lstat("/home/x/y/z").await.unwrap().is(Kind::Directory));
    }
}

#[tokio::test]
async fn a_file_on_the_way_to_a_directory_is_an_error() {
    for world in World::each().await {
        world.client.vwrite(vec![Write::whole("/home/file", 0o644, "x")]).await.unwrap();
        for path in ["/home/file/below", "/home/file"] {
            assert_eq!(world.client.ensure_directory(path, 0o755).await.unwrap_err().errno(), 20, "{path}");
        }
    }
}

/// As NFSv4.1, and servers of 4.2 that leave it out.
#[tokio::test]
async fn a_server_that_has_no_copy_is_not_asked_for_one_again_and_again() {
    let world = World::with(nfs4_server::Limits::default(), |options| {
        options.nfs.minor_versions = vec![1];
        options.cache_bytes = 0;
    });
    let world = world.await;
    let client = &world.client;
    client.vmkdir(vec![("/home/tree".into(), 0o755)]).await.unwrap();
    let write = |n| Write::whole(format!("/home/tree/{n}"), 0o644, format!("content {n}"));
    client.vwrite((0..100).map(write).collect()).await.unwrap();
    let failure = client.vsscopy(vec![Copy::whole("/home/tree/1", "/home/copy", 0o644)]).await.unwrap_err();
    assert_eq!(failure.error.errno(), 95, "{failure}");

    let copies = vec![("/home/tree".into(), "/home/other".into())];
    let options = CopyOptions::default();
    let (failed, trips) = world.round_trips(client.cp_recursive(copies, client, &options, &mut ())).await;
    assert_eq!(failed.unwrap(), 0);
    // The two arguments, the directory, its names, COPY, then reading and writing, mode and times of the directory.
    assert!(trips <= 9, "{trips}");
    let copied = client.vread((0..100).map(|n| Read::new(format!("/home/other/{n}"), 0, 100)).collect());
    for (n, data) in copied.await.unwrap().into_iter().enumerate() {
        assert_eq!(data.into_bytes(), format!("content {n}"));
    }
}

/// A tree of `width` directories in each of `depth` levels below `/home/tree`, with files, links of both kinds, and odd modes.
async fn tree(client: &Client, depth: usize, width: usize) {
    let mut level = vec!["/home/tree".to_owned()];
    client.vmkdir(vec![("/home/tree".into(), 0o755)]).await.unwrap();
    for _ in 0..depth {
        let below = |path: &String| (0..width).map(|n| format!("{path}/d{n}")).collect::<Vec<_>>();
        level = level.iter().flat_map(below).collect();
        client.vmkdir(level.iter().map(|path| (path.into(), 0o755)).collect()).await.unwrap();
        let file = |path: &String, n: usize| {
            let mode = [0o644, 0o600, 0o755][n % 3];
            Write::whole(format!("{path}/f{n}"), mode, vec![n as u8; n * 1000])
        };
        let files = level.iter().flat_map(|path| (0..5).map(move |n| file(path, n)));
        client.vwrite(files.collect()).await.unwrap();
        let links = level.iter().map(|path| (format!("{path}/link").into(), Bytes::from("../no/where")));
        client.vsymlink(links.collect()).await.unwrap();
        let names = level.iter().map(|path| (format!("{path}/f1").into(), format!("{path}/name").into()));
        client.vhardlink(names.collect()).await.unwrap();
    }
    let large = vec![7; (3 << 19) + 5];
    client.vwrite(vec![Write::whole("/home/tree/large", 0o640, large)]).await.unwrap();
    client.vsymlink(vec![("/home/tree/loop".into(), "../tree".into())]).await.unwrap();
    let time = |seconds| Some(SetTime::To(Time { seconds, nanoseconds: 5_000_000 }));
    let old = NewAttributes { modified: time(1_000_000_000), accessed: time(9), ..NewAttributes::default() };
    let mut old_ones: Vec<_> = level.iter().map(|path| (Target::from(path), old.clone())).collect();
    old_ones.push(("/home/tree/large".into(), old.clone()));
    old_ones.push(("/home/tree".into(), NewAttributes { mode: Some(0o500), ..old }));
    client.vsetattrs(old_ones).await.unwrap();
}

type Object = (Option<Kind>, u32, Option<Time>, Bytes, u32);

/// All that a copy has to have: kind, mode, when modified, content, and with how many others it is one file.
async fn content(client: &Client, root: &str) -> BTreeMap<String, Object> {
    let mut found = BTreeMap::new();
    let mut walk = client.walk(vec![root.into()], AttributeSet::STAT, true);
    let mut all = vec![(root.to_owned(), client.lstat(root).await.unwrap())];
    while let Some(page) = walk.next().await {
        for entry in page.entries.unwrap() {
            all.push((page.directory.join(&entry.name).to_string(), entry.attributes));
        }
    }
    for (path, it) in all {
        let bytes = match it.kind {
            Some(Kind::File) => {
                let read = vector_client::Read::new(&path, 0, it.size.unwrap());
                client.vread(vec![read]).await.unwrap().remove(0).into_bytes()
            }
            Some(Kind::SymbolicLink) => client.readlink(&path).await.unwrap(),
            _ => Bytes::new(),
        };
        let is_link = it.is(Kind::SymbolicLink);
        let mode = if is_link { 0 } else { it.mode.unwrap() };
        let links = if it.is(Kind::File) { it.links.unwrap() } else { 0 };
        let path = path.strip_prefix(root).unwrap().to_owned();
        found.insert(path, (it.kind, mode, it.modified, bytes, links));
    }
    found
}

fn archive() -> CopyOptions {
    CopyOptions { preserve: Preserve::ALL, ..CopyOptions::default() }
}

#[tokio::test]
async fn a_copied_tree_is_the_same_between_all_clients() {
    for from in World::each().await {
        tree(&from.client, 3, 3).await;
        let original = content(&from.client, "/home/tree").await;
        assert!(original.len() > 200);
        for to in World::each().await {
            let copies = vec![("/home/tree".into(), "/home/copy".into())];
            let failed = from.client.cp_recursive(copies, &to.client, &archive(), &mut ()).await.unwrap();
            assert_eq!(failed, 0);
            assert!(content(&to.client, "/home/copy").await == original, "the copy differs");
        }
        let copies = vec![("/home/tree".into(), "/home/copy".into())];
        let failed = from.client.cp_recursive(copies, &from.client, &archive(), &mut ()).await.unwrap();
        assert_eq!(failed, 0);
        assert!(content(&from.client, "/home/copy").await == original, "the copy within one client differs");
    }
}

#[tokio::test]
async fn a_tree_of_small_files_is_copied_in_few_round_trips() {
    let (from, to) = (World::new().await, World::new().await);
    let client = &from.client;
    client.vmkdir(vec![("/home/tree".into(), 0o755)]).await.unwrap();
    let directories = (0..50).map(|n| (format!("/home/tree/d{n}").into(), 0o755));
    client.vmkdir(directories.collect()).await.unwrap();
    let files = (0..1000).map(|n| Write::whole(format!("/home/tree/d{}/f{n}", n % 50), 0o644, "some data"));
    client.vwrite(files.collect()).await.unwrap();
    let before = (client.statistics().round_trips, to.client.statistics().round_trips);
    let copies = vec![("/home/tree".into(), "/home/copy".into())];
    client.cp_recursive(copies, &to.client, &CopyOptions::default(), &mut ()).await.unwrap();
    let reads = client.statistics().round_trips - before.0;
    let writes = to.client.statistics().round_trips - before.1;
    // One for the root, one or two for the directories, a few for the files: with the usual client, seven a file.
    assert!(reads <= 14 && writes <= 16, "{reads} and {writes}");
    assert_eq!(content(&to.client, "/home/copy").await.len(), 1051);
}

#[tokio::test]
async fn small_files_are_copied_in_three_round_trips() {
    for world in World::each().await {
        let files = (0..60).map(|n| Write::whole(format!("/home/f{n}"), 0o644, format!("content {n}")));
        world.client.vwrite(files.collect()).await.unwrap();
        let copies = (0..60).map(|n| Copy::whole(format!("/home/f{n}"), format!("/home/c{n}"), 0o600));
        let copied = world.costing(3, world.client.vcopy(copies.collect(), &world.client)).await.unwrap();
        assert_eq!(copied[..11], [9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 10]);
        let read = |n| vector_client::Read::new(format!("/home/c{n}"), 0, 100);
        for (n, data) in
            world.client.vread((0..60).map(read).collect()).await.unwrap().into_iter().enumerate()
        {
            assert_eq!(data.into_bytes(), format!("content {n}"));
        }
    }
}

#[tokio::test]
async fn a_copy_through_memory_stops_at_the_first_failure_and_says_where() {
    for world in World::each().await {
        let files = (0..5).map(|n| Write::whole(format!("/home/f{n}"), 0o644, "abc"));
        world.client.vwrite(files.collect()).await.unwrap();
        let to = ["/home/c0", "/home/c1", "/home/none/c2", "/home/c3"];
        let copies = (0..4).map(|n| Copy::whole(format!("/home/f{n}"), to[n], 0o600));
        let failure = world.client.vcopy(copies.collect(), &world.client).await.unwrap_err();
        assert_eq!((failure.index(), failure.error.errno()), (2, 2));
        assert!(!world.client.exists("/home/c3").await.unwrap());
        let from = ["/home/f0", "/home/f1", "/home/none", "/home/f3"];
        let copies = (0..4).map(|n| Copy::whole(from[n], format!("/home/d{n}"), 0o600));
        let failure = world.client.vcopy(copies.collect(), &world.client).await.unwrap_err();
        assert_eq!((failure.index(), failure.error.errno()), (2, 2));
        let made = ["/home/d0", "/home/d1", "/home/d2", "/home/d3"];
        for (path, is_there) in made.into_iter().zip([true, true, false, false]) {
            assert_eq!(world.client.exists(path).await.unwrap(), is_there, "{path}");
        }
    }
}

/// Whoever may write into a tree could otherwise have files elsewhere removed by whoever removes the tree.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_the_place_of_a_directory_leads_nobody_out_of_a_tree_that_is_removed() {
    let world = World::over_nfs().await;
    let client = &world.client;
    for directory in ["/home/tree", "/home/tree/sub", "/home/other"] {
        client.mkdir(directory, 0o755).await.unwrap();
    }
    let files = ["/home/tree/sub/file", "/home/other/file"].map(|name| Write::whole(name, 0o644, "content"));
    client.vwrite(files.into()).await.unwrap();
    let exchange = async {
        client.vrename(vec![("/home/tree/sub".into(), "/home/away".into())]).await.unwrap();
        client.vsymlink(vec![("/home/tree/sub".into(), "/home/other".into())]).await.unwrap();
    };
    let mut exchange = Some(exchange);
    // After the tree was listed, and before the directory in it is.
    let stays = |_: &Target| {
        if let Some(exchange) = exchange.take() {
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(exchange));
        }
        false
    };
    client.rm_recursive_but(vec!["/home/tree".into()], stays, |_| {}).await.unwrap();
    assert!(client.exists("/home/other/file").await.unwrap());
    client.rm_recursive(vec!["/home/tree".into()], |_| {}).await.unwrap();
    assert!(!client.exists("/home/tree").await.unwrap() && client.exists("/home/other/file").await.unwrap());
}

#[derive(Default)]
struct Told {
    copied: Vec<String>,
    failed: Vec<(String, CopyAct, Option<i32>)>,
    keeps: bool,
    moving: Vec<u64>,
}

impl CopyWatch for Told {
    fn may_replace(&mut self, _: &CopyItem) -> bool {
        !self.keeps
    }

    fn moving(&mut self, bytes: u64) {
        self.moving.push(bytes);
    }

    fn copied(&mut self, item: &CopyItem, _: u64) {
        self.copied.push(item.destination.to_string());
    }

    fn failed(&mut self, item: &CopyItem, act: &CopyAct, error: Option<&Error>) {
        self.failed.push((item.source.to_string(), act.clone(), error.map(Error::errno)));
    }
}

#[tokio::test]
async fn how_much_of_a_large_file_is_copied_is_told_on_the_way() {
    const SIZE: u64 = 20 << 20;
    let worlds = World::of_ours().await;
    for (from, to) in [(0, 1), (1, 0)] {
        let (from, to) = (&worlds[from].client, &worlds[to].client);
        let file = Write::whole("/home/large", 0o644, vec![7; SIZE as usize]);
        from.vwrite(vec![file]).await.unwrap();
        let mut told = Told::default();
        let copies = vec![("/home/large".into(), "/home/copy".into())];
        from.cp_recursive(copies, to, &CopyOptions::default(), &mut told).await.unwrap();
        assert_eq!(told.copied, ["/home/copy"]);
        assert!(told.moving.is_sorted() && told.moving.iter().all(|bytes| *bytes <= SIZE));
        assert!(told.moving.iter().any(|bytes| (1..SIZE).contains(bytes)), "{:?}", told.moving);
        to.unlink("/home/copy").await.unwrap();
    }
}

#[tokio::test]
async fn what_cannot_be_copied_is_told_and_the_rest_goes_on() {
    for world in World::each().await {
        let client = &world.client;
        for directory in ["/home/a", "/home/a/x", "/home/b", "/home/b/a", "/home/b/a/y"] {
            client.mkdir(directory, 0o755).await.unwrap();
        }
        let files = ["/home/a/1", "/home/a/2", "/home/a/y", "/home/b/a/x"];
        client.vwrite(files.map(|file| Write::whole(file, 0o644, file)).into()).await.unwrap();
        let mut told = Told::default();
        let copies = [("/home/none", "/home/b/none"), ("/home/a", "/home/b/a"), ("/home/a/1", "/home/a/1")];
        let copies = copies.map(|(from, to)| (Target::from(from), Target::from(to))).into();
        let failed = client.cp_recursive(copies, client, &CopyOptions::default(), &mut told).await.unwrap();
        told.failed.sort_by(|a, b| a.0.cmp(&b.0));
        let expected = [
            ("/home/a/1".into(), CopyAct::SameFile, None),
            ("/home/a/x".into(), CopyAct::OverFile, None),
            ("/home/a/y".into(), CopyAct::OverDirectory, None),
            ("/home/none".into(), CopyAct::Find, Some(2)),
        ];
        assert_eq!(told.failed, expected);
        assert_eq!(failed, 4);
        told.copied.sort();
        assert_eq!(told.copied, ["/home/b/a/1", "/home/b/a/2"]);
    }
}

#[tokio::test]
async fn a_directory_is_not_copied_into_itself_without_end() {
    for world in World::each().await {
        let client = &world.client;
        client.ensure_directory("/home/a/b", 0o755).await.unwrap();
        client.symlink("a/b", "/home/disguise").await.unwrap();
        for to in ["/home/a/copy", "/home/disguise/copy"] {
            let mut told = Told::default();
            let copies = vec![("/home/a".into(), to.into())];
            client.cp_recursive(copies, client, &CopyOptions::default(), &mut told).await.unwrap();
            assert!(
                told.failed.iter().any(|(_, act, _)| *act == CopyAct::IntoItself),
                "{to}: {:?}",
                told.failed
            );
        }
    }
}

#[tokio::test]
async fn a_copy_over_a_link_to_its_original_replaces_the_link() {
    for world in World::each().await {
        let client = &world.client;
        for directory in ["/home/a", "/home/b"] {
            client.mkdir(directory, 0o755).await.unwrap();
        }
        client.vwrite(vec![Write::whole("/home/a/x", 0o644, "precious")]).await.unwrap();
        client.symlink("../a/x", "/home/b/x").await.unwrap();
        let copies = vec![("/home/a".into(), "/home/b".into())];
        client.cp_recursive(copies, client, &CopyOptions::default(), &mut ()).await.unwrap();
        for path in ["/home/a/x", "/home/b/x"] {
            assert!(client.lstat(path).await.unwrap().is(Kind::File));
            let data = client.vread(vec![vector_client::Read::new(path, 0, 99)]).await.unwrap().remove(0);
            assert_eq!(data.into_bytes(), "precious");
        }
    }
}

#[tokio::test]
async fn files_stay_where_the_watch_keeps_them() {
    for world in World::each().await {
        let client = &world.client;
        for directory in ["/home/a", "/home/b"] {
            client.mkdir(directory, 0o755).await.unwrap();
        }
        let files = [("/home/a/x", "new"), ("/home/a/y", "new"), ("/home/b/x", "old")];
        client.vwrite(files.map(|(file, text)| Write::whole(file, 0o644, text)).into()).await.unwrap();
        let mut told = Told { keeps: true, ..Told::default() };
        let copies = vec![("/home/a".into(), "/home/b".into())];
        client.cp_recursive(copies, client, &CopyOptions::default(), &mut told).await.unwrap();
        assert_eq!(told.copied, ["/home/b/y"]);
        let read = client.vread(vec![vector_client::Read::new("/home/b/x", 0, 9)]).await.unwrap();
        assert_eq!(read[0].pieces, ["old"]);
    }
}

#[tokio::test]
async fn a_tree_of_links_leads_to_the_original() {
    for world in World::each().await {
        let client = &world.client;
        client.ensure_directory("/home/a/b", 0o755).await.unwrap();
        client.vwrite(vec![Write::whole("/home/a/b/x", 0o644, "there")]).await.unwrap();
        for (make, copy) in [(Make::SymbolicLink, "/home/soft"), (Make::HardLink, "/home/hard")] {
            let options = CopyOptions { make, ..CopyOptions::default() };
            let copies = vec![("/home/a".into(), copy.into())];
            assert_eq!(client.cp_recursive(copies, client, &options, &mut ()).await.unwrap(), 0);
            let path = format!("{copy}/b/x");
            let data = client.vread(vec![vector_client::Read::new(path, 0, 9)]).await.unwrap().remove(0);
            assert_eq!(data.into_bytes(), "there");
        }
        assert_eq!(client.readlink("/home/soft/b/x").await.unwrap(), "/home/a/b/x");
        assert_eq!(client.lstat("/home/hard/b/x").await.unwrap().links, Some(2));
    }
}

#[tokio::test]
async fn a_tree_is_removed_children_first_and_links_are_not_followed() {
    for world in World::each().await {
        let client = &world.client;
        tree(client, 3, 4).await;
        client.chmod("/home/tree", 0o700).await.unwrap();
        client.mkdir("/home/outside", 0o755).await.unwrap();
        client.vwrite(vec![Write::whole("/home/outside/stays", 0o644, "x")]).await.unwrap();
        client.symlink("../outside", "/home/tree/out").await.unwrap();
        client.symlink("outside", "/home/argument").await.unwrap();
        let mut gone: Vec<String> = Vec::new();
        let targets = ["/home/none", "/home/tree", "/home/argument"].map(Target::from).into();
        let removing = client.rm_recursive(targets, |removal| match removal.result {
            Ok(()) => gone.push(removal.target.to_string()),
            Err(error) => {
                assert_eq!((removal.argument, error.errno()), (0, 2));
            }
        });
        let failed = world.costing_one_of(1..=16, removing).await;
        assert_eq!(failed.unwrap(), 1);
        assert_eq!(gone.len(), 1 + 3 + 84 * 8 + 1);
        for (at, path) in gone.iter().enumerate() {
            let below = format!("{path}/");
            assert!(!gone[at..].iter().any(|later| later.starts_with(&below)), "{path} went too early");
        }
        assert!(client.exists("/home/outside/stays").await.unwrap());
        for path in ["/home/tree", "/home/argument"] {
            assert!(client.lstat(path).await.unwrap_err().is_not_found());
        }
    }
}

/// An object of a tree.
#[derive(Clone, Debug)]
struct Planted {
    path: String,
    is_directory: bool,
}

const STAYS: &str = " stays";

/// Objects in the order in which they can be made, those that are to stay with names that end in [`STAYS`].
fn random_tree() -> impl Strategy<Value = Vec<Planted>> {
    let object = (any::<prop::sample::Index>(), any::<bool>(), prop::bool::weighted(0.05));
    prop::collection::vec(object, 0..80).prop_map(|objects| {
        let mut directories = vec!["/home/random".to_owned()];
        let mut planted = Vec::new();
        for (number, (place, is_directory, stays)) in objects.into_iter().enumerate() {
            let path = format!("{}/{number}{}", place.get(&directories), if stays { STAYS } else { "" });
            if is_directory {
                directories.push(path.clone());
            }
            planted.push(Planted { path, is_directory });
        }
        planted
    })
}

async fn removed_but_what_stays(world: &World, planted: &[Planted]) {
    let client = &world.client;
    client.mkdir("/home/random", 0o755).await.unwrap();
    let (directories, files): (Vec<_>, Vec<_>) = planted.iter().partition(|it| it.is_directory);
    client.vmkdir(directories.iter().map(|it| (it.path.as_str().into(), 0o755)).collect()).await.unwrap();
    client.vwrite(files.iter().map(|it| Write::whole(it.path.as_str(), 0o644, "x")).collect()).await.unwrap();

    // With all below it, and all that it is in.
    let holds = |above: &str, path: &str| path == above || path.starts_with(&format!("{above}/"));
    let stay = |path: &str| {
        let mut those = planted.iter().filter(|it| it.path.ends_with(STAYS));
        those.any(|it| holds(&it.path, path) || holds(path, &it.path))
    };
    let mut all: BTreeSet<&str> = planted.iter().map(|it| it.path.as_str()).collect();
    all.insert("/home/random");
    let expected: BTreeSet<&str> = all.iter().copied().filter(|path| stay(path)).collect();

    let mut gone = BTreeSet::new();
    let stays = |target: &Target| target.to_string().ends_with(STAYS);
    let removed = client.rm_recursive_but(vec!["/home/random".into()], stays, |removal| {
        removal.result.unwrap();
        assert!(gone.insert(removal.target.to_string()), "{} went twice", removal.target);
    });
    assert_eq!(removed.await.unwrap(), 0);
    let left: BTreeSet<&str> = all.iter().copied().filter(|path| !gone.contains(*path)).collect();
    assert_eq!((&left, gone.len()), (&expected, all.len() - expected.len()));
    for path in all {
        assert_eq!(client.exists(path).await.unwrap(), expected.contains(path), "{path}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_of_a_random_tree_goes_but_what_stays(planted in random_tree()) {
        let runtime = Runtime::new().unwrap();
        for world in runtime.block_on(World::each()) {
            runtime.block_on(removed_but_what_stays(&world, &planted));
        }
    }
}

#[tokio::test]
async fn a_directory_of_many_pages_is_removed_whole() {
    for world in World::each().await {
        let client = &world.client;
        client.vmkdir(vec![("/home/wide".into(), 0o755)]).await.unwrap();
        let links = (0..12_000).map(|n| (format!("/home/wide/a-name-{n}").into(), Bytes::from("x")));
        client.vsymlink(links.collect()).await.unwrap();
        let below = (0..3000).map(|n| (format!("/home/wide/directory-{n}").into(), 0o755));
        client.vmkdir(below.collect()).await.unwrap();
        let mut gone = 0;
        client
            .rm_recursive(vec!["/home/wide".into()], |removal| gone += usize::from(removal.result.is_ok()))
            .await
            .unwrap();
        assert_eq!(gone, 15_001);
        assert!(!client.exists("/home/wide").await.unwrap());
    }
}

#[tokio::test]
async fn what_others_put_into_a_tree_meanwhile_goes_too() {
    for world in World::each().await {
        let (client, other) = (&world.client, world.another().await);
        client.ensure_directory("/home/busy/below", 0o755).await.unwrap();
        let files = (0..600).map(|n| Write::whole(format!("/home/busy/below/f{n}"), 0o644, "x"));
        client.vwrite(files.collect()).await.unwrap();
        let writer = tokio::spawn(async move {
            // Later than the listing or not: both are right.
            let _ = other.vwrite(vec![Write::whole("/home/busy/below/late", 0o644, "x")]).await;
        });
        let failed = client.rm_recursive(vec!["/home/busy".into()], |_| {}).await.unwrap();
        writer.await.unwrap();
        assert_eq!(failed, 0);
    }
}

#[allow(dead_code)]
fn assert_send(client: &Client, options: &CopyOptions) {
    fn is_send<T: Send>(_: &T) {}
    is_send(&client.rm_recursive(Vec::new(), |_| {}));
    is_send(&client.ensure_directory("/a", 0));
    is_send(&client.vcopy(Vec::new(), client));
    let mut told = Told::default();
    is_send(&client.cp_recursive(Vec::new(), client, options, &mut told));
}
