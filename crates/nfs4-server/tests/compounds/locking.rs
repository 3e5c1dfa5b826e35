//! Byte-range locks between clients.

use nfs4::{LockRes, LockTestArgs, LockTestRes, LockType, NfsArgOp, NfsResOp, NfsStatus};
use nfs4_client::operations::{first_lock, owner, put_handle};

use crate::harness::{LEASE, World, home, status};

#[tokio::test]
async fn a_lock_of_one_client_is_in_the_way_of_another_until_it_is_given_up() {
    let world = World::new().await;
    let running = world.start().await;
    let (a, b) = (running.client("a").await, running.client("b").await);
    let root = home(&a).await;
    let (file_a, file_b) =
        (a.create(&root, "f", 0o666).await.unwrap(), b.create(&root, "f", 0o666).await.unwrap());
    let lock = a.lock(&file_a, owner("l"), LockType::Write, 100, 50).await.unwrap();

    let request =
        [put_handle(&file_b.handle), first_lock(file_b.state_id, owner("l"), LockType::Read, 0, u64::MAX)];
    let reply = b.compound(&request).await.unwrap();
    let NfsResOp::Lock(LockRes::Denied(denied)) = &reply.results[1] else { panic!("{:?}", reply.results) };
    assert_eq!((denied.offset, denied.length, denied.lock_type), (100, 50, LockType::Write));
    assert_eq!((denied.owner.client, &denied.owner.owner[..]), (a.client_id(), &b"l"[..]));

    let test = NfsArgOp::LockTest(LockTestArgs {
        lock_type: LockType::Write,
        offset: 120,
        length: 1,
        owner: owner("l"),
    });
    let reply = b.compound(&[put_handle(&file_b.handle), test.clone()]).await.unwrap();
    assert!(matches!(&reply.results[1], NfsResOp::LockTest(LockTestRes::Denied(_))));
    assert_eq!(reply.status, NfsStatus::Denied);
    a.unlock(&file_a.handle, lock, 0, u64::MAX).await.unwrap();
    let reply = b.compound(&[put_handle(&file_b.handle), test]).await.unwrap();
    assert_eq!(reply.status, NfsStatus::Ok);
    b.lock(&file_b, owner("l"), LockType::Write, 0, u64::MAX).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn a_client_that_went_silent_loses_its_locks_when_another_wants_them() {
    let world = World::new().await;
    let running = world.start().await;
    let (a, b) = (running.client("a").await, running.client("b").await);
    let root = home(&a).await;
    let file_a = a.create(&root, "f", 0o666).await.unwrap();
    a.lock(&file_a, owner("l"), LockType::Write, 0, 1).await.unwrap();
    let half = LEASE / 2 + std::time::Duration::from_secs(1);
    world.clock.advance(half);
    b.renew().await.unwrap();
    world.clock.advance(half);
    let file_b = b.create(&root, "f", 0o666).await.unwrap();
    assert_eq!(running.server.metrics().census.clients, 2, "nobody wanted the lock yet");
    b.lock(&file_b, owner("l"), LockType::Write, 0, 1).await.unwrap();
    assert_eq!(status(a.renew().await), NfsStatus::BadSession);
    assert_eq!(running.server.metrics().census.clients, 1);
    running.stop().await;
}
