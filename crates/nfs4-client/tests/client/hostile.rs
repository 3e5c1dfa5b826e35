//! A server may say what it likes: the client has an error for it, and lives on.

use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use bytes::Bytes;
use nfs4::{CompoundRes, NfsResOp, NfsStatus, Outcome, SequenceOk, Utf8String};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::scripted::{self, Said, Scripted, lookups, removal};

/// A reply to two operations, with some bytes changed and the end cut off.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let changes = vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (changes, 0usize..60, any::<[u32; 5]>()).prop_map(|(changes, cut, numbers)| {
        let sequence = SequenceOk {
            session: nfs4::SessionId([1; 16]),
            sequence_id: numbers[0],
            slot: numbers[1],
            highest_slot: numbers[2],
            target_highest_slot: numbers[3],
            status_flags: numbers[4],
        };
        let results = vec![
            NfsResOp::Sequence(Outcome::Ok(sequence)),
            NfsResOp::PutRootFh(NfsStatus::Ok),
            NfsResOp::failure(nfs4::OpCode::Remove, NfsStatus::from_code(numbers[0] % 11_000 + 1)),
        ];
        let reply = CompoundRes { status: NfsStatus::Ok, tag: Utf8String::default(), results };
        let mut bytes = xdr::to_bytes(&reply).to_vec();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let rest = bytes.len().saturating_sub(cut);
        // Calls are answered in words.
        bytes.truncate(if cut % 2 == 0 { bytes.len() } else { rest / 4 * 4 });
        bytes
    })
}

/// Panics in this process: tasks of the client die quietly.
static PANICS: AtomicUsize = AtomicUsize::new(0);

fn count_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let former = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, SeqCst);
            former(info);
        }));
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn malformed_replies_never_panic_the_client(replies in vec(damaged(), 1..8)) {
        count_panics();
        let count = replies.len();
        runtime().block_on(async {
            let replies = parking_lot::Mutex::new(replies);
            let script = move |_: &_, _: &[_]| replies.lock().pop().map(|reply| Said::Bytes(Bytes::from(reply)));
            let (address, _) = Scripted::start(script).await;
            let client = scripted::connect(address).await;
            for round in 0..count + 2 {
                let operations = if round % 2 == 0 { lookups(1) } else { removal().to_vec() };
                let _ = client.compound(&operations).await;
                let limits = client.limits();
                assert!(limits.operations > 0 && limits.slots > 0 && limits.response_bytes > 0);
            }
        });
        prop_assert_eq!(PANICS.load(SeqCst), 0);
    }
}

#[tokio::test]
async fn nonsense_instead_of_a_reply_is_an_error_and_the_next_compound_works() {
    let first = std::sync::atomic::AtomicBool::new(true);
    let (address, _) = Scripted::start(move |_, _| {
        first.swap(false, SeqCst).then(|| Said::Bytes(Bytes::from_static(b"nonsense")))
    })
    .await;
    let client = scripted::connect(address).await;
    assert!(client.compound(&lookups(1)).await.is_err());
    client.compound(&lookups(1)).await.unwrap().into_results().unwrap();
}
