use std::fmt;

use ids::{GatewayId, Timestamp};

use crate::BackupError;
use crate::reader::Reader;

const FORMAT: u8 = 1;

/// What the latest start of a gateway leaves in each cloud: that it goes on with a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose it is.
    pub gateway: GatewayId,
    /// Number of the branch.
    pub branch: u32,
    /// Its id.
    pub id: [u8; 16],
    /// How many starts have claimed the branch, with this one.
    pub starts: u64,
    /// Random, new at every start: tells two copies of one gateway apart that have started equally often.
    pub start: u64,
    /// When that was.
    pub time: Timestamp,
}

impl Claim {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend_from_slice(&self.gateway.0.to_be_bytes());
        out.extend_from_slice(&self.branch.to_be_bytes());
        out.extend_from_slice(&self.id);
        out.extend_from_slice(&self.starts.to_be_bytes());
        out.extend_from_slice(&self.start.to_be_bytes());
        out.extend_from_slice(&self.time.seconds.to_be_bytes());
        out.extend_from_slice(&self.time.nanos.to_be_bytes());
        out
    }

    /// Reads what [`Claim::encode`] wrote.
    ///
    /// # Errors
    /// It is not a claim, or one of a newer version.
    pub fn decode(bytes: &[u8]) -> Result<Claim, BackupError> {
        match bytes.first() {
            Some(&FORMAT) => {}
            Some(&newer) if newer > FORMAT => return Err(BackupError::Newer(newer)),
            _ => return Err(BackupError::Damaged("a claim without a format")),
        }
        let mut reader = Reader(&bytes[1..]);
        let claim = Claim::read(&mut reader).filter(|_| reader.0.is_empty());
        claim.ok_or(BackupError::Damaged("a claim"))
    }

    fn read(reader: &mut Reader<'_>) -> Option<Claim> {
        Some(Claim {
            gateway: GatewayId(u16::from_be_bytes(reader.array()?)),
            branch: reader.u32()?,
            id: reader.array()?,
            starts: reader.u64()?,
            start: reader.u64()?,
            time: Timestamp {
                seconds: i64::from_be_bytes(reader.array()?),
                nanos: u32::from_be_bytes(reader.array()?),
            },
        })
    }
}

/// What had been seen of a branch at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its id.
    pub id: [u8; 16],
    /// Its newest backup.
    pub backup: u64,
    /// Starts that have claimed it.
    pub starts: u64,
}

/// Somebody else goes on with the same identity. Whoever is told must neither store nor delete anything any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// The cloud that shows it.
    pub place: String,
    /// Number of the branch that it goes on with.
    pub branch: u32,
    /// When it has shown itself last.
    pub time: Timestamp,
    /// What it is.
    pub is: Who,
}

/// What somebody else is who goes on with the same identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// It was restored from the backups of this one, or has taken them over.
    Successor,
    /// It has the same data folder, or a newer state of it: one of the two is a copy.
    Copy,
    /// The one that this one was restored from, or another one restored from it: it has gone on since then.
    Original,
    /// The data folder knows nothing of the backups that are there.
    Unknown,
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.is {
            Who::Successor => {
                "another gateway goes on with this one's backups: it was restored from them, or has taken them over"
            }
            Who::Copy => {
                "another gateway has gone on from a copy of this data folder, or this one is an old copy"
            }
            Who::Original => {
                "the gateway that this one was restored from has gone on since, or another one that was restored from it"
            }
            Who::Unknown => "the clouds have backups of this gateway that this data folder knows nothing of",
        };
        write!(f, "{what} (cloud {:?}, branch {})", self.place, self.branch)
    }
}

impl std::error::Error for Rival {}
