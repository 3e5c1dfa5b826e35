//! The NFS server over the file system in memory: one request of any bytes, and whole histories of clients.

mod operation;
mod world;

use bytes::Bytes;
use nfs4::{CompoundHeader, NfsArgOp, SequenceArgs};
use xdr::{Encode, Encoder};

use crate::machine::block_on;
use crate::tape::Tape;
use crate::vectors;
use operation::operation;
use world::{CLIENTS, World};

/// The body of one COMPOUND call, to a server with two clients that have some files open and locked.
pub(crate) fn request(data: &[u8]) {
    block_on(async {
        let mut world = World::new().await;
        prepare(&mut world).await;
        world.call(0, Bytes::copy_from_slice(data)).await;
        world.end().await;
    });
}

/// Both clients have the file `f` open, one has a lock in it.
async fn prepare(world: &mut World) {
    for tape in [OPEN_AND_LOCK, OPEN_AS_OTHER] {
        step(world, &mut Tape::new(tape)).await;
    }
}

/// Client 0 in the root of the first volume: OPEN f, LOCK.
const OPEN_AND_LOCK: &[u8] = &[0x18, 0, 0, 9, 0, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0x82, 0];
/// Client 1 there: OPEN f, GETFH.
const OPEN_AS_OTHER: &[u8] = &[0x19, 0, 0, 9, 0, 0, 0, 0, 0, 4];

pub(crate) fn request_seeds() -> Vec<Vec<u8>> {
    let session = block_on(async {
        let mut world = World::new().await;
        prepare(&mut world).await;
        world.clients[0].session
    });
    let sequence = SequenceArgs { session, sequence_id: 1, slot: 3, highest_slot: 3, cache_this: false };
    let lookup = |name: &str| NfsArgOp::Lookup(nfs4::LookupArgs { name: name.into() });
    let before =
        [NfsArgOp::Sequence(sequence), NfsArgOp::PutRootFh, lookup("home"), lookup("f"), NfsArgOp::SaveFh];
    let seed = |minor_version, operations: &[NfsArgOp], last: Bytes| {
        let mut out = Encoder::new();
        let op_count = operations.len() as u32 + 1;
        CompoundHeader { tag: "seed".into(), minor_version, op_count }.encode(&mut out);
        operations.iter().for_each(|operation| operation.encode(&mut out));
        out.put_raw(last);
        out.into_bytes().to_vec()
    };
    let on_file = vectors::of("args").map(|vector| seed(2, &before, vector.wire));
    let in_directory = vectors::of("args").map(|vector| seed(2, &before[..3], vector.wire));
    let alone = vectors::of("args").map(|vector| seed(2, &[], vector.wire));
    let without_session = vectors::of("args").map(|vector| seed(0, &before[1..], vector.wire));
    on_file.chain(in_directory).chain(alone).chain(without_session).collect()
}

/// What two clients do to a server, step by step. See [`step`] for the language.
pub(crate) fn history(data: &[u8]) {
    let mut tape = Tape::new(data);
    block_on(async {
        let mut world = World::new().await;
        while step(&mut world, &mut tape).await {}
        world.end().await;
    });
}

/// One step; `false` at the end of the tape. Bytes from `0xf0` on are events, the others a compound: bit 0 is the client,
/// bits 1 and 2 the slot, bit 3 whether the reply is to be kept, bits 4 to 7 the number of operations less one, which come behind those of
/// [`operation::places`].
async fn step(world: &mut World, tape: &mut Tape<'_>) -> bool {
    let Some(control) = tape.next() else { return false };
    match control {
        0xf0..=0xf7 => {
            const SECONDS: [u64; 8] = [1, 30, 60, 89, 91, 200, 4000, 100_000];
            world.pass(SECONDS[usize::from(control & 7)]).await;
        }
        0xf8..=0xf9 => world.repeat(usize::from(control & 1)).await,
        0xfa..=0xfb => drop(world.restart_client(usize::from(control & 1)).await),
        0xfc..=0xff => world.restart_server().await,
        compound => {
            let client = usize::from(compound & 1) % CLIENTS;
            let slot = u32::from(compound >> 1 & 3);
            let mut operations = Encoder::new();
            operation::places(world, client, tape, &mut operations);
            let count = u32::from(compound >> 4) + 1;
            for _ in 0..count {
                operation(world, client, tape, &mut operations);
            }
            let count = count + operation::PLACES;
            world.compound(client, slot, compound & 8 != 0, count, operations.into_bytes()).await;
        }
    }
    true
}

pub(crate) fn history_seeds() -> Vec<Vec<u8>> {
    let with = |rest: &[u8]| [OPEN_AND_LOCK, OPEN_AS_OTHER, rest].concat();
    // The other client opens `f` for reading and denies all; wants a lock.
    let rival = [0x19, 0, 0, 9, 0, 1, 3, 0, 0, 12, 1, 0, 0, 0, 0x82, 0];
    let mut seeds = vec![
        with(&rival),
        // Time passes, the rival tries again.
        with(&[&rival[..], &[0xf5], &rival, &[0xf7], &rival].concat()),
        // Repeated; both restart, the server restarts, the first reclaims.
        with(&[
            0xf8, 0xf9, 0xfa, 0xf8, 0xfb, 0xfc, 0x18, 0, 1, 9, 0xb0, 0, 0, 0, 31, 0, 0xf5, 0x08, 0, 0, 31, 0,
        ]),
        // Removed while open, written to, closed.
        with(&[0x08, 0, 0, 20, 0, 0x28, 0, 1, 17, 0, 0, 0, 0, 9, 16, 0, 0, 0, 9, 15, 0, 0]),
        // Created in all ways, renamed to the other volume, linked.
        with(&[0x38, 0, 2, 9, 3, 0, 0, 0, 0, 1, 4, 9, 6, 0, 0, 0, 9, 4, 4, 0x18, 0, 2, 21, 0, 1, 22, 2]),
        with(&[0x48, 0, 2, 19, 0, 4, 0, 19, 2, 1, 3, 0, 19, 5, 1, 2, 2, 0, 23, 0, 0, 200, 200, 0, 31, 2, 0]),
    ];
    // Every operation in a directory, on a file with the open's state id and with the current one, twice.
    for kind in 0..operation::KINDS {
        seeds.push(with(&[0x18, 1, 0, kind, 0, 0, 0, 0, 1, 5, 0, 0, 0, 4, 0, 0]));
        seeds.push(with(&[0x18, 0, 1, kind, 0, 0, 0, 9, 1, 5, 0, 0, 0, 4, 0, 0]));
        seeds.push(with(&[0x28, 0, 0, 9, 0, 0, 0, 0, 0, kind, 0x82, 0, 9, 1, 5, kind, 0x82, 1, 2, 3]));
    }
    seeds
}
