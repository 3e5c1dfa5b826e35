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
    for tape in [
        // Client 0: PUTROOTFH, LOOKUP home, OPEN f, LOCK; client 1: the same without lock, then GETFH.
        &[0x38, 0, 2, 0, 9, 0, 3, 0, 0, 0, 12, 0, 1, 0, 1, 0, 0][..],
        &[0x39, 0, 2, 0, 9, 0, 3, 0, 0, 0, 4],
    ] {
        step(world, &mut Tape::new(tape)).await;
    }
}

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
    let seed = |operations: &[NfsArgOp], last: Bytes| {
        let mut out = Encoder::new();
        let op_count = operations.len() as u32 + 1;
        CompoundHeader { tag: "seed".into(), minor_version: 2, op_count }.encode(&mut out);
        operations.iter().for_each(|operation| operation.encode(&mut out));
        out.put_raw(last);
        out.into_bytes().to_vec()
    };
    let on_file = vectors::of("args").map(|vector| seed(&before, vector.wire));
    let in_directory = vectors::of("args").map(|vector| seed(&before[..3], vector.wire));
    let alone = vectors::of("args").map(|vector| seed(&[], vector.wire));
    on_file.chain(in_directory).chain(alone).collect()
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
/// bits 1 and 2 the slot, bit 3 whether the reply is to be kept, bits 4 to 7 the number of operations less one.
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
            let count = u32::from(compound >> 4) + 1;
            for _ in 0..count {
                operation(world, client, tape, &mut operations);
            }
            world.compound(client, slot, compound & 8 != 0, count, operations.into_bytes()).await;
        }
    }
    true
}

pub(crate) fn history_seeds() -> Vec<Vec<u8>> {
    let open = [0x38, 0, 2, 0, 9, 0, 3, 0, 0, 0, 12, 0, 1, 0, 1, 0, 0];
    let with = |rest: &[u8]| [&open[..], rest].concat();
    let mut seeds = vec![
        open.to_vec(),
        // The other client wants the same, time passes, it tries again.
        with(&[0x39, 0, 2, 0, 9, 0, 3, 3, 0, 0, 0xf5, 0x39, 0, 2, 0, 9, 0, 3, 3, 0, 0]),
        // Repeated, both restart, the server restarts.
        with(&[0xf8, 0xfa, 0xf8, 0xfb, 0xfc, 0x38, 31, 0, 0, 2, 0, 9, 0, 3]),
        // Removed while open, written to, closed.
        with(&[0x38, 0, 2, 0, 20, 0, 4, 0x28, 1, 0, 17, 0, 0, 9, 10, 0, 0xf7, 0xf8]),
        // Across volumes.
        with(&[0x58, 0, 2, 0, 5, 0, 2, 1, 21, 0, 9]),
    ];
    // Every operation on a file, after the file was opened.
    for number in 0..operation::KINDS {
        seeds.push(with(&[0x48, 0, 2, 0, 2, 2, number, 0, 0, 3, 1, 5, 0, 0, 0, 4]));
        seeds.push(with(&[0x28, 0, 2, 0, number, 0x82, 9, 1, 0, 2, 0, 0, 0, 0, 0]));
    }
    seeds
}
