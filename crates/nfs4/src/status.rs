//! Status codes.

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

macro_rules! status_codes {
    ($($name:ident = $code:literal, $rfc:literal, $text:literal;)*) => {
        /// How an operation or a compound ended (`nfsstat4`; RFC 8881 §15.1, RFC 7862 §11, RFC 8276 §8.2).
        ///
        /// Codes without a name, from a peer that knows more than this crate, are kept as `Other`; [`from_code`]
        /// never makes an `Other` of a code that has a name.
        ///
        /// [`from_code`]: NfsStatus::from_code
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum NfsStatus {
            $(#[doc = concat!("`", $rfc, "` (", $code, "): ", $text, ".")] $name,)*
            /// A code this crate has no name for.
            Other(u32),
        }

        impl NfsStatus {
            /// Every status that has a name.
            pub const ALL: &[NfsStatus] = &[$(NfsStatus::$name,)*];

            /// The number on the wire.
            pub const fn code(self) -> u32 {
                match self {
                    $(NfsStatus::$name => $code,)*
                    NfsStatus::Other(code) => code,
                }
            }

            /// The status with this number on the wire.
            pub const fn from_code(code: u32) -> NfsStatus {
                match code {
                    $($code => NfsStatus::$name,)*
                    code => NfsStatus::Other(code),
                }
            }

            /// The name in the RFC, or `"NFS4ERR_?"` for a code without one.
            pub const fn name(self) -> &'static str {
                match self {
                    $(NfsStatus::$name => $rfc,)*
                    NfsStatus::Other(_) => "NFS4ERR_?",
                }
            }

            /// What it means, in a few words.
            const fn text(self) -> &'static str {
                match self {
                    $(NfsStatus::$name => $text,)*
                    NfsStatus::Other(_) => "status unknown here",
                }
            }
        }
    };
}

status_codes! {
    Ok = 0, "NFS4_OK", "success";
    Perm = 1, "NFS4ERR_PERM", "not owner";
    NoEnt = 2, "NFS4ERR_NOENT", "no such file or directory";
    Io = 5, "NFS4ERR_IO", "input/output error";
    Nxio = 6, "NFS4ERR_NXIO", "no such device";
    Access = 13, "NFS4ERR_ACCESS", "access denied";
    Exist = 17, "NFS4ERR_EXIST", "exists already";
    Xdev = 18, "NFS4ERR_XDEV", "different file systems";
    NotDir = 20, "NFS4ERR_NOTDIR", "not a directory";
    IsDir = 21, "NFS4ERR_ISDIR", "is a directory";
    Inval = 22, "NFS4ERR_INVAL", "invalid argument";
    Fbig = 27, "NFS4ERR_FBIG", "file too large";
    NoSpc = 28, "NFS4ERR_NOSPC", "no space";
    Rofs = 30, "NFS4ERR_ROFS", "read-only file system";
    Mlink = 31, "NFS4ERR_MLINK", "too many hard links";
    NameTooLong = 63, "NFS4ERR_NAMETOOLONG", "name too long";
    NotEmpty = 66, "NFS4ERR_NOTEMPTY", "directory not empty";
    Dquot = 69, "NFS4ERR_DQUOT", "quota exceeded";
    Stale = 70, "NFS4ERR_STALE", "stale filehandle";
    BadHandle = 10001, "NFS4ERR_BADHANDLE", "filehandle that this server never made";
    BadCookie = 10003, "NFS4ERR_BAD_COOKIE", "stale READDIR cookie";
    NotSupp = 10004, "NFS4ERR_NOTSUPP", "operation not supported";
    TooSmall = 10005, "NFS4ERR_TOOSMALL", "the client's limit is too small for the reply";
    ServerFault = 10006, "NFS4ERR_SERVERFAULT", "error inside the server";
    BadType = 10007, "NFS4ERR_BADTYPE", "unknown type of object";
    Delay = 10008, "NFS4ERR_DELAY", "try again later";
    Same = 10009, "NFS4ERR_SAME", "NVERIFY found the attributes equal";
    Denied = 10010, "NFS4ERR_DENIED", "a lock is held by somebody else";
    Expired = 10011, "NFS4ERR_EXPIRED", "lease expired";
    Locked = 10012, "NFS4ERR_LOCKED", "I/O conflicts with a mandatory lock";
    Grace = 10013, "NFS4ERR_GRACE", "the server is in its grace period";
    FhExpired = 10014, "NFS4ERR_FHEXPIRED", "filehandle expired";
    ShareDenied = 10015, "NFS4ERR_SHARE_DENIED", "share reservation of somebody else";
    WrongSec = 10016, "NFS4ERR_WRONGSEC", "wrong security flavor";
    ClidInUse = 10017, "NFS4ERR_CLID_INUSE", "client id in use by another principal";
    Resource = 10018, "NFS4ERR_RESOURCE", "out of resources (4.0 only)";
    Moved = 10019, "NFS4ERR_MOVED", "file system moved away";
    NoFileHandle = 10020, "NFS4ERR_NOFILEHANDLE", "no current filehandle";
    MinorVersMismatch = 10021, "NFS4ERR_MINOR_VERS_MISMATCH", "minor version not supported";
    StaleClientId = 10022, "NFS4ERR_STALE_CLIENTID", "client id of an earlier server instance";
    StaleStateId = 10023, "NFS4ERR_STALE_STATEID", "state id of an earlier server instance";
    OldStateId = 10024, "NFS4ERR_OLD_STATEID", "state id with an old seqid";
    BadStateId = 10025, "NFS4ERR_BAD_STATEID", "state id unknown";
    BadSeqId = 10026, "NFS4ERR_BAD_SEQID", "open- or lock-owner seqid out of order (4.0 only)";
    NotSame = 10027, "NFS4ERR_NOT_SAME", "VERIFY found a difference, or a cookie verifier changed";
    LockRange = 10028, "NFS4ERR_LOCK_RANGE", "lock range cannot be split or joined";
    Symlink = 10029, "NFS4ERR_SYMLINK", "is a symbolic link";
    RestoreFh = 10030, "NFS4ERR_RESTOREFH", "no saved filehandle (4.0 only)";
    LeaseMoved = 10031, "NFS4ERR_LEASE_MOVED", "lease moved (4.0 only)";
    AttrNotSupp = 10032, "NFS4ERR_ATTRNOTSUPP", "attribute not supported";
    NoGrace = 10033, "NFS4ERR_NO_GRACE", "reclaim outside of the grace period";
    ReclaimBad = 10034, "NFS4ERR_RECLAIM_BAD", "reclaim of something the client did not hold";
    ReclaimConflict = 10035, "NFS4ERR_RECLAIM_CONFLICT", "reclaim conflicts with a lock granted since";
    BadXdr = 10036, "NFS4ERR_BADXDR", "arguments could not be decoded";
    LocksHeld = 10037, "NFS4ERR_LOCKS_HELD", "byte-range locks are still held";
    OpenMode = 10038, "NFS4ERR_OPENMODE", "not opened for this kind of I/O";
    BadOwner = 10039, "NFS4ERR_BADOWNER", "owner string could not be translated";
    BadChar = 10040, "NFS4ERR_BADCHAR", "character not allowed in a name";
    BadName = 10041, "NFS4ERR_BADNAME", "name not allowed";
    BadRange = 10042, "NFS4ERR_BAD_RANGE", "lock range not supported";
    LockNotSupp = 10043, "NFS4ERR_LOCK_NOTSUPP", "lock cannot be upgraded or downgraded atomically";
    OpIllegal = 10044, "NFS4ERR_OP_ILLEGAL", "no such operation";
    Deadlock = 10045, "NFS4ERR_DEADLOCK", "lock would deadlock";
    FileOpen = 10046, "NFS4ERR_FILE_OPEN", "file is open";
    AdminRevoked = 10047, "NFS4ERR_ADMIN_REVOKED", "state revoked by the administrator";
    CbPathDown = 10048, "NFS4ERR_CB_PATH_DOWN", "no working back channel";
    BadIoMode = 10049, "NFS4ERR_BADIOMODE", "layout I/O mode invalid";
    BadLayout = 10050, "NFS4ERR_BADLAYOUT", "layout invalid";
    BadSessionDigest = 10051, "NFS4ERR_BAD_SESSION_DIGEST", "SET_SSV digest wrong";
    BadSession = 10052, "NFS4ERR_BADSESSION", "session unknown";
    BadSlot = 10053, "NFS4ERR_BADSLOT", "slot out of range";
    CompleteAlready = 10054, "NFS4ERR_COMPLETE_ALREADY", "RECLAIM_COMPLETE was sent before";
    ConnNotBoundToSession = 10055, "NFS4ERR_CONN_NOT_BOUND_TO_SESSION", "connection not bound to the session";
    DelegAlreadyWanted = 10056, "NFS4ERR_DELEG_ALREADY_WANTED", "WANT_DELEGATION was sent before";
    BackChanBusy = 10057, "NFS4ERR_BACK_CHAN_BUSY", "back channel has requests outstanding";
    LayoutTryLater = 10058, "NFS4ERR_LAYOUTTRYLATER", "layout not available now";
    LayoutUnavailable = 10059, "NFS4ERR_LAYOUTUNAVAILABLE", "no layouts for this file";
    NoMatchingLayout = 10060, "NFS4ERR_NOMATCHING_LAYOUT", "client holds no such layout";
    RecallConflict = 10061, "NFS4ERR_RECALLCONFLICT", "layout is being recalled";
    UnknownLayoutType = 10062, "NFS4ERR_UNKNOWN_LAYOUTTYPE", "layout type unknown";
    SeqMisordered = 10063, "NFS4ERR_SEQ_MISORDERED", "unexpected sequence id";
    SequencePos = 10064, "NFS4ERR_SEQUENCE_POS", "SEQUENCE is not the first operation";
    ReqTooBig = 10065, "NFS4ERR_REQ_TOO_BIG", "request larger than negotiated";
    RepTooBig = 10066, "NFS4ERR_REP_TOO_BIG", "reply larger than negotiated";
    RepTooBigToCache = 10067, "NFS4ERR_REP_TOO_BIG_TO_CACHE", "reply larger than the reply cache takes";
    RetryUncachedRep = 10068, "NFS4ERR_RETRY_UNCACHED_REP", "retry of a request whose reply was not cached";
    UnsafeCompound = 10069, "NFS4ERR_UNSAFE_COMPOUND", "combination of operations not allowed";
    TooManyOps = 10070, "NFS4ERR_TOO_MANY_OPS", "more operations than negotiated";
    OpNotInSession = 10071, "NFS4ERR_OP_NOT_IN_SESSION", "operation needs SEQUENCE first";
    HashAlgUnsupp = 10072, "NFS4ERR_HASH_ALG_UNSUPP", "hash algorithm not supported";
    ClientIdBusy = 10074, "NFS4ERR_CLIENTID_BUSY", "client id still has state";
    PnfsIoHole = 10075, "NFS4ERR_PNFS_IO_HOLE", "I/O to a hole of a sparse layout";
    SeqFalseRetry = 10076, "NFS4ERR_SEQ_FALSE_RETRY", "retry differs from the original request";
    BadHighSlot = 10077, "NFS4ERR_BAD_HIGH_SLOT", "highest slot id invalid";
    DeadSession = 10078, "NFS4ERR_DEADSESSION", "session is dead";
    EncrAlgUnsupp = 10079, "NFS4ERR_ENCR_ALG_UNSUPP", "encryption algorithm not supported";
    PnfsNoLayout = 10080, "NFS4ERR_PNFS_NO_LAYOUT", "I/O without a layout";
    NotOnlyOp = 10081, "NFS4ERR_NOT_ONLY_OP", "operation must be alone in its compound";
    WrongCred = 10082, "NFS4ERR_WRONG_CRED", "wrong credential for this state";
    WrongType = 10083, "NFS4ERR_WRONG_TYPE", "operation on the wrong type of object";
    DirDelegUnavail = 10084, "NFS4ERR_DIRDELEG_UNAVAIL", "no directory delegation available";
    RejectDeleg = 10085, "NFS4ERR_REJECT_DELEG", "client rejects the delegation";
    ReturnConflict = 10086, "NFS4ERR_RETURNCONFLICT", "layout is being returned";
    DelegRevoked = 10087, "NFS4ERR_DELEG_REVOKED", "delegation or layout revoked";
    PartnerNotSupp = 10088, "NFS4ERR_PARTNER_NOTSUPP", "server-to-server copy not supported";
    PartnerNoAuth = 10089, "NFS4ERR_PARTNER_NO_AUTH", "server-to-server copy not authorized";
    UnionNotSupp = 10090, "NFS4ERR_UNION_NOTSUPP", "arm of a union not supported";
    OffloadDenied = 10091, "NFS4ERR_OFFLOAD_DENIED", "destination does not allow the copy";
    WrongLfs = 10092, "NFS4ERR_WRONG_LFS", "security label format not supported";
    BadLabel = 10093, "NFS4ERR_BADLABEL", "security label invalid";
    OffloadNoReqs = 10094, "NFS4ERR_OFFLOAD_NO_REQS", "copy requirements cannot be met";
    NoXattr = 10095, "NFS4ERR_NOXATTR", "no such extended attribute";
    Xattr2Big = 10096, "NFS4ERR_XATTR2BIG", "extended attribute too big";
}

impl NfsStatus {
    /// Whether this is `NFS4_OK`.
    pub const fn is_ok(self) -> bool {
        matches!(self, NfsStatus::Ok)
    }

    /// `Ok(())` for `NFS4_OK`, otherwise the status as an error.
    pub const fn into_result(self) -> Result<(), NfsStatus> {
        match self {
            NfsStatus::Ok => Ok(()),
            error => Err(error),
        }
    }
}

impl std::fmt::Display for NfsStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}): {}", self.name(), self.code(), self.text())
    }
}

impl std::error::Error for NfsStatus {}

impl Encode for NfsStatus {
    fn encode(&self, out: &mut Encoder) {
        out.put_u32(self.code());
    }
}

impl Decode for NfsStatus {
    fn decode(input: &mut Decoder) -> Result<NfsStatus, DecodeError> {
        Ok(NfsStatus::from_code(input.u32()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_one_to_one() {
        for status in NfsStatus::ALL {
            assert_eq!(NfsStatus::from_code(status.code()), *status);
        }
        assert_eq!(NfsStatus::from_code(10073), NfsStatus::Other(10073));
        assert!(NfsStatus::ALL.windows(2).all(|pair| pair[0].code() < pair[1].code()));
    }

    #[test]
    fn an_unknown_code_survives_the_wire() {
        let wire = xdr::to_bytes(&NfsStatus::from_code(99_999));
        assert_eq!(xdr::from_bytes::<NfsStatus>(wire).unwrap().code(), 99_999);
    }
}
