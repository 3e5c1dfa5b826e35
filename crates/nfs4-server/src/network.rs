//! Networks that an export is limited to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The addresses that begin with the same bits: `10.1.0.0/16`, `fd00::/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(IpNet);

/// Why a text is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Neither an address nor a network.
    #[error("{0:?} is not a network; write it as 10.1.0.0/16, fd00::/8, or one address")]
    Malformed(String),
    /// The address goes on behind the prefix, so that one of the two is wrong.
    #[error("{given:?} has bits set behind its prefix; write {meant} for that network")]
    HostBits {
        /// As it was written.
        given: String,
        /// The network with that prefix.
        meant: Network,
    },
}

impl Network {
    /// Every IPv4 address.
    pub const ALL_V4: Network = Network::v4(Ipv4Addr::UNSPECIFIED, 0);
    /// Every IPv6 address.
    pub const ALL_V6: Network = Network::v6(Ipv6Addr::UNSPECIFIED, 0);

    /// This machine's own IPv4 addresses.
    pub const LOOPBACK_V4: Network = Network::v4(Ipv4Addr::new(127, 0, 0, 0), 8);
    /// This machine's own IPv6 address.
    pub const LOOPBACK_V6: Network = Network::v6(Ipv6Addr::LOCALHOST, 128);

    const fn v4(address: Ipv4Addr, prefix: u8) -> Network {
        Network(IpNet::V4(Ipv4Net::new_assert(address, prefix)))
    }

    const fn v6(address: Ipv6Addr, prefix: u8) -> Network {
        Network(IpNet::V6(Ipv6Net::new_assert(address, prefix)))
    }

    /// What counts as one client: an IPv4 address, or the 64 bits of an IPv6 address that a network gives to one place.
    pub(crate) fn of_client(address: IpAddr) -> Network {
        match address.to_canonical() {
            IpAddr::V4(address) => Network(Ipv4Net::from(address).into()),
            IpAddr::V6(address) => Network(IpNet::V6(Ipv6Net::new_assert(address, 64)).trunc()),
        }
    }

    /// Whether `address` is in it. An IPv4 address is the same in its IPv6 form (`::ffff:10.1.0.1`), which is how
    /// a listener for both sees it.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Network, NetworkError> {
        let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let network = network.ok().filter(|network| network.addr().to_canonical() == network.addr());
        let network = network.ok_or_else(|| NetworkError::Malformed(text.to_owned()))?;
        let meant = Network(network.trunc());
        if meant.0 != network {
            return Err(NetworkError::HostBits { given: text.to_owned(), meant });
        }
        Ok(meant)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_the_addresses_with_its_prefix() {
        let cases = [
            ("10.1.0.0/16", "10.1.255.7", true),
            ("10.1.0.0/16", "10.2.0.1", false),
            ("10.1.0.0/16", "::ffff:10.1.2.3", true),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "fd00::1", true),
            ("::/0", "::ffff:10.1.2.3", false),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe00::1", false),
            ("192.168.1.5", "192.168.1.5", true),
            ("192.168.1.5", "192.168.1.4", false),
            ("::1/128", "::1", true),
        ];
        for (network, address, inside) in cases {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), inside, "{address} in {network}");
        }
        assert_eq!(("0.0.0.0/0".parse(), "::/0".parse()), (Ok(Network::ALL_V4), Ok(Network::ALL_V6)));
        let loopback = (Ok(Network::LOOPBACK_V4), Ok(Network::LOOPBACK_V6));
        assert_eq!(("127.0.0.0/8".parse(), "::1".parse()), loopback);
    }

    #[test]
    fn what_is_no_network_is_refused_with_what_to_write() {
        for text in
            ["", "/8", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/-1", "lan", "::ffff:10.0.0.0/104"]
        {
            assert_eq!(text.parse::<Network>(), Err(NetworkError::Malformed(text.to_owned())), "{text}");
        }
        let error = "10.1.2.3/16".parse::<Network>().unwrap_err();
        assert!(error.to_string().contains("write 10.1.0.0/16"), "{error}");
    }

    #[test]
    fn networks_print_as_they_are_read() {
        for text in ["10.1.0.0/16", "fd00::/8", "192.168.1.5/32"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
    }
}
