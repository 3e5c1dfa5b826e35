//! The messages of a context (RFC 4121 §4.2).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use environment::Entropy;
use onc_rpc::gss::{GssError, SecurityContext};

use crate::encryption::{Broken, Key, SealingKey, SigningKey};

/// Bytes before the checksum or the encrypted message.
const HEADER: usize = 16;

const MIC: u16 = 0x0404;
const WRAP: u16 = 0x0504;

const FROM_ACCEPTOR: u8 = 1;
const SEALED: u8 = 2;
const ACCEPTORS_KEY: u8 = 4;

/// What keys are derived for (RFC 4121 §2).
mod usage {
    pub const ACCEPTOR_SEAL: u32 = 22;
    pub const ACCEPTOR_SIGN: u32 = 23;
    pub const INITIATOR_SEAL: u32 = 24;
    pub const INITIATOR_SIGN: u32 = 25;
}

pub(crate) struct Context {
    principal: String,
    expires: i64,
    /// In the headers of both sides: whether the key was made by the server.
    flags: u8,
    entropy: Arc<dyn Entropy>,
    sequence: AtomicU64,
    signing: SigningKey,
    verifying: SigningKey,
    sealing: SealingKey,
    opening: SealingKey,
}

/// Who a context is for and until when.
pub(crate) struct Holder {
    pub principal: String,
    pub expires: i64,
}

impl Context {
    /// A context with this key, which the server has made, or else the client or the KDC. `sequence` is the number of
    /// the first message to the client.
    pub fn new(
        holder: Holder,
        key: &Key,
        by_server: bool,
        sequence: u32,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Context, Broken> {
        Ok(Context {
            principal: holder.principal,
            expires: holder.expires,
            flags: if by_server { ACCEPTORS_KEY } else { 0 },
            entropy,
            sequence: AtomicU64::new(sequence.into()),
            signing: key.signing(usage::ACCEPTOR_SIGN)?,
            verifying: key.signing(usage::INITIATOR_SIGN)?,
            sealing: key.sealing(usage::ACCEPTOR_SEAL)?,
            opening: key.sealing(usage::INITIATOR_SEAL)?,
        })
    }

    /// The header of a message to the client. `rest` is all ones for a checksum, for an encrypted message all ones
    /// and two counts of nothing.
    fn header(&self, kind: u16, flags: u8, rest: [u8; 5]) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..2].copy_from_slice(&kind.to_be_bytes());
        header[2] = self.flags | FROM_ACCEPTOR | flags;
        header[3..8].copy_from_slice(&rest);
        let number = self.sequence.fetch_add(1, Ordering::Relaxed);
        header[8..].copy_from_slice(&number.to_be_bytes());
        header
    }

    /// Splits a message of the client. Its number is not looked at: RPCSEC_GSS has its own (RFC 2203 §5.2.2).
    fn split<'a>(&self, kind: u16, flags: u8, token: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), GssError> {
        let (header, rest) = token.split_at_checked(HEADER).ok_or_else(defective)?;
        let expected =
            header[..2] == kind.to_be_bytes() && header[2] == self.flags | flags && header[3] == 0xff;
        if expected { Ok((header, rest)) } else { Err(defective()) }
    }
}

impl SecurityContext for Context {
    fn principal(&self) -> &str {
        &self.principal
    }

    fn expires(&self) -> i64 {
        self.expires
    }

    fn mic(&self, message: &[&[u8]]) -> Result<Bytes, GssError> {
        let header = self.header(MIC, 0, [0xff; 5]);
        let mut pieces = message.to_vec();
        pieces.push(&header);
        let mut token = header.to_vec();
        token.extend(self.signing.sign(&pieces));
        Ok(token.into())
    }

    fn verify_mic(&self, message: &[&[u8]], mic: &[u8]) -> Result<(), GssError> {
        let (header, checksum) = self.split(MIC, 0, mic)?;
        let mut pieces = message.to_vec();
        pieces.push(header);
        self.verifying.verify(&pieces, checksum).map_err(|Broken| forged())
    }

    fn wrap(&self, message: &[&[u8]]) -> Result<Bytes, GssError> {
        let header = self.header(WRAP, SEALED, [0xff, 0, 0, 0, 0]);
        let mut random = [0; 16];
        self.entropy.fill(&mut random);
        let mut pieces = message.to_vec();
        pieces.push(&header);
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut token = Vec::with_capacity(HEADER + length + 2 * self.sealing.overhead());
        token.extend_from_slice(&header);
        self.sealing
            .seal(random, &pieces, &mut token)
            .map_err(|Broken| GssError::new(GssError::FAILURE, "encryption failed"))?;
        Ok(token.into())
    }

    fn unwrap(&self, token: Bytes) -> Result<Bytes, GssError> {
        let (header, sealed) = self.split(WRAP, SEALED, &token)?;
        let filler = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let rotated = usize::from(u16::from_be_bytes([header[6], header[7]]));
        if sealed.is_empty() {
            return Err(defective());
        }
        // The sender has moved so many bytes of the end to the front.
        let (moved, rest) = sealed.split_at(rotated % sealed.len());
        let mut message = Vec::with_capacity(sealed.len() + HEADER);
        message.extend_from_slice(rest);
        message.extend_from_slice(moved);
        self.opening.open(&mut message).map_err(|Broken| forged())?;
        // Behind the message: filler, and the header as it was before the rotation.
        let end = message.len().checked_sub(HEADER + filler).ok_or_else(defective)?;
        let mut inner = [0; HEADER];
        inner.copy_from_slice(&message[end + filler..]);
        let mut outer = [0; HEADER];
        outer.copy_from_slice(header);
        outer[6..8].fill(0);
        inner[6..8].fill(0);
        if inner != outer {
            return Err(forged());
        }
        message.truncate(end);
        Ok(message.into())
    }
}

fn defective() -> GssError {
    GssError::new(GssError::DEFECTIVE_TOKEN, "not a message of this context")
}

fn forged() -> GssError {
    GssError::new(GssError::BAD_MIC, "the message was changed on the way, or is by another key")
}
