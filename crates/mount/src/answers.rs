//! The results of a compound, one after the other.

use fuser::Errno;
use nfs4::{AttributeValues, FileHandle, NfsArgOp, NfsResOp, Outcome};
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

/// One round trip; its first failure is the error.
pub(crate) async fn run(client: &Client, operations: &[NfsArgOp]) -> Answer<Answers> {
    send(client, operations).await.map_err(|error| errno(&error))
}

/// The same with the client's own words.
pub(crate) async fn send(client: &Client, operations: &[NfsArgOp]) -> Result<Answers, ClientError> {
    Ok(Answers::of(client.compound(operations).await?.into_results()?))
}
