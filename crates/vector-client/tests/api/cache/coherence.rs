//! Clients that keep what they read beside one that keeps nothing: whatever they do to each other's files, they read the same.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use vector_client::{Client, Descriptor, NewAttributes, Open, Options, Read, Step, Write};

use super::super::same::runtime;
use crate::world::World;

/// Clients, the last of which keeps nothing.
const CLIENTS: usize = 3;

#[derive(Clone, Debug)]
enum Act {
    Write {
        name: usize,
        offset: u64,
        text: Vec<u8>,
        truncate: bool,
    },
    Cut {
        name: usize,
        size: u64,
    },
    Rename {
        from: usize,
        to: usize,
    },
    Remove {
        name: usize,
    },
    Link {
        from: usize,
        to: usize,
    },
    Open {
        name: usize,
    },
    WriteOpen {
        number: usize,
        offset: u64,
        text: Vec<u8>,
    },
    Close {
        number: usize,
    },
    /// What each client reads must be the same.
    Read {
        name: usize,
        offset: u64,
        length: u64,
    },
    /// The same for what one client has open, and the one that keeps nothing opens now.
    ReadOpen {
        number: usize,
        offset: u64,
        length: u64,
    },
}

fn act() -> impl Strategy<Value = (usize, Act)> {
    let name = || 0..3_usize;
    let number = || 0..4_usize;
    let text = || prop::collection::vec(b'a'..=b'z', 1..30);
    let act = prop_oneof![
        4 => (name(), 0..40_u64, text(), prop::bool::weighted(0.3))
            .prop_map(|(name, offset, text, truncate)| Act::Write { name, offset, text, truncate }),
        2 => (name(), 0..40_u64).prop_map(|(name, size)| Act::Cut { name, size }),
        1 => (name(), name()).prop_map(|(from, to)| Act::Rename { from, to }),
        1 => name().prop_map(|name| Act::Remove { name }),
        1 => (name(), name()).prop_map(|(from, to)| Act::Link { from, to }),
        2 => name().prop_map(|name| Act::Open { name }),
        2 => (number(), 0..40_u64, text())
            .prop_map(|(number, offset, text)| Act::WriteOpen { number, offset, text }),
        1 => number().prop_map(|number| Act::Close { number }),
        8 => (name(), 0..40_u64, 1..60_u64)
            .prop_map(|(name, offset, length)| Act::Read { name, offset, length }),
        8 => (number(), 0..40_u64, 1..60_u64)
            .prop_map(|(number, offset, length)| Act::ReadOpen { number, offset, length }),
    ];
    (0..CLIENTS, act)
}

fn path(name: usize) -> String {
    format!("/home/{name}")
}

/// Files that one client has open, and the same files as the last one has them open.
type Opened = Vec<(usize, Descriptor, Descriptor)>;

async fn perform(clients: &[Client], opened: &mut Opened, who: usize, act: &Act) {
    let client = &clients[who];
    match act {
        Act::Write { name, offset, text, truncate } => {
            let write = Write::new(path(*name), *offset, text.clone());
            let create = Some(vector_client::Creation { mode: 0o600, exclusive: false });
            client.vwrite(vec![Write { create, truncate: *truncate, ..write }]).await.unwrap();
        }
        Act::Cut { name, size } => drop(client.truncate(path(*name), *size).await),
        Act::Rename { from, to } => drop(client.rename(path(*from), path(*to)).await),
        Act::Remove { name } => drop(client.unlink(path(*name)).await),
        Act::Link { from, to } => drop(client.link(path(*from), path(*to)).await),
        Act::Open { name } => {
            let last = &clients[CLIENTS - 1];
            // Reads only, mostly: for more, nothing is delegated.
            let open = if who == 0 { Open::write(path(*name)) } else { Open::read(path(*name)) };
            if let Ok(descriptor) = client.open(open).await {
                opened.push((who, descriptor, last.open(Open::read(path(*name))).await.unwrap()));
            }
        }
        Act::WriteOpen { number, offset, text } => {
            if let Some((who, descriptor, _)) = opened.get(*number) {
                drop(clients[*who].pwrite(*descriptor, *offset, text.clone()).await);
            }
        }
        Act::Close { number } => {
            if *number < opened.len() {
                let (who, descriptor, same) = opened.remove(*number);
                clients[who].close_file(descriptor).await.unwrap();
                clients[CLIENTS - 1].close_file(same).await.unwrap();
            }
        }
        Act::Read { name, offset, length } => {
            let mut told = Vec::new();
            for client in clients {
                let read = Read::new(path(*name), *offset, *length);
                told.push(match client.execute(vec![Step::Read(read)]).await {
                    Ok(done) => format!("{done:?}").replace("\", b\"", ""),
                    Err(failure) => failure.error.errno().to_string(),
                });
            }
            assert!(told.iter().all(|it| *it == told[CLIENTS - 1]), "{told:?}");
        }
        Act::ReadOpen { number, offset, length } => {
            if let Some((who, descriptor, same)) = opened.get(*number) {
                let kept = clients[*who].pread(*descriptor, *offset, *length).await.unwrap();
                let there = clients[CLIENTS - 1].pread(*same, *offset, *length).await.unwrap();
                assert_eq!(kept.end_of_file, there.end_of_file);
                assert_eq!(kept.into_bytes(), there.into_bytes());
            }
        }
    }
}

/// `believes`: paths are believed. Nobody changes directories but for the names in `/home`.
async fn run(acts: Vec<(usize, Act)>, cache_bytes: u64, believes: bool) {
    let entry_timeout = if believes { Duration::from_secs(600) } else { Duration::ZERO };
    let change =
        |options: &mut Options| (options.cache_bytes, options.entry_timeout) = (cache_bytes, entry_timeout);
    let world = World::with(nfs4_server::Limits::default(), change).await;
    let second = world.another_with(|options| options.entry_timeout = entry_timeout).await;
    let last = world.another_with(|options| options.cache_bytes = 0).await;
    let clients = [world.client.clone(), second, last];
    let mut opened = Vec::new();
    for (who, act) in &acts {
        perform(&clients, &mut opened, *who, act).await;
    }
    for (who, descriptor, same) in opened {
        clients[who].close_file(descriptor).await.unwrap();
        clients[CLIENTS - 1].close_file(same).await.unwrap();
    }
    for client in clients {
        client.vsetattrs(vec![("/home".into(), NewAttributes::mode(0o777))]).await.unwrap();
        client.close().await.unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, max_shrink_iters: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn clients_that_keep_what_they_read_read_what_is_there(
        acts in prop::collection::vec(act(), 1..60),
        cache_bytes in select(vec![4 << 10, 64 << 20]),
        believes in any::<bool>(),
    ) {
        runtime().block_on(run(acts, cache_bytes, believes));
    }
}
