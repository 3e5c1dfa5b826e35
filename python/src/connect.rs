//! How to reach a server.

use std::time::Duration;

use onc_rpc::tls::TlsClient;
use onc_rpc::{AuthSys, Credential};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use vector_client::Options;
use xdr::{BoundedOpaque, BoundedVec};

/// Most groups of AUTH_SYS (RFC 5531).
const GROUPS: usize = 16;

type Pem = Option<Vec<u8>>;

/// The usual options with these changes; `host` is whom the server's certificate has to name.
pub fn options(host: &str, changes: &Bound<'_, PyDict>) -> PyResult<Options> {
    let mut options = Options::default();
    let (mut user, mut group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut groups: Option<Vec<u32>> = None;
    let (mut authorities, mut certificate, mut key): (Pem, Pem, Pem) = Default::default();
    for (name, value) in changes {
        let name: String = name.extract()?;
        match name.as_str() {
            "uid" => user = value.extract()?,
            "gid" => group = value.extract()?,
            "groups" => groups = Some(value.extract()?),
            "tls" => authorities = Some(value.extract()?),
            "certificate" => certificate = Some(value.extract()?),
            "key" => key = Some(value.extract()?),
            "minor_versions" => options.nfs.minor_versions = value.extract()?,
            "connections" => options.nfs.connections = value.extract()?,
            "slots" => options.nfs.slots = value.extract()?,
            "message_bytes" => options.nfs.message_bytes = value.extract()?,
            "transfer" => options.transfer = value.extract()?,
            "cache_bytes" => options.cache_bytes = value.extract()?,
            "entry_timeout" => options.entry_timeout = seconds(&value)?,
            "timeout" => options.nfs.timeout = seconds(&value)?,
            "connect_timeout" => options.nfs.connect_timeout = seconds(&value)?,
            "patience" => options.nfs.patience = seconds(&value)?,
            "extensions" => options.extensions = value.extract()?,
            "atomic" => options.atomic = value.extract()?,
            _ => return Err(PyTypeError::new_err(format!("there is no option {name}"))),
        }
    }
    options.nfs.tls = tls(host, authorities, certificate, key)?;
    let own =
        || rustix::process::getgroups().unwrap_or_default().iter().map(|group| group.as_raw()).collect();
    let groups: Vec<u32> =
        groups.unwrap_or_else(own).into_iter().filter(|it| *it != group).take(GROUPS).collect();
    options.nfs.credential = Credential::Sys(AuthSys {
        machine: BoundedOpaque::new(rustix::system::uname().nodename().to_bytes().to_vec())
            .unwrap_or_default(),
        gids: BoundedVec::new(groups).unwrap_or_default(),
        ..AuthSys::new(user, group)
    });
    Ok(options)
}

/// TLS with servers that these authorities vouch for; with a certificate and its key, they may ask who the client is.
fn tls(host: &str, authorities: Pem, certificate: Pem, key: Pem) -> PyResult<Option<TlsClient>> {
    let made = match (authorities, certificate, key) {
        (None, None, None) => return Ok(None),
        (Some(authorities), None, None) => TlsClient::new(host, &authorities),
        (Some(authorities), Some(certificate), Some(key)) => {
            TlsClient::with_certificate(host, &authorities, &certificate, &key)
        }
        _ => return Err(PyValueError::new_err("a certificate needs its key, and both need tls")),
    };
    made.map(Some).map_err(|error| PyValueError::new_err(format!("tls: {error}")))
}

fn seconds(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value.extract()?)
        .map_err(|_| PyValueError::new_err("a time is a number of seconds, not below 0"))
}
