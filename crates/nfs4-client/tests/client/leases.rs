//! A client that is idle keeps its lease; one that was stopped for too long finds out what it lost (RFC 8881 §8.3).

use std::time::Duration;

use nfs4::bits::share_access;
use nfs4_client::ClientError;
use nfs4_client::operations::{owner, put_handle, read, unchecked};
use nfs4_server::ServerConfig;

use crate::world::{LEASE, World, home, until};

#[tokio::test]
async fn an_idle_client_renews_its_lease() {
    let world = World::new().await;
    let client = world.client().await;
    assert_eq!(client.lease(), LEASE);
    for _ in 0..5 {
        let before = client.statistics().compounds;
        world.client_clock.advance(LEASE / 3 - Duration::from_secs(1));
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert_eq!(client.statistics().compounds, before, "not needed yet");
        world.client_clock.advance(Duration::from_secs(1));
        until(|| client.statistics().compounds > before).await;
        // The answer, too: the next renewal counts from this one.
        home(&client).await;
    }
}

#[tokio::test]
async fn a_client_that_was_stopped_for_too_long_has_to_open_its_files_again() {
    let world = World::new().await;
    let client = world.client().await;
    let home = home(&client).await;
    let access = share_access::BOTH | share_access::WANT_NO_DELEG;
    let open = client.open_file(&home, "f", access, unchecked(0o600), owner("o")).await.unwrap();
    let request = || Ok(vec![put_handle(open.handle()), read(open.state_id()?, 0, 1)]);
    // The server is courteous, for some time.
    world.clock.advance(LEASE * 2);
    client.compound_with(request).await.unwrap().into_results().unwrap();
    world.clock.advance(LEASE + ServerConfig::DEFAULT_COURTESY + Duration::from_secs(1));
    until(|| world.server().clients(None, 9).clients.is_empty()).await;
    let lost = client.compound_with(request).await;
    assert!(matches!(lost, Err(ClientError::OpenLost { .. })), "{lost:?}");
    assert!(open.lost().is_some());
    assert_eq!(client.statistics().recoveries, 1);
    client.open_file(&home, "f", access, unchecked(0o600), owner("o")).await.unwrap();
}
