//! The results of a compound, one after the other.

use fuser::Errno;
use nfs4::{AttributeValues, FileHandle, NfsArgOp, NfsResOp, NfsStatus, Outcome};
use nfs4_client::{Client, ClientError};

use crate::errno::{Answer, errno};

/// Results that are still to be looked at.
pub(crate) struct Answers(std::vec::IntoIter<NfsResOp>);

impl Answers {
    pub fn of(results: Vec<NfsResOp>) -> Answers {
        Answers(results.into_iter())
    }

    /// The next result of this kind; those before it are passed by.
    pub fn find<T>(&mut self, kind: impl Fn(NfsResOp) -> Option<T>) -> Answer<T> {
        self.0.by_ref().find_map(kind).ok_or(Errno::EIO)
    }

    /// The next attributes.
    pub fn attributes(&mut self) -> Answer<AttributeValues> {
        let found = self.find(|result| match result {
            NfsResOp::GetAttr(Outcome::Ok(attributes)) => Some(attributes),
            _ => None,
        })?;
        found.values().map_err(|_| Errno::EIO)
    }

    /// The next filehandle.
    pub fn handle(&mut self) -> Answer<FileHandle> {
        self.find(|result| match result {
            NfsResOp::GetFh(Outcome::Ok(handle)) => Some(handle),
            _ => None,
        })
    }
}

/// How often a change is made again whose outcome was lost with the server's session.
pub(crate) const REPEATS: u32 = 8;

/// One round trip; its first failure is the error. What the operations change may be changed twice.
pub(crate) async fn run(client: &Client, operations: &[NfsArgOp]) -> Answer<Answers> {
    send(client, operations).await.map_err(|error| errno(&error))
}

/// The same with the client's own words.
pub(crate) async fn send(client: &Client, operations: &[NfsArgOp]) -> Result<Answers, ClientError> {
    let mut repeats = 0;
    loop {
        match client.compound(operations).await.and_then(|reply| reply.into_results()) {
            Err(ClientError::Unknown) if repeats < REPEATS => repeats += 1,
            results => return Ok(Answers::of(results?)),
        }
    }
}

/// One round trip for a change of names, which cannot be made twice: `made` is how the server refuses that. If a server
/// that restarted refuses it so when it is asked again, it was made before; then there are no answers.
pub(crate) async fn change(
    client: &Client,
    operations: &[NfsArgOp],
    made: NfsStatus,
) -> Result<Option<Answers>, ClientError> {
    let mut repeats = 0;
    loop {
        match client.compound(operations).await.and_then(|reply| reply.into_results()) {
            Err(ClientError::Unknown) if repeats < REPEATS => repeats += 1,
            Err(ClientError::Operation { status, .. }) if repeats > 0 && status == made => return Ok(None),
            results => return Ok(Some(Answers::of(results?))),
        }
    }
}
