use bytes::Bytes;
use cloud::ObjectName;
use environment::Entropy;
use ids::{BlockIndex, GatewayId, ObjectId, ObjectNumber, Timestamp, Version, VolumeId};
use seal::{BlockIdentity, FileKey, KeyEpoch, NameKey, Padding, SealId, SealOptions, SealedBlock};
use zeroize::Zeroizing;

use crate::{BackupError, Claim, Head, ObjectEntry};

/// Objects up to this length look alike.
const SMALLEST: usize = 16 << 10;
/// Stands in the place of a volume for heads.
const HEADS: VolumeId = VolumeId(u128::from_be_bytes(*b"kurma backup:top"));
/// Stands in the place of a volume for claims.
const CLAIMS: VolumeId = VolumeId(u128::from_be_bytes(*b"kurma backup:own"));
/// Stands in the place of a volume for signposts.
const SIGNPOSTS: VolumeId = VolumeId(u128::from_be_bytes(*b"kurma backup:new"));

/// Seals, opens, names and proves the parts of one gateway's backups.
pub struct BackupKeys {
    gateway: GatewayId,
    seal: FileKey,
    names: NameKey,
    proof: Zeroizing<[u8; 32]>,
}

impl BackupKeys {
    /// From a secret of the gateway that is used for nothing else.
    pub fn new(gateway: GatewayId, secret: &[u8; 32]) -> BackupKeys {
        let seal = FileKey::from_bytes(*secret);
        let proof = Zeroizing::new(blake3::derive_key("kurma 2026 backup chain", secret));
        BackupKeys { gateway, names: seal.name_key(), seal, proof }
    }

    /// Whose backups they are for.
    pub fn gateway(&self) -> GatewayId {
        self.gateway
    }

    fn identity(&self, volume: VolumeId, number: u128, block: u64) -> BlockIdentity {
        BlockIdentity {
            volume,
            object: ObjectId { creator: self.gateway, number: ObjectNumber(number) },
            block: BlockIndex(block),
            version: Version(1),
            creator: self.gateway,
            epoch: KeyEpoch(0),
        }
    }

    fn of_object(&self, branch: &[u8; 16], start: u64, number: u32) -> BlockIdentity {
        self.identity(VolumeId(u128::from_be_bytes(*branch)), start.into(), number.into())
    }

    fn of_head(&self, branch: u32) -> BlockIdentity {
        self.identity(HEADS, branch.into(), 0)
    }

    fn of_claim(&self, branch: u32) -> BlockIdentity {
        self.identity(CLAIMS, branch.into(), 0)
    }

    fn of_signpost(&self) -> BlockIdentity {
        self.identity(SIGNPOSTS, 0, 0)
    }

    fn name(&self, identity: &BlockIdentity, start: u64) -> ObjectName {
        let name = seal::fragment_name(&self.names, identity, 0, SealId(start));
        ObjectName::new(&name).expect("names of fragments are object names")
    }

    /// What a cloud calls an object.
    pub fn object_name(&self, branch: &[u8; 16], start: u64, number: u32) -> ObjectName {
        self.name(&self.of_object(branch, start, number), start)
    }

    /// What a cloud calls the head of a branch.
    pub fn head_name(&self, branch: u32) -> ObjectName {
        self.name(&self.of_head(branch), 0)
    }

    /// What a cloud calls the claim of a branch.
    pub fn claim_name(&self, branch: u32) -> ObjectName {
        self.name(&self.of_claim(branch), 0)
    }

    /// What a cloud calls the claim of the newest branch that it knows.
    pub fn signpost_name(&self) -> ObjectName {
        self.name(&self.of_signpost(), 0)
    }

    fn sealed(
        &self,
        identity: &BlockIdentity,
        content: &[u8],
        time: Timestamp,
        entropy: &dyn Entropy,
    ) -> Bytes {
        let padding = match content.len() {
            ..=SMALLEST => Padding::Bucket(SMALLEST as u32),
            _ => Padding::PowerOfTwo,
        };
        let options = SealOptions { padding, ..SealOptions::at(time) };
        seal::seal(&self.seal, identity, &[content], &options, entropy).into_bytes()
    }

    fn opened(&self, identity: &BlockIdentity, sealed: Bytes) -> Result<Bytes, BackupError> {
        let opened = seal::open(&self.seal, identity, SealedBlock::from_untrusted(sealed));
        Ok(opened.map_err(|_| BackupError::Damaged("it does not open"))?.plaintext)
    }

    /// Seals the content of an object.
    pub fn seal_object(
        &self,
        branch: &[u8; 16],
        (start, number): (u64, u32),
        content: &[u8],
        time: Timestamp,
        entropy: &dyn Entropy,
    ) -> Bytes {
        self.sealed(&self.of_object(branch, start, number), content, time, entropy)
    }

    /// The content of an object that has been [proved](BackupKeys::proves).
    ///
    /// # Errors
    /// It is another one.
    pub fn open_object(
        &self,
        branch: &[u8; 16],
        entry: &ObjectEntry,
        sealed: Bytes,
    ) -> Result<Bytes, BackupError> {
        self.opened(&self.of_object(branch, entry.start, entry.number), sealed)
    }

    /// The checksum of a sealed object behind one with the checksum `before`.
    pub fn sum(
        &self,
        branch: &[u8; 16],
        (start, number): (u64, u32),
        before: &[u8; 32],
        sealed: &[u8],
    ) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.proof);
        hasher.update(b"object").update(&self.gateway.0.to_be_bytes()).update(branch);
        hasher.update(&start.to_be_bytes()).update(&number.to_be_bytes()).update(before).update(sealed);
        *hasher.finalize().as_bytes()
    }

    /// Whether these bytes are the object of `entry`, behind one with the checksum `before`.
    pub fn proves(&self, branch: &[u8; 16], entry: &ObjectEntry, before: &[u8; 32], sealed: &[u8]) -> bool {
        let sum = self.sum(branch, (entry.start, entry.number), before, sealed);
        sealed.len() == entry.length as usize && blake3::Hash::from(sum) == blake3::Hash::from(entry.sum)
    }

    /// The link of a head, which covers the head before.
    pub fn link(&self, head: &Head) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.proof);
        hasher.update(b"link").update(&head.mark().backup.to_be_bytes()).update(&head.covered());
        *hasher.finalize().as_bytes()
    }

    /// Seals a head.
    pub fn seal_head(&self, head: &Head, entropy: &dyn Entropy) -> Bytes {
        self.sealed(&self.of_head(head.branch), &head.encode(), head.mark().time, entropy)
    }

    /// The head that a cloud has given for a branch.
    ///
    /// # Errors
    /// It is no head of this gateway and branch.
    pub fn open_head(&self, branch: u32, sealed: Bytes) -> Result<Head, BackupError> {
        let head = Head::decode(&self.opened(&self.of_head(branch), sealed)?)?;
        let link = self.link(&head);
        let is_it = (head.gateway, head.branch) == (self.gateway, branch)
            && blake3::Hash::from(link) == blake3::Hash::from(head.link());
        if is_it { Ok(head) } else { Err(BackupError::Damaged("the head of something else")) }
    }

    /// Seals a claim.
    pub fn seal_claim(&self, claim: &Claim, entropy: &dyn Entropy) -> Bytes {
        self.sealed(&self.of_claim(claim.branch), &claim.encode(), claim.time, entropy)
    }

    /// The claim that a cloud has given for a branch.
    ///
    /// # Errors
    /// It is no claim of this gateway and branch.
    pub fn open_claim(&self, branch: u32, sealed: Bytes) -> Result<Claim, BackupError> {
        let claim = Claim::decode(&self.opened(&self.of_claim(branch), sealed)?)?;
        let is_it = (claim.gateway, claim.branch) == (self.gateway, branch);
        if is_it { Ok(claim) } else { Err(BackupError::Damaged("the claim of something else")) }
    }

    /// Seals a claim as that of the newest branch.
    pub fn seal_signpost(&self, claim: &Claim, entropy: &dyn Entropy) -> Bytes {
        self.sealed(&self.of_signpost(), &claim.encode(), claim.time, entropy)
    }

    /// What a cloud has given for the claim of the newest branch.
    ///
    /// # Errors
    /// It is no claim of this gateway.
    pub fn open_signpost(&self, sealed: Bytes) -> Result<Claim, BackupError> {
        let claim = Claim::decode(&self.opened(&self.of_signpost(), sealed)?)?;
        let is_it = claim.gateway == self.gateway;
        if is_it { Ok(claim) } else { Err(BackupError::Damaged("the claim of somebody else")) }
    }
}
