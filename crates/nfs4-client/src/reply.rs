use nfs4::{CompoundRes, NfsResOp, NfsStatus, OpCode, Outcome, SequenceOk};

use crate::ClientError;

/// What came of a compound: SEQUENCE succeeded, and some or all operations were executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status of the last operation executed.
    pub status: NfsStatus,
    /// What SEQUENCE said.
    pub sequence: SequenceOk,
    /// The results of the operations after SEQUENCE, up to the first that failed.
    pub results: Vec<NfsResOp>,
}

impl Reply {
    /// Splits the SEQUENCE off.
    pub(crate) fn new(mut reply: CompoundRes) -> Result<Reply, ClientError> {
        if reply.results.is_empty() {
            return Err(ClientError::Refused { status: reply.status });
        }
        match reply.results.remove(0) {
            NfsResOp::Sequence(Outcome::Ok(sequence)) => {
                Ok(Reply { status: reply.status, sequence, results: reply.results })
            }
            NfsResOp::Sequence(Outcome::Err(status)) => Err(ClientError::Refused { status }),
            _ => Err(ClientError::UnexpectedResult { expected: OpCode::Sequence }),
        }
    }

    /// The results, if every operation succeeded.
    pub fn into_results(self) -> Result<Vec<NfsResOp>, ClientError> {
        match (self.status, self.results.last()) {
            (NfsStatus::Ok, _) => Ok(self.results),
            (status, Some(last)) => {
                let (operation, index) = (last.op_code(), self.results.len() - 1);
                Err(ClientError::Operation { operation, index, status })
            }
            (status, None) => Err(ClientError::Refused { status }),
        }
    }
}
