//! The versions of the native protocol that are spoken here.

use super::error::CqlError;

/// A version of the native protocol. They are ordered: a later one has what the earlier have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolVersion {
    V3 = 3,
    V4 = 4,
    V5 = 5,
}

impl ProtocolVersion {
    pub const ALL: [ProtocolVersion; 3] = [ProtocolVersion::V3, ProtocolVersion::V4, ProtocolVersion::V5];

    /// The version in which clients that ask for an unknown one are answered.
    pub const NEWEST: ProtocolVersion = ProtocolVersion::V5;

    /// The version of this number (the direction bit cleared).
    pub fn from_number(number: u8) -> Option<ProtocolVersion> {
        match number {
            3 => Some(ProtocolVersion::V3),
            4 => Some(ProtocolVersion::V4),
            5 => Some(ProtocolVersion::V5),
            _ => None,
        }
    }

    pub fn number(self) -> u8 {
        match self {
            ProtocolVersion::V3 => 3,
            ProtocolVersion::V4 => 4,
            ProtocolVersion::V5 => 5,
        }
    }

    /// The name in SUPPORTED's PROTOCOL_VERSIONS, such as `4/v4`.
    pub fn descriptor(self) -> &'static str {
        match self {
            ProtocolVersion::V3 => "3/v3",
            ProtocolVersion::V4 => "4/v4",
            ProtocolVersion::V5 => "5/v5",
        }
    }

    /// The answer to a client that speaks another version. Drivers look for this text, and read the versions in it.
    pub fn unsupported(number: u8) -> CqlError {
        let supported = ProtocolVersion::ALL.map(ProtocolVersion::descriptor).join(", ");
        CqlError::protocol_error(format!(
            "Invalid or unsupported protocol version ({number}); supported versions are ({supported})"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_versions_are_each_others_inverse() {
        for version in ProtocolVersion::ALL {
            assert_eq!(ProtocolVersion::from_number(version.number()), Some(version));
        }
        for number in [0, 1, 2, 6, 0x41, 0x42, 0x7f, 0x84] {
            assert_eq!(ProtocolVersion::from_number(number), None);
        }
    }

    #[test]
    fn the_refusal_names_the_version_and_those_that_work() {
        let error = ProtocolVersion::unsupported(66);
        assert_eq!(
            error.message(),
            "Invalid or unsupported protocol version (66); supported versions are (3/v3, 4/v4, 5/v5)"
        );
        assert_eq!(error.code().number(), 0x0A);
    }
}
