//! Networks that an export is limited to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The addresses that begin with the same bits: `10.1.0.0/16`, `fd00::/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

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
    pub const ALL_V4: Network = Network { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix: 0 };
    /// Every IPv6 address.
    pub const ALL_V6: Network = Network { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), prefix: 0 };

    /// This machine's own IPv4 addresses.
    pub const LOOPBACK_V4: Network = Network { address: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), prefix: 8 };
    /// This machine's own IPv6 address.
    pub const LOOPBACK_V6: Network = Network { address: IpAddr::V6(Ipv6Addr::LOCALHOST), prefix: 128 };

    /// What counts as one client: an IPv4 address, or the 64 bits of an IPv6 address that a network gives to one place.
    pub(crate) fn of_client(address: IpAddr) -> Network {
        let address = address.to_canonical();
        let prefix = if address.is_ipv4() { 32 } else { 64 };
        Network { address: cut(address, prefix), prefix }
    }

    /// Whether `address` is in it. An IPv4 address is the same in its IPv6 form (`::ffff:10.1.0.1`), which is how
    /// a listener for both sees it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && cut(address, self.prefix) == self.address
    }
}

/// Clears the bits behind the first `prefix`.
fn cut(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Network, NetworkError> {
        let malformed = || NetworkError::Malformed(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u8>().map_err(|_| malformed())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| malformed())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(bits);
        if prefix > bits || address.to_canonical() != address {
            return Err(malformed());
        }
        let meant = Network { address: cut(address, prefix), prefix };
        if meant.address != address {
            return Err(NetworkError::HostBits { given: text.to_owned(), meant });
        }
        Ok(meant)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.prefix)
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
