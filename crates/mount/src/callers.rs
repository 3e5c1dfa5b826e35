//! In whose name requests are made.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use environment::Clock;
use fuser::Request;
use nfs4_client::Client;
use onc_rpc::{AuthSys, Credential};
use parking_lot::Mutex;
use xdr::{BoundedOpaque, BoundedVec};

/// How long the groups of a process are believed.
const GROUPS_AGE: Duration = Duration::from_secs(1);

/// Callers remembered at once.
const CALLERS: usize = 1024;

/// The client for each caller: his own if root mounts for others, or else always that of whoever mounts.
pub(crate) struct Callers {
    client: Client,
    each: bool,
    clock: Arc<dyn Clock>,
    known: Mutex<HashMap<Caller, (Duration, Client)>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Caller {
    thread: u32,
    uid: u32,
    gid: u32,
}

impl Callers {
    pub fn new(client: Client, each: bool, clock: Arc<dyn Clock>) -> Callers {
        Callers { client, each, clock, known: Mutex::default() }
    }

    /// Whoever mounts.
    pub fn mounter(&self) -> &Client {
        &self.client
    }

    /// Whoever makes this request.
    pub fn client(&self, request: &Request) -> Client {
        if !self.each {
            return self.client.clone();
        }
        let caller = Caller { thread: request.pid(), uid: request.uid(), gid: request.gid() };
        let now = self.clock.monotonic();
        let mut known = self.known.lock();
        if let Some((since, client)) = known.get(&caller)
            && now.saturating_sub(*since) < GROUPS_AGE
        {
            return client.clone();
        }
        if known.len() >= CALLERS {
            known.clear();
        }
        let groups = further_groups(&status(caller.thread), caller.gid);
        let client = self.client.with_credential(credential(caller.uid, caller.gid, groups));
        known.insert(caller, (now, client.clone()));
        client
    }
}

/// AUTH_SYS for a user with these groups.
fn credential(uid: u32, gid: u32, groups: Vec<u32>) -> Credential {
    let machine = rustix::system::uname().nodename().to_bytes().to_vec();
    Credential::Sys(AuthSys {
        machine: BoundedOpaque::new(machine).unwrap_or_default(),
        gids: BoundedVec::new(groups).unwrap_or_default(),
        ..AuthSys::new(uid, gid)
    })
}

/// Whoever this process belongs to.
pub(crate) fn own_credential() -> Credential {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    credential(uid, gid, further_groups(&status(std::process::id()), gid))
}

fn status(thread: u32) -> String {
    std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default()
}

/// As many as AUTH_SYS takes (RFC 5531 §14).
fn further_groups(status: &str, gid: u32) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    let groups = line.split_whitespace().filter_map(|group| group.parse().ok());
    groups.filter(|group| *group != gid).take(16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_those_of_the_process_without_its_first_and_as_many_as_fit() {
        let status = "Name:\tx\nUid:\t1\t1\t1\t1\nGroups:\t4 24 1000 27 \nNStgid:\t1\n";
        assert_eq!(further_groups(status, 1000), [4, 24, 27]);
        let many =
            format!("Groups:\t{}\n", (0..40).map(|group| group.to_string()).collect::<Vec<_>>().join(" "));
        assert_eq!(further_groups(&many, 3).len(), 16);
        assert!(further_groups("", 0).is_empty());
    }
}
