//! Attributes (V10, V11, V22).

use vector_client::{AttributeSet, Kind, NewAttributes, Owner, SetTime, Target, Time, Write};

use crate::world::World;

fn file(n: usize) -> Target {
    format!("/home/{n}").into()
}

#[tokio::test]
async fn attributes_of_250_files_come_in_one_round_trip_and_only_those_wanted() {
    for world in World::each().await {
        let writes = (0..250).map(|n| Write::whole(file(n), 0o640, vec![0; n])).collect();
        world.client.vwrite(writes).await.unwrap();
        let wanted = AttributeSet::SIZE | AttributeSet::MODE;
        let got = world.costing(1, world.client.vgetattrs((0..250).map(file).collect(), wanted)).await;
        let got = got.unwrap();
        assert_eq!((got[249].size, got[249].mode, got[249].kind), (Some(249), Some(0o640), None));
        let all = world.client.vgetattrs(vec![file(3)], AttributeSet::STAT).await.unwrap().remove(0);
        assert!(all.is(Kind::File));
        assert!(all.links == Some(1) && all.owner == Some(Owner::Id(world.user())) && all.modified.is_some());
    }
}

#[tokio::test]
async fn mode_owner_times_and_size_of_100_files_are_set_in_one_round_trip() {
    for world in World::each().await {
        let writes = (0..100).map(|n| Write::whole(file(n), 0o640, "long enough")).collect();
        world.client.vwrite(writes).await.unwrap();
        let time = Time { seconds: 1_000_000_000, nanoseconds: 5 };
        // Only the superuser gives files away.
        let is_root = world.user() == 0;
        let owner = if is_root { 1000 } else { world.user() };
        let new = NewAttributes {
            mode: Some(0o600),
            owner: Some(Owner::Id(owner)),
            group: is_root.then_some(Owner::Id(1001)),
            size: Some(4),
            accessed: Some(SetTime::Now),
            modified: Some(SetTime::To(time)),
        };
        let changes = (0..100).map(|n| (file(n), new.clone())).collect();
        let set = world.costing(1, world.client.vsetattrs(changes)).await;
        set.unwrap();
        let got = world.client.vgetattrs(vec![file(99)], AttributeSet::STAT).await.unwrap().remove(0);
        assert_eq!((got.mode, got.size, got.modified), (Some(0o600), Some(4), Some(time)));
        assert_eq!(got.owner, Some(Owner::Id(owner)));
        assert!(!is_root || got.group == Some(Owner::Id(1001)));
    }
}

#[tokio::test]
async fn links_are_followed_or_not_as_asked() {
    for world in World::each().await {
        let links =
            [("link", "to"), ("to", "0")].map(|(name, text)| (format!("/home/{name}").into(), text.into()));
        world.client.vsymlink(links.into()).await.unwrap();
        world.client.vwrite(vec![Write::whole(file(0), 0o640, "x")]).await.unwrap();
        let (link, wanted) = (Target::from("/home/link"), AttributeSet::KIND | AttributeSet::SIZE);
        let own = world.client.vlgetattrs(vec![link.clone()], wanted).await.unwrap().remove(0);
        assert_eq!(own.kind, Some(Kind::SymbolicLink));
        assert!(own.size == Some(2) || world.is_ganesha(), "in memory it gives links no size");
        let others = world.client.vgetattrs(vec![link.clone(), file(0)], wanted).await.unwrap();
        assert_eq!((others[0].kind, others[0].size), (Some(Kind::File), Some(1)));
        assert_eq!(others[0], others[1]);
        world.client.vsetattrs(vec![(link.clone(), NewAttributes::mode(0o604))]).await.unwrap();
        let got = world.client.vgetattrs(vec![file(0)], AttributeSet::MODE).await.unwrap().remove(0);
        assert_eq!(got.mode, Some(0o604));
        let time = Time { seconds: 7, nanoseconds: 0 };
        let modified = NewAttributes { modified: Some(SetTime::To(time)), ..NewAttributes::default() };
        world.client.vlsetattrs(vec![(link.clone(), modified)]).await.unwrap();
        let own = world.client.vlgetattrs(vec![link], AttributeSet::MODIFIED).await.unwrap().remove(0);
        assert_eq!(own.modified, Some(time));
    }
}
