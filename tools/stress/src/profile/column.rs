//! The values of a column: which of a population a seed draws, and the bytes of each. A member of the population always
//! has the same bytes.

use helenus::protocol::wire::{begin_bytes, end_bytes};
use helenus::types::collection::{pack_list, pack_map, pack_set};
use helenus::types::{CqlType, uuid};

use crate::distribution::{Distribution, Draws};
use crate::random::{Random, mix, salt_of};

/// Values are so long at most.
pub const VALUE_BYTES_MAX: i64 = 16 << 20;
/// Fifty years, as milliseconds: what timestamps are drawn from unless told.
const FIFTY_YEARS_MS: i64 = 50 * 365 * 24 * 60 * 60 * 1000;
/// cassandra-stress's population of everything else.
const POPULATION_MAX: i64 = 100_000_000_000;
const NANOS_A_DAY: i64 = 86_400_000_000_000;

/// What a profile says of a column.
#[derive(Clone, Debug, Default)]
pub struct ColumnSpec {
    pub size: Option<Distribution>,
    pub population: Option<Distribution>,
    pub cluster: Option<Distribution>,
}

/// A column whose values cannot be made.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("column `{column}` is of type {ty}, for which no values are made yet")]
pub struct ColumnError {
    pub column: String,
    pub ty: String,
}

/// A column, and how its values are made.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub ty: CqlType,
    salt: u64,
    population: Distribution,
    size: Distribution,
    /// How many values a clustering column has under each of those before it.
    cluster: Distribution,
}

impl Column {
    pub fn new(name: &str, ty: CqlType, spec: Option<&ColumnSpec>) -> Result<Column, ColumnError> {
        if !can_be_made(&ty) {
            return Err(ColumnError { column: name.to_owned(), ty: ty.to_string() });
        }
        let spec = spec.cloned().unwrap_or_default();
        let last = match element_of(&ty) {
            CqlType::Timestamp | CqlType::TimeUuid => FIFTY_YEARS_MS,
            CqlType::Time => NANOS_A_DAY - 1,
            _ => POPULATION_MAX,
        };
        Ok(Column {
            name: name.to_owned(),
            ty,
            salt: salt_of(name),
            population: spec.population.unwrap_or_else(|| Distribution::uniform(1, last)),
            size: spec.size.unwrap_or_else(|| Distribution::uniform(4, 8)),
            cluster: spec.cluster.unwrap_or_else(|| Distribution::fixed(1)),
        })
    }

    pub fn is_multi_cell(&self) -> bool {
        self.ty.is_multi_cell()
    }

    /// How many values this clustering column has, under a parent of this seed.
    pub fn cluster_count(&self, seed: u64) -> u64 {
        match self.cluster.only() {
            Some(count) => count as u64,
            None => self.cluster.draw(&mut Draws::of(seed, !self.salt)).max(1) as u64,
        }
    }

    /// The most values it has under one parent.
    pub fn cluster_max(&self) -> u64 {
        self.cluster.max().max(1) as u64
    }

    /// Whether several values under one parent may be the same.
    pub fn may_repeat(&self) -> bool {
        let narrow = matches!(self.ty, CqlType::Boolean | CqlType::TinyInt | CqlType::SmallInt);
        narrow || !self.population.is_sequence()
    }

    /// The member of the population that a seed draws.
    #[inline]
    pub fn member(&self, seed: u64) -> i64 {
        self.population.draw(&mut Draws::of(seed, self.salt))
    }

    /// Appends the value that a seed draws, with its length before it.
    #[inline]
    pub fn put(&self, seed: u64, out: &mut Vec<u8>) {
        self.put_member(self.member(seed), out);
    }

    /// Appends a member's value, with its length before it.
    #[inline]
    pub fn put_member(&self, member: i64, out: &mut Vec<u8>) {
        let at = begin_bytes(out);
        self.put_plain(&self.ty, member, out);
        end_bytes(out, at);
    }

    fn draw_size(&self, member: i64) -> usize {
        match self.size.only() {
            Some(size) => size as usize,
            None => self.size.draw(&mut Draws::of(member as u64, !0)) as usize,
        }
    }

    fn put_plain(&self, ty: &CqlType, member: i64, out: &mut Vec<u8>) {
        match ty {
            CqlType::Ascii | CqlType::Text => put_text(!member as u64, self.draw_size(member), out),
            CqlType::Blob => {
                let start = out.len();
                out.resize(start + self.draw_size(member), 0);
                Random::of(!member as u64).fill(&mut out[start..]);
            }
            CqlType::BigInt | CqlType::Counter | CqlType::Timestamp => out.extend_from_slice(&member.to_be_bytes()),
            CqlType::Time => out.extend_from_slice(&member.rem_euclid(NANOS_A_DAY).to_be_bytes()),
            CqlType::Int => out.extend_from_slice(&(member as i32).to_be_bytes()),
            // Days are counted from 2^31 before 1970.
            CqlType::Date => out.extend_from_slice(&(member as i32 as u32).wrapping_add(1 << 31).to_be_bytes()),
            CqlType::SmallInt => out.extend_from_slice(&(member as i16).to_be_bytes()),
            CqlType::TinyInt => out.push(member as u8),
            CqlType::Boolean => out.push(u8::from(member % 2 == 0)),
            CqlType::Double => out.extend_from_slice(&(member as f64).to_be_bytes()),
            CqlType::Float => out.extend_from_slice(&(member as f32).to_be_bytes()),
            CqlType::Decimal => {
                out.extend_from_slice(&[0; 4]); // the scale
                put_varint(member, out);
            }
            CqlType::Varint => put_varint(member, out),
            CqlType::Inet => out.extend_from_slice(&(member as u32).to_be_bytes()),
            CqlType::Uuid => {
                let bits = (u128::from(mix(member as u64)) << 64) | u128::from(mix(!member as u64));
                // Version 4, the variant of RFC 9562.
                let random = (bits & !(0xf << 76) & !(0b11 << 62)) | (4 << 76) | (0b10 << 62);
                out.extend_from_slice(&random.to_be_bytes());
            }
            CqlType::TimeUuid => {
                // The variant's bits, and the rest to tell columns apart.
                let low = (self.salt & !(0b11 << 62)) | (0b10 << 62);
                out.extend_from_slice(&uuid::version1(uuid::ticks_of_unix_ms(member), low.to_be_bytes()));
            }
            collection => self.put_collection(collection.unfrozen(), member, out),
        }
    }

    fn put_collection(&self, ty: &CqlType, member: i64, out: &mut Vec<u8>) {
        let count = self.draw_size(member);
        let mut draws = Draws::of(mix(member as u64), self.salt);
        let mut elements = |ty: &CqlType| -> Vec<Vec<u8>> {
            let element = |_| {
                let mut bytes = Vec::new();
                self.put_plain(ty, self.population.draw(&mut draws), &mut bytes);
                bytes
            };
            (0..count).map(element).collect()
        };
        let packed = match ty {
            CqlType::List(element) => {
                let elements = elements(element);
                pack_list(elements.iter().map(|bytes| Some(bytes.as_slice())))
            }
            CqlType::Set(element) => pack_set(element, elements(element).iter().map(Vec::as_slice)),
            CqlType::Map(key, value) => {
                let (keys, values) = (elements(key), elements(value));
                pack_map(key, keys.iter().map(Vec::as_slice).zip(values.iter().map(Vec::as_slice)))
            }
            _ => unreachable!("refused when the column was made"),
        };
        out.extend_from_slice(&packed);
    }
}

/// The type whose values are drawn: of a collection, its elements' (a map's keys').
fn element_of(ty: &CqlType) -> &CqlType {
    match ty.unfrozen() {
        CqlType::List(element) | CqlType::Set(element) | CqlType::Map(element, _) => element_of(element),
        plain => plain,
    }
}

fn can_be_made(ty: &CqlType) -> bool {
    match ty.unfrozen() {
        CqlType::List(element) | CqlType::Set(element) => is_plain(element),
        CqlType::Map(key, value) => is_plain(key) && is_plain(value),
        plain => is_plain(plain),
    }
}

fn is_plain(ty: &CqlType) -> bool {
    ty.native_name().is_some() && !matches!(ty, CqlType::Duration | CqlType::Empty)
}

/// Appends printable ASCII.
#[inline]
fn put_text(seed: u64, size: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + size, 0);
    let text = &mut out[start..];
    Random::of(seed).fill(text);
    for byte in text {
        *byte = b' ' + ((u16::from(*byte) * 95) >> 8) as u8;
    }
}

/// Appends the fewest bytes that hold the number in two's complement.
fn put_varint(number: i64, out: &mut Vec<u8>) {
    let bytes = number.to_be_bytes();
    let sign = if number < 0 { 0xff } else { 0 };
    let spare = |at: usize| bytes[at] == sign && (bytes[at + 1] ^ sign) & 0x80 == 0;
    let from = (0..7).take_while(|at| spare(*at)).count();
    out.extend_from_slice(&bytes[from..]);
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::collections::HashSet;

    use helenus::types::{number, parse_cql_type, validate};

    use super::*;

    fn column(ty: &str, population: &str, size: &str) -> Column {
        let parsed = |text: &str| Some(Distribution::parse(text).unwrap());
        let spec = ColumnSpec { size: parsed(size), population: parsed(population), cluster: None };
        Column::new("c", parse_cql_type(ty, &|_| None).unwrap(), Some(&spec)).unwrap()
    }

    fn value(column: &Column, seed: u64) -> Vec<u8> {
        let mut out = Vec::new();
        column.put(seed, &mut out);
        let (len, value) = out.split_first_chunk::<4>().unwrap();
        assert_eq!(u32::from_be_bytes(*len) as usize, value.len());
        value.to_vec()
    }

    #[test]
    fn every_type_has_values() {
        for ty in [
            "ascii",
            "text",
            "blob",
            "bigint",
            "int",
            "smallint",
            "tinyint",
            "boolean",
            "double",
            "float",
            "decimal",
            "varint",
            "inet",
            "timestamp",
            "date",
            "time",
            "uuid",
            "timeuuid",
            "counter",
            "list<int>",
            "set<text>",
            "map<text, timeuuid>",
            "frozen<set<int>>",
            "frozen<list<blob>>",
        ] {
            let ty = parse_cql_type(ty, &|_| None).unwrap();
            let column = Column::new("c", ty.clone(), None).unwrap();
            for seed in 0..200 {
                let value = value(&column, seed);
                validate(&ty, &value).unwrap_or_else(|error| panic!("{ty}: {value:02x?}: {error}"));
                if matches!(ty, CqlType::Ascii | CqlType::Text | CqlType::Blob) {
                    assert!((4..=8).contains(&value.len()), "{ty}");
                }
            }
        }
    }

    #[test]
    fn sizes_and_populations_are_kept() {
        let column = column("text", "uniform(1..5)", "fixed(15)");
        let values: HashSet<Vec<u8>> = (0..1000).map(|seed| value(&column, seed)).collect();
        assert_eq!(values.len(), 5);
        assert!(values.iter().all(|value| value.len() == 15 && value.iter().all(|byte| (b' '..=b'~').contains(byte))));
        let many = self::column("text", "seq(1..2000000)", "fixed(15)");
        let values: HashSet<Vec<u8>> = (0..50_000).map(|seed| value(&many, seed)).collect();
        assert_eq!(values.len(), 50_000);
        let sized = self::column("blob", "uniform(1..100)", "uniform(0..3)");
        let sizes: HashSet<usize> = (0..100).map(|seed| value(&sized, seed).len()).collect();
        assert_eq!(sizes.len(), 4);
    }

    #[test]
    fn varints_are_short() {
        for wanted in [0, 1, -1, 127, 128, -128, -129, 255, 65_535, -65_536, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            put_varint(wanted, &mut out);
            assert_eq!(out, number::varint_bytes(&wanted.into()), "{wanted}");
        }
    }

    #[test]
    fn clustering_counts_belong_to_their_parent() {
        let spec = ColumnSpec { cluster: Some(Distribution::uniform(2, 4)), ..ColumnSpec::default() };
        let column = Column::new("c", CqlType::Int, Some(&spec)).unwrap();
        let counts: Vec<u64> = (0..100).map(|seed| column.cluster_count(seed)).collect();
        assert_eq!(counts.iter().copied().collect::<HashSet<_>>(), HashSet::from([2, 3, 4]));
        assert_eq!(counts, (0..100).map(|seed| column.cluster_count(seed)).collect::<Vec<_>>());
        assert_eq!((column.cluster_max(), Column::new("d", CqlType::Int, None).unwrap().cluster_count(1)), (4, 1));
    }

    #[test]
    fn what_cannot_be_made_is_named() {
        for ty in ["duration", "tuple<int, int>", "list<frozen<list<int>>>", "vector<float, 3>"] {
            let error = Column::new("c", parse_cql_type(ty, &|_| None).unwrap(), None).unwrap_err().to_string();
            assert!(error.contains("column `c`") && error.contains("no values are made yet"), "{error}");
        }
    }
}
