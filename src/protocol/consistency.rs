//! Consistency levels: their codes on the wire and their names in CQL and error texts.

use std::fmt;
use std::str::FromStr;

/// How many replicas must answer. Serial levels order lightweight transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Consistency {
    Any,
    One,
    Two,
    Three,
    Quorum,
    All,
    LocalQuorum,
    EachQuorum,
    Serial,
    LocalSerial,
    LocalOne,
    NodeLocal,
}

/// Each level at the place of its code.
const LEVELS: [(Consistency, &str); 12] = [
    (Consistency::Any, "ANY"),
    (Consistency::One, "ONE"),
    (Consistency::Two, "TWO"),
    (Consistency::Three, "THREE"),
    (Consistency::Quorum, "QUORUM"),
    (Consistency::All, "ALL"),
    (Consistency::LocalQuorum, "LOCAL_QUORUM"),
    (Consistency::EachQuorum, "EACH_QUORUM"),
    (Consistency::Serial, "SERIAL"),
    (Consistency::LocalSerial, "LOCAL_SERIAL"),
    (Consistency::LocalOne, "LOCAL_ONE"),
    (Consistency::NodeLocal, "NODE_LOCAL"),
];

impl Consistency {
    pub fn from_code(code: u16) -> Option<Consistency> {
        LEVELS.get(usize::from(code)).map(|(level, _)| *level)
    }

    pub fn code(self) -> u16 {
        self as u16
    }

    pub fn name(self) -> &'static str {
        LEVELS.get(self as usize).map_or("", |(_, name)| name)
    }

    /// Whether the level orders lightweight transactions rather than counting replicas.
    pub fn is_serial(self) -> bool {
        matches!(self, Consistency::Serial | Consistency::LocalSerial)
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no consistency level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown consistency level '{0}'")]
pub struct UnknownConsistency(pub String);

impl FromStr for Consistency {
    type Err = UnknownConsistency;

    /// Reads a name in any case.
    fn from_str(name: &str) -> Result<Consistency, UnknownConsistency> {
        let found = LEVELS.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
        found.map(|(level, _)| *level).ok_or_else(|| UnknownConsistency(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_round_trip() {
        for (place, (level, name)) in LEVELS.iter().enumerate() {
            assert_eq!(usize::from(level.code()), place);
            assert_eq!(Consistency::from_code(level.code()), Some(*level));
            assert_eq!(level.to_string(), *name);
            assert_eq!(name.to_lowercase().parse(), Ok(*level));
        }
        assert_eq!(Consistency::from_code(12), None);
        assert_eq!("most".parse::<Consistency>(), Err(UnknownConsistency("most".into())));
    }

    #[test]
    fn only_two_levels_are_serial() {
        let serial: Vec<u16> =
            LEVELS.iter().filter(|(level, _)| level.is_serial()).map(|(level, _)| level.code()).collect();
        assert_eq!(serial, [8, 9]);
    }
}
