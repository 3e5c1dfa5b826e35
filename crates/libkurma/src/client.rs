//! Clients.

use std::ffi::{OsStr, c_char};
use std::os::unix::ffi::OsStrExt;

use vector_client::blocking;

use crate::options::Options;
use crate::outcome::{Outcome, Refusal, guard};
use crate::pointer::{check, given, set, string};

/// Files of an NFS server or of a local directory. Any number of threads may use one at once.
pub struct Client {
    pub(crate) client: blocking::Client,
}

/// What a client has sent and received so far; zeros for a local directory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    /// Requests that were sent and waited for.
    pub round_trips: u64,
    /// NFS operations in them.
    pub operations: u64,
    /// Bytes of the requests.
    pub bytes_out: u64,
    /// Bytes of the replies.
    pub bytes_in: u64,
}

/// The client behind a handle.
///
/// # Safety
/// It is NULL, or a handle that is not closed while the reference is used.
pub(crate) unsafe fn behind<'a>(client: *const Client) -> Result<&'a blocking::Client, Refusal> {
    // SAFETY: of the caller.
    unsafe { given(client, "client") }.map(|client| &client.client)
}

/// `nfs://HOST[:PORT][/]`, or the same without `nfs://`.
fn address(server: &[u8]) -> Result<&str, Refusal> {
    let server =
        std::str::from_utf8(server).map_err(|_| Refusal::invalid("a host name that is not UTF-8"))?;
    let rest = server.strip_prefix("nfs://").unwrap_or(server);
    match rest.split_once('/').unwrap_or((rest, "")) {
        ("", _) => Err(Refusal::invalid(format!("{server}: no host; write nfs://HOST[:PORT]"))),
        (host, "") => Ok(host),
        _ => Err(Refusal::invalid(format!("{server}: paths are given with each call, not with the server"))),
    }
}

/// Connects to a server: nfs://HOST[:PORT] or HOST[:PORT]. Paths begin at its root. `options` may be NULL for the usual
/// ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_connect(
    server: *const c_char,
    options: *const Options,
    client: *mut *mut Client,
) -> Outcome {
    guard(0, || {
        check(client, "client")?;
        // SAFETY: of the caller.
        let (address, options) =
            unsafe { (address(string(server, "server")?)?, Options::read(options)?.to_options()?) };
        let connected = blocking::Client::connect(address, options).map_err(|error| Outcome::of(&error))?;
        // SAFETY: of the caller.
        unsafe { set(client, "client", Box::into_raw(Box::new(Client { client: connected }))) }?;
        Ok(Outcome::success(0))
    })
}

/// Files of this machine below `directory`, with the rights of the process. Paths begin there, and nothing leads out of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_local(directory: *const c_char, client: *mut *mut Client) -> Outcome {
    guard(0, || {
        check(client, "client")?;
        // SAFETY: of the caller.
        let directory = OsStr::from_bytes(unsafe { string(directory, "directory") }?);
        let opened = blocking::Client::local(directory).map_err(|error| Outcome::of(&error))?;
        // SAFETY: of the caller.
        unsafe { set(client, "client", Box::into_raw(Box::new(Client { client: opened }))) }?;
        Ok(Outcome::success(0))
    })
}

/// Closes every file and ends the connection. The handle is gone, whatever comes of it: no other call may be using it. NULL is
/// nothing to close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_close(client: *mut Client) -> Outcome {
    guard(0, || {
        if client.is_null() {
            return Ok(Outcome::success(0));
        }
        check(client, "client")?;
        // SAFETY: it came from a box, by `kurma_connect` or `kurma_local`, and comes back once.
        let client = unsafe { Box::from_raw(client) };
        client.client.close().map_err(|error| Outcome::of(&error))?;
        Ok(Outcome::success(0))
    })
}

/// What a client has sent and received so far.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kurma_get_statistics(client: *const Client, statistics: *mut Statistics) -> Outcome {
    guard(0, || {
        // SAFETY: of the caller.
        let now = unsafe { behind(client) }?.statistics();
        let now = Statistics {
            round_trips: now.round_trips,
            operations: now.operations,
            bytes_out: now.bytes_out,
            bytes_in: now.bytes_in,
        };
        // SAFETY: of the caller.
        unsafe { set(statistics, "statistics", now) }?;
        Ok(Outcome::success(0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_host_without_a_path() {
        for server in ["nfs://host:99", "host:99", "nfs://host:99/"] {
            assert_eq!(address(server.as_bytes()).unwrap(), "host:99");
        }
        assert_eq!(address(b"[::1]:99").unwrap(), "[::1]:99");
        for server in ["nfs://host/home", "nfs://", "", "/host", "\u{fffd}/x"] {
            assert!(address(server.as_bytes()).is_err(), "{server}");
        }
        assert!(address(b"\xff").is_err());
    }
}
