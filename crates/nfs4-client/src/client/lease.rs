//! Keeps the lease while the program is idle (RFC 8881 §8.3).

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::Client;
use super::identity::destroy_left_behind;

/// Runs until the client stops. A lease is renewed when a third of it has passed, so that one more attempt is left if that
/// one gets lost. While it is fresh, sessions are destroyed that are left over.
pub(super) async fn keep(client: Client) {
    let shared = client.shared.clone();
    let keep = async {
        loop {
            let third = shared.lease() / 3;
            let renewed = Duration::from_millis(shared.renewed.load(Relaxed));
            let idle = shared.now().saturating_sub(renewed);
            if idle < third {
                let due = shared.now() + (third - idle);
                let open = (0..shared.trunk.len()).find_map(|index| shared.trunk.peer(index));
                if let (Some(peer), Some(session)) = (open, client.newest()) {
                    destroy_left_behind(&shared, &peer, session.minor_version).await;
                }
                shared.options.environment.clock.sleep(due.saturating_sub(shared.now())).await;
                continue;
            }
            if let Err(error) = client.compound(&[]).await {
                tracing::debug!(%error, "lease not renewed");
                shared.options.environment.clock.sleep(*shared.options.back_off.end()).await;
            }
        }
    };
    tokio::select! {
        () = shared.stop.cancelled() => {}
        () = keep => {}
    }
}
