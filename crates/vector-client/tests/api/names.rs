//! Making, linking, renaming and removing (V14, V17, V18, V20, V27, V29).

use vector_client::{AttributeSet, Read, Step, Target, Write};

use crate::world::World;

#[tokio::test]
async fn a_tree_is_made_in_one_round_trip() {
    for world in World::each().await {
        let tree = ["/home/a", "/home/a/b", "/home/a/b/c", "/home/a/d", "/home/e"];
        let make = tree.iter().map(|path| (Target::from(*path), 0o755)).collect();
        let before = world.client.statistics().operations;
        let made = world.costing(1, world.client.vmkdir(make)).await;
        made.unwrap();
        // PUTROOTFH LOOKUP CREATE, CREATE, CREATE, up twice and CREATE, up twice and CREATE.
        let operations = if world.is_nfs() { 11 } else { 0 };
        assert_eq!(world.client.statistics().operations - before, operations);
        let failure = world.client.vmkdir(vec![("/home/a".into(), 0o755)]).await.unwrap_err();
        assert!(failure.error.is_exists() && failure.index() == 0);
    }
}

#[tokio::test]
async fn the_next_directory_is_reached_from_the_one_before() {
    let world = World::over_nfs().await;
    let mut path = String::from("/home");
    let mut tree = Vec::new();
    for name in ["2", "3", "4", "5", "6", "7", "a"] {
        path = format!("{path}/{name}");
        tree.push((Target::from(&path), 0o755));
    }
    tree.push(("/home/2/3/4/5/6/7/b".into(), 0o755));
    world.client.vmkdir(tree).await.unwrap();
    let before = world.client.statistics().operations;
    let directories = vec!["/home/2/3/4/5/6/7/a".into(), "/home/2/3/4/5/6/7/b".into()];
    world.client.vlistdir(directories, AttributeSet::NONE, false, |_, _| {}).await.unwrap();
    // PUTROOTFH, 8 LOOKUPs, READDIR; LOOKUPP, LOOKUP, READDIR.
    assert_eq!(world.client.statistics().operations - before, 13);
}

#[tokio::test]
async fn a_hundred_links_are_made_and_read_in_one_round_trip_each() {
    for world in World::each().await {
        let link = |n| Target::from(format!("/home/link-{n}"));
        let make = (0..100).map(|n| (link(n), format!("to/{n}").into())).collect();
        let made = world.costing(1, world.client.vsymlink(make)).await;
        made.unwrap();
        let texts = world.costing(1, world.client.vreadlink((0..100).map(link).collect())).await;
        assert_eq!(texts.unwrap()[99], "to/99");
        world.client.vwrite(vec![Write::whole("/home/file", 0o600, "x")]).await.unwrap();
        let hard = (0..100).map(|n| ("/home/file".into(), format!("/home/hard-{n}").into())).collect();
        let made = world.costing(1, world.client.vhardlink(hard)).await;
        made.unwrap();
        let links = world.client.vgetattrs(vec!["/home/hard-7".into()], AttributeSet::LINKS).await.unwrap();
        assert_eq!(links[0].links, Some(101));
    }
}

#[tokio::test]
async fn a_hundred_files_are_renamed_across_directories_in_one_round_trip() {
    for world in World::each().await {
        world.client.vmkdir(vec![("/home/a".into(), 0o755), ("/home/b".into(), 0o755)]).await.unwrap();
        let file = |directory: &str, n| format!("/home/{directory}/{n}");
        world.client.vwrite((0..100).map(|n| Write::whole(file("a", n), 0o600, "")).collect()).await.unwrap();
        let renames = (0..100).map(|n| (file("a", n).into(), file("b", n).into())).collect();
        let renamed = world.costing(1, world.client.vrename(renames)).await;
        renamed.unwrap();
        let there = (0..100).map(|n| file("b", n).into()).collect();
        world.client.vgetattrs(there, AttributeSet::SIZE).await.unwrap();
    }
}

#[tokio::test]
async fn two_hundred_objects_are_removed_in_one_round_trip_and_a_full_directory_is_not() {
    for world in World::each().await {
        let file = |n| format!("/home/{n}");
        world.client.vwrite((0..200).map(|n| Write::whole(file(n), 0o600, "")).collect()).await.unwrap();
        let removed =
            world.costing(1, world.client.vremove((0..200).map(|n| file(n).into()).collect())).await;
        removed.unwrap();
        world.client.vmkdir(vec![("/home/full".into(), 0o755)]).await.unwrap();
        let files = ["/home/one", "/home/full/two"].map(|path| Write::whole(path, 0o600, ""));
        world.client.vwrite(files.into()).await.unwrap();
        let targets = ["/home/one", "/home/full", "/home/full/two"].map(Target::from);
        let failure = world.client.vremove(targets.into()).await.unwrap_err();
        assert_eq!((failure.index(), failure.error.errno()), (1, 39));
    }
}

#[tokio::test]
async fn a_thousand_elements_are_four_round_trips() {
    let world = World::over_nfs().await;
    let make = (0..1000).map(|n| (Target::from(format!("/home/{n}")), 0o755)).collect();
    let made = world.costing(4, world.client.vmkdir(make)).await;
    assert_eq!(made.unwrap().len(), 1000);
}

#[tokio::test]
async fn names_that_moved_are_not_mistaken_for_what_they_were() {
    for world in World::each().await {
        let steps = vec![
            Step::MakeDirectory { target: "/home/a".into(), mode: 0o755 },
            Step::Write(Write::whole("/home/a/old-1", 0o600, "old")),
            Step::Write(Write::whole("/home/a/old-2", 0o600, "old")),
            Step::Rename { from: "/home/a".into(), to: "/home/b".into() },
            Step::MakeDirectory { target: "/home/a".into(), mode: 0o755 },
            Step::Write(Write::whole("/home/a/new-1", 0o600, "new")),
            Step::Write(Write::whole("/home/a/new-2", 0o600, "new")),
            Step::Rename { from: "/home/a/new-2".into(), to: "/home/b/new-2".into() },
            Step::Rename { from: "/home/a/new-1".into(), to: "/home/b/new-1".into() },
            Step::Remove("/home/a".into()),
        ];
        let done = world.costing(1, world.client.execute(steps)).await;
        done.unwrap();
        let reads =
            ["old-1", "old-2", "new-1", "new-2"].map(|name| Read::new(format!("/home/b/{name}"), 0, 9));
        let data = world.client.vread(reads.into()).await.unwrap();
        let texts: Vec<_> = data.into_iter().map(|data| data.into_bytes()).collect();
        assert_eq!(texts, ["old", "old", "new", "new"]);
    }
}
