//! How to connect.

use std::ffi::c_char;
use std::time::Duration;

use onc_rpc::tls::TlsClient;
use onc_rpc::{AuthSys, Credential};
use xdr::{BoundedOpaque, BoundedVec};

use crate::outcome::Refusal;
use crate::pointer::{array, check, string, text};

/// Supplementary groups that a call can carry (RFC 5531 §14).
const GROUPS: usize = 16;

/// Most connections of a client.
const CONNECTIONS: u32 = 64;

/// Most slots of a session.
const SLOTS: u32 = 1024;

/// How to connect to a server. To be filled in by `kurma_options_init` first.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// sizeof(kurma_options), by which the library knows which of the fields the program knows.
    pub size: usize,
    /// Who makes the calls.
    pub uid: u32,
    /// His group.
    pub gid: u32,
    /// Further groups of his, or NULL; of more than 16 the first 16 are sent, as NFS has it.
    pub groups: *const u32,
    /// How many.
    pub group_count: usize,
    /// Connections that are used side by side; 0 for one.
    pub connections: u32,
    /// 1 or 2 for NFSv4.1 or 4.2 only; 0 for the best that the server has.
    pub minor_version: u32,
    /// Most bytes of data in one operation; 0 for 1 MiB.
    pub transfer: u32,
    /// 1: uses nothing that only Kurma has, that is neither transactions nor appending in one round trip.
    pub no_extensions: u32,
    /// Milliseconds after which a request without an answer is sent again on a new connection; 0 for 30,000.
    pub timeout: u32,
    /// Milliseconds after which a call fails to which there was no answer; 0 for 300,000.
    pub patience: u32,
    /// The name that the server's certificate has to have; NULL to connect without TLS.
    pub tls_server: *const c_char,
    /// Path of a PEM file with the authorities that are believed.
    pub tls_authorities: *const c_char,
    /// Path of a PEM file with the certificates to show, or NULL.
    pub tls_certificates: *const c_char,
    /// Path of a PEM file with their key, or NULL.
    pub tls_key: *const c_char,
    /// Bytes of memory for what was read, to be handed out again when the server says that it is still so; 0 for 64 MiB,
    /// KURMA_NO_CACHE for none.
    pub cache_bytes: u64,
    /// 1: each request that changes something is done whole or not at all, and seen whole or not at all by others. What does not fit
    /// into one request is several. Only Kurma has this; other servers are refused with EOPNOTSUPP.
    pub atomic: u32,
    /// Milliseconds for which a path is believed to lead where it led, if the file there is delegated to the client, so that reading again what is kept
    /// costs no round trip; what others do to the directories above it may be seen that much later. 0: each path is walked anew.
    pub entry_timeout: u32,
    /// Milliseconds that a connection may take to open; 0 for 10,000.
    pub connect_timeout: u32,
    /// Requests that are on the way at one time at most, over all connections; 0 for 64. The server may grant fewer.
    pub slots: u32,
    /// Bytes of the largest request and the largest reply; 0 for a little more than 4 MiB. The server may grant less.
    pub message_bytes: u32,
    /// 0.
    pub reserved: u32,
}

/// `cache_bytes` that stand for none (KURMA_NO_CACHE).
const NO_CACHE: u64 = u64::MAX;

impl Options {
    /// The process as it is.
    fn of_process() -> Options {
        Options {
            size: size_of::<Options>(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            groups: std::ptr::null(),
            group_count: 0,
            connections: 0,
            minor_version: 0,
            transfer: 0,
            no_extensions: 0,
            timeout: 0,
            patience: 0,
            tls_server: std::ptr::null(),
            tls_authorities: std::ptr::null(),
            tls_certificates: std::ptr::null(),
            tls_key: std::ptr::null(),
            cache_bytes: 0,
            atomic: 0,
            entry_timeout: 0,
            connect_timeout: 0,
            slots: 0,
            message_bytes: 0,
            reserved: 0,
        }
    }

    /// What the caller knows of, and the usual for the rest.
    ///
    /// # Safety
    /// `options` is NULL or points to as many bytes as its `size` says.
    pub(crate) unsafe fn read(options: *const Options) -> Result<Options, Refusal> {
        let mut own = Options::of_process();
        if options.is_null() {
            return Ok(own);
        }
        check(options, "options")?;
        // SAFETY: of the caller; the size is the first field.
        let size = unsafe { options.cast::<usize>().read() };
        if !(size_of::<usize>()..=4096).contains(&size) {
            return Err(Refusal::invalid("the size of options is not set; use kurma_options_init"));
        }
        let known = size.min(size_of::<Options>());
        // SAFETY: of the caller; every bit pattern is a value of it.
        let rest = unsafe {
            options.cast::<u8>().copy_to_nonoverlapping((&raw mut own).cast::<u8>(), known);
            std::slice::from_raw_parts(options.cast::<u8>().add(known), size - known)
        };
        if rest.iter().any(|byte| *byte != 0) {
            return Err(Refusal::invalid("options have something set that this version does not know"));
        }
        Ok(own)
    }

    /// # Safety
    /// Its pointers are NULL or valid.
    pub(crate) unsafe fn to_options(self) -> Result<vector_client::Options, Refusal> {
        let mut options = vector_client::Options::default();
        // SAFETY: of the caller.
        let groups = unsafe { array(self.groups, self.group_count, "groups") }?;
        let own = if groups.is_empty() && self.is_process() { own_groups() } else { groups.to_vec() };
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let credential = AuthSys {
            machine: BoundedOpaque::new(machine).unwrap_or_default(),
            gids: BoundedVec::new(own.into_iter().take(GROUPS).collect::<Vec<_>>()).unwrap_or_default(),
            ..AuthSys::new(self.uid, self.gid)
        };
        options.nfs.credential = Credential::Sys(credential);
        if self.connections > CONNECTIONS {
            return Err(Refusal::invalid("more than 64 connections"));
        }
        options.nfs.connections = self.connections.max(1) as usize;
        match self.minor_version {
            0 => {}
            1 | 2 => options.nfs.minor_versions = vec![self.minor_version],
            _ => return Err(Refusal::invalid("minor_version is neither 0, 1 nor 2")),
        }
        match self.transfer {
            0 => {}
            4096..=0x100_0000 => options.transfer = self.transfer as usize,
            _ => return Err(Refusal::invalid("transfer is less than 4 KiB or more than 16 MiB")),
        }
        match self.slots {
            0 => {}
            1..=SLOTS => options.nfs.slots = self.slots,
            _ => return Err(Refusal::invalid("more than 1,024 slots")),
        }
        match self.message_bytes {
            0 => {}
            0x1_0000..=0x400_0000 => options.nfs.message_bytes = self.message_bytes,
            _ => return Err(Refusal::invalid("message_bytes is less than 64 KiB or more than 64 MiB")),
        }
        match self.cache_bytes {
            0 => {}
            NO_CACHE => options.cache_bytes = 0,
            bytes => options.cache_bytes = bytes,
        }
        if self.reserved != 0 {
            return Err(Refusal::invalid("reserved is not 0"));
        }
        match self.no_extensions {
            0 => {}
            1 => options.extensions = false,
            _ => return Err(Refusal::invalid("no_extensions is neither 0 nor 1")),
        }
        match self.atomic {
            0 => {}
            1 => options.atomic = true,
            _ => return Err(Refusal::invalid("atomic is neither 0 nor 1")),
        }
        options.entry_timeout = Duration::from_millis(self.entry_timeout.into());
        let milliseconds = |given: u32, usual| match given {
            0 => usual,
            given => Duration::from_millis(given.into()),
        };
        options.nfs.connect_timeout = milliseconds(self.connect_timeout, options.nfs.connect_timeout);
        options.nfs.timeout = milliseconds(self.timeout, options.nfs.timeout);
        options.nfs.patience = milliseconds(self.patience, options.nfs.patience);
        // SAFETY: of the caller.
        options.nfs.tls = unsafe { self.tls() }?;
        Ok(options)
    }

    fn is_process(&self) -> bool {
        let process = Options::of_process();
        (self.uid, self.gid) == (process.uid, process.gid)
    }

    /// # Safety
    /// Its pointers are NULL or valid.
    unsafe fn tls(&self) -> Result<Option<TlsClient>, Refusal> {
        // SAFETY: of the caller.
        let (server, certificates) = unsafe { (text(self.tls_server)?, text(self.tls_certificates)?) };
        let Some(server) = server else {
            let others = [self.tls_authorities, self.tls_certificates, self.tls_key];
            return match others.iter().all(|other| other.is_null()) {
                true => Ok(None),
                // Who asks for protection does not go without it by a slip.
                false => Err(Refusal::invalid("options of TLS without tls_server")),
            };
        };
        let server = std::str::from_utf8(server).map_err(|_| Refusal::invalid("tls_server is no name"))?;
        // SAFETY: of the caller.
        let authorities = file(unsafe { string(self.tls_authorities, "tls_authorities") }?)?;
        let client = match certificates {
            None if !self.tls_key.is_null() => {
                return Err(Refusal::invalid("tls_key without tls_certificates"));
            }
            None => TlsClient::new(server, &authorities),
            Some(certificates) => {
                // SAFETY: of the caller.
                let key = file(unsafe { string(self.tls_key, "tls_key") }?)?;
                TlsClient::with_certificate(server, &authorities, &file(certificates)?, &key)
            }
        };
        client.map(Some).map_err(|error| Refusal::invalid(error.to_string()))
    }
}

fn own_groups() -> Vec<u32> {
    let groups = rustix::process::getgroups().unwrap_or_default();
    groups.into_iter().map(|group| group.as_raw()).collect()
}

fn file(path: &[u8]) -> Result<Vec<u8>, Refusal> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(path));
    std::fs::read(path).map_err(|error| Refusal {
        status: error.raw_os_error().unwrap_or(libc::EIO),
        what: format!("{}: {error}", path.display()).into(),
    })
}

/// Fills in options with the usual ones: calls are made by the effective user and groups of the process, in the clear. `size`
/// is sizeof(kurma_options).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_options_init(options: *mut Options, size: usize) {
    if options.is_null() {
        return;
    }
    let usual = Options { size, ..Options::of_process() };
    let known = size.min(size_of::<Options>());
    // SAFETY: of the caller.
    unsafe {
        options.cast::<u8>().write_bytes(0, size);
        (&raw const usual).cast::<u8>().copy_to_nonoverlapping(options.cast::<u8>(), known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(options: Options) -> bool {
        // SAFETY: its pointers are NULL or literals.
        unsafe { options.to_options() }.is_err()
    }

    #[test]
    fn options_of_older_and_newer_programs_are_understood() {
        let mut newer = [0_u64; 40];
        let options = newer.as_mut_ptr().cast::<Options>();
        // SAFETY: there is room for the larger of both.
        unsafe {
            kurma_options_init(options, 320);
            assert_eq!(Options::read(options).unwrap().size, 320);
            newer[39] = 1;
            assert!(Options::read(newer.as_ptr().cast()).is_err());
            let older = Options { size: 16, uid: 7, connections: 9, ..Options::of_process() };
            let read = Options::read(&raw const older).unwrap();
            assert_eq!((read.uid, read.connections), (7, 0));
            let unset = Options { size: 0, ..older };
            assert!(Options::read(&raw const unset).is_err());
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let usual = Options::of_process();
        assert!(!refused(usual));
        assert!(refused(Options { minor_version: 3, ..usual }));
        assert!(refused(Options { transfer: 1, ..usual }));
        assert!(refused(Options { connections: 1000, ..usual }));
        assert!(refused(Options { slots: SLOTS + 1, ..usual }));
        assert!(refused(Options { message_bytes: 4096, ..usual }));
        assert!(refused(Options { reserved: 1, ..usual }));
        assert!(refused(Options { group_count: 3, ..usual }));
        assert!(refused(Options { atomic: 2, ..usual }));
        assert!(refused(Options { tls_authorities: c"/etc/hosts".as_ptr(), ..usual }));
        assert!(refused(Options { tls_server: c"host".as_ptr(), ..usual }));
        let no_pem =
            Options { tls_server: c"host".as_ptr(), tls_authorities: c"/etc/hosts".as_ptr(), ..usual };
        assert!(refused(no_pem));
    }

    #[test]
    fn numbers_arrive_where_they_belong() {
        let options =
            Options { slots: 3, message_bytes: 70_000, connect_timeout: 5, ..Options::of_process() };
        let options = Options { timeout: 6, patience: 7, entry_timeout: 8, ..options };
        // SAFETY: its pointers are NULL.
        let meant = unsafe { options.to_options() }.unwrap();
        assert_eq!((meant.nfs.slots, meant.nfs.message_bytes), (3, 70_000));
        let times = [meant.nfs.connect_timeout, meant.nfs.timeout, meant.nfs.patience, meant.entry_timeout];
        assert_eq!(times, [5, 6, 7, 8].map(Duration::from_millis));
    }

    #[test]
    fn memory_for_what_was_read_is_the_usual_none_or_as_much_as_was_said() {
        let usual = vector_client::Options::default().cache_bytes;
        for (said, meant) in [(0, usual), (NO_CACHE, 0), (5 << 20, 5 << 20)] {
            let options = Options { cache_bytes: said, ..Options::of_process() };
            // SAFETY: its pointers are NULL.
            assert_eq!(unsafe { options.to_options() }.unwrap().cache_bytes, meant);
        }
        // A program that was compiled before there was such a thing.
        let older = Options { size: std::mem::offset_of!(Options, cache_bytes), ..Options::of_process() };
        let older = Options { cache_bytes: 7, ..older };
        // SAFETY: it points to more than its size says.
        assert_eq!(unsafe { Options::read(&raw const older) }.unwrap().cache_bytes, 0);
    }

    #[test]
    fn groups_beyond_the_sixteenth_stay_at_home() {
        let groups: Vec<u32> = (0..20).collect();
        let options = Options { groups: groups.as_ptr(), group_count: 20, ..Options::of_process() };
        // SAFETY: the groups live.
        let Credential::Sys(sys) = unsafe { options.to_options() }.unwrap().nfs.credential else { panic!() };
        assert_eq!(sys.gids[..], groups[..16]);
    }
}
