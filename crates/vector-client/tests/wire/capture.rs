//! What passes on one connection, read off its bytes. Nothing here is shared with the client but the types of NFS.

use std::collections::HashSet;

use bytes::Bytes;
use nfs4::{CompoundHeader, NfsArgOp, OpCode};
use vector_client::Statistics;
use xdr::{Decode, Decoder};

/// Program number of NFS (RFC 7530 §1.3.1).
const NFS: u32 = 100_003;

/// What has passed, over all connections.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What the client should have counted: compounds behind a SEQUENCE.
    pub exchanged: Statistics,
    /// The operations of each of them, without the SEQUENCE.
    pub compounds: Vec<Vec<NfsArgOp>>,
    /// Those that have no other operation: leases are renewed so.
    pub renewals: u64,
    /// Compounds without SEQUENCE, which make and end sessions.
    pub bare: u64,
    /// Calls of the server.
    pub callbacks: u64,
    /// Bytes of the longest message in either direction, RPC headers included.
    pub longest: usize,
}

/// One direction: bytes in, records out (RFC 5531 §11).
#[derive(Default)]
pub struct Records {
    bytes: Vec<u8>,
    /// The fragments so far.
    record: Vec<u8>,
}

impl Records {
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Bytes)) {
        self.bytes.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(mark) = self.bytes[at..].first_chunk() {
            let mark = u32::from_be_bytes(*mark);
            let end = at + 4 + (mark & (u32::MAX >> 1)) as usize;
            let Some(fragment) = self.bytes.get(at + 4..end) else { break };
            self.record.extend_from_slice(fragment);
            if mark >> 31 == 1 {
                each(std::mem::take(&mut self.record).into());
            }
            at = end;
        }
        self.bytes.drain(..at);
    }
}

/// The start of a message (RFC 5531 §9).
struct Header<'a>(&'a [u8]);

impl Header<'_> {
    fn word(&mut self) -> u32 {
        let (word, rest) = self.0.split_first_chunk().unwrap();
        self.0 = rest;
        u32::from_be_bytes(*word)
    }

    /// Credential or verifier.
    fn skip_authentication(&mut self) {
        self.word();
        let length = self.word() as usize;
        self.0 = &self.0[length.next_multiple_of(4)..];
    }
}

/// One connection: requests on their way, by their transaction ids.
#[derive(Default)]
pub struct Conversation {
    waiting: HashSet<u32>,
}

impl Conversation {
    /// What the client sends.
    pub fn request(&mut self, record: &Bytes, seen: &mut Seen) {
        seen.longest = seen.longest.max(record.len());
        let mut header = Header(record);
        let (xid, kind) = (header.word(), header.word());
        if kind == 1 {
            return; // it answers a callback
        }
        let [rpc, program, version, procedure] = [(); 4].map(|()| header.word());
        assert_eq!((rpc, program, version), (2, NFS, 4));
        header.skip_authentication();
        header.skip_authentication();
        if procedure == 0 {
            return;
        }
        let body = record.slice_ref(header.0);
        let mut operations = operations(body.clone());
        if operations.first().map(NfsArgOp::op_code) != Some(OpCode::Sequence) {
            seen.bare += 1;
            return;
        }
        operations.remove(0);
        seen.renewals += u64::from(operations.is_empty());
        seen.exchanged.round_trips += 1;
        seen.exchanged.operations += operations.len() as u64;
        seen.exchanged.bytes_out += body.len() as u64;
        seen.compounds.push(operations);
        assert!(self.waiting.insert(xid), "a transaction id that is in use");
    }

    /// What the server sends.
    pub fn answer(&mut self, record: &Bytes, seen: &mut Seen) {
        seen.longest = seen.longest.max(record.len());
        let mut header = Header(record);
        let (xid, kind) = (header.word(), header.word());
        if kind == 0 {
            seen.callbacks += 1;
        } else if self.waiting.remove(&xid) {
            assert_eq!(header.word(), 0, "denied");
            header.skip_authentication();
            assert_eq!(header.word(), 0, "not accepted");
            seen.exchanged.bytes_in += header.0.len() as u64;
        }
    }
}

fn operations(body: Bytes) -> Vec<NfsArgOp> {
    let mut input = Decoder::new(body);
    let CompoundHeader { minor_version, op_count, .. } = CompoundHeader::decode(&mut input).unwrap();
    let operation = |_| NfsArgOp::decode_op(&mut input, minor_version).unwrap();
    let operations = (0..op_count).map(operation).collect();
    input.finish().unwrap();
    operations
}

#[test]
fn records_are_the_same_however_they_are_cut() {
    // Two fragments, an empty one, one.
    let wire = b"\0\0\0\x03abc\x80\0\0\x01d\x80\0\0\0\0\0\0\0\x80\0\0\x02ef";
    for size in 1..=wire.len() {
        let (mut records, mut got) = (Records::default(), Vec::new());
        wire.chunks(size).for_each(|chunk| records.feed(chunk, |record| got.push(record)));
        assert_eq!(got, ["abcd", "", "ef"], "{size}");
    }
}
