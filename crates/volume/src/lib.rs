//! Volumes: trees of files whose metadata is rows, whose new data is in the journal and the cache, and whose old data is
//! sealed in the clouds.
//!
//! [`Volumes`] is the registry of a node; each [`Volume`] in it is a [`FileSystem`](file_system::FileSystem). One
//! transaction of a file system is one transaction of the metadata store (decision D1); file data travels with it
//! as attachments and becomes dirty data of the cache at the same instant. Upkeep moves dirty data to the clouds
//! through [`MaintainedVolume`](upkeep::MaintainedVolume), which [`Volume`] implements: the versions that it commits
//! say what is current, and nothing else does (D2).
//!
//! What it is not: it speaks no protocol, talks to no cloud by itself, and runs no background task.
//!
//! # Limits
//!
//! Files up to 1 EiB, 1,000,000 names of one object, names of 255 bytes, link targets of 4,095 bytes, 1,024 extended
//! attributes of 64 KiB each ([`file_system::limits`]). Entries of a directory: bounded by 64-bit cookies. A truncation
//! rewrites the block map from the cut on in one transaction, about 2 KiB for each GiB of 1 MiB blocks; one that
//! the journal cannot hold as a record is refused with an error.
//!
//! Reading does not change the access time. [`Attributes::space_used`](file_system::Attributes::space_used) is exact
//! for files without holes; for others it is the bytes written, less what holes were made of, but at most the size.
//!
//! # Write-back and truncation
//!
//! A block may be cut off while its content is on the way to the clouds. Every cut therefore *touches* the row
//! `cut` of the file, which every commit of written blocks reads: one of the two waits for the other or runs again.
//! The commit then asks the snapshot whether the file was cut since it was taken; if so, the version number is
//! burnt and its fragments are garbage. A cut inside a block always leaves dirty zeros behind it, so that whatever
//! is on the way is overwritten once more.
//!
//! The version numbers of all attempts are noted before anything is stored, in one transaction for many blocks, and the
//! [`SealId`](blocks::SealId) of all sealings of one start of the node is random: no pair of version and seal id ever stands for two
//! contents, and no late upload of a dead process meets a name that is in use. The commit of a block, and whoever takes its file apart,
//! turns what is noted and did not become current into garbage; a start does that with all that it finds (decision 14). A commit burns
//! their numbers, also if nothing came to be stored. Of a file that nobody can reach any more nothing is stored: with its block map it is forgotten
//! which numbers were given.
//!
//! A hole in the middle of a file is a cut as far as whole blocks go; the rest of it is dirty zeros. Whoever makes the first
//! chunk of a range of the map touches `cut` as well: a cut that has looked for chunks must not miss it.
//!
//! # Removal
//!
//! A regular file without a name becomes an orphan: its row stays, with a mark, until upkeep takes it apart in
//! transactions of bounded size. Everything that holds a file open is in memory; an orphan that nobody holds
//! cannot be held again, and is stale for everybody. But the orphans that a start finds, and that were held, can be held and read until
//! [`FileSystem::end_of_claims`](file_system::FileSystem::end_of_claims): those who had them open come back for them.
//!
//! # Shared blocks
//!
//! A clone makes blocks take over what is stored for others: their entries in the map name the *origin*, which is what the
//! sealed block is bound to (object, block, version). How many do, and whether the origin's own block still does, is in the
//! books of the origin's chunk, with the key and the policy that open it when the origin is gone. Whoever makes a block let go
//! of what it holds asks the books first, and the last one makes garbage (decision 12). Repairs, scrub, garbage and the cache name
//! a version by its origin.
//!
//! # Equal content
//!
//! Of files whose policy is `caont-rs`, blocks with the same content are stored once: write-back looks up where a content is
//! stored, and the commit makes the block a share of that version if some block holds it, as a clone would (decision 23). The rows
//! of contents say where to look, and nothing more; what is alive is what block maps and books of shares say.
//!
//! # Migration
//!
//! A file can be moved to another policy (decision 28). Its row gets that policy at once, and what is stored from then on follows it; entries of the
//! block map name their policy where it is not the *base* of the file. What was stored before is stored once more by write-back, block by
//! block; a row for each file says that it is on its way. When no block of the old policy is left, the new one becomes the base.
//!
//! # Quarantine
//!
//! What a scanner for malware has found in a file (crate `scan`, decision 30) is a row beside it. The content of a file in quarantine is for nobody to read or
//! change ([`quarantined`](file_system::Attributes::quarantined)); it keeps its names, and can be removed. What is dirty of it stays in the journal.
//!
//! # Packs
//!
//! Small blocks of many files are stored together, in packs (decision 25). A row under what a version was sealed as says in which one
//! it lies and where; entries of block maps do not know. A pack is a version without a file in the books of shares, held by what lies in it, and by its
//! note while blocks of it are being committed. What becomes garbage of a pack lets go of it when it is due; the last one makes the pack garbage.
//!
//! # Formats
//!
//! All rows of the metadata store. Keys are the table's byte, then the fields in big-endian order, so that byte
//! order is their order; *slot* (4 bytes) stands for a volume, *object* is creator 2 and number 16. Values begin with
//! a format byte, 2 in block maps, garbage, places in packs and inodes with an access control list, 3 in block maps with shared blocks, 4 in those with blocks that name their policy, 2 in shares of several policies and in attempts, and 1 elsewhere; numbers in them are variable-length (7 bits a byte, least significant first), signed ones
//! zigzag, times seconds (signed) and nanoseconds, texts preceded by their length.
//!
//! | table | key | value |
//! |---|---|---|
//! | `01` store | | schema (6), gateway |
//! | `02` object counter | | 16 bytes, no format: the next object number that is not reserved (`K10`) |
//! | `03` volume | slot | id 16, name, root object 18, tier 1 (0 memory, 1 local, 3 cloud), policy of new files, accessor set, key epoch, created, deleted 1 |
//! | `04` slot counter | | 4 bytes, no format: the next slot |
//! | `05` policy | slot, number 4 | scheme 3 (crate `disperse`), block shift 1, suite 1, padding (text), clouds: count, numbers (`K33`) |
//! | `06` epoch key | slot, accessor set 4, epoch 4, gateway 2 | 82 bytes, no format: the epoch key wrapped to the gateway (crate `seal`) |
//! | `07` usage | slot | exact 1, objects, bytes (signed); counted anew at start unless exact |
//! | `08` orphan | slot, object | held 1: the object has no name and waits to be taken apart |
//! | `09` garbage | slot, due 8 (ms since 1970), object, block 8, version 8 | object 18, policy, file key (as `10 .. 02`), then for each block version: block minus the block before (signed), version, `creator << 1 \| other`; with *other* a seal id of 8 bytes, without it that of the version before |
//! | `0A` repair | slot, object, block 8, version 8 | bit mask of the fragments that are not stored |
//! | `0B` shares | slot, object, chunk 8 | policy, file key (as `10 .. 02`), then runs of versions that blocks have taken over from this chunk: index less the end of the run before (signed), `length - 1`, version less the one before (signed), creator, seal id (as in block maps), own 1, clones; in format 2 the policy of the run follows |
//! | `0C` attempts | slot, object, block 8 | creator, seal id 8, version, how many more: numbers that write-backs of one start got and that are not settled; at most 1,024; then their policy, which rows of format 1 do not have |
//! | `0D` content | slot, policy 4, content id 24 (crate `seal`) | object 18, block, version, creator, seal id 8: a version with this content |
//! | `0E` content of | slot, object, block 8, version 8 | policy, content id 24 |
//! | `0F` policy of a directory | slot, object | policy: of files that are made in it and below it |
//! | `18` sealing | slot, seal id 8 | 4 bytes, no format: the key epoch of what was sealed under this id, if it is not 1 |
//! | `19` kept content key | slot, accessor set 4, epoch 4 | no format: epoch 4 of the key that it is wrapped under, wrapped content key 73 (crate `seal`): of an epoch whose own key is destroyed |
//! | `1A` migration | slot, directory | what is to be moved 1 (1 all, 2 what differs by its clouds alone), how often that was asked for 8: its files are to be found that have another policy than they would get there |
//! | `1B` migrating | slot, object | round, bytes used when it was sent: a file that may be stored by several policies |
//! | `1C` moved | slot, object, block 8, version 8, policy 4 | as `0D`: what a version that several blocks hold was stored as by another policy |
//! | `1D` spread | slot, policy 4 | policies, one of which a file gets that would get this one |
//! | `10` object | slot, object, then: | |
//! | | `01` inode | kind 1, mode, links, uid, gid, size, change, accessed, modified, changed, created, extended attributes; files: bytes used, policy, block shift 1, flags 1 (1 verifier, 2 base), \[exclusive verifier 8\], \[policy of entries that name none: base\]; directories: parent 18, next cookie, entries; others: major, minor. In format 2 the access control list follows |
//! | | `02` key | accessor set, epoch, wrapped file key 73 (crate `seal`): of the epoch that it is wrapped in, which changes with a rotation (`K17`) |
//! | | `03` target | of a symbolic link |
//! | | `04` cut | never stored |
//! | | `10` name | of an entry: object 18, cookie |
//! | | `11` cookie 8 | of an entry: object 18, name |
//! | | `20` name | of an extended attribute: its value |
//! | | `30` chunk 8 | the block map of 1,024 blocks |
//! | `11` note of a pack | slot, file of packs 18, number of the pack 8 | policy, file key (as `10 .. 02`), creator, seal id 8, in use 1: a pack whose blocks are not all committed |
//! | `12` packed | slot, object, block 8, version 8 | file of packs 18, number of the pack, bytes of the pack, offset, length, name of the block 32 (crate `seal`), in format 2 creator and seal id 8: where a version lies that has no fragments of its own |
//! | `13` pack in use | slot, file of packs 18, number of the pack 8 | bytes of the pack, bytes of the blocks that lie in it |
//! | `14` scan | slot, object | state 1 (0 unscanned, 1 reported, 2 quarantined, 3 released), change attribute, time, what was found: a file in which a scan found something, or which could not be scanned |
//!
//! **Packs** have no file: a pack is a version 1 in the books of shares (`0B`), held by the versions that lie in it and by its note.
//!
//! **Access control list**: its flags 1, the number of entries (up to 1,024), and for each entry whom it is about 1 (1 owner,
//! 2 group, 3 everyone, 4 user, 5 group of a number; plus 128 if it denies), its flags 1 and rights with the values of
//! RFC 8881 §6.2.1, and for 4 and 5 the number. The mode beside it is the one that follows from it.
//!
//! **Block map chunk**: a sequence of runs. A run is `(length - 1) << 1 | literal`; `length` entries follow if it is
//! literal, one that repeats otherwise. An entry is `zigzag(version - version before) << 3 | wide << 2 | hole << 1 |
//! extra`; with *wide* the bits of the step above the 61st follow, with *extra* the creator, the seal id and the
//! number of burnt versions; without it the first two are those of the entry before and nothing is burnt. A seal id
//! is 0 and 8 bytes where it first appears in the chunk, and the number of that appearance, from 1, where it comes
//! again. Before the first entry all are zero. Blocks behind the last run were never stored (`K12`, `K13`, `K14`).
//! In format 3 the length of all that comes first, and runs of shared blocks follow: blocks passed over, `length - 1`, the
//! origin's object (0 and 18 bytes, or the number of its appearance), the steps of its distance and of its version (signed).
//! In format 4 the length of the runs of shared blocks comes before these, and runs of blocks that name their policy follow: blocks passed
//! over, `length - 1`, the policy.

#![deny(missing_docs)]

mod attempts;
mod byte_ranges;
mod check;
mod contents;
mod directories;
mod epochs;
mod error;
mod garbage;
mod keys;
mod loaded;
mod maintained;
mod migration;
mod node;
mod orphans;
mod pack_reads;
mod pack_uses;
mod packs;
mod references;
mod rekey;
mod repair;
mod row;
mod scan_marks;
mod settled;
mod shares;
mod shred;
mod spread;
mod stored_blocks;
mod stored_end;
#[cfg(test)]
mod tests;
mod transaction;
mod unsaved;
mod usage;
mod volume;
mod volumes;
mod warm;
mod why;
mod write_back;

pub use check::Finding;
pub use error::VolumeError;
pub use keys::is_attempt;
pub use loaded::after_load;
pub use migration::Migrating;
pub use rekey::KeyProgress;
pub use row::{BadRow, Policy, ScanMark, ScanState, Tier};
pub use scan_marks::{Marked, ScanTarget};
pub use settled::Settled;
pub use shred::Shredding;
pub use spread::{Shift, Spread};
pub use stored_end::StoredEnd;
pub use volume::Volume;
pub use volumes::{NewVolume, Volumes, VolumesOptions};
pub use warm::Warmed;
pub use why::{BlockReport, FileReport, PackReport};
