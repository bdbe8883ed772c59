//! The Java class names of types. Drivers meet them as custom types (vectors, the timeuuid of `min`), and CQL takes
//! them in quotes.

use super::cql_type::{CqlType, UdtType};
use super::error::ValueError;
use super::parse::TYPE_DEPTH_MAX;

const PACKAGE: &str = "org.apache.cassandra.db.marshal.";

/// The class whose values `min` and `max` of a timeuuid have in Cassandra 5.0.
pub const LEGACY_TIMEUUID: &str = "org.apache.cassandra.db.marshal.LegacyTimeUUIDType";

const NATIVE_CLASSES: [(CqlType, &str); 21] = [
    (CqlType::Ascii, "AsciiType"),
    (CqlType::BigInt, "LongType"),
    (CqlType::Blob, "BytesType"),
    (CqlType::Boolean, "BooleanType"),
    (CqlType::Counter, "CounterColumnType"),
    (CqlType::Date, "SimpleDateType"),
    (CqlType::Decimal, "DecimalType"),
    (CqlType::Double, "DoubleType"),
    (CqlType::Duration, "DurationType"),
    (CqlType::Float, "FloatType"),
    (CqlType::Inet, "InetAddressType"),
    (CqlType::Int, "Int32Type"),
    (CqlType::SmallInt, "ShortType"),
    (CqlType::Text, "UTF8Type"),
    (CqlType::Time, "TimeType"),
    (CqlType::Timestamp, "TimestampType"),
    (CqlType::TimeUuid, "TimeUUIDType"),
    (CqlType::TinyInt, "ByteType"),
    (CqlType::Uuid, "UUIDType"),
    (CqlType::Varint, "IntegerType"),
    (CqlType::Empty, "EmptyType"),
];

impl CqlType {
    /// The Java class of the type with its parameters, as Cassandra writes it.
    pub fn marshal_name(&self) -> String {
        match self {
            CqlType::List(element) => format!("{PACKAGE}ListType({})", element.marshal_name()),
            CqlType::Set(element) => format!("{PACKAGE}SetType({})", element.marshal_name()),
            CqlType::Map(key, value) => format!("{PACKAGE}MapType({},{})", key.marshal_name(), value.marshal_name()),
            CqlType::Tuple(elements) => {
                let elements: Vec<String> = elements.iter().map(|ty| ty.unfrozen().marshal_name()).collect();
                format!("{PACKAGE}TupleType({})", elements.join(","))
            }
            CqlType::Vector(element, dimensions) => {
                format!("{PACKAGE}VectorType({} , {dimensions})", element.unfrozen().marshal_name())
            }
            CqlType::Frozen(inner) => format!("{PACKAGE}FrozenType({})", inner.marshal_name()),
            CqlType::Udt(udt) => udt_name(udt),
            CqlType::Custom(class) => class.clone(),
            native => {
                let class = NATIVE_CLASSES.iter().find(|(ty, _)| ty == native).map_or("BytesType", |(_, class)| class);
                format!("{PACKAGE}{class}")
            }
        }
    }
}

fn udt_name(udt: &UdtType) -> String {
    let mut out = format!("{PACKAGE}UserType({},{}", udt.keyspace, hex(&udt.name));
    for (name, ty) in &udt.fields {
        out.push_str(&format!(",{}:{}", hex(name), ty.marshal_name()));
    }
    out.push(')');
    out
}

fn hex(name: &str) -> String {
    name.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a class name, with or without the package. `ReversedType` and `FrozenType` are understood; a class that is
/// not Cassandra's own is an error.
pub fn parse_marshal_name(text: &str) -> Result<CqlType, ValueError> {
    let mut parser = Parser { text, rest: text };
    let ty = parser.ty(0)?;
    if parser.rest.trim().is_empty() { Ok(ty) } else { Err(parser.error()) }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn ty(&mut self, depth: usize) -> Result<CqlType, ValueError> {
        if depth > TYPE_DEPTH_MAX {
            return Err(self.error());
        }
        let name = self.identifier()?;
        let class = name.strip_prefix(PACKAGE).unwrap_or(name);
        if let Some((native, _)) = NATIVE_CLASSES.iter().find(|(_, known)| *known == class) {
            return Ok(native.clone());
        }
        match class {
            "LegacyTimeUUIDType" => Ok(CqlType::Custom(LEGACY_TIMEUUID.to_owned())),
            "UserType" => self.user_type(depth),
            "VectorType" => {
                self.expect('(')?;
                let element = self.ty(depth + 1)?;
                self.expect(',')?;
                let dimensions = self.identifier()?.parse().map_err(|_| self.error())?;
                self.expect(')')?;
                if dimensions == 0 { Err(self.error()) } else { Ok(CqlType::vector(element, dimensions)) }
            }
            "ListType" | "SetType" | "MapType" | "TupleType" | "FrozenType" | "ReversedType" => {
                let parameters = self.parameters(depth)?;
                self.composed(class, parameters)
            }
            _ => Err(self.error()),
        }
    }

    fn composed(&self, class: &str, parameters: Vec<CqlType>) -> Result<CqlType, ValueError> {
        let mut parameters = parameters.into_iter();
        let ty = match (class, parameters.next(), parameters.next()) {
            ("TupleType", Some(first), second) => {
                return Ok(CqlType::tuple([first].into_iter().chain(second).chain(parameters)));
            }
            ("ListType", Some(element), None) => CqlType::list(element),
            ("SetType", Some(element), None) => CqlType::set(element),
            ("FrozenType", Some(inner), None) => inner.freeze(),
            ("ReversedType", Some(inner), None) => inner,
            ("MapType", Some(key), Some(value)) => CqlType::map(key, value),
            _ => return Err(self.error()),
        };
        if parameters.next().is_some() { Err(self.error()) } else { Ok(ty) }
    }

    fn parameters(&mut self, depth: usize) -> Result<Vec<CqlType>, ValueError> {
        self.expect('(')?;
        let mut out = vec![self.ty(depth + 1)?];
        while self.eat(',') {
            out.push(self.ty(depth + 1)?);
        }
        self.expect(')')?;
        Ok(out)
    }

    fn user_type(&mut self, depth: usize) -> Result<CqlType, ValueError> {
        self.expect('(')?;
        let keyspace = self.identifier()?.to_owned();
        self.expect(',')?;
        let name = self.hex_name()?;
        let mut fields = Vec::new();
        while self.eat(',') {
            let field = self.hex_name()?;
            self.expect(':')?;
            fields.push((field, self.ty(depth + 1)?));
        }
        self.expect(')')?;
        Ok(CqlType::Udt(Box::new(UdtType { keyspace, name, fields })))
    }

    fn hex_name(&mut self) -> Result<String, ValueError> {
        let digits = self.identifier()?;
        let bytes = super::literal::decode_hex(digits).ok_or_else(|| self.error())?;
        String::from_utf8(bytes).map_err(|_| self.error())
    }

    fn identifier(&mut self) -> Result<&'a str, ValueError> {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || "_.-+&$".contains(c))).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if word.is_empty() {
            return Err(self.error());
        }
        self.rest = rest;
        Ok(word)
    }

    fn eat(&mut self, want: char) -> bool {
        match self.rest.trim_start().strip_prefix(want) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, want: char) -> Result<(), ValueError> {
        if self.eat(want) { Ok(()) } else { Err(self.error()) }
    }

    fn error(&self) -> ValueError {
        let class = self.text.split('(').next().unwrap_or_default();
        let class = if class.contains('.') { class.to_owned() } else { format!("{PACKAGE}{class}") };
        ValueError::UnknownType(format!("Unable to find abstract-type class '{class}'"))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_cassandras() {
        assert_eq!(
            CqlType::vector(CqlType::Float, 3).marshal_name(),
            "org.apache.cassandra.db.marshal.VectorType(org.apache.cassandra.db.marshal.FloatType , 3)"
        );
        let udt = UdtType { keyspace: "ks".into(), name: "ty".into(), fields: vec![("a".into(), CqlType::Int)] };
        assert_eq!(
            CqlType::Udt(Box::new(udt)).freeze().marshal_name(),
            "org.apache.cassandra.db.marshal.FrozenType(org.apache.cassandra.db.marshal.UserType(ks,7479,\
             61:org.apache.cassandra.db.marshal.Int32Type))"
        );
    }

    #[test]
    fn every_name_reads_back() {
        let udt = UdtType { keyspace: "ks".into(), name: "Ty é".into(), fields: vec![("a".into(), CqlType::Int)] };
        let composed = [
            CqlType::map(CqlType::Text, CqlType::list(CqlType::Int).freeze()),
            CqlType::tuple([CqlType::Int, CqlType::set(CqlType::Uuid)]),
            CqlType::vector(CqlType::tuple([CqlType::Duration]), 7),
            CqlType::Udt(Box::new(udt)),
        ];
        for ty in CqlType::NATIVE.into_iter().chain(composed) {
            assert_eq!(parse_marshal_name(&ty.marshal_name()).unwrap(), ty);
        }
        assert_eq!(parse_marshal_name("ReversedType(Int32Type)").unwrap(), CqlType::Int);
    }

    #[test]
    fn unknown_classes_are_named() {
        let error = parse_marshal_name("NoSuchClass").unwrap_err().to_string();
        assert_eq!(error, "Unable to find abstract-type class 'org.apache.cassandra.db.marshal.NoSuchClass'");
        for text in ["", "ListType", "ListType(", "MapType(Int32Type)", "VectorType(Int32Type , x)", "UserType(ks,6)"] {
            assert!(parse_marshal_name(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_a_type_or_an_error(text in "(ListType|TupleType|Int32Type|UserType|[(),: 0-9a-f]){0,12}") {
            let _ = parse_marshal_name(&text);
        }
    }
}
