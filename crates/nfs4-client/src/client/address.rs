use std::net::{IpAddr, SocketAddr};

use onc_rpc::RpcError;

/// Where a server is: a host name or an IP address, with or without a port. A name is looked up at every new connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// `host`, `host:port`, `10.0.0.1`, `10.0.0.1:2049`, `fe80::1` or `[fe80::1]:2049`.
    pub fn parse(text: &str) -> Address {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Address { host: address.ip().to_string(), port: address.port() };
        }
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if bare.parse::<IpAddr>().is_ok() {
            return Address { host: bare.to_owned(), port: nfs4::PORT };
        }
        match text.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
            Some((host, Ok(port))) => Address { host: host.to_owned(), port },
            _ => Address { host: text.to_owned(), port: nfs4::PORT },
        }
    }

    /// All socket addresses of it.
    pub async fn resolve(&self) -> Result<Vec<SocketAddr>, RpcError> {
        Ok(tokio::net::lookup_host((self.host.as_str(), self.port)).await?.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_optional_for_names_and_numbers() {
        for (text, host, port) in [
            ("nas", "nas", 2049),
            ("nas:20490", "nas", 20490),
            ("10.0.0.1", "10.0.0.1", 2049),
            ("10.0.0.1:1", "10.0.0.1", 1),
            ("fe80::1", "fe80::1", 2049),
            ("[fe80::1]", "fe80::1", 2049),
            ("[fe80::1]:7", "fe80::1", 7),
        ] {
            assert_eq!(Address::parse(text), Address { host: host.to_owned(), port }, "{text}");
        }
    }
}
