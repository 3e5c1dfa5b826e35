//! RPCSEC_GSS with a mechanism that protects nothing, but shows what it was asked for.

#![allow(clippy::unwrap_used)] // set-up is test code, though not inside a test function

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use environment::{Clock, Environment};
use ids::Timestamp;
use onc_rpc::gss::{
    Accepted, GssError, GssLimits, GssServer, Mechanism, Protection, SecurityContext, UnixUser, Users,
};
use onc_rpc::{Call, Connection, Credential, Limits, Peer, Reply, Security, Service};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use xdr::{Decoder, Encoder};

const PROGRAM: u32 = 100_003;
const GSS: u32 = 6;
const WINDOW: u32 = 1024;
const DATA: u32 = 0;
const INIT: u32 = 1;
const DESTROY: u32 = 3;
const CREDENTIAL_PROBLEM: u32 = 13;
const CONTEXT_PROBLEM: u32 = 14;
const BAD_CREDENTIAL: u32 = 1;

/// A sum over key and message: no protection, but no two messages of a test have the same.
fn sum(key: &str, message: &[u8]) -> Vec<u8> {
    let sum = key
        .bytes()
        .chain(message.iter().copied())
        .fold(0xcbf2_9ce4_8422_2325u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    sum.to_be_bytes().to_vec()
}

fn mask(message: &[u8]) -> Vec<u8> {
    message.iter().map(|byte| byte ^ 0x5a).collect()
}

/// Tokens are `NAME EXPIRY`.
struct Toy;

struct ToyContext {
    name: String,
    expires: i64,
}

impl Mechanism for Toy {
    fn accept(&self, token: &[u8], now: i64) -> Result<Accepted, GssError> {
        let text = String::from_utf8(token.to_vec()).unwrap();
        let Some((name, expires)) = text.split_once(' ') else {
            return Err(GssError::new(GssError::DEFECTIVE_TOKEN, "no expiry"));
        };
        let expires = expires.parse().unwrap();
        if expires <= now {
            return Err(GssError::new(GssError::EXPIRED, "expired"));
        }
        let context = ToyContext { name: name.to_owned(), expires };
        Ok(Accepted { context: Box::new(context), token: Bytes::from_static(b"welcome") })
    }
}

impl SecurityContext for ToyContext {
    fn principal(&self) -> &str {
        &self.name
    }

    fn expires(&self) -> i64 {
        self.expires
    }

    fn mic(&self, message: &[&[u8]]) -> Result<Bytes, GssError> {
        Ok(sum(&self.name, &message.concat()).into())
    }

    fn verify_mic(&self, message: &[&[u8]], mic: &[u8]) -> Result<(), GssError> {
        let right = sum(&self.name, &message.concat()) == mic;
        if right { Ok(()) } else { Err(GssError::new(GssError::BAD_MIC, "wrong")) }
    }

    fn wrap(&self, message: &[&[u8]]) -> Result<Bytes, GssError> {
        let message = message.concat();
        Ok([sum(&self.name, &message), mask(&message)].concat().into())
    }

    fn unwrap(&self, token: Bytes) -> Result<Bytes, GssError> {
        let short = || GssError::new(GssError::DEFECTIVE_TOKEN, "short");
        let (mic, message) = token.split_at_checked(8).ok_or_else(short)?;
        let message = mask(message);
        self.verify_mic(&[&message], mic)?;
        Ok(message.into())
    }
}

/// Knows nobody but `anna`, and cannot say who `late` is.
struct OnlyAnna;

#[async_trait]
impl Users for OnlyAnna {
    async fn user(&self, principal: &str) -> Result<Option<UnixUser>, GssError> {
        if principal == "late" {
            return Err(GssError::new(GssError::FAILURE, "the name service does not answer"));
        }
        let groups = Arc::from([7, 8]);
        Ok((principal == "anna").then_some(UnixUser { uid: 1000, gid: 100, groups }))
    }
}

struct HandClock(Mutex<(i64, Duration)>);

#[async_trait]
impl Clock for HandClock {
    fn wall(&self) -> Timestamp {
        Timestamp { seconds: self.0.lock().0, nanos: 0 }
    }

    fn monotonic(&self) -> Duration {
        let mut now = self.0.lock();
        now.1 += Duration::from_secs(1);
        now.1
    }

    async fn sleep(&self, _duration: Duration) {
        std::future::pending::<()>().await;
    }
}

/// Keeps the credentials of its calls; procedure 1 gives its arguments back in two segments.
#[derive(Default)]
struct Echo(Mutex<Vec<Credential>>);

#[async_trait]
impl Service for Echo {
    async fn call(&self, call: Call, _peer: &Peer) -> Reply {
        self.0.lock().push(call.credential);
        match call.procedure {
            0 => Reply::Success(Vec::new()),
            1 => {
                let middle = call.body.len() / 2;
                Reply::Success(vec![call.body.slice(..middle), call.body.slice(middle..)])
            }
            _ => Reply::ProcedureUnavailable,
        }
    }
}

struct World {
    stream: DuplexStream,
    echo: Arc<Echo>,
    gss: Arc<GssServer>,
    clock: Arc<HandClock>,
}

/// What a call says of its context.
#[derive(Clone)]
struct Wish<'a> {
    name: &'a str,
    handle: Vec<u8>,
    context_procedure: u32,
    number: u32,
    service: u32,
    procedure: u32,
}

impl World {
    fn new(limits: GssLimits) -> World {
        let clock = Arc::new(HandClock(Mutex::new((1000, Duration::ZERO))));
        let environment = Environment { clock: clock.clone(), ..Environment::real() };
        let gss = Arc::new(GssServer::new(Arc::new(Toy), Arc::new(OnlyAnna), environment, limits));
        let echo = Arc::new(Echo::default());
        let (server, stream) = duplex(1 << 20);
        let (reader, writer) = tokio::io::split(server);
        let address = ([127, 0, 0, 1], 1).into();
        let connection =
            Connection::new(Box::new(reader), Box::new(writer), address, echo.clone(), Limits::default());
        let security = Security { gss: Some(gss.clone()), ..Security::default() };
        tokio::spawn(connection.with_security(&security).run());
        World { stream, echo, gss, clock }
    }

    async fn send(&mut self, message: &[u8]) {
        self.stream.write_all(&(message.len() as u32 | 1 << 31).to_be_bytes()).await.unwrap();
        self.stream.write_all(message).await.unwrap();
    }

    async fn receive(&mut self) -> Bytes {
        let length = self.stream.read_u32().await.unwrap() & !(1 << 31);
        let mut data = vec![0; length as usize];
        self.stream.read_exact(&mut data).await.unwrap();
        data.into()
    }

    /// Wants a context; gives back the verifier and the result.
    async fn establish(&mut self, token: &str) -> (Vec<u8>, Vec<u8>, u32) {
        let mut out = header(&Wish { context_procedure: INIT, number: 0, ..wish("", &[]) });
        out.put_u32(0);
        out.put_u32(0);
        out.put_opaque_slice(token.as_bytes());
        self.send(&out.into_bytes()).await;
        let mut reply = Decoder::new(self.receive().await);
        assert_eq!([reply.u32(), reply.u32(), reply.u32()], [Ok(9), Ok(1), Ok(0)], "accepted");
        let flavor = reply.u32().unwrap();
        let verifier = reply.opaque(400).unwrap().to_vec();
        assert_eq!(flavor, if verifier.is_empty() { 0 } else { GSS });
        assert_eq!(reply.u32(), Ok(0));
        let handle = reply.opaque(400).unwrap().to_vec();
        let major = reply.u32().unwrap();
        assert_eq!(reply.u32(), Ok(0));
        assert_eq!(reply.u32(), Ok(if major == 0 { WINDOW } else { 0 }));
        assert_eq!(reply.opaque(400).unwrap(), if major == 0 { &b"welcome"[..] } else { b"" });
        assert_eq!(reply.remaining(), 0);
        (verifier, handle, major)
    }

    async fn context<'a>(&mut self, name: &'a str) -> Wish<'a> {
        let (verifier, handle, major) = self.establish(&format!("{name} 2000")).await;
        assert_eq!(major, 0);
        assert_eq!(verifier, sum(name, &WINDOW.to_be_bytes()));
        wish(name, &handle)
    }

    async fn call(&mut self, wish: &Wish<'_>, body: &[u8]) -> Decoder {
        let header = header(wish).into_bytes();
        let mut out = Encoder::new();
        out.put_fixed(&header);
        out.put_u32(GSS);
        out.put_opaque_slice(&sum(wish.name, &header));
        out.put_fixed(body);
        self.send(&out.into_bytes()).await;
        Decoder::new(self.receive().await)
    }

    /// A call that is refused, and why.
    async fn refused(&mut self, wish: &Wish<'_>) -> u32 {
        let mut reply = self.call(wish, &[]).await;
        assert_eq!([reply.u32(), reply.u32(), reply.u32(), reply.u32()], [Ok(9), Ok(1), Ok(1), Ok(1)]);
        reply.u32().unwrap()
    }

    /// A call that is accepted: what it says, and what follows.
    async fn accepted(&mut self, wish: &Wish<'_>, body: &[u8]) -> (u32, Decoder) {
        let mut reply = self.call(wish, body).await;
        assert_eq!([reply.u32(), reply.u32(), reply.u32(), reply.u32()], [Ok(9), Ok(1), Ok(0), Ok(GSS)]);
        assert_eq!(reply.opaque(400).unwrap()[..], sum(wish.name, &wish.number.to_be_bytes()));
        (reply.u32().unwrap(), reply)
    }
}

fn wish<'a>(name: &'a str, handle: &[u8]) -> Wish<'a> {
    Wish { name, handle: handle.to_vec(), context_procedure: DATA, number: 1, service: 1, procedure: 0 }
}

fn header(wish: &Wish<'_>) -> Encoder {
    let mut out = Encoder::new();
    [9, 0, 2, PROGRAM, 4, wish.procedure, GSS].into_iter().for_each(|word| out.put_u32(word));
    let mut credential = Encoder::new();
    [1, wish.context_procedure, wish.number, wish.service]
        .into_iter()
        .for_each(|word| credential.put_u32(word));
    credential.put_opaque_slice(&wish.handle);
    out.put_opaque_slice(&credential.into_bytes());
    out
}

fn opaque(data: &[u8]) -> Vec<u8> {
    let mut out = Encoder::new();
    out.put_opaque_slice(data);
    out.into_bytes().to_vec()
}

/// A number and `data`, protected as the client does it.
fn body(wish: &Wish<'_>, number: u32, data: &[u8]) -> Vec<u8> {
    let numbered = [&number.to_be_bytes(), data].concat();
    let mic = sum(wish.name, &numbered);
    match wish.service {
        1 => data.to_vec(),
        2 => [opaque(&numbered), opaque(&mic)].concat(),
        _ => opaque(&[mic, mask(&numbered)].concat()),
    }
}

#[tokio::test]
async fn arguments_and_results_are_protected_as_the_client_wants() {
    let mut world = World::new(GssLimits::default());
    let context = world.context("anna").await;
    let data: Vec<u8> = (0..64).collect();
    for (service, protection) in [(1, Protection::None), (2, Protection::Integrity), (3, Protection::Privacy)]
    {
        let wish = Wish { number: service, service, procedure: 1, ..context.clone() };
        let (status, mut reply) = world.accepted(&wish, &body(&wish, service, &data)).await;
        assert_eq!(status, 0);
        assert_eq!(reply.rest()[..], body(&wish, service, &data), "{protection:?}");
        let Some(Credential::Gss(caller)) = world.echo.0.lock().pop() else { panic!("another credential") };
        assert_eq!((&*caller.principal, caller.protection), ("anna", protection));
        let user = caller.user.unwrap();
        assert_eq!((user.uid, user.gid, &user.groups[..]), (1000, 100, &[7, 8][..]));
    }
    // What fails has a verifier and no results to protect.
    let wish = Wish { number: 9, service: 3, procedure: 5, ..context };
    assert_eq!(world.accepted(&wish, &body(&wish, 9, b"")).await.0, 3);
}

#[tokio::test]
async fn changed_arguments_are_refused() {
    let mut world = World::new(GssLimits::default());
    let context = world.context("anna").await;
    let mut number = 0;
    for service in [2, 3] {
        let wish = Wish { service, procedure: 1, ..context.clone() };
        let good = body(&wish, 0, &[1, 2, 3, 4]);
        for at in 0..=good.len() {
            number += 1;
            let wish = Wish { number, ..wish.clone() };
            let mut changed = body(&wish, number, &[1, 2, 3, 4]);
            match changed.get_mut(at) {
                Some(byte) => *byte ^= 1,
                None => changed.extend([0; 4]),
            }
            assert_eq!(world.accepted(&wish, &changed).await.0, 4, "garbage arguments, byte {at}");
        }
        number += 1;
        let wish = Wish { number, ..wish };
        let of_another_call = body(&wish, number - 1, &[1, 2, 3, 4]);
        assert_eq!(world.accepted(&wish, &of_another_call).await.0, 4);
    }
    assert!(world.echo.0.lock().is_empty(), "nothing was executed");
}

#[tokio::test]
async fn a_wrong_token_gets_a_reason_and_no_context() {
    let mut world = World::new(GssLimits::default());
    assert_eq!(world.establish("nonsense").await, (vec![], vec![], GssError::DEFECTIVE_TOKEN));
    assert_eq!(world.establish("anna 999").await, (vec![], vec![], GssError::EXPIRED));
    assert_eq!(world.gss.contexts(), 0);
}

#[tokio::test]
async fn nobody_becomes_the_anonymous_user_because_it_cannot_be_said_who_he_is() {
    let mut world = World::new(GssLimits::default());
    let (_, handle, major) = world.establish("late 2000").await;
    assert_eq!((handle.len(), major), (0, GssError::FAILURE));
    world.context("clara").await;
}

#[tokio::test]
async fn unknown_forged_and_expired_contexts_are_refused() {
    let mut world = World::new(GssLimits::default());
    let context = world.context("anna").await;
    assert_eq!(world.refused(&wish("anna", b"unknown")).await, CREDENTIAL_PROBLEM);
    assert_eq!(world.refused(&Wish { name: "mallory", ..context.clone() }).await, CREDENTIAL_PROBLEM);
    assert_eq!(world.refused(&Wish { number: 1 << 31, ..context.clone() }).await, CONTEXT_PROBLEM);
    assert_eq!(world.refused(&Wish { service: 4, ..context.clone() }).await, BAD_CREDENTIAL);
    // CONTINUE_INIT: no context takes another token.
    assert_eq!(world.refused(&Wish { context_procedure: 2, ..context.clone() }).await, CREDENTIAL_PROBLEM);
    assert_eq!(world.refused(&Wish { context_procedure: INIT, ..context.clone() }).await, BAD_CREDENTIAL);
    assert_eq!(world.refused(&Wish { context_procedure: 4, ..context.clone() }).await, BAD_CREDENTIAL);
    let next = Wish { number: 1, ..context };
    assert_eq!(world.accepted(&next, &[]).await.0, 0, "the context is as good as before, number 1 not used");
    world.clock.0.lock().0 = 2000;
    assert_eq!(world.refused(&Wish { number: 3, ..next.clone() }).await, CONTEXT_PROBLEM);
    assert_eq!(world.gss.contexts(), 0);
    assert_eq!(world.refused(&Wish { number: 4, ..next }).await, CREDENTIAL_PROBLEM);
    assert_eq!(world.echo.0.lock().len(), 1);
}

#[tokio::test]
async fn a_repeated_call_is_not_executed_again() {
    let mut world = World::new(GssLimits::default());
    let context = world.context("anna").await;
    let call = |number| {
        let wish = Wish { number, ..context.clone() };
        let header = header(&wish).into_bytes();
        let verifier = [&GSS.to_be_bytes()[..], &opaque(&sum("anna", &header))].concat();
        [&header[..], &verifier].concat()
    };
    for number in [5, 5, 3, 5, 3, 2000, 5] {
        world.send(&call(number)).await;
    }
    for number in [5u32, 3, 2000] {
        let mut reply = Decoder::new(world.receive().await.slice(16..));
        assert_eq!(reply.opaque(400).unwrap()[..], sum("anna", &number.to_be_bytes()));
    }
    assert_eq!(world.accepted(&Wish { number: 2001, ..context.clone() }, &[]).await.0, 0);
    assert_eq!(world.echo.0.lock().len(), 4);
}

#[tokio::test]
async fn a_destroyed_context_is_gone() {
    let mut world = World::new(GssLimits::default());
    let context = world.context("anna").await;
    let other = world.context("berta").await;
    let destroy = Wish { context_procedure: DESTROY, ..context.clone() };
    assert_eq!(world.refused(&Wish { procedure: 1, ..destroy.clone() }).await, BAD_CREDENTIAL);
    let (status, mut reply) = world.accepted(&Wish { number: 2, ..destroy }, &[]).await;
    assert_eq!((status, reply.rest().len()), (0, 0));
    assert_eq!(world.refused(&Wish { number: 3, ..context }).await, CREDENTIAL_PROBLEM);
    assert_eq!(world.accepted(&other, &[]).await.0, 0);
    let Some(Credential::Gss(caller)) = world.echo.0.lock().pop() else { panic!("another credential") };
    assert_eq!((&*caller.principal, &caller.user), ("berta", &None));
}

#[tokio::test]
async fn contexts_are_bounded_in_all_and_for_each_principal() {
    let mut world = World::new(GssLimits { contexts: 4, contexts_per_principal: 2 });
    let anna = [world.context("anna").await, world.context("anna").await];
    let berta = world.context("berta").await;
    world.accepted(&anna[0], &[]).await;
    let third = world.context("anna").await;
    assert_eq!(
        world.refused(&anna[1]).await,
        CREDENTIAL_PROBLEM,
        "not used for longest, of the same principal"
    );
    assert_eq!(world.accepted(&berta, &[]).await.0, 0);
    let clara = world.context("clara").await;
    let dora = world.context("dora").await;
    assert_eq!(world.gss.contexts(), 4);
    assert_eq!(world.refused(&Wish { number: 2, ..anna[0].clone() }).await, CREDENTIAL_PROBLEM, "of all");
    for alive in [&third, &berta, &clara, &dora] {
        assert_eq!(world.accepted(&Wish { number: 2, ..alive.clone() }, &[]).await.0, 0);
    }
}

#[tokio::test]
async fn malformed_credentials_are_refused() {
    let mut world = World::new(GssLimits::default());
    let whole = header(&wish("anna", b"handle")).into_bytes();
    let credential = &whole[32..];
    for length in (0..credential.len()).step_by(4) {
        let mut out = Encoder::new();
        out.put_fixed(&whole[..28]);
        out.put_opaque_slice(&credential[..length]);
        out.put_u32(0);
        out.put_u32(0);
        world.send(&out.into_bytes()).await;
        let mut reply = Decoder::new(world.receive().await);
        assert_eq!([reply.u32(), reply.u32(), reply.u32(), reply.u32()], [Ok(9), Ok(1), Ok(1), Ok(1)]);
        assert_eq!(reply.u32(), Ok(BAD_CREDENTIAL), "{length}");
    }
}
