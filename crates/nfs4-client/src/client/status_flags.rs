//! What SEQUENCE says beside (RFC 8881 §18.46.3).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use nfs4::bits::sequence_status::*;

use super::live_session::LiveSession;
use super::revocation;
use super::shared::Shared;

/// Some state is revoked, and the flag stays until every piece of it is freed.
const REVOKED: u32 =
    EXPIRED_ALL_STATE_REVOKED | EXPIRED_SOME_STATE_REVOKED | ADMIN_STATE_REVOKED | RECALLABLE_STATE_REVOKED;

/// Whether there is something revoked that the client has not acknowledged yet.
pub(super) fn says_revoked(flags: u32) -> bool {
    flags & REVOKED != 0
}

/// Whether recalls may not reach the client: the server revokes what it has recalled in vain for a lease (RFC 8881 §10.2.1).
pub(super) fn says_unheard(flags: u32) -> bool {
    flags & (CB_PATH_DOWN | CB_PATH_DOWN_SESSION | BACKCHANNEL_FAULT) != 0
}

/// Reacts to flags that were not set before.
pub(super) fn follow(shared: &Arc<Shared>, session: &Arc<LiveSession>, flags: u32) {
    // Mostly there are none, and never were.
    if flags == session.flags.load(Relaxed) {
        return;
    }
    if !shared.is_up(session) {
        // Being reclaimed just now; a server that goes on saying so is not believed. The rest is looked at later.
        session.flags.fetch_or(flags & RESTART_RECLAIM_NEEDED, Relaxed);
        return;
    }
    let new = flags & !session.flags.swap(flags, Relaxed);
    if new == 0 {
        return;
    }
    if new & RESTART_RECLAIM_NEEDED != 0 {
        // A new session, so that nobody takes an answer from before the reclaim for one from after it.
        shared.restarted.store(true, Relaxed);
        shared.lose(session, true);
    } else if new & BACKCHANNEL_FAULT != 0 {
        // Only with another session there is another back channel.
        shared.lose(session, true);
    } else if new & (CB_PATH_DOWN | CB_PATH_DOWN_SESSION) != 0 && shared.callbacks.are_wanted() {
        shared.trunk.rebind_one();
    }
    if new & REVOKED != 0 {
        revocation::begin(shared, session);
    }
    if new & LEASE_MOVED != 0 {
        tracing::warn!("a file system has moved to another server, which is not followed there");
    }
}
