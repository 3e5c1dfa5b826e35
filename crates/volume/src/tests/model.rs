use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use file_system::FileSystem;
use file_system::conformance::model::{ManualClock, Subject, compare};
use proptest::prelude::*;

use super::node::{GC_DELAY, Node, SHIFT, Site, policy};

/// What its files are stored by, one after the other.
const POLICIES: [(&str, &[u16]); 4] = [
    ("caont-rs:2+1", &[0, 1, 3]),
    ("replicas:2", &[2, 3]),
    ("aont-rs:2+1", &[1, 2, 3]),
    ("rs:2+1", &[0, 1, 2]),
];

/// A volume whose data moves and whose node starts again behind the users' backs.
struct Unquiet {
    node: Option<Node>,
}

#[async_trait]
impl Subject for Unquiet {
    fn file_system(&self) -> Arc<dyn FileSystem> {
        self.node.as_ref().unwrap().fs()
    }

    async fn disturb(&mut self, how: u16) {
        let node = self.node.take().unwrap();
        if how & 1 != 0 {
            node.write_back().await;
        }
        if how & 2 != 0 {
            node.upkeep.reaper.once().await.unwrap();
        }
        if how & 4 != 0 {
            node.cache.drop_clean().await;
        }
        if how & 8 != 0 {
            node.site.clock.advance(GC_DELAY + Duration::from_secs(1));
            // The model's clock is the same one.
            let _ = node.upkeep.garbage.once().await.unwrap();
        }
        if how & 64 != 0 {
            // Files of different policies have no clones of each other: all are sent at once.
            let (scheme, clouds) = POLICIES[usize::from(how >> 8) % POLICIES.len()];
            node.volumes.set_policy("home", policy(scheme, clouds, SHIFT)).await.unwrap();
            node.volume.migrate("").await.unwrap();
            node.volume.find_migrating().await.unwrap();
        }
        if how & 128 != 0 {
            let found = node.volume.to_rewrite(1 + usize::from(how >> 8) % 4, u64::MAX).await.unwrap();
            node.upkeep.migrator.offer(found.blocks).await;
            let _ = node.upkeep.write_back.once().await;
        }
        node.check().await;
        // Commits become durable in order: what was only visible survives a crash now.
        node.volume.save_usage(false).await.unwrap();
        let node = match how & 48 {
            16 => node.restart().await,
            32 => node.crash().await,
            _ => node,
        };
        // Nobody comes back for a file without a name.
        node.volume.end_of_claims();
        self.node = Some(node);
    }
}

fn run(steps: &[[u16; 6]]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let clock = ManualClock::new();
        let node = Node::start(Site::new(clock.clone())).await;
        let mut subject = Unquiet { node: Some(node) };
        compare(&mut subject, &clock, steps).await;
        subject.disturb(15).await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_volume_equals_the_model_whatever_happens_behind_the_scenes(
        steps in prop::collection::vec(any::<[u16; 6]>(), 0..200),
    ) {
        run(&steps);
    }
}

/// The same for longer: `KURMA_SOAK=rounds`.
#[test]
fn a_volume_equals_the_model_in_a_long_life() {
    let rounds = std::env::var("KURMA_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u16
    };
    for _ in 0..rounds {
        let steps: Vec<[u16; 6]> = (0..2000).map(|_| std::array::from_fn(|_| next())).collect();
        run(&steps);
    }
}
