use std::ops::Range;

use bytes::Bytes;
use cloud::{CloudError, Connection, ErrorKind, ObjectName, PutMode};
use disperse::{BadFragment, Fragment, SplitKeys, VerifiedFragment};
use environment::Entropy;
use environment::mutant::{Mutant, is_broken};
use seal::{BlockIdentity, ContentKey, FileKey, FragmentKey, NameKey, fragment_name};

use crate::{FragmentFault, Placement, SealId};

/// One sealing of one block version, with what finds and proves its fragments.
pub(crate) struct Target<'a> {
    pub identity: &'a BlockIdentity,
    pub seal: SealId,
    pub placement: &'a Placement,
    names: NameKey,
    fragment_key: FragmentKey,
    convergence_key: ContentKey,
    context: [u8; Target::CONTEXT],
}

impl Target<'_> {
    const CONTEXT: usize = BlockIdentity::LEN + 8;

    pub fn new<'a>(
        key: &FileKey,
        identity: &'a BlockIdentity,
        seal: SealId,
        placement: &'a Placement,
    ) -> Target<'a> {
        let mut context = [0; Target::CONTEXT];
        context[..BlockIdentity::LEN].copy_from_slice(&identity.proved());
        if !is_broken(Mutant::VersionUnchecked) {
            context[BlockIdentity::LEN..].copy_from_slice(&seal.0.to_be_bytes());
        }
        let (names, fragment_key) = (key.name_key(), key.fragment_key());
        let convergence_key = key.convergence_key();
        Target { identity, seal, placement, names, fragment_key, convergence_key, context }
    }

    /// The object that holds a fragment.
    pub fn name_of(&self, fragment: u8) -> ObjectName {
        let name = fragment_name(&self.names, self.identity, fragment, self.seal);
        #[allow(clippy::expect_used)]
        ObjectName::new(&name).expect("fragment names are 40 characters of a-z and 2-7")
    }

    pub fn split(&self, sealed: &Bytes, entropy: &dyn Entropy) -> Vec<Fragment> {
        let keys = SplitKeys {
            checksum: self.fragment_key.as_bytes(),
            convergence: self.convergence_key.as_bytes(),
        };
        disperse::split(self.placement.scheme(), sealed, keys, &self.context, entropy)
    }

    pub fn rebuild(&self, have: &[VerifiedFragment], missing: u8) -> Option<Fragment> {
        disperse::rebuild(have, missing, self.fragment_key.as_bytes(), &self.context).ok()
    }

    /// Whether `other` is of the same sealing as `set`, which brings the block back.
    pub fn fits(&self, set: &[VerifiedFragment], other: &VerifiedFragment) -> bool {
        set.iter().any(|one| one.index() == other.index())
            || self.rebuild(set, other.index()).is_some_and(|fragment| {
                let rebuilt = self.verify(fragment.to_bytes(), other.index());
                rebuilt.as_ref() == Ok(other)
            })
    }

    /// Gets a fragment from its cloud and proves it.
    pub async fn fetch(&self, cloud: &Connection, fragment: u8) -> Result<VerifiedFragment, FragmentFault> {
        let range = self.range();
        self.proved(cloud, fragment, cloud.get(&self.name_of(fragment), Some(range)).await)
    }

    /// As [`Target::fetch`], but asks only once.
    pub async fn fetch_once(
        &self,
        cloud: &Connection,
        fragment: u8,
    ) -> Result<VerifiedFragment, FragmentFault> {
        let range = self.range();
        self.proved(cloud, fragment, cloud.get_once(&self.name_of(fragment), Some(range)).await)
    }

    fn proved(
        &self,
        cloud: &Connection,
        fragment: u8,
        answer: Result<Bytes, CloudError>,
    ) -> Result<VerifiedFragment, FragmentFault> {
        let bytes = self.taken(answer);
        let result = bytes.and_then(|bytes| self.verify(bytes, fragment).map_err(FragmentFault::Bad));
        if result.as_ref().is_err_and(FragmentFault::needs_repair) {
            cloud.report_bad();
        }
        result
    }

    /// As [`Target::fetch`]; the bytes as they are stored.
    pub async fn fetch_bytes(&self, cloud: &Connection, fragment: u8) -> Result<Bytes, FragmentFault> {
        let bytes = self.taken(cloud.get(&self.name_of(fragment), Some(self.range())).await)?;
        self.verify(bytes.clone(), fragment).map_err(FragmentFault::Bad)?;
        Ok(bytes)
    }

    /// One byte more than there can be, to tell "too long" from "just fits".
    fn range(&self) -> Range<u64> {
        0..self.placement.longest_fragment() + 1
    }

    fn taken(&self, answer: Result<Bytes, CloudError>) -> Result<Bytes, FragmentFault> {
        let limit = self.placement.longest_fragment();
        match answer {
            Ok(bytes) if bytes.len() as u64 > limit => Err(FragmentFault::TooLong { limit }),
            Ok(bytes) => Ok(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(FragmentFault::Missing),
            Err(error) => Err(FragmentFault::Unreachable(error)),
        }
    }

    /// Gets some columns of a fragment of a block of `sealed_len` bytes, by one question. They prove nothing.
    pub async fn fetch_columns(
        &self,
        cloud: &Connection,
        fragment: u8,
        sealed_len: u64,
        columns: &Range<u64>,
    ) -> Result<Bytes, FragmentFault> {
        let range = disperse::stored_range(self.placement.scheme(), fragment, sealed_len, columns);
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        match cloud.get_once(&self.name_of(fragment), Some(range)).await {
            Ok(bytes) => Ok(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                cloud.report_bad();
                Err(FragmentFault::Missing)
            }
            Err(error) => Err(FragmentFault::Unreachable(error)),
        }
    }

    fn verify(&self, bytes: Bytes, fragment: u8) -> Result<VerifiedFragment, BadFragment> {
        let scheme = self.placement.scheme();
        Fragment::from_bytes(bytes)?.verify(self.fragment_key.as_bytes(), scheme, fragment, &self.context)
    }

    /// Puts a fragment into its cloud, over whatever is there.
    pub async fn put(&self, cloud: &Connection, number: u8, fragment: &Fragment) -> Result<(), CloudError> {
        cloud.put(&self.name_of(number), fragment.segments().into(), PutMode::Overwrite).await
    }
}
