use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Of ICAP (RFC 3507 §4.2).
const ICAP_PORT: u16 = 1344;

/// Where a scanner answers, and in which protocol: `clamd:unix:PATH`, `clamd:tcp:HOST:PORT` or `icap://HOST[:PORT]/SERVICE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// ClamAV's daemon.
    Clamd(Endpoint),
    /// An ICAP service.
    Icap {
        /// A name or an address; one with colons stands in brackets.
        host: String,
        /// Its port.
        port: u16,
        /// What is behind the host, without the first slash.
        service: String,
    },
}

/// Where a socket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A socket of this machine.
    Unix(PathBuf),
    /// Host and port.
    Tcp(String, u16),
}

/// A text that is no address of a scanner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not the address of a scanner: {why}; write clamd:unix:/run/clamav/clamd.ctl, clamd:tcp:HOST:PORT or icap://HOST:1344/SERVICE"
)]
pub struct BadAddress {
    text: String,
    why: &'static str,
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Address, BadAddress> {
        let wrong = |why| BadAddress { text: text.chars().take(200).collect(), why };
        if let Some(path) = text.strip_prefix("clamd:unix:") {
            if !path.starts_with('/') || path.contains('\0') {
                return Err(wrong("the socket needs a path that begins with '/'"));
            }
            return Ok(Address::Clamd(Endpoint::Unix(path.into())));
        }
        if let Some(place) = text.strip_prefix("clamd:tcp:") {
            let (host, port) = split_port(place).map_err(wrong)?;
            let port = port.ok_or_else(|| wrong("the port is missing"))?;
            return Ok(Address::Clamd(Endpoint::Tcp(host.into(), port)));
        }
        if let Some(rest) = text.strip_prefix("icap://") {
            let (place, service) = rest.split_once('/').unwrap_or((rest, ""));
            let (host, port) = split_port(place).map_err(wrong)?;
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~?=&%+".contains(&byte);
            if service.is_empty() || !service.bytes().all(is_plain) {
                return Err(wrong("the name of the service is missing, or has characters that no URL has"));
            }
            let (host, service) = (host.to_owned(), service.to_owned());
            return Ok(Address::Icap { host, port: port.unwrap_or(ICAP_PORT), service });
        }
        Err(wrong(match text.starts_with("icaps:") {
            true => "ICAP over TLS is not supported; put a tunnel in front of the service",
            false => "neither clamd:unix:, clamd:tcp: nor icap://",
        }))
    }
}

/// Host and port, the host with its brackets if it has colons.
fn split_port(place: &str) -> Result<(&str, Option<u16>), &'static str> {
    let end = match place.strip_prefix('[') {
        Some(rest) => rest.find(']').ok_or("the bracket is not closed")? + 2,
        None => place.find(':').unwrap_or(place.len()),
    };
    let (host, port) = place.split_at(end);
    let inside = host.trim_start_matches('[').trim_end_matches(']');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if inside.is_empty() || !inside.bytes().all(is_plain) {
        return Err("the host is missing, or has characters that no host has");
    }
    let port = match port.strip_prefix(':') {
        Some(digits) => Some(
            digits.parse().ok().filter(|port| *port > 0).ok_or("the port is no number from 1 to 65535")?,
        ),
        None if port.is_empty() => None,
        None => return Err("behind the bracket comes a colon and the port"),
    };
    Ok((host, port))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Clamd(Endpoint::Unix(path)) => write!(f, "clamd:unix:{}", path.display()),
            Address::Clamd(Endpoint::Tcp(host, port)) => write!(f, "clamd:tcp:{host}:{port}"),
            Address::Icap { host, port, service } => write!(f, "icap://{host}:{port}/{service}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for (text, written) in [
            ("clamd:unix:/run/clamav/clamd.ctl", "clamd:unix:/run/clamav/clamd.ctl"),
            ("clamd:tcp:localhost:3310", "clamd:tcp:localhost:3310"),
            ("clamd:tcp:[::1]:3310", "clamd:tcp:[::1]:3310"),
            ("icap://scanner/avscan", "icap://scanner:1344/avscan"),
            ("icap://[::1]:99/a/b?x=y", "icap://[::1]:99/a/b?x=y"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), written);
            assert_eq!(written.parse(), Ok(address));
        }
    }

    #[test]
    fn what_is_no_address_is_told_with_its_reason() {
        for (text, why) in [
            ("", "neither"),
            ("/run/clamd.ctl", "neither"),
            ("clamd:unix:run", "begins with '/'"),
            ("clamd:tcp:host", "port is missing"),
            ("clamd:tcp:host:0", "no number from 1"),
            ("clamd:tcp::3310", "host is missing"),
            ("clamd:tcp:[::1:3310", "not closed"),
            ("clamd:tcp:[::1]3310", "comes a colon"),
            ("icap://host:1344", "service is missing"),
            ("icap://host/a b", "characters that no URL"),
            ("icap://ho st/a", "characters that no host"),
            ("icaps://host/a", "TLS is not supported"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("clamd:tcp:HOST:PORT"), "{error}");
        }
    }
}
