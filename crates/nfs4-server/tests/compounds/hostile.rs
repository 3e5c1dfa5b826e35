//! Bytes that no client would send.

use std::cell::Cell;

use bytes::Bytes;
use nfs4::{CompoundArgs, CompoundRes, CreateType, NfsArgOp, NfsResOp, OpCode, Outcome, StableHow, StateId};
use nfs4_client::operations::{
    create, get_attributes, open, owner, put_handle, read, read_directory, unchecked, write,
};
use onc_rpc::{Credential, Procedure, RpcError};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::harness::{World, home};

const COMPOUND: Procedure = Procedure { program: nfs4::PROGRAM, version: nfs4::VERSION, number: 1 };

/// Where the sequence id stands in a compound with a tag of up to four bytes.
const SEQUENCE_ID: std::ops::Range<usize> = 36..40;

/// Words that are likely to mean something.
fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 0..76u32,
        1 => Just(OpCode::Sequence as u32),
        1 => Just(u32::MAX),
        1 => any::<u32>(),
    ]
}

/// Whatever arrives, the server answers with a well-formed reply or says that it cannot read it, and goes on.
#[test]
fn any_bytes_get_an_answer() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (running, session, slot, good) = runtime.block_on(async {
        let world = World::new().await;
        let running = world.start().await;
        let session = running.client("a").await;
        let root = home(&session).await;
        let slot = session.slot().await.unwrap();
        let ops = vec![
            NfsArgOp::Sequence(slot.arguments(false)),
            put_handle(&root),
            open("f", 3, unchecked(0o644), owner("o")),
            write(StateId::CURRENT, 0, StableHow::Unstable, Bytes::from_static(b"0123456789")),
            read(StateId::CURRENT, 0, 100),
            put_handle(&root),
            create(CreateType::Directory, "d", 0o755),
            get_attributes(nfs4::Attribute::REQUIRED),
            put_handle(&root),
            read_directory(0, nfs4::Verifier([0; 8]), 4096, nfs4::Attribute::REQUIRED),
        ];
        let good = xdr::to_bytes(&CompoundArgs { tag: "tag".into(), minor_version: 2, ops });
        (running, session, slot, good)
    });
    // Requests that come through the slot's door are run; the next one needs the next number.
    let sequence_id = Cell::new(slot.sequence_id());
    let with_sequence = |request: &[u8]| {
        let mut request = request.to_vec();
        if let Some(place) = request.get_mut(SEQUENCE_ID) {
            place.copy_from_slice(&sequence_id.get().to_be_bytes());
        }
        Bytes::from(request)
    };
    let send = |body: Bytes| {
        let timeout = std::time::Duration::from_secs(20);
        let reply = runtime.block_on(session.peer().call(COMPOUND, &Credential::None, vec![body], timeout));
        match reply {
            Ok(reply) => {
                let reply: CompoundRes = xdr::from_bytes(reply).expect("the reply is well-formed");
                if let Some(NfsResOp::Sequence(Outcome::Ok(_))) = reply.results.first() {
                    sequence_id.set(sequence_id.get() + 1);
                }
                reply.results.len()
            }
            Err(RpcError::GarbageArguments) => 0,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(send(with_sequence(&good)), 10);
    let words = prop::collection::vec(word(), 0..40);
    let changes = prop::collection::vec((0..good.len() / 4, word()), 1..4);
    let strategy = (words, changes, 0..good.len());
    TestRunner::default()
        .run(&strategy, |(words, changes, cut)| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            let mut request = vec![0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, words.len().min(9) as u8];
            request.extend(&bytes);
            send(request.into());
            // The same behind a good SEQUENCE.
            let mut request = good[..52].to_vec();
            request[15] = words.len().min(9) as u8;
            request.extend(&bytes);
            send(with_sequence(&request));
            // One good request with some words changed, and cut off somewhere.
            let mut changed = good.to_vec();
            for (at, word) in changes {
                changed[at * 4..at * 4 + 4].copy_from_slice(&word.to_be_bytes());
            }
            send(with_sequence(&changed));
            changed.truncate(cut & !3);
            send(with_sequence(&changed));
            Ok(())
        })
        .unwrap();
    runtime.block_on(running.stop());
}
