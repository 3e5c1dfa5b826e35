use ids::{BlockIndex, ObjectId, Version, VolumeId};
use tokio::sync::mpsc;

/// Reports that wait to be looked at; more are dropped and left to the scrub.
const WAITING: usize = 1024;

/// Tells the repairer of fragments that a read found missing or bad. Never waits.
#[derive(Clone)]
pub struct BadFragments {
    sender: mpsc::Sender<BadBlock>,
}

/// A block version with bad fragments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadBlock {
    pub volume: VolumeId,
    pub object: ObjectId,
    pub block: BlockIndex,
    pub version: Version,
    pub fragments: Vec<u8>,
}

/// What the repairer listens to.
pub struct BadFragmentReports(pub(crate) mpsc::Receiver<BadBlock>);

/// A way for readers to tell a volume's [`Repairer`](crate::Repairer) what they met.
pub fn bad_fragments() -> (BadFragments, BadFragmentReports) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (BadFragments { sender }, BadFragmentReports(receiver))
}

impl BadFragments {
    /// A read of this block version met these fragments.
    pub fn report(
        &self,
        volume: VolumeId,
        object: ObjectId,
        block: BlockIndex,
        version: Version,
        fragments: Vec<u8>,
    ) {
        let report = BadBlock { volume, object, block, version, fragments };
        if !report.fragments.is_empty() && self.sender.try_send(report).is_err() {
            tracing::debug!(
                "a bad fragment is left to the next read or scrub: the repairer has enough to do"
            );
        }
    }
}
