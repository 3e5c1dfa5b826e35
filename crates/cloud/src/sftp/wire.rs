//! Packets of version 3 of the protocol (draft-ietf-secsh-filexfer-02), as far as they are used.

use bytes::{Buf, Bytes};

/// The longest packet that is taken from a server; nothing that is asked for needs one as long.
pub(super) const MAX_PACKET: u32 = 256 << 10;

/// Bytes of one read or write, which every server grants.
pub(super) const CHUNK: u32 = 32 << 10;

const INIT: u8 = 1;
const VERSION: u8 = 2;
const EXTENDED: u8 = 200;

/// One question to the server; the first field of most is a path or a handle.
pub(super) enum Request<'a> {
    Open {
        path: &'a str,
        flags: u32,
    },
    Close(&'a Bytes),
    Read {
        handle: &'a Bytes,
        offset: u64,
        length: u32,
    },
    /// Followed by the data.
    Write {
        handle: &'a Bytes,
        offset: u64,
        length: u32,
    },
    Size(&'a Bytes),
    OpenDirectory(&'a str),
    ReadDirectory(&'a Bytes),
    Remove(&'a str),
    MakeDirectory(&'a str),
    Stat(&'a str),
    Sync(&'a Bytes),
    Link {
        from: &'a str,
        to: &'a str,
    },
    Rename {
        from: &'a str,
        to: &'a str,
    },
}

pub(super) const READ: u32 = 0x01;
/// For writing, made anew, which fails when it exists.
pub(super) const WRITE_NEW: u32 = 0x02 | 0x08 | 0x20;

/// An answer.
#[derive(Debug)]
pub(super) enum Reply {
    Status(Status),
    Handle(Bytes),
    Data(Bytes),
    Names(Vec<(String, Attributes)>),
    Attributes(Attributes),
}

#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub code: u32,
    pub message: String,
}

pub(super) const OK: u32 = 0;
pub(super) const END: u32 = 1;
pub(super) const NO_SUCH_FILE: u32 = 2;
pub(super) const PERMISSION_DENIED: u32 = 3;
pub(super) const FAILURE: u32 = 4;
pub(super) const UNSUPPORTED: u32 = 8;

/// What is known of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    pub size: Option<u64>,
    pub mode: Option<u32>,
    /// Seconds since 1970.
    pub modified: Option<u32>,
}

impl Attributes {
    pub fn is_directory(&self) -> bool {
        self.mode.is_some_and(|mode| mode & 0o170_000 == 0o040_000)
    }

    pub fn is_file(&self) -> bool {
        self.mode.is_none_or(|mode| mode & 0o170_000 == 0o100_000)
    }
}

fn put_bytes(packet: &mut Vec<u8>, bytes: &[u8]) {
    packet.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    packet.extend_from_slice(bytes);
}

/// The packet that begins a session.
pub(super) fn hello() -> Vec<u8> {
    vec![0, 0, 0, 5, INIT, 0, 0, 0, 3]
}

impl Request<'_> {
    /// The packet with its length, without the data of a write.
    pub fn encode(&self, id: u32) -> Vec<u8> {
        let mut packet = vec![0; 4];
        packet.push(self.kind());
        packet.extend_from_slice(&id.to_be_bytes());
        let number = |packet: &mut Vec<u8>, number: u32| packet.extend_from_slice(&number.to_be_bytes());
        let mut following = 0;
        match self {
            Request::Open { path, flags } => {
                put_bytes(&mut packet, path.as_bytes());
                number(&mut packet, *flags);
                // Attributes: only the permissions, for the owner alone.
                number(&mut packet, 0x04);
                number(&mut packet, 0o600);
            }
            Request::Close(handle) | Request::Size(handle) | Request::ReadDirectory(handle) => {
                put_bytes(&mut packet, handle);
            }
            Request::Read { handle, offset, length } | Request::Write { handle, offset, length } => {
                put_bytes(&mut packet, handle);
                packet.extend_from_slice(&offset.to_be_bytes());
                number(&mut packet, *length);
                if matches!(self, Request::Write { .. }) {
                    following = *length;
                }
            }
            Request::OpenDirectory(path) | Request::Remove(path) | Request::Stat(path) => {
                put_bytes(&mut packet, path.as_bytes());
            }
            Request::MakeDirectory(path) => {
                put_bytes(&mut packet, path.as_bytes());
                number(&mut packet, 0x04);
                number(&mut packet, 0o700);
            }
            Request::Sync(handle) => {
                put_bytes(&mut packet, b"fsync@openssh.com");
                put_bytes(&mut packet, handle);
            }
            Request::Link { from, to } => {
                put_bytes(&mut packet, b"hardlink@openssh.com");
                put_bytes(&mut packet, from.as_bytes());
                put_bytes(&mut packet, to.as_bytes());
            }
            Request::Rename { from, to } => {
                put_bytes(&mut packet, b"posix-rename@openssh.com");
                put_bytes(&mut packet, from.as_bytes());
                put_bytes(&mut packet, to.as_bytes());
            }
        }
        let length = packet.len() as u32 - 4 + following;
        packet[..4].copy_from_slice(&length.to_be_bytes());
        packet
    }

    fn kind(&self) -> u8 {
        match self {
            Request::Open { .. } => 3,
            Request::Close(_) => 4,
            Request::Read { .. } => 5,
            Request::Write { .. } => 6,
            Request::Size(_) => 8,
            Request::OpenDirectory(_) => 11,
            Request::ReadDirectory(_) => 12,
            Request::Remove(_) => 13,
            Request::MakeDirectory(_) => 14,
            Request::Stat(_) => 17,
            Request::Sync(_) | Request::Link { .. } | Request::Rename { .. } => EXTENDED,
        }
    }
}

/// What is left of a packet; everything about it may be wrong.
struct Fields(Bytes);

impl Fields {
    fn byte(&mut self) -> Option<u8> {
        self.0.try_get_u8().ok()
    }

    fn number(&mut self) -> Option<u32> {
        self.0.try_get_u32().ok()
    }

    fn bytes(&mut self) -> Option<Bytes> {
        let length = self.number()? as usize;
        (length <= self.0.len()).then(|| self.0.split_to(length))
    }

    fn text(&mut self) -> Option<String> {
        self.bytes().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn attributes(&mut self) -> Option<Attributes> {
        let flags = self.number()?;
        let mut attributes = Attributes::default();
        if flags & 0x01 != 0 {
            attributes.size = Some(self.0.try_get_u64().ok()?);
        }
        if flags & 0x02 != 0 {
            self.0.try_get_u64().ok()?; // user and group
        }
        if flags & 0x04 != 0 {
            attributes.mode = Some(self.number()?);
        }
        if flags & 0x08 != 0 {
            self.number()?;
            attributes.modified = Some(self.number()?);
        }
        if flags & 0x8000_0000 != 0 {
            for _ in 0..self.number()? {
                self.bytes()?;
                self.bytes()?;
            }
        }
        Some(attributes)
    }
}

/// The extensions in the first packet of a server, which is given without its length; `None` if it is something else.
pub(super) fn extensions(packet: Bytes) -> Option<Vec<String>> {
    let mut fields = Fields(packet);
    if fields.byte()? != VERSION || fields.number()? < 3 {
        return None;
    }
    let mut extensions = Vec::new();
    while !fields.0.is_empty() {
        extensions.push(fields.text()?);
        fields.bytes()?;
    }
    Some(extensions)
}

/// The number of the request and the answer to it in a packet, which is given without its length.
pub(super) fn reply(packet: Bytes) -> Option<(u32, Reply)> {
    let mut fields = Fields(packet);
    let kind = fields.byte()?;
    let id = fields.number()?;
    let reply = match kind {
        101 => {
            let code = fields.number()?;
            // Old servers send no message.
            Reply::Status(Status { code, message: fields.text().unwrap_or_default() })
        }
        102 => Reply::Handle(fields.bytes()?),
        103 => Reply::Data(fields.bytes()?),
        104 => {
            let mut names = Vec::new();
            for _ in 0..fields.number()? {
                let name = fields.text()?;
                fields.bytes()?; // the line of a listing, for people
                names.push((name, fields.attributes()?));
            }
            Reply::Names(names)
        }
        105 => Reply::Attributes(fields.attributes()?),
        _ => return None,
    };
    Some((id, reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_tell_their_length_with_the_data_that_follows() {
        let handle = Bytes::from_static(b"h");
        let packet = Request::Write { handle: &handle, offset: 7, length: 100 }.encode(9);
        assert_eq!(packet[..4], (packet.len() as u32 - 4 + 100).to_be_bytes());
        let packet = Request::Stat("/a").encode(9);
        assert_eq!(packet, [0, 0, 0, 11, 17, 0, 0, 0, 9, 0, 0, 0, 2, b'/', b'a']);
    }

    #[test]
    fn truncated_and_lying_packets_are_no_replies() {
        let names =
            [&[104, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, b'a', 0, 0, 0, 0, 0, 0, 0, 1][..], &[0; 8]].concat();
        let Some((1, Reply::Names(found))) = reply(names.clone().into()) else { panic!("no names") };
        assert_eq!(found, [("a".to_owned(), Attributes { size: Some(0), ..Attributes::default() })]);
        for cut in 0..names.len() {
            assert!(reply(names[..cut].to_vec().into()).is_none(), "{cut}");
        }
        for wrong in
            [&[104, 0, 0, 0, 1, 255, 255, 255, 255][..], &[103, 0, 0, 0, 1, 255, 255, 255, 255], &[7; 9]]
        {
            assert!(reply(wrong.to_vec().into()).is_none());
        }
        assert!(extensions(vec![2, 0, 0, 0, 3, 0, 0, 0, 9].into()).is_none());
        assert_eq!(extensions(vec![2, 0, 0, 0, 3].into()), Some(vec![]));
    }
}
