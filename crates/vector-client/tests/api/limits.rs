//! Servers that grant little: more round trips, and the same results (V25).

use nfs4_server::Limits;
use vector_client::{AttributeSet, Copy, NewAttributes, Read, Step, Target, Write};

use crate::world::World;

#[tokio::test]
async fn a_server_that_takes_few_operations_at_once_gives_the_same_results() {
    for operations in [6, 8, 12, 30] {
        let limits = Limits { operations, ..Limits::default() };
        let world = World::with(limits, |_| {}).await;
        let deep = (1..8).map(|depth| "/home".to_owned() + &"/d".repeat(depth));
        world.client.vmkdir(deep.map(|path| (Target::from(path), 0o755)).collect()).await.unwrap();
        let file = |n: usize| format!("/home/d/d/d/d/d/d/d/{n}");
        let writes = (0..20).map(|n| Write::whole(file(n), 0o600, format!("{n}"))).collect();
        assert_eq!(world.client.vwrite(writes).await.unwrap().len(), 20);
        world.client.vsymlink(vec![("/home/link".into(), "d/d/d/d/d/d/d".into())]).await.unwrap();
        let steps = vec![
            Step::Copy(Copy::whole(file(1), "/home/copy", 0o600)),
            Step::Rename { from: file(2).into(), to: "/home/d/renamed".into() },
            Step::HardLink { existing: file(3).into(), new: "/home/link/hard".into() },
            Step::SetAttributes { target: file(4).into(), attributes: NewAttributes::size(5), follow: true },
            Step::Remove(file(5).into()),
        ];
        world.client.execute(steps).await.unwrap();
        let reads = ["/home/copy", "/home/d/renamed", "/home/link/hard", "/home/link/4", "/home/link/7"];
        let data = world.client.vread(reads.map(|path| Read::new(path, 0, 9)).into()).await.unwrap();
        let texts: Vec<_> = data.into_iter().map(|data| data.into_bytes()).collect();
        assert_eq!(texts, ["1", "2", "3", "4\0\0\0\0", "7"].map(bytes::Bytes::from), "{operations}");
        let mut entries = 0;
        let listed =
            world.client.vlistdir(vec!["/home".into()], AttributeSet::SIZE, true, |_, _| entries += 1);
        listed.await.unwrap();
        assert_eq!(entries, 2 + 7 + 1 + 19, "{operations}");
    }
}

#[tokio::test]
async fn a_way_that_becomes_longer_by_links_than_the_server_takes_at_once_is_gone_in_parts() {
    let limits = Limits { operations: 16, ..Limits::default() };
    let world = World::with(limits, |_| {}).await;
    let deep: Vec<String> = (1..30).map(|depth| "/home".to_owned() + &"/d".repeat(depth)).collect();
    world.client.vmkdir(deep.iter().map(|path| (path.into(), 0o755)).collect()).await.unwrap();
    let text = "d/".repeat(28);
    let links = vec![("/home/link".into(), text.into()), ("/home/loop".into(), "loop/on".into())];
    world.client.vsymlink(links).await.unwrap();
    let listed = world.client.list("/home/link", AttributeSet::NONE).await.unwrap();
    assert_eq!(listed.len(), 1);
    let failed = world.client.list("/home/loop", AttributeSet::NONE).await.unwrap_err();
    assert_eq!(failed.errno(), 40, "{failed}");
}
