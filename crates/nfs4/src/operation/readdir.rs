//! READDIR (RFC 8881 §18.23).

use xdr::{Decode, Encode, Encoder, Mark};

use crate::{AttributeValues, Bitmap, Component, Fattr, NfsStatus, OpCode, Outcome, Verifier};

/// Arguments of READDIR (`READDIR4args`), in the current filehandle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ReadDirArgs {
    /// Where to go on; 0 for the start. 1 and 2 are never returned.
    pub cookie: u64,
    /// The verifier that came with the cookie; zero for the start.
    pub cookie_verifier: Verifier,
    /// Most bytes of names and cookies; a hint.
    pub dir_count: u32,
    /// Most bytes of the result, from its verifier to `eof` ([`ReadDirOk`]).
    pub max_count: u32,
    /// Attributes wanted of each entry.
    pub request: Bitmap,
}

/// One entry of a directory (`entry4`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct DirEntry {
    /// Where to go on after it.
    pub cookie: u64,
    /// Its name.
    pub name: Component,
    /// Its attributes.
    pub attributes: Fattr,
}

/// What READDIR returns (`READDIR4resok`).
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ReadDirOk {
    /// Changes when cookies lose their meaning.
    pub cookie_verifier: Verifier,
    /// The entries.
    #[xdr(list)]
    pub entries: Vec<DirEntry>,
    /// Whether the directory ends here.
    pub eof: bool,
}

/// Result of READDIR (`READDIR4res`).
pub type ReadDirRes = Outcome<ReadDirOk>;

/// Writes a successful READDIR result entry by entry, straight into a reply, up to a limit: the server's way to make
/// what [`ReadDirRes`] decodes. Nothing is allocated per entry.
#[derive(Debug)]
pub struct ReadDirWriter<'a> {
    out: &'a mut Encoder,
    start: Mark,
    /// Length of `out` that must not be passed, the end of the list not counted.
    end: usize,
    entries: usize,
}

/// End of the list and `eof`.
const TAIL: usize = 8;

impl<'a> ReadDirWriter<'a> {
    /// Starts the whole operation result: operation number, status, verifier. `limit` is the most bytes the
    /// `READDIR4resok` may have, the smaller of `max_count` and what is left of the reply. `None`, with nothing
    /// written, if not even an empty list fits: `NFS4ERR_TOOSMALL`.
    pub fn begin(out: &'a mut Encoder, cookie_verifier: Verifier, limit: usize) -> Option<ReadDirWriter<'a>> {
        let verifier_size = cookie_verifier.0.len();
        let rest = limit.checked_sub(verifier_size + TAIL)?;
        let start = out.mark();
        OpCode::ReadDir.encode(out);
        NfsStatus::Ok.encode(out);
        cookie_verifier.encode(out);
        let end = out.len() + rest;
        Some(ReadDirWriter { out, start, end, entries: 0 })
    }

    /// Adds an entry with those attributes that `mask` selects. `false`, and nothing written, if it does not fit.
    pub fn push(&mut self, cookie: u64, name: &[u8], attributes: &AttributeValues, mask: Bitmap) -> bool {
        let before = self.out.mark();
        self.out.put_bool(true);
        self.out.put_u64(cookie);
        self.out.put_opaque_slice(name);
        attributes.encode_selected(mask, self.out);
        if self.out.len() > self.end {
            self.out.truncate(before);
            return false;
        }
        self.entries += 1;
        true
    }

    /// Entries so far. If there is none and not the end either, [`abandon`](Self::abandon): `NFS4ERR_TOOSMALL`.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Ends the list.
    pub fn finish(self, eof: bool) {
        self.out.put_bool(false);
        self.out.put_bool(eof);
    }

    /// Forgets everything, the operation number included.
    pub fn abandon(self) {
        self.out.truncate(self.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NfsResOp;

    fn attributes(fileid: u64) -> AttributeValues {
        AttributeValues { fileid: Some(fileid), size: Some(1), ..AttributeValues::default() }
    }

    fn expected(count: u64, eof: bool) -> NfsResOp {
        let mask = crate::Attribute::set(&[crate::Attribute::Fileid]);
        let entries = (0..count)
            .map(|n| DirEntry {
                cookie: n + 3,
                name: Component::from(format!("file{n}")),
                attributes: attributes(n).select(mask),
            })
            .collect();
        NfsResOp::ReadDir(Outcome::Ok(ReadDirOk { cookie_verifier: Verifier([7; 8]), entries, eof }))
    }

    #[test]
    fn written_entries_are_what_the_result_type_decodes_and_the_limit_is_kept_exactly() {
        let whole = xdr::to_bytes(&expected(3, false));
        let exact = whole.len() - 8; // without operation number and status
        for (limit, fitting) in [(exact, 3), (exact - 1, 2), (16, 0)] {
            let mut out = Encoder::new();
            let mut writer = ReadDirWriter::begin(&mut out, Verifier([7; 8]), limit).unwrap();
            let mask = crate::Attribute::set(&[crate::Attribute::Fileid]);
            let mut next = 0;
            while writer.push(next + 3, format!("file{next}").as_bytes(), &attributes(next), mask) {
                next += 1;
                if next == 3 {
                    break;
                }
            }
            assert_eq!(writer.entries() as u64, next);
            writer.finish(false);
            assert_eq!(next, fitting);
            assert_eq!(out.into_bytes(), xdr::to_bytes(&expected(fitting, false)));
        }
    }

    #[test]
    fn nothing_is_left_of_what_does_not_fit() {
        let mut out = Encoder::new();
        assert!(ReadDirWriter::begin(&mut out, Verifier([7; 8]), 15).is_none());
        ReadDirWriter::begin(&mut out, Verifier([7; 8]), 16).unwrap().abandon();
        assert_eq!(out.len(), 0);
    }
}
