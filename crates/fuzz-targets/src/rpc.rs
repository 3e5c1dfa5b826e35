//! A connection: record marking, headers of calls and replies, dispatch.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use onc_rpc::{AuthSys, Call, Connection, Credential, Limits, OpaqueAuth, Peer, Procedure, Reply, Service};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use xdr::{Encode, Encoder};

use crate::machine::block_on;

const LIMITS: Limits = Limits {
    record_bytes: 1024,
    fragments: 8,
    calls: 4,
    call_bytes: 2048,
    queued_bytes: 4096,
    outgoing_calls: 2,
    patience: Duration::from_secs(60),
    recycled_bytes: 64 << 10,
};

/// Answers with the call's arguments, or as the number of the procedure says.
struct Echo;

#[async_trait]
impl Service for Echo {
    async fn call(&self, call: Call, peer: &Peer) -> Reply {
        assert!(call.body.len() <= LIMITS.record_bytes, "a record over the limit");
        match call.procedure {
            1 => Reply::Drop,
            2 => Reply::SystemError,
            3 => Reply::ProgramMismatch { low: 1, high: 2 },
            4 => {
                tokio::task::yield_now().await;
                Reply::GarbageArguments
            }
            5 => {
                peer.close();
                Reply::Drop
            }
            _ => Reply::Success(vec![call.body]),
        }
    }
}

/// Input that arrives in pieces; afterwards the stream has ended.
struct Pieces {
    left: VecDeque<u8>,
    piece: usize,
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = self.piece.min(out.remaining()).min(self.left.len());
        let piece: Vec<u8> = self.left.drain(..length).collect();
        out.put_slice(&piece);
        Poll::Ready(Ok(()))
    }
}

/// What the connection sends.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<u8>>>);

impl AsyncWrite for Sent {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The first byte says in how large pieces the rest arrives. One call of our own waits for its reply meanwhile.
pub(crate) fn connection(data: &[u8]) {
    let Some((&piece, data)) = data.split_first() else { return };
    let sent = Sent::default();
    block_on(async {
        let input = Pieces { left: data.iter().copied().collect(), piece: usize::from(piece) + 1 };
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let connection =
            Connection::new(Box::new(input), Box::new(sent.clone()), address, Arc::new(Echo), LIMITS);
        let peer = connection.peer().clone();
        let procedure = Procedure { program: 7, version: 1, number: 1 };
        let own = peer.call(procedure, &Credential::None, Vec::new(), Duration::from_secs(3600));
        let (_, _) = tokio::join!(own, connection.run());
        assert!(peer.is_closed());
        // What was begun on other tasks ends as well.
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    });
    check_records(&sent.0.lock());
}

/// Whatever came in, what goes out is records of one fragment, none of them shorter than a header.
fn check_records(mut sent: &[u8]) {
    while let Some((mark, rest)) = sent.split_first_chunk() {
        let mark = u32::from_be_bytes(*mark);
        assert!(mark >> 31 == 1, "a fragment that is not the last");
        let length = (mark & 0x7fff_ffff) as usize;
        assert!((12..=LIMITS.record_bytes + 128).contains(&length), "a record of {length} bytes");
        // The last one may be cut off by the end of the connection.
        sent = rest.get(length..).unwrap_or(&[]);
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let call = |procedure: u32, credential: Credential, body: &[u8]| {
        let mut out = Encoder::new();
        [77, 0, 2, 7, 1, procedure].into_iter().for_each(|word| out.put_u32(word));
        credential.encode(&mut out);
        OpaqueAuth::default().encode(&mut out);
        out.put_fixed(body);
        out.into_bytes()
    };
    let reply = |words: &[u32]| -> Bytes { words.iter().flat_map(|word| word.to_be_bytes()).collect() };
    let record = |message: &[u8]| [&(1 << 31 | message.len() as u32).to_be_bytes(), message].concat();
    let in_two = |message: &[u8]| {
        let (first, rest) = message.split_at(message.len() / 2);
        [&(first.len() as u32).to_be_bytes(), first, &record(rest)].concat()
    };
    let user = Credential::Sys(AuthSys::new(5, 6));
    let whole = call(9, user.clone(), b"body of the call");
    let mut seeds = vec![
        [&[255], &record(&whole)[..]].concat(),
        [&[2], &in_two(&whole)[..]].concat(),
        [&[255], &record(&call(4, Credential::None, b""))[..], &record(&whole)].concat(),
        [&[0], &record(&call(5, user.clone(), b""))[..], &record(&whole)].concat(),
        [&[9], &record(&whole).repeat(6)[..]].concat(),
        // Another version of RPC, a credential that is none.
        [&[255], &record(&reply(&[1, 0, 3, 7, 1, 0, 0, 0, 0, 0]))[..]].concat(),
        [&[255], &record(&reply(&[1, 0, 2, 7, 1, 0, 1, 4, 9, 0, 0]))[..]].concat(),
    ];
    let accepted: [&[u32]; 6] = [&[0, 42], &[1], &[2, 1, 3], &[3], &[4], &[5]];
    for words in accepted {
        seeds.push([&[255], &record(&reply(&[&[1, 1, 0, 0, 0], words].concat()))[..]].concat());
    }
    for words in [&[0, 2, 2][..], &[1, 1], &[1, 5]] {
        seeds.push([&[255], &record(&reply(&[&[1, 1, 1], words].concat()))[..]].concat());
    }
    seeds
}
