//! The peer of a request.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use actix_web::http::header::{FORWARDED, HeaderMap, HeaderName, X_FORWARDED_FOR};
use actix_web::{HttpMessage, HttpRequest};
use fairness::peer::Peer;
use service_kit::Network;

/// Returns the peer of a request, which the middleware stores with the request.
pub fn of_request(request: &HttpRequest) -> Peer {
    let noted = request.extensions().get::<Peer>().copied();
    noted.unwrap_or_else(|| of_socket(request.peer_addr()))
}

fn of_socket(address: Option<SocketAddr>) -> Peer {
    Peer::of(address.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |address| address.ip()))
}

/// Returns the peer of a request: the address of the connection or, if that is a trusted proxy, the client's address in
/// `Forwarded` (RFC 7239) or `X-Forwarded-For`; see [`first_untrusted`]. If a header is malformed or the two headers
/// disagree, returns the proxy's address. They can disagree because a proxy that writes only one of the headers forwards
/// the other as the client wrote it.
pub fn behind(trusted: &[Network], socket: Option<SocketAddr>, headers: &HeaderMap) -> Peer {
    let direct = of_socket(socket);
    let Some(socket) = socket.map(|address| address.ip().to_canonical()) else {
        return direct;
    };
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    if !is_trusted(socket) {
        return direct;
    }
    let client = |name: &HeaderName, read: fn(&str) -> Option<IpAddr>| {
        headers.contains_key(name).then(|| first_untrusted(headers, name, read, is_trusted))
    };
    match (client(&FORWARDED, forwarded_for), client(&X_FORWARDED_FOR, address)) {
        (Some(one), Some(other)) if one != other => direct,
        (one, other) => one.or(other).flatten().map_or(direct, Peer::of),
    }
}

/// Returns the rightmost address that is not a trusted proxy, or the leftmost address if all are trusted proxies. None if that
/// address, or one to its right, is malformed. Addresses further left are ignored, because the client may have written them.
fn first_untrusted(
    headers: &HeaderMap,
    name: &HeaderName,
    read: fn(&str) -> Option<IpAddr>,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> Option<IpAddr> {
    let values: Vec<_> = headers.get_all(name).collect();
    let mut outermost = None;
    for value in values.iter().rev() {
        for hop in value.to_str().ok()?.rsplit(',') {
            let address = read(hop.trim())?;
            if !is_trusted(address) {
                return Some(address);
            }
            outermost = Some(address);
        }
    }
    outermost
}

/// Parses the parameter `for` of one element of `Forwarded`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    let (_, node) = pairs.find(|(name, _)| name.eq_ignore_ascii_case("for"))?;
    address(node.trim().trim_matches('"'))
}

/// Parses an address, with or without brackets and a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let parsed = bare.parse::<IpAddr>().ok();
    let parsed = parsed.or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()));
    parsed.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    /// Address of the socket, headers of the request, and expected peer.
    type Case = (&'static str, &'static [(&'static str, &'static str)], &'static str);

    fn peer(socket: &str, headers: &[(&str, &str)]) -> String {
        let trusted = ["10.0.0.0/8", "2001:db8:1::/48"].map(|network| network.parse().unwrap());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse().unwrap(), HeaderValue::from_str(value).unwrap());
        }
        behind(&trusted, Some(SocketAddr::new(socket.parse().unwrap(), 7)), &map).to_string()
    }

    #[test]
    fn only_trusted_proxies_determine_the_peer() {
        const XFF: &str = "X-Forwarded-For";
        let cases: &[Case] = &[
            ("192.0.2.1", &[], "192.0.2.1"),
            ("192.0.2.1", &[(XFF, "198.51.100.7")], "192.0.2.1"),
            ("10.1.2.3", &[], "10.1.2.3"),
            ("10.1.2.3", &[(XFF, "198.51.100.7")], "198.51.100.7"),
            ("::ffff:10.1.2.3", &[(XFF, "198.51.100.7:4711")], "198.51.100.7"),
            // The client wrote the first address.
            ("10.1.2.3", &[(XFF, "203.0.113.9, 198.51.100.7")], "198.51.100.7"),
            ("10.1.2.3", &[(XFF, "203.0.113.9"), (XFF, "198.51.100.7, 10.9.9.9")], "198.51.100.7"),
            ("10.1.2.3", &[(XFF, "10.9.9.9, 10.8.8.8")], "10.9.9.9"),
            ("10.1.2.3", &[(XFF, "unknown, 198.51.100.7")], "198.51.100.7"),
            ("10.1.2.3", &[(XFF, "unknown")], "10.1.2.3"),
            ("10.1.2.3", &[(XFF, "198.51.100.7, ")], "10.1.2.3"),
            ("10.1.2.3", &[("Forwarded", "for=198.51.100.7;proto=https")], "198.51.100.7"),
            ("10.1.2.3", &[("Forwarded", "for=203.0.113.9, For=\"198.51.100.7:80\"")], "198.51.100.7"),
            ("10.1.2.3", &[("Forwarded", "for=\"[2001:db8:2:3:4::5]:80\"")], "2001:db8:2:3::"),
            ("10.1.2.3", &[("Forwarded", "for=_hidden")], "10.1.2.3"),
            // The proxy writes one of the headers, and forwards the other as the client wrote it.
            ("10.1.2.3", &[("Forwarded", "for=203.0.113.9"), (XFF, "198.51.100.7")], "10.1.2.3"),
            ("10.1.2.3", &[("Forwarded", "for=198.51.100.7"), (XFF, "198.51.100.7")], "198.51.100.7"),
            ("2001:db8:1::1", &[(XFF, "2001:db8:2:3:4:5:6:7")], "2001:db8:2:3::"),
            ("2001:db8:7:8:9::1", &[], "2001:db8:7:8::"),
        ];
        for (socket, headers, expected) in cases {
            assert_eq!(peer(socket, headers), *expected, "{socket} {headers:?}");
        }
    }
}
