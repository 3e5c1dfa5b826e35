use crate::VolumeFailure;

/// Why a piece of upkeep stopped early. The loops try again; administrators are told.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// The volume's metadata could not be read or changed.
    #[error("upkeep, {what}: {cause}")]
    Volume {
        /// What was being done.
        what: &'static str,
        /// What the volume said.
        #[source]
        cause: VolumeFailure,
    },
}

impl UpkeepError {
    pub(crate) fn volume(what: &'static str) -> impl FnOnce(VolumeFailure) -> UpkeepError {
        move |cause| UpkeepError::Volume { what, cause }
    }
}
