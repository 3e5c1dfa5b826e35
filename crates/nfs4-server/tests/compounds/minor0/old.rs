//! A client of 4.0 that writes its calls itself: it chooses their numbers, and comes back from the same port.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};

use bytes::Bytes;
use nfs4::bits::share_access;
use nfs4::{
    ClientId, CloseArgs, CompoundArgs, CompoundRes, FileHandle, LockArgs, LockType, Locker, LookupArgs,
    NetAddress, NfsArgOp, NfsResOp, NfsStatus, OpenArgs, OpenClaim, OpenConfirmArgs, OpenOk, Outcome,
    OwnerName, SetClientIdArgs, SetClientIdConfirm, SetClientIdRes, StateId, StateOwner, Verifier,
};
use nfs4_client::operations::{put_handle, unchecked};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use xdr::{Decoder, Encode, Encoder};

use super::back::{Back, IDENT, PROGRAM};
use crate::harness::Running;

pub struct Old {
    stream: TcpStream,
    server: SocketAddr,
    xid: u32,
    uid: u32,
    pub client: ClientId,
    seqids: HashMap<String, u32>,
}

impl Old {
    /// A confirmed client.
    pub async fn connect(running: &Running, name: &str) -> Old {
        let mut old = Old::stranger(running, 1000).await;
        let id = old.set_client_id(name, 1).await.unwrap();
        assert_eq!(old.status(&[NfsArgOp::SetClientIdConfirm(id)]).await, NfsStatus::Ok);
        old.client = id.client;
        old
    }

    /// A connection that nobody has said anything on.
    pub async fn stranger(running: &Running, uid: u32) -> Old {
        let server = running.address;
        // An address of its own: nobody else takes its port while the connection is made again.
        static NEXT: AtomicU16 = AtomicU16::new(1);
        let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 1, high, low], 0))).unwrap();
        let stream = socket.connect(server).await.unwrap();
        // A call is written in two pieces.
        stream.set_nodelay(true).unwrap();
        Old { stream, server, xid: 100, uid, client: ClientId(0), seqids: HashMap::new() }
    }

    /// Loses the connection and makes another one from the same port.
    pub async fn reconnect(&mut self) {
        let port = self.stream.local_addr().unwrap();
        // A reset leaves the port free at once.
        self.stream.set_zero_linger().unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        let other = TcpStream::connect(self.server).await.unwrap();
        drop(std::mem::replace(&mut self.stream, other));
        socket.bind(port).unwrap();
        self.stream = socket.connect(self.server).await.unwrap();
    }

    /// A confirmed client that listens for callbacks.
    pub async fn listening(running: &Running, name: &str) -> (Old, Back) {
        let mut old = Old::stranger(running, 1000).await;
        let back = Back::listen(old.ip()).await;
        old.listen_at(name, back.location()).await;
        (old, back)
    }

    /// SETCLIENTID and SETCLIENTID_CONFIRM: it wants to be called back there.
    pub async fn listen_at(&mut self, name: &str, location: NetAddress) {
        let id = self.set_client_id_at(name, 1, location).await.unwrap();
        assert_eq!(self.status(&[NfsArgOp::SetClientIdConfirm(id)]).await, NfsStatus::Ok);
        self.client = id.client;
    }

    /// Where it comes from.
    pub fn ip(&self) -> IpAddr {
        self.stream.local_addr().unwrap().ip()
    }

    pub async fn set_client_id(&mut self, name: &str, boot: u8) -> Result<SetClientIdConfirm, NfsStatus> {
        let nowhere = NetAddress { network: "tcp".into(), address: "127.0.0.1.0.0".into() };
        self.set_client_id_at(name, boot, nowhere).await
    }

    pub async fn set_client_id_at(
        &mut self,
        name: &str,
        boot: u8,
        callback_location: NetAddress,
    ) -> Result<SetClientIdConfirm, NfsStatus> {
        let args = SetClientIdArgs {
            verifier: Verifier([boot; 8]),
            id: OwnerName::new(name.to_owned()).unwrap(),
            callback_program: PROGRAM,
            callback_location,
            callback_ident: IDENT,
        };
        match self.compound(&[NfsArgOp::SetClientId(args)]).await.results.pop() {
            Some(NfsResOp::SetClientId(SetClientIdRes::Ok(id))) => Ok(id),
            Some(result) => Err(result.status()),
            None => panic!("no result"),
        }
    }

    pub async fn compound(&mut self, ops: &[NfsArgOp]) -> CompoundRes {
        self.xid += 1;
        self.compound_as(self.xid, ops).await
    }

    /// A compound with this number of the transport.
    pub async fn compound_as(&mut self, xid: u32, ops: &[NfsArgOp]) -> CompoundRes {
        let args = CompoundArgs { tag: "old".into(), minor_version: 0, ops: ops.to_vec() };
        self.raw(xid, xdr::to_bytes(&args)).await
    }

    pub async fn raw(&mut self, xid: u32, arguments: Bytes) -> CompoundRes {
        let mut call = Encoder::new();
        for word in [xid, 0, 2, nfs4::PROGRAM, nfs4::VERSION, nfs4::PROCEDURE_COMPOUND] {
            call.put_u32(word);
        }
        let mut credential = Encoder::new();
        for word in [0, 0, self.uid, self.uid, 0] {
            credential.put_u32(word);
        }
        call.put_u32(1);
        call.put_opaque(credential.into_bytes());
        call.put_u64(0);
        call.put_raw(arguments);
        let call = call.into_bytes();
        self.stream.write_u32(0x8000_0000 | call.len() as u32).await.unwrap();
        self.stream.write_all(&call).await.unwrap();

        let length = self.stream.read_u32().await.unwrap() & 0x7fff_ffff;
        let mut reply = vec![0; length as usize];
        self.stream.read_exact(&mut reply).await.unwrap();
        let mut reply = Decoder::new(reply.into());
        let head: Vec<u32> = (0..6).map(|_| reply.u32().unwrap()).collect();
        assert_eq!(head, [xid, 1, 0, 0, 0, 0], "accepted");
        xdr::from_bytes(reply.rest()).unwrap()
    }

    pub async fn status(&mut self, ops: &[NfsArgOp]) -> NfsStatus {
        self.compound(ops).await.status
    }

    /// The handle of the volume `home`.
    pub async fn home(&mut self) -> FileHandle {
        let lookup = NfsArgOp::Lookup(LookupArgs { name: "home".into() });
        self.handle(&[NfsArgOp::PutRootFh, lookup]).await
    }

    /// The handle that some operations lead to.
    pub async fn handle(&mut self, ops: &[NfsArgOp]) -> FileHandle {
        let reply = self.compound(&[ops, &[NfsArgOp::GetFh]].concat()).await;
        match reply.results.last() {
            Some(NfsResOp::GetFh(Outcome::Ok(handle))) => handle.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub fn owner(&self, name: &str) -> StateOwner {
        StateOwner { client: self.client, owner: OwnerName::new(name.to_owned()).unwrap() }
    }

    /// The number of the next operation of an owner.
    pub fn seqid(&mut self, owner: &str) -> u32 {
        let seqid = self.seqids.entry(owner.to_owned()).or_insert(0);
        *seqid += 1;
        *seqid
    }

    /// An OPEN of `o` that makes the file if need be.
    pub fn open_args(&mut self, name: &str, access: u32, deny: u32) -> OpenArgs {
        OpenArgs {
            seqid: self.seqid("o"),
            share_access: access,
            share_deny: deny,
            owner: self.owner("o"),
            how: unchecked(0o666),
            claim: OpenClaim::Null(name.into()),
        }
    }

    /// OPEN and, if that is wanted, OPEN_CONFIRM.
    pub async fn open(
        &mut self,
        root: &FileHandle,
        args: OpenArgs,
    ) -> Result<(FileHandle, OpenOk), NfsStatus> {
        let reply = self.compound(&[put_handle(root), NfsArgOp::Open(args), NfsArgOp::GetFh]).await;
        reply.status.into_result()?;
        let [_, NfsResOp::Open(Outcome::Ok(mut opened)), NfsResOp::GetFh(Outcome::Ok(handle))] =
            <[NfsResOp; 3]>::try_from(reply.results).unwrap()
        else {
            panic!("no OPEN")
        };
        if opened.flags & nfs4::bits::open_result::CONFIRM != 0 {
            let seqid = self.seqid("o");
            let confirm = NfsArgOp::OpenConfirm(OpenConfirmArgs { state_id: opened.state_id, seqid });
            let reply = self.compound(&[put_handle(&handle), confirm]).await;
            let Some(NfsResOp::OpenConfirm(Outcome::Ok(id))) = reply.results.last() else {
                panic!("{reply:?}")
            };
            opened.state_id = *id;
        }
        Ok((handle, opened))
    }

    /// A file of this name, open for reading and writing.
    pub async fn make(&mut self, root: &FileHandle, name: &str) -> (FileHandle, StateId) {
        let args = self.open_args(name, share_access::BOTH, 0);
        let (handle, opened) = self.open(root, args).await.unwrap();
        (handle, opened.state_id)
    }

    pub fn close_op(&mut self, state_id: StateId) -> NfsArgOp {
        NfsArgOp::Close(CloseArgs { seqid: self.seqid("o"), state_id })
    }

    /// A LOCK by a lock-owner that begins with it.
    pub fn lock_op(&mut self, open: StateId, lock_owner: &str, reclaim: bool) -> NfsArgOp {
        NfsArgOp::Lock(LockArgs {
            lock_type: LockType::Write,
            reclaim,
            offset: 0,
            length: 10,
            locker: Locker::New {
                open_seqid: self.seqid("o"),
                open_state_id: open,
                lock_seqid: 0,
                owner: self.owner(lock_owner),
            },
        })
    }
}

/// An operation with its number as it goes over the wire, for what the types do not let one say.
pub fn words(words: &[u32]) -> Bytes {
    let mut out = Encoder::new();
    nfs4::Utf8String::from("raw").encode(&mut out);
    out.put_u64(1);
    words.iter().for_each(|word| out.put_u32(*word));
    out.into_bytes()
}
