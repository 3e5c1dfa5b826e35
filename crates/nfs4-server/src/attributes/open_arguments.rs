//! What OPEN takes here (RFC 9754 §3).

use nfs4::bits::{open_want, share_access, share_deny};
use nfs4::{Bitmap, OpenArguments};

/// The same everywhere.
pub(super) const OPEN_ARGUMENTS: OpenArguments = OpenArguments {
    share_access: Bitmap::of(&[share_access::READ, share_access::WRITE, share_access::BOTH]),
    share_deny: Bitmap::of(&[share_deny::NONE, share_deny::READ, share_deny::WRITE, share_deny::BOTH]),
    wants: Bitmap::of(&[
        open_want::ANY_DELEG,
        open_want::NO_DELEG,
        open_want::CANCEL,
        open_want::OPEN_XOR_DELEGATION,
    ]),
    // All but CLAIM_DELEGATE_PREV (3) and CLAIM_DELEG_PREV_FH (6).
    claims: Bitmap::of(&[0, 1, 2, 4, 5]),
    create_modes: Bitmap::of(&[0, 1, 2, 3]),
};
