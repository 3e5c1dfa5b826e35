//! Authenticated encryption of blocks, and the keys for it (decision D4).
//!
//! A *sealed block* is what leaves the gateway: one version of one block of one file, encrypted under the file's
//! key with a fresh random 192-bit nonce, and bound to its identity (volume, object, block index, version,
//! creator, key epoch of the sealing), none of which can be read from it. A block that was swapped, replayed, moved or damaged
//! does not open. [`seal`] and [`open`] do this; [`fragment_name`] gives the fragments of a sealed block names
//! that reveal nothing (`K24`).
//!
//! The keys form a tree. A gateway's [`KeyFile`] holds one secret; its [`GatewayKeyPair`] and [`NodeKey`]s are
//! derived from it. The [`EpochKey`] of an accessor set is wrapped to the public key of every gateway that may
//! read; the [`FileKey`] of a file is wrapped under the epoch key; block, name and fragment keys are derived from
//! the file key. A [`SegmentKey`], derived from the node key, seals the records of the local journal and cache.
//!
//! What it is not: it stores nothing but the key file, knows nothing of clouds, and decides no policy. Freshness
//! comes from the caller, who names the version that he expects.
//!
//! ```
//! use environment::SystemEntropy;
//! use ids::*;
//! use seal::{BlockIdentity, FileKey, KeyEpoch, SealOptions, open, seal};
//!
//! let entropy = SystemEntropy::new();
//! let key = FileKey::generate(&entropy);
//! let identity = BlockIdentity {
//!     volume: VolumeId(7),
//!     object: ObjectId { creator: GatewayId(1), number: ObjectNumber(42) },
//!     block: BlockIndex(0),
//!     version: Version(1),
//!     creator: GatewayId(1),
//!     epoch: KeyEpoch(1),
//! };
//! let sealed = seal(&key, &identity, &[b"hello "], &SealOptions::at(Timestamp::default()), &entropy);
//! assert_eq!(&open(&key, &identity, sealed.clone())?.plaintext[..], b"hello ");
//! assert!(open(&key, &BlockIdentity { version: Version(2), ..identity }, sealed).is_err());
//! # Ok::<(), seal::OpenError>(())
//! ```
//!
//! # Formats
//!
//! All numbers are big-endian. `kdf(key, purpose, data, n)` is `n` bytes of the extendable output of BLAKE3 keyed
//! with `key` over `purpose ‖ 0x00 ‖ data`.
//!
//! **Identity** (56 bytes, never stored): volume 16, object 18 (creator 2, number 16), block index 8, version 8,
//! creator 2, key epoch 4.
//!
//! **Sealed block** (96 bytes more than the padded data):
//!
//! | offset | length | content |
//! |---|---|---|
//! | 0 | 1 | `0xB1`: sealed block, format 1 |
//! | 1 | 1 | suite: 1 = AES-256-GCM, 2 = integrity only, 3 = convergent |
//! | 2 | 6 | zero |
//! | 8 | 24 | nonce, random |
//! | 32 | 32 | key commitment |
//! | 64 | 16 | sealed: plaintext length 4, nanoseconds 4, seconds 8 of the time of sealing |
//! | 80 | n | sealed: data, then zero padding |
//! | 80 + n | 16 | tag |
//!
//! `subkey 32 ‖ commitment 32 = kdf(file key, "kurma block", suite ‖ nonce, 64)`. Suite 1 encrypts from offset 64
//! with AES-256-GCM under the subkey, nonce = the last 12 bytes of the nonce, associated data = the 64 clear
//! bytes ‖ identity. Suite 2 encrypts nothing; its tag is the first 16 bytes of BLAKE3 keyed with the subkey over
//! the bytes from offset 64 ‖ the 64 clear bytes ‖ identity. Since the subkey depends on all 192 random bits, no
//! two seals share a keystream, whatever their offset, version or creator (`K25`), and a node restored from a
//! disk image repeats nothing.
//!
//! **Convergent block** (suite 3): as suite 1, but for four things. The key is the content key instead of the file key. The nonce is
//! the *content id*, 24 bytes of BLAKE3 keyed with `kdf(content key, "kurma content id", "", 32)` over plaintext ‖ plaintext
//! length 8 ‖ padded length 8; whoever opens computes it again. There is no identity in the associated data. The time is
//! zero. So equal content becomes equal bytes, and a nonce comes again only with the very same content, which says nothing but that it
//! is the same (the synthetic nonce of RFC 5297 and RFC 8452). Place and version are bound by the checksums of the fragments.
//!
//! **Content key**: `kdf(epoch key, "kurma content key", volume 16 ‖ accessor set 4 ‖ epoch 4, 32)`; content is known as equal
//! inside one accessor set and epoch, and nowhere else. **Convergence key**, for crate `disperse`:
//! `kdf(content key, "kurma convergence key", "", 32)`.
//!
//! **Fragment name**: lower-case base32 without padding (40 characters) of
//! `kdf(name key, "kurma fragment name", identity ‖ fragment index 1 ‖ seal id 8, 25)`, where
//! `name key = kdf(file key, "kurma name key", "", 32)`.
//!
//! **Fragment key**: `kdf(file key, "kurma fragment key", "", 32)`; crate `disperse` tells what it authenticates.
//!
//! **Certificate** (160 bytes) of a sequence of sealed blocks D(0), D(1), ..., by their owner:
//!
//! | offset | length | content |
//! |---|---|---|
//! | 0 | 1 | `0xD1`: certificate, format 1 |
//! | 1 | 1 | kind of proof: 2 = signature of the owner |
//! | 2 | 32 | verifier |
//! | 34 | 4 | number of blocks |
//! | 38 | 8 | bytes of all blocks |
//! | 46 | 12 | when it was made: seconds 8, nanoseconds 4 |
//! | 58 | 4 | for how many seconds it holds; 0: as long as the blocks are there |
//! | 62 | 34 | owner: gateway 2, its Ed25519 public key 32 |
//! | 96 | 64 | Ed25519 signature of the bytes before |
//!
//! The verifier is N(last), where N(-1) = `BLAKE3.derive_key("kurma 2026 extent owner", owner 34)` and
//! N(i) = `BLAKE3.derive_key("kurma 2026 extent chain", N(i - 1) ‖ name of D(i))`; the **name** of a sealed block is its BLAKE3, 32
//! bytes.
//!
//! **Footer key**: `kdf(file key, "kurma footer key", "", 32)`, a file key of its own for the footers of packs (crate `blocks`).
//!
//! **Wrapped file key** (73 bytes): `0xC1`, nonce 24, AES-256-GCM ciphertext of the file key 32, tag 16, under
//! `kdf(epoch key, "kurma file key wrap", nonce, 32)`, GCM nonce = the last 12 bytes of the nonce, associated data =
//! `0xC1` ‖ volume 16 ‖ accessor set 4 ‖ epoch 4 ‖ object 18.
//!
//! In the place of the key of a shredded file stands its name key, wrapped the same way with `0xC2`. The **wrapped content key** of an epoch whose
//! epoch key is destroyed begins with `0xC3`, and has that epoch's number, 4 bytes, in the place of the object.
//!
//! **File key of an epoch** e > 1, under which blocks are sealed in it: `kdf(file key, "kurma file key of an epoch", salt 32 ‖ e 4, 32)` with
//! salt = `kdf(content key of the epoch, "kurma epoch salt", "", 32)`. In epoch 1 it is the file key. Names use the file key in all epochs.
//!
//! **Wrapped epoch key** (82 bytes): `0xE1`, suite 1, encapsulated key 32, ciphertext 32, tag 16: HPKE (RFC 9180)
//! base mode with DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-256-GCM; info = `kurma epoch key`, associated data
//! = the first two bytes ‖ volume 16 ‖ accessor set 4 ‖ epoch 4 ‖ receiving gateway 2.
//!
//! **Record**: AES-256-GCM under `kdf(node key, "kurma segment", salt 32 ‖ purpose, 32)`, nonce = 4 zero bytes ‖
//! position 8; the tag of 16 bytes is stored by the caller.
//!
//! **Signature** of what a gateway states, and certifies: Ed25519, 64 bytes; the seed is the gateway's shared secret `signatures`
//! ([`KeyFile::shared_secret`]).
//!
//! **Key file**: see [`KeyFile`].

#![deny(missing_docs)]

mod block;
mod certificate;
mod convergent;
mod epoch_key;
mod error;
mod file_key;
mod fragment_name;
mod gateway_key;
mod gcm;
mod hpke;
mod identity;
mod key_file;
mod key_store;
mod padding;
mod record;
mod seal_id;
mod secret;
mod signing;

pub use block::{
    MAX_PLAINTEXT, OpenedBlock, SEAL_DATA_AT, SEAL_OVERHEAD, SealOptions, SealedBlock, Suite, open, seal,
    sealed_len,
};
pub use certificate::{BlockName, Certificate, Owner, Signer, Verifier};
pub use convergent::{ContentId, content_id, open_convergent, seal_convergent};
pub use epoch_key::{
    AccessorSetId, EpochIdentity, EpochKey, WrappedContentKey, WrappedFileKey, unwrap_content_key,
    unwrap_file_key, wrap_content_key, wrap_file_key,
};
pub use error::{KeyFileError, OpenError};
pub use file_key::{ContentKey, FileKey, FragmentKey, NameKey};
pub use fragment_name::fragment_name;
pub use gateway_key::{GatewayKeyPair, GatewayPublicKey, WrappedEpochKey, open_epoch_key, wrap_epoch_key};
pub use identity::{BlockIdentity, KeyEpoch};
pub use key_file::{KeyFile, KeyFileId};
pub use key_store::{create_key_file, load_key_file, replace_key_file};
pub use padding::Padding;
pub use record::{NodeKey, SegmentKey, TAG_LEN};
pub use seal_id::SealId;
pub use signing::{SIGNATURE_LEN, SigningKey, VerifyingKey};
