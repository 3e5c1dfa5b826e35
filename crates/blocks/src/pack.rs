//! Sealed blocks of many files in one, so that they travel together and each can be read alone.
//!
//! The content of a pack, before it is sealed and dispersed like any block:
//!
//! | offset | length | content |
//! |---|---|---|
//! | 0 | b | sealed blocks, one after the other, each as it would be stored alone |
//! | b | f | footer, sealed by suite 1 under the footer key of the pack's file, with the identity of the pack |
//! | b + f | 4 | f |
//! | b + f + 4 | 3 | zero |
//! | b + f + 7 | 1 | `0xA2`: pack, format 2 |
//!
//! The footer, for n blocks:
//!
//! | offset | length | content |
//! |---|---|---|
//! | 44 · i | 44 | of block i: object 18, block index 8, version 8, creator 2, key epoch 4, length 4 |
//! | 44 · n | 160 | certificate of the blocks in their order (crate `seal`) |

use bytes::{Buf, BufMut, Bytes, BytesMut};
use environment::Entropy;
use ids::{BlockIndex, GatewayId, ObjectId, Timestamp, Version, VolumeId};
use seal::{
    BlockIdentity, BlockName, Certificate, FileKey, KeyEpoch, OpenError, OpenedBlock, Owner, Padding,
    SEAL_OVERHEAD, SealId, SealOptions, SealedBlock, Signer, Suite,
};

use crate::{Placement, Protection};

const WHAT: &str = "a pack";
const FORMAT: u8 = 0xA2;
const TAIL: usize = 8;
const ENTRY: usize = 44;
/// Everything but blocks and entries.
const FRAME: usize = SEAL_OVERHEAD + Certificate::LEN + TAIL;

/// A pack, as the block version that it is: of a file that has no name and holds nothing but packs.
#[derive(Clone, Copy, Debug)]
pub struct PackVersion<'a> {
    /// The key of the file of packs.
    pub key: &'a FileKey,
    /// Which pack.
    pub id: &'a BlockIdentity,
    /// Which sealing of it.
    pub seal: SealId,
    /// How and where it is dispersed.
    pub placement: &'a Placement,
}

impl PackVersion<'_> {
    /// What is in a pack is sealed already, under keys of its own: a second encryption would hide nothing more, and no part could
    /// be read without the rest.
    pub(crate) const PROTECTION: Protection =
        Protection { suite: Suite::IntegrityOnly, padding: Padding::None };
}

/// Where a sealed block lies in a pack, and how it is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceInPack {
    /// Bytes of the pack's content: what tells which fragment has which bytes.
    pub pack_len: u32,
    /// Where it begins.
    pub offset: u32,
    /// Its bytes.
    pub len: u32,
    /// Its name. Nothing else passes for it, not another sealing of the same version either.
    pub name: BlockName,
}

impl PlaceInPack {
    /// The sealed block, from the content of the pack.
    pub(crate) fn cut(&self, content: &Bytes) -> Option<SealedBlock> {
        let (start, end) = (self.offset as usize, (self.offset as usize).checked_add(self.len as usize)?);
        if content.len() != self.pack_len as usize || end > content.len() {
            return None;
        }
        self.prove(content.slice(start..end))
    }

    /// Its bytes in the content of the pack.
    pub(crate) fn range(&self) -> std::ops::Range<u32> {
        // A place that ends beyond 4 GiB was never given out, and is proved to be none.
        self.offset..self.offset.saturating_add(self.len)
    }

    /// The sealed block, if it is this.
    pub(crate) fn prove(&self, sealed: Bytes) -> Option<SealedBlock> {
        (BlockName::of(&sealed) == self.name).then(|| SealedBlock::from_untrusted(sealed))
    }
}

/// A block of some file that lies in a pack.
#[derive(Clone, Copy, Debug)]
pub struct PackedBlock<'a> {
    /// The key of its own file.
    pub key: &'a FileKey,
    /// What it is.
    pub id: &'a BlockIdentity,
    /// Where it lies.
    pub place: &'a PlaceInPack,
}

/// Collects the blocks of a pack.
#[derive(Debug)]
pub struct PackBuilder {
    volume: VolumeId,
    limit: u64,
    blocks: Vec<(BlockIdentity, SealedBlock)>,
    /// Bytes of the pack as it is.
    len: u64,
}

impl PackBuilder {
    /// Bytes of a pack without blocks.
    pub const EMPTY: u64 = FRAME as u64;

    /// Bytes that a sealed block takes in a pack.
    pub const fn room_for(sealed: u64) -> u64 {
        sealed + ENTRY as u64
    }

    /// For blocks of this volume, and a pack whose content takes at most `limit` bytes, the block size of its file.
    pub fn new(volume: VolumeId, limit: u64) -> PackBuilder {
        let limit = limit.min(u64::from(u32::MAX));
        PackBuilder { volume, limit, blocks: Vec::new(), len: PackBuilder::EMPTY }
    }

    /// Adds a sealed block, or gives it back: the pack has no room for it.
    pub fn push(&mut self, id: BlockIdentity, sealed: SealedBlock) -> Result<(), SealedBlock> {
        assert_eq!(id.volume, self.volume, "a pack holds blocks of one volume");
        let len = self.len + PackBuilder::room_for(sealed.as_bytes().len() as u64);
        if len > self.limit {
            return Err(sealed);
        }
        self.len = len;
        self.blocks.push((id, sealed));
        Ok(())
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes that the content of the pack takes so far.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// The parts of the content, and the places of the blocks in the order of their coming.
    pub(crate) fn finish(
        self,
        pack: &PackVersion<'_>,
        owner: &Signer,
        now: Timestamp,
        entropy: &dyn Entropy,
    ) -> (Vec<Bytes>, Vec<PlaceInPack>) {
        assert_eq!(pack.id.volume, self.volume, "a pack belongs to the volume of its blocks");
        let mut certificate = Certificate::of_nothing(owner.owner(), now);
        let mut footer = BytesMut::with_capacity(self.blocks.len() * ENTRY + Certificate::LEN);
        let mut parts = Vec::with_capacity(self.blocks.len() + 2);
        let mut places = Vec::with_capacity(self.blocks.len());
        // Below 4 GiB, as the limit is.
        let (pack_len, mut offset) = (self.len as u32, 0);
        for (id, sealed) in self.blocks {
            let sealed = sealed.into_bytes();
            let (len, name) = (sealed.len() as u32, BlockName::of(&sealed));
            certificate.append(&name, u64::from(len));
            put_entry(&mut footer, &id, len);
            places.push(PlaceInPack { pack_len, offset, len, name });
            parts.push(sealed);
            offset += len;
        }
        footer.put_slice(&certificate.sign(&owner.key));
        let options = SealOptions { suite: Suite::Aes256Gcm, padding: Padding::None, time: now };
        let footer = seal::seal(&pack.key.footer_key(), pack.id, &[&footer], &options, entropy).into_bytes();
        let mut tail = [0; TAIL];
        tail[..4].copy_from_slice(&(footer.len() as u32).to_be_bytes());
        tail[TAIL - 1] = FORMAT;
        parts.extend([footer, Bytes::copy_from_slice(&tail)]);
        debug_assert_eq!(parts.iter().map(Bytes::len).sum::<usize>(), pack_len as usize);
        (parts, places)
    }
}

/// The content of a pack: what is in it is what was put there, in that order, by the owner.
#[derive(Clone, Debug)]
pub struct Pack {
    content: Bytes,
    blocks: Vec<(BlockIdentity, PlaceInPack)>,
    certificate: Certificate,
}

impl Pack {
    /// Takes the content of the pack `id` apart and proves all of it, and that it is `owner`'s; no block is opened.
    pub fn open(key: &FileKey, id: &BlockIdentity, owner: &Owner, content: Bytes) -> Result<Pack, OpenError> {
        let too_short = || OpenError::WrongLength { what: WHAT, len: content.len(), needed: FRAME };
        let malformed = |what| OpenError::Malformed { what };
        let (body, tail) = content.split_last_chunk::<TAIL>().ok_or_else(too_short)?;
        let [f0, f1, f2, f3, z0, z1, z2, format] = *tail;
        let fixed = [(format, FORMAT), (z0, 0), (z1, 0), (z2, 0)];
        if let Some((byte, _)) = fixed.into_iter().find(|(is, want)| is != want) {
            return Err(OpenError::UnknownFormat { what: WHAT, byte });
        }
        let footer_len = u32::from_be_bytes([f0, f1, f2, f3]) as usize;
        let blocks_len =
            body.len().checked_sub(footer_len).ok_or(malformed("a footer longer than its pack"))?;
        let pack_len = u32::try_from(content.len()).map_err(|_| malformed("a pack of over 4 GiB"))?;
        let footer = SealedBlock::from_untrusted(content.slice(blocks_len..body.len()));
        let footer = seal::open(&key.footer_key(), id, footer)?.plaintext;
        let (mut entries, proven) = footer
            .split_last_chunk::<{ Certificate::LEN }>()
            .ok_or(malformed("a pack without certificate"))?;
        let certificate = Certificate::verify(proven)?;
        if certificate.owner != *owner {
            return Err(malformed("a pack that somebody else has certified"));
        }
        let mut found = Certificate {
            ttl: certificate.ttl,
            ..Certificate::of_nothing(certificate.owner, certificate.made)
        };
        let mut blocks = Vec::with_capacity(entries.len() / ENTRY);
        let mut offset = 0_usize;
        while let Some((entry, rest)) = entries.split_first_chunk::<ENTRY>() {
            entries = rest;
            let (block, len) = entry_of(id.volume, entry);
            let end = offset.checked_add(len as usize).filter(|end| *end <= blocks_len);
            let end = end.ok_or(malformed("a block beyond the end of its pack"))?;
            let name = BlockName::of(&content[offset..end]);
            found.append(&name, u64::from(len));
            blocks.push((block, PlaceInPack { pack_len, offset: offset as u32, len, name }));
            offset = end;
        }
        if !entries.is_empty() || offset != blocks_len || found != certificate {
            return Err(malformed("a pack with other blocks than were certified"));
        }
        Ok(Pack { content, blocks, certificate })
    }

    /// What is in it, in the order of its bytes.
    pub fn blocks(&self) -> &[(BlockIdentity, PlaceInPack)] {
        &self.blocks
    }

    /// What its owner says of it.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The sealed block at a place: as it is, to be put into another pack. `None` when another one is there.
    pub fn sealed(&self, place: &PlaceInPack) -> Option<SealedBlock> {
        place.cut(&self.content)
    }

    /// Opens one of its blocks. `placement` is that of the block's file, and of the pack.
    pub fn open_block(
        &self,
        block: &PackedBlock<'_>,
        placement: &Placement,
    ) -> Result<OpenedBlock, OpenError> {
        block.open(placement, block.place.cut(&self.content))
    }
}

impl PackedBlock<'_> {
    /// Opens what was found at its place.
    pub(crate) fn open(
        &self,
        placement: &Placement,
        sealed: Option<SealedBlock>,
    ) -> Result<OpenedBlock, OpenError> {
        let sealed = sealed.ok_or(OpenError::Malformed { what: "a pack without this block" })?;
        // Its place is proven by its name.
        match placement.scheme().is_convergent() && sealed.is_convergent() {
            true => seal::open_convergent(self.key.content_key(), sealed),
            false => seal::open(self.key, self.id, sealed),
        }
    }
}

fn put_entry(footer: &mut BytesMut, id: &BlockIdentity, len: u32) {
    footer.put_slice(&id.object.to_bytes());
    footer.put_u64(id.block.0);
    footer.put_u64(id.version.0);
    footer.put_u16(id.creator.0);
    footer.put_u32(id.epoch.0);
    footer.put_u32(len);
}

fn entry_of(volume: VolumeId, entry: &[u8; ENTRY]) -> (BlockIdentity, u32) {
    let (mut rest, mut object) = (&entry[..], [0; ObjectId::LEN]);
    rest.copy_to_slice(&mut object);
    let id = BlockIdentity {
        volume,
        object: ObjectId::from_bytes(object),
        block: BlockIndex(rest.get_u64()),
        version: Version(rest.get_u64()),
        creator: GatewayId(rest.get_u16()),
        epoch: KeyEpoch(rest.get_u32()),
    };
    (id, rest.get_u32())
}

#[cfg(test)]
mod tests;
