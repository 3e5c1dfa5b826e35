use crate::reader::Reader;
use crate::{BackupError, Known, Parent};

const FORMAT: u8 = 2;
/// Without [`State::starts`] and [`State::known`].
const FORMAT_OLD: u8 = 1;

/// Numbers of objects of one start that may have been stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Random, new at every start.
    pub start: u64,
    /// The first.
    pub from: u32,
    /// The one behind the last.
    pub to: u32,
}

impl Numbers {
    pub(super) fn is_empty(self) -> bool {
        self.from >= self.to
    }
}

/// Objects that no head names any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retired {
    /// Which.
    pub numbers: Numbers,
    /// The clouds that they are not deleted from yet.
    pub places: Vec<String>,
}

/// What a writer has to know after a restart: which names it may have used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Number of the branch.
    pub branch: u32,
    /// Its id.
    pub id: [u8; 16],
    /// Where it comes from.
    pub parent: Option<Parent>,
    /// No backup has this number or a higher one.
    pub backups: u64,
    /// By start, the present one last.
    pub numbers: Vec<Numbers>,
    /// What is to be deleted.
    pub retired: Vec<Retired>,
    /// The store was just restored from the parent, or loaded: a branch is to begin.
    pub is_new: bool,
    /// Starts that have claimed the branch.
    pub starts: u64,
    /// What there was when the store was restored, until the branch is claimed: if there is more then, somebody else has gone on.
    pub known: Vec<Known>,
}

impl State {
    /// Of a store that was restored from `parent`, when the clouds had what is `known`.
    pub fn restored(parent: Parent, known: Vec<Known>) -> State {
        State { parent: Some(parent), is_new: true, known, ..State::default() }
    }

    /// Of a store that somebody has loaded from elsewhere, who knows what there is in the clouds.
    pub fn loaded() -> State {
        State { is_new: true, ..State::default() }
    }

    pub(super) fn start(&self) -> u64 {
        self.last().start
    }

    pub(super) fn last(&self) -> Numbers {
        self.numbers.last().copied().unwrap_or_default()
    }

    pub(super) fn last_mut(&mut self) -> &mut Numbers {
        if self.numbers.is_empty() {
            self.numbers.push(Numbers::default());
        }
        let last = self.numbers.len() - 1;
        &mut self.numbers[last]
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT, u8::from(self.is_new)];
        out.extend_from_slice(&self.branch.to_be_bytes());
        out.extend_from_slice(&self.id);
        out.push(u8::from(self.parent.is_some()));
        if let Some(Parent { branch, id, backup, link }) = &self.parent {
            out.extend_from_slice(&branch.to_be_bytes());
            out.extend_from_slice(id);
            out.extend_from_slice(&backup.to_be_bytes());
            out.extend_from_slice(link);
        }
        out.extend_from_slice(&self.backups.to_be_bytes());
        let numbers = |Numbers { start, from, to }: Numbers, out: &mut Vec<u8>| {
            out.extend_from_slice(&start.to_be_bytes());
            out.extend_from_slice(&from.to_be_bytes());
            out.extend_from_slice(&to.to_be_bytes());
        };
        out.extend_from_slice(&(self.numbers.len() as u32).to_be_bytes());
        self.numbers.iter().for_each(|one| numbers(*one, &mut out));
        out.extend_from_slice(&(self.retired.len() as u32).to_be_bytes());
        for retired in &self.retired {
            numbers(retired.numbers, &mut out);
            out.extend_from_slice(&(retired.places.len() as u32).to_be_bytes());
            for place in &retired.places {
                out.push(place.len() as u8); // names of clouds have at most 64 bytes
                out.extend_from_slice(place.as_bytes());
            }
        }
        out.extend_from_slice(&self.starts.to_be_bytes());
        out.extend_from_slice(&(self.known.len() as u32).to_be_bytes());
        for Known { id, backup, starts } in &self.known {
            out.extend_from_slice(id);
            out.extend_from_slice(&backup.to_be_bytes());
            out.extend_from_slice(&starts.to_be_bytes());
        }
        out
    }

    /// Reads what [`State::encode`] wrote.
    ///
    /// # Errors
    /// It is not a state, or one of a newer version.
    pub fn decode(bytes: &[u8]) -> Result<State, BackupError> {
        let format = match bytes.first() {
            Some(&format @ (FORMAT_OLD | FORMAT)) => format,
            Some(&newer) if newer > FORMAT => return Err(BackupError::Newer(newer)),
            _ => return Err(BackupError::Damaged("a note of backups without a format")),
        };
        let mut reader = Reader(&bytes[1..]);
        let state = State::read(&mut reader, format).filter(|_| reader.0.is_empty());
        state.ok_or(BackupError::Damaged("the note of backups"))
    }

    fn read(reader: &mut Reader<'_>, format: u8) -> Option<State> {
        let is_new = match reader.byte()? {
            0 => false,
            1 => true,
            _ => return None,
        };
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
        let backups = reader.u64()?;
        let one = |reader: &mut Reader<'_>| {
            Some(Numbers { start: reader.u64()?, from: reader.u32()?, to: reader.u32()? })
        };
        let count = reader.count(16)?;
        let mut numbers = Vec::with_capacity(count);
        for _ in 0..count {
            numbers.push(one(reader)?);
        }
        let count = reader.count(20)?;
        let mut retired = Vec::with_capacity(count);
        for _ in 0..count {
            let numbers = one(reader)?;
            let count = reader.count(1)?;
            let mut places = Vec::with_capacity(count);
            for _ in 0..count {
                let length = reader.byte()?.into();
                places.push(String::from_utf8(reader.take(length)?.to_vec()).ok()?);
            }
            retired.push(Retired { numbers, places });
        }
        let (mut starts, mut known) = (0, Vec::new());
        if format > FORMAT_OLD {
            starts = reader.u64()?;
            for _ in 0..reader.count(32)? {
                known.push(Known { id: reader.array()?, backup: reader.u64()?, starts: reader.u64()? });
            }
        }
        Some(State { branch, id, parent, backups, numbers, retired, is_new, starts, known })
    }
}
