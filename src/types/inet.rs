//! Internet addresses and the text that stands for them.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Reads what Java's `InetAddress.getByName` takes of numbers: dotted quads of one to four parts, of which the last
/// fills the remaining bytes; IPv6, also in brackets. An IPv4 address mapped into IPv6 becomes IPv4. Names of hosts
/// are not resolved.
pub fn parse(text: &str) -> Option<Vec<u8>> {
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return parse_v6(inner);
    }
    if text.contains(':') { parse_v6(text) } else { parse_v4(text).map(|bytes| bytes.to_vec()) }
}

fn parse_v6(text: &str) -> Option<Vec<u8>> {
    let address: Ipv6Addr = text.parse().ok()?;
    Some(match address.to_ipv4_mapped() {
        Some(v4) => v4.octets().to_vec(),
        None => address.octets().to_vec(),
    })
}

fn parse_v4(text: &str) -> Option<[u8; 4]> {
    let parts: Vec<u64> = text
        .split('.')
        .map(|part| {
            let plain = !part.is_empty() && part.len() <= 10 && part.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| part.parse().ok()).flatten()
        })
        .collect::<Option<_>>()?;
    let (last, leading) = parts.split_last()?;
    let bits_left = 32u32.checked_sub(8 * u32::try_from(leading.len()).ok()?)?;
    if bits_left == 0 || leading.iter().any(|part| *part > 255) || last >> bits_left != 0 {
        return None;
    }
    let head = leading.iter().fold(0u64, |value, part| value << 8 | part);
    u32::try_from(head << bits_left | last).ok().map(u32::to_be_bytes)
}

/// The address in its usual text: RFC 5952 for IPv6. `None` where it is neither 4 nor 16 bytes.
pub fn format(bytes: &[u8]) -> Option<String> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(v4).to_string());
    }
    let v6 = Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?);
    Some(match v6.to_ipv4_mapped() {
        // Rust writes these with a dotted tail; Java and the drivers do not.
        Some(_) => {
            let [.., a, b] = v6.segments();
            format!("::ffff:{a:x}:{b:x}")
        }
        None => v6.to_string(),
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_as_java_reads_them() {
        for (text, shown) in [
            ("127.0.0.1", "127.0.0.1"),
            ("255.255.255.255", "255.255.255.255"),
            ("::1", "::1"),
            ("::", "::"),
            ("2001:0DB8:0000:0000:0000:FF00:0042:8329", "2001:db8::ff00:42:8329"),
            ("::ffff:1.2.3.4", "1.2.3.4"),
            ("1.2.3", "1.2.0.3"),
            ("1", "0.0.0.1"),
            ("[::1]", "::1"),
            ("4294967295", "255.255.255.255"),
        ] {
            assert_eq!(format(&parse(text).unwrap()).unwrap(), shown, "{text}");
        }
    }

    #[test]
    fn what_is_no_address() {
        for text in [
            "",
            "fe80::1%lo",
            "256.0.0.1",
            "1.2.3.4.5",
            "not an address",
            "localhost",
            "2001:db8::1::2",
            "1.2.3.4/8",
            "1..2",
            "-1",
            "4294967296",
            "1.2.65536",
            "[1.2.3.4]",
            "[::1",
            "é",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn mapped_addresses_bound_as_bytes_stay_ipv6() {
        let bytes = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 1, 2, 3, 4];
        assert_eq!(format(&bytes).unwrap(), "::ffff:102:304");
        assert_eq!(format(&[1, 2, 3]), None);
    }

    proptest! {
        #[test]
        fn text_round_trips(v4: [u8; 4], v6: [u8; 16]) {
            prop_assert_eq!(parse(&format(&v4).unwrap()).unwrap(), v4);
            if Ipv6Addr::from(v6).to_ipv4_mapped().is_none() {
                prop_assert_eq!(parse(&format(&v6).unwrap()).unwrap(), v6);
            }
        }

        #[test]
        fn any_text_is_an_address_or_not(text in "[0-9a-f.:%\\[\\]]{0,20}") {
            if let Some(bytes) = parse(&text) {
                prop_assert!(format(&bytes).is_some());
            }
        }
    }
}
