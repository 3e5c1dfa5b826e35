//! Reading directories (V16, V28).

use std::collections::BTreeSet;

use vector_client::{AttributeSet, Kind, Target, Write};

use crate::world::World;

/// Makes `width` directories in each of `depth` levels with `files` files in each; the paths of everything.
async fn tree(world: &World, depth: usize, width: usize, files: usize) -> BTreeSet<String> {
    let (mut level, mut all) = (vec!["/home".to_owned()], BTreeSet::new());
    for _ in 0..depth {
        let below = |path: &String| (0..width).map(|n| format!("{path}/d{n}")).collect::<Vec<_>>();
        level = level.iter().flat_map(below).collect();
        all.extend(level.iter().cloned());
        world.client.vmkdir(level.iter().map(|path| (path.into(), 0o755)).collect()).await.unwrap();
        let paths = level.iter().flat_map(|path| (0..files).map(move |n| format!("{path}/f{n}")));
        let paths: Vec<String> = paths.collect();
        let writes = paths.iter().map(|path| Write::whole(path, 0o600, "x")).collect();
        world.client.vwrite(writes).await.unwrap();
        all.extend(paths);
    }
    all
}

#[tokio::test]
async fn a_walk_finds_everything_once_breadth_first() {
    for world in World::each().await {
        let expected = tree(&world, 3, 5, 3).await;
        let (mut found, mut depths) = (BTreeSet::new(), Vec::new());
        let wanted = AttributeSet::KIND | AttributeSet::SIZE;
        let listing = world.client.vlistdir(vec!["/home".into()], wanted, true, |directory, entry| {
            let path = directory.join(&entry.name).to_string();
            depths.push(path.matches('/').count());
            assert_eq!(entry.attributes.is(Kind::File), path.contains("/f"));
            assert!(entry.attributes.size.is_some());
            assert!(found.insert(path), "twice");
        });
        // One for each depth.
        let listed = world.costing_one_of(1..=4, listing).await;
        assert_eq!(listed.unwrap(), 1 + 5 + 25 + 125);
        assert_eq!(found, expected);
        assert!(depths.is_sorted(), "breadth first");
    }
}

#[tokio::test]
async fn a_directory_of_many_pages_is_listed_once_beside_others() {
    for world in World::each().await {
        let directories = ["/home/small", "/home/large", "/home/last"].map(Target::from);
        world.client.vmkdir(directories.iter().map(|it| (it.clone(), 0o755)).collect()).await.unwrap();
        let large = (0..100_000).map(|n| (Target::from(format!("/home/large/a-long-name-{n}")), "x".into()));
        world.client.vsymlink(large.collect()).await.unwrap();
        world
            .client
            .vmkdir(vec![("/home/small/one".into(), 0o755), ("/home/last/two".into(), 0o755)])
            .await
            .unwrap();
        let mut found = Vec::new();
        let listed =
            world.client.vlistdir(directories.into(), AttributeSet::KIND, false, |directory, entry| {
                found.push((directory.to_string(), entry.name.clone()));
            });
        assert_eq!(listed.await.unwrap(), 3);
        assert_eq!((found[0].1.clone(), found.last().unwrap().1.clone()), ("one".into(), "two".into()));
        let names: BTreeSet<_> = found.iter().collect();
        assert_eq!((names.len(), found.len()), (100_002, 100_002));
    }
}

#[tokio::test]
async fn what_cannot_be_listed_is_said_and_the_walk_goes_on() {
    for world in World::each().await {
        tree(&world, 1, 2, 1).await;
        let targets = ["/home/d0", "/home/none", "/home/d1/f0", "/home/d1"].map(Target::from);
        let mut walk = world.client.walk(targets.clone().into(), AttributeSet::NONE, false);
        let mut found = Vec::new();
        while let Some(page) = walk.next().await {
            found.push((page.directory, page.entries.map(|entries| entries.len()).map_err(|it| it.errno())));
        }
        let results = [Ok(1), Err(2), Err(20), Ok(1)];
        assert_eq!(found, targets.into_iter().zip(results).collect::<Vec<_>>());
        let failed = world.client.vlistdir(vec!["/home/none".into()], AttributeSet::NONE, false, |_, _| {});
        assert_eq!(failed.await.unwrap_err().index(), 0);
    }
}
