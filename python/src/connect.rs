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

/// The usual options with these changes; `host` is whom the server's certificate has to name.
pub fn options(host: &str, changes: &Bound<'_, PyDict>) -> PyResult<Options> {
    let mut options = Options::default();
    let (mut user, mut group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut groups: Option<Vec<u32>> = None;
    for (name, value) in changes {
        let name: String = name.extract()?;
        match name.as_str() {
            "uid" => user = value.extract()?,
            "gid" => group = value.extract()?,
            "groups" => groups = Some(value.extract()?),
            "tls" => options.nfs.tls = Some(tls(host, &value.extract::<Vec<u8>>()?)?),
            "minor_versions" => options.nfs.minor_versions = value.extract()?,
            "connections" => options.nfs.connections = value.extract()?,
            "slots" => options.nfs.slots = value.extract()?,
            "message_bytes" => options.nfs.message_bytes = value.extract()?,
            "transfer" => options.transfer = value.extract()?,
            "timeout" => options.nfs.timeout = seconds(&value)?,
            "connect_timeout" => options.nfs.connect_timeout = seconds(&value)?,
            "patience" => options.nfs.patience = seconds(&value)?,
            "extensions" => options.extensions = value.extract()?,
            _ => return Err(PyTypeError::new_err(format!("there is no option {name}"))),
        }
    }
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

fn tls(host: &str, authorities: &[u8]) -> PyResult<TlsClient> {
    TlsClient::new(host, authorities).map_err(|error| PyValueError::new_err(format!("tls: {error}")))
}

fn seconds(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value.extract()?)
        .map_err(|_| PyValueError::new_err("a time is a number of seconds, not below 0"))
}
