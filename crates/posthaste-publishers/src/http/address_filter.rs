//! Address filter (SSRF protection): requests may go only to public addresses and to networks that the settings
//! allow.
//!
//! A person who may configure an endpoint must not reach what only this machine can reach: its own services, its
//! network, the cloud's metadata service. The filter resolves names itself, and connections are made only to
//! addresses that it has checked, so that a name cannot resolve to another address between the check and the
//! connection.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// The address is neither public nor in an allowed network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a public address: name its network in allow_networks if events are meant to go there")]
pub(super) struct NotPublic(IpAddr);

/// A DNS lookup: returns the addresses of a name. Tests replace it.
pub(super) type DnsLookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// The system's resolver.
pub(super) fn system_lookup() -> DnsLookup {
    Arc::new(|name| {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    })
}

/// Resolves names and drops the addresses that requests must not go to.
#[derive(Clone)]
pub(super) struct AddressFilter {
    allowed: Arc<[Network]>,
    lookup: DnsLookup,
}

impl AddressFilter {
    pub(super) fn new(allowed: Vec<Network>, lookup: DnsLookup) -> Self {
        Self { allowed: allowed.into(), lookup }
    }

    pub(super) fn check(&self, address: IpAddr) -> Result<(), NotPublic> {
        let is_allowed = self.allowed.iter().any(|network| network.contains(address));
        if is_allowed || is_public(address) { Ok(()) } else { Err(NotPublic(address)) }
    }

    /// Returns the permitted addresses of a name, with port 0. Returns an error if there are none.
    pub(super) async fn addresses(self, name: String) -> Result<Vec<SocketAddr>, posthaste::BoxError> {
        let found = (self.lookup)(name).await?;
        let first = *found.first().ok_or("its name has no address")?;
        let checked: Vec<SocketAddr> = found
            .into_iter()
            .filter(|address| self.check(*address).is_ok())
            .map(|address| SocketAddr::new(address, 0))
            .collect();
        if checked.is_empty() { Err(NotPublic(first).into()) } else { Ok(checked) }
    }
}

impl Resolve for AddressFilter {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.clone().addresses(name.as_str().to_owned());
        Box::pin(async move { Ok(Box::new(found.await?.into_iter()) as Addrs) })
    }
}

/// A network in CIDR notation, `10.0.0.0/8`, or a single address, `10.1.2.3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    address: IpAddr,
    bits: u32,
}

/// A text that is not a network.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`allow_networks` contains a text that is not a network: write one as 10.0.0.0/8, fd00::/8 or 127.0.0.1"
)]
pub(super) struct InvalidNetwork;

impl Network {
    fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => {
                same_prefix(ours.to_bits().into(), other.to_bits().into(), 32 - self.bits)
            }
            (IpAddr::V6(ours), IpAddr::V6(other)) => {
                same_prefix(ours.to_bits(), other.to_bits(), 128 - self.bits)
            }
            _ => false,
        }
    }

    const fn v4(a: u8, b: u8, c: u8, bits: u32) -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, 0)), bits }
    }

    const fn v6(a: u16, b: u16, bits: u32) -> Self {
        Self { address: IpAddr::V6(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0)), bits }
    }
}

/// Whether two addresses are equal apart from their last `last` bits.
fn same_prefix(one: u128, other: u128, last: u32) -> bool {
    (one ^ other).checked_shr(last).unwrap_or(0) == 0
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(ip, bits)| (ip, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| InvalidNetwork)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse::<u32>().map_err(|_| InvalidNetwork))?;
        if bits > most {
            return Err(InvalidNetwork);
        }
        Ok(Self { address, bits })
    }
}

/// IPv4 networks that are not public.
const NOT_PUBLIC_V4: &[Network] = &[
    // "This network", which many systems route to themselves.
    Network::v4(0, 0, 0, 8),
    // Private.
    Network::v4(10, 0, 0, 8),
    Network::v4(172, 16, 0, 12),
    Network::v4(192, 168, 0, 16),
    // Carrier-grade NAT: between a provider and its customers.
    Network::v4(100, 64, 0, 10),
    // Loopback.
    Network::v4(127, 0, 0, 8),
    // Link-local, which includes the metadata services of clouds.
    Network::v4(169, 254, 0, 16),
    // IETF protocol assignments.
    Network::v4(192, 0, 0, 24),
    // 6to4 relays.
    Network::v4(192, 88, 99, 24),
    // Documentation and benchmarks.
    Network::v4(192, 0, 2, 24),
    Network::v4(198, 51, 100, 24),
    Network::v4(203, 0, 113, 24),
    Network::v4(198, 18, 0, 15),
    // Multicast, reserved and broadcast.
    Network::v4(224, 0, 0, 4),
    Network::v4(240, 0, 0, 4),
];

/// All global unicast addresses of IPv6. Addresses outside it are local or embed an IPv4 address.
const PUBLIC_V6: Network = Network::v6(0x2000, 0, 3);

/// Networks within `PUBLIC_V6` that are not public.
const NOT_PUBLIC_V6: &[Network] = &[
    // IETF protocol assignments: Teredo, benchmarks, identifiers.
    Network::v6(0x2001, 0, 23),
    // Documentation.
    Network::v6(0x2001, 0x0db8, 32),
    Network::v6(0x3fff, 0, 20),
    // 6to4, which embeds an IPv4 address.
    Network::v6(0x2002, 0, 16),
];

fn is_public(address: IpAddr) -> bool {
    let in_none_of = |networks: &[Network]| !networks.iter().any(|network| network.contains(address));
    match address {
        IpAddr::V4(_) => in_none_of(NOT_PUBLIC_V4),
        IpAddr::V6(_) => PUBLIC_V6.contains(address) && in_none_of(NOT_PUBLIC_V6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address_filter(allowed: &[&str]) -> AddressFilter {
        let networks = allowed.iter().map(|text| text.parse().expect("a network")).collect();
        AddressFilter::new(networks, system_lookup())
    }

    // S7
    #[test]
    fn only_public_addresses_may_be_reached() {
        let public = "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 \
            126.255.255.255 128.0.0.0 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 \
            191.255.255.255 192.0.1.0 192.0.3.0 192.88.98.1 192.167.255.255 192.169.0.0 \
            198.17.255.255 198.20.0.0 203.0.114.0 223.255.255.255 2606:4700:4700::1111 \
            2a00:1450:4001:81b::200e 2001:4860:4860::8888 2001:200::1 2003::1 3ffe::1";
        let private = "0.0.0.0 0.1.2.3 10.0.0.0 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 \
            127.255.255.254 169.254.0.1 169.254.169.254 169.254.170.2 172.16.0.1 \
            172.31.255.255 192.0.0.1 192.0.0.170 192.0.2.1 192.88.99.1 192.168.0.1 \
            192.168.255.255 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 \
            239.255.255.250 240.0.0.1 255.255.255.255 :: ::1 ::127.0.0.1 ::8.8.8.8 \
            ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:169.254.169.254 ::ffff:0:127.0.0.1 \
            64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b:1::a00:1 100::1 2001::1 \
            2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1 2001:10::1 2001:20::1 2001:db8::1 \
            2002:7f00:1:: 2002:808:808::1 3fff::1 3fff:fff::1 5f00::1 fc00::1 fd00::1 \
            fd00:ec2::254 fe80::1 febf::1 fec0::1 ff02::1 ff0e::1 4000::1";
        let (public, private) = (public.split(' '), private.split(' '));
        assert!(public.clone().count() + private.clone().count() >= 60);
        for address in public {
            assert_eq!(address_filter(&[]).check(address.parse().expect("an address")), Ok(()), "{address}");
        }
        for address in private {
            let address = address.parse().expect("an address");
            assert_eq!(address_filter(&[]).check(address), Err(NotPublic(address)), "{address}");
        }
    }

    #[test]
    fn only_allowed_networks_may_be_reached_besides_public_ones() {
        let address_filter = address_filter(&["10.1.0.0/16", "127.0.0.1", "fd00::/8", "::/128"]);
        for address in ["10.1.2.3", "127.0.0.1", "fd12::1", "::", "8.8.8.8"] {
            assert_eq!(address_filter.check(address.parse().expect("an address")), Ok(()), "{address}");
        }
        for address in ["10.2.0.0", "127.0.0.2", "fe80::1", "::1", "::ffff:127.0.0.1", "::ffff:10.1.2.3"] {
            assert!(address_filter.check(address.parse().expect("an address")).is_err(), "{address}");
        }
        assert!(super::Network::from_str("0.0.0.0/0").expect("all").contains(Ipv4Addr::LOCALHOST.into()));
        assert!(super::Network::from_str("::/0").expect("all").contains(Ipv6Addr::LOCALHOST.into()));
    }

    #[test]
    fn text_that_is_not_a_network_is_refused() {
        for text in
            ["", "10", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "::/129", "localhost", "10.0.0.0/8/8"]
        {
            assert_eq!(text.parse::<Network>(), Err(InvalidNetwork), "{text:?}");
        }
    }

    #[tokio::test]
    async fn private_addresses_of_a_name_are_dropped() {
        let lookup = |addresses: &'static [&'static str]| -> DnsLookup {
            Arc::new(move |_| {
                let found = addresses.iter().map(|text| text.parse().expect("an address")).collect();
                Box::pin(async move { Ok(found) })
            })
        };
        let resolve = async |addresses| {
            let found = AddressFilter::new(Vec::new(), lookup(addresses)).addresses("host".to_owned()).await;
            found.map(|found| found.iter().map(|address| address.ip().to_string()).collect::<Vec<_>>())
        };
        assert_eq!(resolve(&["127.0.0.1", "8.8.8.8", "::1"]).await.ok(), Some(vec!["8.8.8.8".to_owned()]));
        let error = resolve(&["::1", "10.0.0.1"]).await.expect_err("none is left");
        assert!(error.to_string().starts_with("::1 is not a public address"), "{error}");
        assert_eq!(resolve(&[]).await.expect_err("none at all").to_string(), "its name has no address");
    }
}
