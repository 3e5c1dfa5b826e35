use ids::{GatewayId, Timestamp};

use crate::BackupError;
use crate::reader::Reader;

const FORMAT: u8 = 1;

/// The end of a backup: the state that all objects up to here make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Number of the backup in its branch; grows, with gaps.
    pub backup: u64,
    /// The last transaction that it has.
    pub transaction: u64,
    /// The wall clock of the gateway at that instant.
    pub time: Timestamp,
    /// So many objects of the chain.
    pub objects: u32,
}

/// An object of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectEntry {
    /// Which start of the gateway made it.
    pub start: u64,
    /// Its number in that start.
    pub number: u32,
    /// Bytes of the sealed object.
    pub length: u32,
    /// Checksum over the sealed object and the checksum of the object before.
    pub sum: [u8; 32],
}

/// The backup that a branch went on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Number of its branch.
    pub branch: u32,
    /// Id of its branch.
    pub id: [u8; 16],
    /// Number of the backup.
    pub backup: u64,
    /// Its link.
    pub link: [u8; 32],
}

/// All objects of a chain, and what they are good for. Never without a mark and a link: [`Head::decode`] sees to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Whose it is.
    pub gateway: GatewayId,
    /// Number of the branch: 0, and one more with each restore.
    pub branch: u32,
    /// Tells two branches of one number apart.
    pub id: [u8; 16],
    /// Where the branch comes from.
    pub parent: Option<Parent>,
    /// What the checksum of the first object begins with.
    pub first: [u8; 32],
    /// The base, then the increments.
    pub objects: Vec<ObjectEntry>,
    /// The ends of the backups, ascending; the last is the newest state.
    pub marks: Vec<Mark>,
    /// Links of the backups before, as many as are kept, and of this one.
    pub links: Vec<(u64, [u8; 32])>,
    /// The link that this head's own covers.
    pub before: [u8; 32],
}

impl Head {
    /// The newest state.
    pub fn mark(&self) -> Mark {
        self.marks.last().copied().unwrap_or(Mark {
            backup: 0,
            transaction: 0,
            time: Timestamp::default(),
            objects: 0,
        })
    }

    /// What the next head covers.
    pub fn link(&self) -> [u8; 32] {
        self.links.last().map_or([0; 32], |(_, link)| *link)
    }

    /// Sum of the lengths of objects from `from` on.
    pub fn bytes_from(&self, from: usize) -> u64 {
        self.objects.iter().skip(from).map(|object| u64::from(object.length)).sum()
    }

    /// As bytes, without the own link: what that covers.
    pub(crate) fn covered(&self) -> Vec<u8> {
        let links = &self.links[..self.links.len().saturating_sub(1)];
        self.encode_with(links)
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        self.encode_with(&self.links)
    }

    fn encode_with(&self, links: &[(u64, [u8; 32])]) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend_from_slice(&self.gateway.0.to_be_bytes());
        out.extend_from_slice(&self.branch.to_be_bytes());
        out.extend_from_slice(&self.id);
        out.push(u8::from(self.parent.is_some()));
        if let Some(Parent { branch, id, backup, link }) = &self.parent {
            out.extend_from_slice(&branch.to_be_bytes());
            out.extend_from_slice(id);
            out.extend_from_slice(&backup.to_be_bytes());
            out.extend_from_slice(link);
        }
        out.extend_from_slice(&self.first);
        out.extend_from_slice(&(self.objects.len() as u32).to_be_bytes());
        for ObjectEntry { start, number, length, sum } in &self.objects {
            out.extend_from_slice(&start.to_be_bytes());
            out.extend_from_slice(&number.to_be_bytes());
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(sum);
        }
        out.extend_from_slice(&(self.marks.len() as u32).to_be_bytes());
        self.marks.iter().for_each(|mark| mark.write_whole(&mut out));
        out.extend_from_slice(&(links.len() as u32).to_be_bytes());
        for (backup, link) in links {
            out.extend_from_slice(&backup.to_be_bytes());
            out.extend_from_slice(link);
        }
        out.extend_from_slice(&self.before);
        out
    }

    /// Reads what [`Head::encode`] wrote.
    ///
    /// # Errors
    /// It is not a head, or one of a newer version.
    pub fn decode(bytes: &[u8]) -> Result<Head, BackupError> {
        match bytes.first() {
            Some(&FORMAT) => {}
            Some(&newer) if newer > FORMAT => return Err(BackupError::Newer(newer)),
            _ => return Err(BackupError::Damaged("a head without a format")),
        }
        let head = Head::read(&mut Reader(&bytes[1..])).filter(Head::is_sound);
        head.ok_or(BackupError::Damaged("the head of a backup"))
    }

    fn read(reader: &mut Reader<'_>) -> Option<Head> {
        let gateway = GatewayId(u16::from_be_bytes(reader.array()?));
        let (branch, id) = (reader.u32()?, reader.array()?);
        let parent = match reader.byte()? {
            0 => None,
            1 => Some(Parent {
                branch: reader.u32()?,
                id: reader.array()?,
                backup: reader.u64()?,
                link: reader.array()?,
            }),
            _ => return None,
        };
        let first = reader.array()?;
        let count = reader.count(48)?;
        let mut objects = Vec::with_capacity(count);
        for _ in 0..count {
            let (start, number, length) = (reader.u64()?, reader.u32()?, reader.u32()?);
            objects.push(ObjectEntry { start, number, length, sum: reader.array()? });
        }
        let count = reader.count(32)?;
        let mut marks = Vec::with_capacity(count);
        for _ in 0..count {
            marks.push(Mark::read_whole(reader)?);
        }
        let count = reader.count(40)?;
        let mut links = Vec::with_capacity(count);
        for _ in 0..count {
            links.push((reader.u64()?, reader.array()?));
        }
        let before = reader.array()?;
        let head = Head { gateway, branch, id, parent, first, objects, marks, links, before };
        reader.0.is_empty().then_some(head)
    }

    /// Marks and links are in order, and the last ones are those of all objects.
    fn is_sound(&self) -> bool {
        let grows = self.marks.windows(2).all(|pair| {
            pair[0].backup < pair[1].backup
                && pair[0].objects < pair[1].objects
                && pair[0].time < pair[1].time
        });
        let linked = self.links.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let (Some(mark), Some((last, _))) = (self.marks.last(), self.links.last()) else { return false };
        grows && linked && mark.objects as usize == self.objects.len() && mark.backup == *last
    }
}
