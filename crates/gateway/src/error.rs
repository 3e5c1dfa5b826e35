use thiserror::Error;

/// Why a gateway does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Something that whoever started it can change: configuration, keys, ports, disks, clouds.
    #[error("{0}")]
    Configuration(String),
    /// Something else.
    #[error("{0}")]
    Internal(String),
}

impl StartError {
    pub(crate) fn configuration(error: impl std::fmt::Display) -> StartError {
        StartError::Configuration(error.to_string())
    }
}
