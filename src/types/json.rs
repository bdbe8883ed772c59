//! JSON forms of values: what `SELECT JSON` and `to_json` write, and `INSERT JSON` and `from_json` read. Rules and
//! words are Cassandra's, down to the Java classes that it names for what it did not expect.

use serde_json::{Map, Value};

use crate::base::collections::{HashMap, hasher};

use super::collection::{element_texts, element_type, pack_list, pack_map, pack_set, pack_tuple, pack_vector};
use super::cql_type::{CqlType, UdtType};
use super::error::ValueError;
use super::literal::{decode_hex, encode_hex, from_text};
use super::number::{self, Decimal};
use super::{temporal, text};

/// The JSON of a value that is not null. Numbers that are not numbers become `null`, numbers of no bytes `""`.
pub fn to_json(ty: &CqlType, bytes: &[u8]) -> String {
    let ty = ty.unfrozen();
    if let Some(json) = composed(ty, bytes) {
        return json;
    }
    if bytes.is_empty() && ty.is_empty_value_meaningless() {
        return "\"\"".to_owned();
    }
    let unquoted = match ty {
        CqlType::Float => number::float32(bytes).map(|value| finite(value.is_finite(), number::float_text(value))),
        CqlType::Double => number::float64(bytes).map(|value| finite(value.is_finite(), number::double_text(value))),
        CqlType::Decimal => Decimal::decode(bytes).map(|value| value.to_string()),
        CqlType::Boolean
        | CqlType::TinyInt
        | CqlType::SmallInt
        | CqlType::Int
        | CqlType::BigInt
        | CqlType::Counter
        | CqlType::Varint => text::bare(ty, bytes),
        _ => None,
    };
    unquoted.unwrap_or_else(|| {
        let text = match (ty, number::int64(bytes)) {
            (CqlType::Timestamp, Some(unix_ms)) => Some(temporal::format_timestamp_json(unix_ms)),
            _ => text::bare(ty, bytes),
        };
        quote(&text.unwrap_or_else(|| format!("0x{}", encode_hex(bytes))))
    })
}

fn finite(is_finite: bool, text: String) -> String {
    if is_finite { text } else { "null".to_owned() }
}

/// A JSON string.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            control if control < ' ' => out.push_str(&format!("\\u{:04X}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// A name as a JSON key: one with upper-case letters keeps the double quotes that CQL would need.
pub fn quote_key(name: &str) -> String {
    if name.chars().any(char::is_uppercase) { quote(&format!("\"{name}\"")) } else { quote(name) }
}

/// The name that a JSON key means: in double quotes as it stands, else in lower case.
pub fn unquote_key(key: &str) -> String {
    match key.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(exact) => exact.to_owned(),
        None => key.to_lowercase(),
    }
}

fn composed(ty: &CqlType, bytes: &[u8]) -> Option<String> {
    let (open, close) = match ty {
        CqlType::List(_) | CqlType::Set(_) | CqlType::Vector(..) | CqlType::Tuple(_) => ('[', ']'),
        CqlType::Map(..) | CqlType::Udt(_) => ('{', '}'),
        _ => return None,
    };
    let mut parts = element_texts(ty, bytes, to_json)?;
    match ty {
        CqlType::Map(..) => {
            let key = |key: &str| if key.starts_with('"') { key.to_owned() } else { quote(key) };
            parts = parts.as_chunks::<2>().0.iter().map(|[k, value]| format!("{}: {value}", key(k))).collect();
        }
        CqlType::Udt(udt) => {
            let names = udt.fields.iter().map(|(name, _)| quote_key(name));
            parts = names.zip(parts).map(|(name, part)| format!("{name}: {part}")).collect();
        }
        _ => {}
    }
    Some(format!("{open}{}{close}", parts.join(", ")))
}

/// Reads JSON text. Bare `NaN` and `Infinity`, which JSON lacks, are null.
pub fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| match without_non_numbers(text) {
        Some(cleaned) => serde_json::from_str(&cleaned),
        None => Err(error),
    })
}

/// Reads the JSON object of an `INSERT JSON`.
pub fn parse_object(text: &str) -> Result<Map<String, Value>, ValueError> {
    let wrong =
        |why: String| ValueError::Json(format!("Could not decode JSON string as a map: {why}. (String was: {text})"));
    match parse(text).map_err(|error| wrong(error.to_string()))? {
        Value::Object(map) => Ok(map),
        other => Err(wrong(format!("expected an object, but got a {}", java_class(&other)))),
    }
}

/// The text with `NaN`, `Infinity` and `-Infinity` outside strings made `null`; `None` where there are none.
fn without_non_numbers(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_string = false;
    let mut found = false;
    while let Some(c) = rest.chars().next() {
        let word = ["-Infinity", "Infinity", "NaN"].into_iter().find(|word| !in_string && rest.starts_with(word));
        let taken = match (word, c) {
            (Some(word), _) => {
                found = true;
                out.push_str("null");
                rest = rest.get(word.len()..)?;
                continue;
            }
            (None, '\\') if in_string => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
            (None, _) => c.len_utf8(),
        };
        in_string ^= c == '"';
        let (head, tail) = rest.split_at_checked(taken)?;
        out.push_str(head);
        rest = tail;
    }
    found.then_some(out)
}

/// The value that JSON means for a type; `None` is null. Numbers may stand in strings, and so may collections.
pub fn from_json(ty: &CqlType, json: &Value, now_ms: i64) -> Result<Option<Vec<u8>>, ValueError> {
    if json.is_null() {
        return Ok(None);
    }
    let ty = ty.unfrozen();
    match ty {
        CqlType::List(_) | CqlType::Set(_) | CqlType::Vector(..) | CqlType::Tuple(_) => {
            array(ty, in_string(json)?.as_ref(), now_ms).map(Some)
        }
        CqlType::Map(key, value) => map(key, value, in_string(json)?.as_ref(), now_ms).map(Some),
        CqlType::Udt(udt) => user_type(udt, in_string(json)?.as_ref(), now_ms).map(Some),
        CqlType::Float | CqlType::Double => floating(ty, json),
        _ => scalar(ty, json, now_ms).map(Some),
    }
}

/// A string holds the JSON that is meant.
fn in_string(json: &Value) -> Result<std::borrow::Cow<'_, Value>, ValueError> {
    use std::borrow::Cow;
    match json {
        Value::String(text) => parse(text)
            .map(Cow::Owned)
            .map_err(|error| ValueError::Json(format!("Error decoding JSON string '{text}': {error}"))),
        other => Ok(Cow::Borrowed(other)),
    }
}

fn unexpected(want: &str, got: &Value) -> ValueError {
    ValueError::Json(format!("Expected {want}, but got a {}: {}", java_class(got), java_text(got)))
}

fn floating(ty: &CqlType, json: &Value) -> Result<Option<Vec<u8>>, ValueError> {
    let is_float = *ty == CqlType::Float;
    let want = if is_float { "a float value" } else { "a double value" };
    let text = match json {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(unexpected(want, json)),
    };
    if ["NaN", "Infinity", "-Infinity"].contains(&text.as_str()) {
        return Ok(None);
    }
    from_text(ty, &text, 0).map(Some)
}

fn scalar(ty: &CqlType, json: &Value, now_ms: i64) -> Result<Vec<u8>, ValueError> {
    let class = java_class(json);
    let whole = matches!(class, "Integer" | "Long" | "BigInteger");
    let (want, takes_json) = match ty {
        CqlType::Ascii => ("an ascii string", false),
        CqlType::Text => ("a UTF-8 string", false),
        CqlType::TinyInt => ("a byte value", json.is_number()),
        CqlType::SmallInt => ("a short value", json.is_number()),
        CqlType::Int => ("an int value", class == "Integer"),
        CqlType::BigInt | CqlType::Counter => ("a bigint value", class == "Integer" || class == "Long"),
        CqlType::Varint => ("a varint value", whole),
        CqlType::Decimal => ("a decimal value", json.is_number()),
        CqlType::Boolean => ("a boolean value", json.is_boolean()),
        CqlType::Uuid => ("a string representation of a uuid", false),
        CqlType::TimeUuid => ("a string representation of a timeuuid", false),
        CqlType::Inet => ("a string representation of an inet value", false),
        CqlType::Date => ("a string representation of a date value", false),
        CqlType::Time => ("a string representation of a time value", false),
        CqlType::Duration => ("a string representation of a duration", false),
        // A number that fits an int is refused: only longs are taken as milliseconds.
        CqlType::Timestamp => ("a long or a datestring representation of a timestamp value", class == "Long"),
        _ => return blob(ty, json),
    };
    let text = match json {
        Value::String(text) => text.clone(),
        _ if takes_json => java_text(json),
        _ if matches!(ty, CqlType::Varint | CqlType::Decimal) => {
            let text = java_text(json);
            return Err(ValueError::Json(format!("Value '{text}' is not a valid representation of {want}")));
        }
        _ => return Err(unexpected(want, json)),
    };
    from_text(ty, &text, now_ms)
}

/// A blob, or a type of opaque bytes: `0x` and hexadecimal digits.
fn blob(ty: &CqlType, json: &Value) -> Result<Vec<u8>, ValueError> {
    let invalid =
        |why: &str| ValueError::Json(format!("Value '{}' is not a valid blob representation: {why}", java_text(json)));
    let Value::String(text) = json else {
        return Err(invalid("it is not a string"));
    };
    let digits =
        text.strip_prefix("0x").ok_or_else(|| invalid("String representation of blob is missing 0x prefix"))?;
    let bytes = decode_hex(digits).ok_or_else(|| invalid("odd or other than hexadecimal digits"))?;
    super::validate(ty, &bytes)?;
    Ok(bytes)
}

fn array(ty: &CqlType, json: &Value, now_ms: i64) -> Result<Vec<u8>, ValueError> {
    let want = match ty {
        CqlType::Set(_) => "a list (representing a set)",
        CqlType::Tuple(_) => "a list representation of a tuple",
        _ => "a list",
    };
    let Value::Array(items) = json else {
        return Err(unexpected(want, json));
    };
    check_count(ty, items.len(), json)?;
    let mut parts = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let part = match element_type(ty, at) {
            Some(element) => from_json(element, item, now_ms)?,
            None => None,
        };
        if part.is_none() && !matches!(ty, CqlType::Tuple(_)) {
            let kind = if matches!(ty, CqlType::Set(_)) { "set" } else { "list" };
            return Err(ValueError::Json(format!("Invalid null element in {kind}")));
        }
        parts.push(part);
    }
    let slices = parts.iter().map(Option::as_deref);
    Ok(match ty {
        CqlType::Set(element) => pack_set(element, slices.flatten()),
        CqlType::Vector(element, _) => pack_vector(element, slices.flatten()),
        CqlType::Tuple(_) => pack_tuple(slices),
        _ => pack_list(slices),
    })
}

fn check_count(ty: &CqlType, got: usize, json: &Value) -> Result<(), ValueError> {
    let text = match ty {
        CqlType::Tuple(types) if got > types.len() => {
            format!("Tuple contains extra items (expected {}): {}", types.len(), java_text(json))
        }
        CqlType::Tuple(types) if got < types.len() => {
            format!("Tuple is missing items (expected {}): {}", types.len(), java_text(json))
        }
        CqlType::Vector(_, dimensions) if got != usize::from(*dimensions) => {
            format!("List had incorrect size: expected {dimensions} but given {got}; {}", java_text(json))
        }
        _ => return Ok(()),
    };
    Err(ValueError::Json(text))
}

fn map(key_type: &CqlType, value_type: &CqlType, json: &Value, now_ms: i64) -> Result<Vec<u8>, ValueError> {
    let Value::Object(object) = json else {
        return Err(unexpected("a map", json));
    };
    let mut entries = Vec::with_capacity(object.len());
    for (key, value) in object {
        let null = |what: &str| ValueError::Json(format!("Invalid null {what} in map"));
        let key = from_json(key_type, &Value::String(key.clone()), now_ms)?.ok_or_else(|| null("key"))?;
        entries.push((key, from_json(value_type, value, now_ms)?.ok_or_else(|| null("value"))?));
    }
    Ok(pack_map(key_type, entries.iter().map(|(key, value)| (key.as_slice(), value.as_slice()))))
}

fn user_type(udt: &UdtType, json: &Value, now_ms: i64) -> Result<Vec<u8>, ValueError> {
    let Value::Object(object) = json else {
        return Err(unexpected("a map", json));
    };
    let mut fields: Vec<Option<Vec<u8>>> = vec![None; udt.fields.len()];
    let mut places: HashMap<&str, (usize, &CqlType)> = HashMap::with_hasher(hasher());
    // Of fields that share a name, should there be such, the first.
    places.extend(udt.fields.iter().enumerate().rev().map(|(at, (name, ty))| (name.as_str(), (at, ty))));
    for (key, value) in object {
        let name = unquote_key(key);
        let (at, ty) = places.get(name.as_str()).copied().ok_or_else(|| {
            ValueError::Json(format!("Unknown field '{name}' in value of user defined type {}", udt.name))
        })?;
        if let Some(field) = fields.get_mut(at) {
            *field = from_json(ty, value, now_ms)?;
        }
    }
    Ok(pack_tuple(fields.iter().map(Option::as_deref)))
}

/// The Java class that Cassandra's JSON parser makes of a value.
fn java_class(json: &Value) -> &'static str {
    match json {
        Value::Null => "null",
        Value::Bool(_) => "Boolean",
        Value::String(_) => "String",
        Value::Array(_) => "ArrayList",
        Value::Object(_) => "LinkedHashMap",
        Value::Number(number) => {
            let text = number.to_string();
            match text.parse::<i64>() {
                Ok(value) if i32::try_from(value).is_ok() => "Integer",
                Ok(_) => "Long",
                Err(_) if text.contains(['.', 'e', 'E']) => "Double",
                Err(_) => "BigInteger",
            }
        }
    }
}

/// The value as Java prints it.
fn java_text(json: &Value) -> String {
    match json {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(java_text).collect::<Vec<_>>().join(", ")),
        Value::Object(object) => {
            let entries: Vec<String> =
                object.iter().map(|(key, value)| format!("{key}={}", java_text(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Number(number) => {
            let text = number.to_string();
            match number::parse_double(&text) {
                Some(double) if text.contains(['.', 'e', 'E']) => number::double_text(double),
                _ => text,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::super::text::to_text;
    use super::super::validate;
    use super::*;
    use proptest::prelude::*;

    fn read(ty: &CqlType, json: &str) -> Result<String, String> {
        let value = parse(json).map_err(|error| error.to_string())?;
        let bytes = from_json(ty, &value, 0).map_err(|error| error.to_string())?;
        Ok(bytes.map_or("null".to_owned(), |bytes| to_text(ty, &bytes)))
    }

    fn udt() -> CqlType {
        let fields = vec![("a".to_owned(), CqlType::Int), ("B".to_owned(), CqlType::Text)];
        CqlType::Udt(Box::new(UdtType { keyspace: "ks".into(), name: "ty".into(), fields }))
    }

    #[test]
    fn json_is_read_as_cassandra_reads_it() {
        let ints = CqlType::map(CqlType::Int, CqlType::Text);
        for (ty, json, expected) in [
            (CqlType::Int, "\"3\"", "3"),
            (CqlType::Int, "null", "null"),
            (CqlType::Double, "\"2.5\"", "2.5"),
            (CqlType::Double, "3", "3.0"),
            (CqlType::Float, "NaN", "null"),
            (CqlType::Float, "\"NaN\"", "null"),
            (CqlType::Decimal, "1.10", "1.1"),
            (CqlType::Decimal, "\"1.10\"", "1.10"),
            (CqlType::Varint, "99999999999999999999", "99999999999999999999"),
            (CqlType::Boolean, "\"TRUE\"", "true"),
            (CqlType::Blob, "\"0xAB\"", "0xab"),
            (CqlType::Timestamp, "1577836800000", "'2020-01-01T00:00:00.000Z'"),
            (CqlType::set(CqlType::Int), "[3, 1, 3]", "{1, 3}"),
            (CqlType::list(CqlType::Int), "\"[1, 2]\"", "[1, 2]"),
            (ints, "{\"2\": \"b\", \"1\": \"a\"}", "{1: 'a', 2: 'b'}"),
            (CqlType::tuple([CqlType::Int, CqlType::Text]), "[1, null]", "(1, null)"),
            (CqlType::vector(CqlType::Float, 2), "[1, 2.5]", "[1.0, 2.5]"),
            (udt(), "{\"A\": 1, \"\\\"B\\\"\": \"x\"}", "{a: 1, \"B\": 'x'}"),
        ] {
            assert_eq!(read(&ty, json).as_deref(), Ok(expected), "{ty} {json}");
        }
    }

    #[test]
    fn refusals_have_cassandras_words() {
        for (ty, json, message) in [
            (CqlType::Text, "5", "Expected a UTF-8 string, but got a Integer: 5"),
            (CqlType::Int, "4.5", "Expected an int value, but got a Double: 4.5"),
            (CqlType::Int, "\"x\"", "Unable to make int from 'x'"),
            (CqlType::list(CqlType::Int), "[1, null]", "Invalid null element in list"),
            (CqlType::list(CqlType::Int), "{}", "Expected a list, but got a LinkedHashMap: {}"),
            (CqlType::map(CqlType::Int, CqlType::Int), "[1]", "Expected a map, but got a ArrayList: [1]"),
            (
                CqlType::Timestamp,
                "0",
                "Expected a long or a datestring representation of a timestamp value, but got a Integer: 0",
            ),
            (CqlType::tuple([CqlType::Int]), "[1, 2]", "Tuple contains extra items (expected 1): [1, 2]"),
            (udt(), "{\"c\": 1}", "Unknown field 'c' in value of user defined type ty"),
        ] {
            assert_eq!(read(&ty, json), Err(message.to_owned()));
        }
        assert!(parse_object("[1]").is_err());
        assert!(parse_object("").unwrap_err().to_string().ends_with("(String was: )"));
        assert_eq!(parse_object("{\"k\": 4, \"k\": 5}").unwrap().len(), 1);
    }

    #[test]
    fn values_are_written_as_cassandra_writes_them() {
        for (ty, text, expected) in [
            (CqlType::Text, "a\"b\\\n\u{1f}é", "\"a\\\"b\\\\\\n\\u001Fé\""),
            (CqlType::Double, "NaN", "null"),
            (CqlType::Double, "1.5", "1.5"),
            (CqlType::Decimal, "1e3", "1E+3"),
            (CqlType::Timestamp, "2020-02-03 04:05:06.789+0000", "\"2020-02-03 04:05:06.789Z\""),
            (CqlType::Date, "2020-02-03", "\"2020-02-03\""),
            (CqlType::Boolean, "true", "true"),
            (CqlType::Inet, "::1", "\"::1\""),
            (CqlType::Duration, "1mo2d", "\"1mo2d\""),
            (CqlType::Int, "", "\"\""),
        ] {
            assert_eq!(to_json(&ty, &from_text(&ty, text, 0).unwrap()), expected);
        }
        let map = CqlType::map(CqlType::Int, CqlType::list(CqlType::Text).freeze());
        let bytes = from_json(&map, &parse("{\"1\": [\"x\"]}").unwrap(), 0).unwrap().unwrap();
        assert_eq!(to_json(&map, &bytes), "{\"1\": [\"x\"]}");
        let bytes = from_json(&udt(), &parse("{\"a\": 7}").unwrap(), 0).unwrap().unwrap();
        assert_eq!(to_json(&udt(), &bytes), "{\"a\": 7, \"\\\"B\\\"\": null}");
        assert_eq!(unquote_key("\"Q\""), "Q");
        assert_eq!(unquote_key("Key"), "key");
    }

    #[test]
    fn words_within_strings_stay() {
        let value = parse("{\"NaN\": NaN, \"a\\\"NaN\": [Infinity, -Infinity, \"é\"]}").unwrap();
        assert_eq!(value.to_string(), "{\"NaN\":null,\"a\\\"NaN\":[null,null,\"é\"]}");
        assert!(parse("NaNx").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_become_json(bytes: Vec<u8>) {
            let composed = [CqlType::map(CqlType::Decimal, CqlType::Text), CqlType::list(CqlType::Double)];
            for ty in CqlType::NATIVE.iter().chain(&composed) {
                prop_assert!(parse(&to_json(ty, &bytes)).is_ok(), "{} {}", ty, to_json(ty, &bytes));
            }
        }

        #[test]
        fn any_json_gives_a_valid_value_or_an_error(json in "([\\[\\]{}:,0-9.e\"a-]|NaN|null|true){0,12}") {
            let Ok(value) = parse(&json) else { return Ok(()) };
            for ty in CqlType::NATIVE.iter().chain(&[CqlType::set(CqlType::Int), udt(), CqlType::tuple([CqlType::Int])]) {
                if let Ok(Some(bytes)) = from_json(ty, &value, 0) {
                    prop_assert_eq!(validate(ty, &bytes), Ok(()));
                }
            }
        }

        #[test]
        fn text_round_trips(text: String) {
            let value = parse(&to_json(&CqlType::Text, text.as_bytes())).unwrap();
            prop_assert_eq!(from_json(&CqlType::Text, &value, 0).unwrap().unwrap(), text.into_bytes());
        }
    }
}
