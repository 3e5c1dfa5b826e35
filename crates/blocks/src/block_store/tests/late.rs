use super::*;

/// How long a put may be late.
const LATE: Duration = Duration::from_secs(600);

impl World {
    /// Longer after its start than anything of before can be late.
    async fn long_after_a_start() -> World {
        let world = World::with("rs:2+1", Limits::default());
        world.env.clock.sleep(LATE).await;
        world
    }

    /// Deletes; returns the fragments that are left for later.
    async fn delete(&self) -> Vec<u8> {
        let left = self.store.delete(&self.key, &identity(), SEAL, &self.placement).await;
        assert!(left.iter().all(|fault| matches!(fault.what, FragmentFault::PutLate)), "{left:?}");
        left.iter().map(|fault| fault.fragment).collect()
    }

    /// A request that nobody waits for any more arrives.
    async fn arrive(&self, fragment: u8) {
        let (parts, mode) = (vec![Bytes::from_static(b"late")], cloud::PutMode::Overwrite);
        cloud::Cloud::put(self.memory(fragment), &self.name(&identity(), fragment), parts, mode)
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_still_arrive_is_deleted_when_it_cannot_any_more() {
    for fault in [CloudFault::Hang, CloudFault::Fail(ErrorKind::Transient)] {
        let world = World::long_after_a_start().await;
        world.clouds[1].set(Side::Writes, fault);
        assert_eq!(world.put(&identity(), &content(1)).await.unwrap().missing, [1]);
        world.clouds[1].set(Side::Writes, CloudFault::None);
        assert_eq!(world.delete().await, [1]);
        world.env.clock.sleep(LATE / 2).await;
        world.arrive(1).await;
        assert_eq!(world.delete().await, [1]);
        world.env.clock.sleep(LATE / 2).await;
        assert_eq!(world.delete().await, NONE);
        assert!(world.clouds.iter().all(|cloud| cloud.inner().names().is_empty()));
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_process_before_has_sent_may_be_late_too() {
    let world = World::with("rs:2+1", Limits::default());
    world.fill(&identity(), &content(1)).await;
    assert_eq!(world.delete().await, [0, 1, 2]);
    world.env.clock.sleep(LATE).await;
    assert_eq!(world.delete().await, NONE);
    assert!(world.clouds.iter().all(|cloud| cloud.inner().names().is_empty()));
}
