//! What OPEN takes here (RFC 9754 §3).

use xdr::{Decode, Encode};

use crate::Bitmap;

/// Arguments of OPEN that a server understands (`open_arguments4`): sets of the numbers below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct OpenArguments {
    /// Values of `share_access`, without wishes: `READ` 1, `WRITE` 2, `BOTH` 3.
    pub share_access: Bitmap,
    /// Values of `share_deny`: `NONE` 0 to `BOTH` 3.
    pub share_deny: Bitmap,
    /// Wishes, of [`open_want`](crate::bits::open_want).
    pub wants: Bitmap,
    /// Discriminants of [`OpenClaim`](crate::OpenClaim).
    pub claims: Bitmap,
    /// Discriminants of [`CreateHow`](crate::CreateHow).
    pub create_modes: Bitmap,
}
