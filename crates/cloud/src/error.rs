use std::fmt;
use std::sync::Arc;

use crate::ObjectName;

/// What an operation on a cloud ended with, when it is not success.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cloud {cloud}: {operation} {object}: {cause}")]
pub struct CloudError {
    kind: ErrorKind,
    /// The configured name of the cloud.
    pub cloud: Arc<str>,
    /// What was tried.
    pub operation: Operation,
    /// The object, or the prefix of a listing; empty when the cloud as a whole is meant.
    pub object: String,
    /// What went wrong and, where a human can help, what to do.
    pub cause: String,
}

/// What the caller of a failed operation should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// There is no such object. Look elsewhere.
    NotFound,
    /// `Create` met an existing object, which is unchanged. Choose another name.
    AlreadyExists,
    /// The store or the way to it failed; the operation may have happened. Retry, later or elsewhere.
    Transient,
    /// No answer in time; the operation may have happened. Retry, later or elsewhere.
    Timeout,
    /// The store will not do it until somebody changes the configuration, the account or the store.
    Refused,
}

impl ErrorKind {
    /// Whether repeating the same operation on the same cloud may help.
    pub fn is_retryable(self) -> bool {
        matches!(self, ErrorKind::Transient | ErrorKind::Timeout)
    }

    /// Whether the cloud itself answered in good order: says nothing against its health.
    pub fn is_an_answer(self) -> bool {
        matches!(self, ErrorKind::NotFound | ErrorKind::AlreadyExists)
    }
}

/// The operations of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Making the connection.
    Open,
    /// [`Cloud::put`](crate::Cloud::put).
    Put,
    /// [`Cloud::get`](crate::Cloud::get).
    Get,
    /// [`Cloud::head`](crate::Cloud::head).
    Head,
    /// [`Cloud::delete`](crate::Cloud::delete).
    Delete,
    /// [`Cloud::list`](crate::Cloud::list).
    List,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Open => "open",
            Operation::Put => "put",
            Operation::Get => "get",
            Operation::Head => "head",
            Operation::Delete => "delete",
            Operation::List => "list",
        })
    }
}

impl CloudError {
    /// An error of `kind` while doing `operation` to `object` in `cloud`.
    pub fn new(
        kind: ErrorKind,
        cloud: &Arc<str>,
        operation: Operation,
        object: impl fmt::Display,
        cause: impl fmt::Display,
    ) -> CloudError {
        CloudError {
            kind,
            cloud: cloud.clone(),
            operation,
            object: object.to_string(),
            cause: cause.to_string(),
        }
    }

    /// What to do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// An object over the limit of the contract.
    pub(crate) fn too_large(
        cloud: &Arc<str>,
        operation: Operation,
        name: &ObjectName,
        size: u64,
    ) -> CloudError {
        let cause = format!("{size} bytes are more than the {} that an object may have", crate::MAX_OBJECT);
        CloudError::new(ErrorKind::Refused, cloud, operation, name, cause)
    }
}

/// The longest text of a store that goes into an error.
const MAX_CAUSE: usize = 600;

/// What a store says, so that it fits into an error: one line, not too long, without control characters.
pub(crate) fn shortened(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = clean.take(MAX_CAUSE).collect();
    if text.chars().nth(MAX_CAUSE).is_some() {
        short.push_str("...");
    }
    short
}
