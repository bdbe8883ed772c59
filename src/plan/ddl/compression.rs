//! The compression options of a table.

use std::collections::BTreeMap;

use crate::protocol::CqlError;
use crate::types::number;

const PACKAGE: &str = "org.apache.cassandra.io.compress.";
const CHUNK: &str = "chunk_length_in_kb";
const RATIO: &str = "min_compress_ratio";
const CHUNK_DEFAULT: &str = "16";

/// Each compressor and the options that are its own.
const COMPRESSORS: [(&str, &[&str]); 5] = [
    ("LZ4Compressor", &["lz4_compressor_type", "lz4_high_compressor_level"]),
    ("SnappyCompressor", &[]),
    ("DeflateCompressor", &[]),
    ("ZstdCompressor", &["compression_level"]),
    ("NoopCompressor", &[]),
];

/// The options to store for those that a statement gives, the class fully qualified. No options: no compression.
pub fn resolve(given: &[(String, String)]) -> Result<BTreeMap<String, String>, CqlError> {
    let mut options: BTreeMap<String, String> = given.iter().cloned().collect();
    let enabled = options.remove("enabled").is_none_or(|enabled| enabled.eq_ignore_ascii_case("true"));
    if !enabled && !options.is_empty() {
        return fail("If the 'enabled' option is set to false no other options must be specified");
    }
    if !enabled || given.is_empty() {
        return Ok([("enabled".to_owned(), "false".to_owned())].into());
    }
    let class = match options.remove("class") {
        None => return fail("Missing sub-option 'class' for the 'compression' option."),
        Some(class) if class.is_empty() => {
            return fail("The 'class' option must not be empty. To disable compression use 'enabled' : false");
        }
        Some(class) if class.contains('.') => class,
        Some(class) => format!("{PACKAGE}{class}"),
    };
    let known = class.strip_prefix(PACKAGE).and_then(|name| COMPRESSORS.iter().find(|(known, _)| *known == name));
    let Some((_, own)) = known else {
        return fail(&format!("Could not create Compression for type {class}"));
    };
    check_chunk(options.get(CHUNK))?;
    if let Some(ratio) = options.get_mut(RATIO) {
        *ratio = check_ratio(ratio)?;
    }
    let is_known = |name: &str| name == CHUNK || name == RATIO || own.contains(&name);
    let unknown: Vec<&str> = options.keys().map(String::as_str).filter(|name| !is_known(name)).collect();
    if !unknown.is_empty() {
        return fail(&format!("Unknown compression options {}", unknown.join(", ")));
    }
    check_own(&options)?;
    options.entry(CHUNK.to_owned()).or_insert_with(|| CHUNK_DEFAULT.to_owned());
    options.insert("class".to_owned(), class);
    Ok(options)
}

fn fail<T>(message: &str) -> Result<T, CqlError> {
    Err(CqlError::config_error(message))
}

fn check_chunk(kb: Option<&String>) -> Result<(), CqlError> {
    let Some(kb) = kb else { return Ok(()) };
    match kb.parse::<i32>() {
        Err(_) => fail("Invalid value for chunk_length_in_kb"),
        Ok(kb) if kb <= 0 => fail("Invalid negative or null chunk_length_in_kb"),
        Ok(kb) if kb.count_ones() != 1 => fail("chunk_length_in_kb must be a power of 2"),
        Ok(kb) if kb > i32::MAX / 1024 => fail("Value of chunk_length_in_kb is too large"),
        Ok(_) => Ok(()),
    }
}

fn check_ratio(ratio: &str) -> Result<String, CqlError> {
    match number::parse_double(ratio) {
        None => fail(&format!("Invalid value for {RATIO}")),
        Some(ratio) if ratio != 0.0 && ratio < 1.0 => {
            fail(&format!("{RATIO} can either be 0 or greater than or equal to 1"))
        }
        Some(ratio) => Ok(number::double_text(ratio)),
    }
}

/// The values of options that one compressor alone has.
fn check_own(options: &BTreeMap<String, String>) -> Result<(), CqlError> {
    if let Some(kind) = options.get("lz4_compressor_type")
        && !matches!(kind.as_str(), "fast" | "high")
    {
        return fail(&format!(
            "Invalid compressor type '{kind}' specified for LZ4 parameter 'lz4_compressor_type'. \
             Valid options are [high, fast]."
        ));
    }
    if let Some(level) = options.get("lz4_high_compressor_level")
        && !level.parse::<i32>().is_ok_and(|level| (1..=17).contains(&level))
    {
        return fail(&format!(
            "Invalid value [{level}] for parameter 'lz4_high_compressor_level'. Value must be between 1 and 17."
        ));
    }
    if let Some(level) = options.get("compression_level")
        && !level.parse::<i32>().is_ok_and(|level| (-131_072..=22).contains(&level))
    {
        return fail(&format!("ZstdCompressor: compression_level={level} is invalid"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &[(&str, &str)], expected: Result<&str, &str>) {
        let owned: Vec<_> = given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let got = resolve(&owned)
            .map(|map| map.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" "))
            .map_err(|error| error.message().to_owned());
        assert_eq!(got, expected.map(str::to_owned).map_err(str::to_owned), "{given:?}");
    }

    const LZ4: (&str, &str) = ("class", "LZ4Compressor");

    #[test]
    fn options_are_completed() {
        let lz4 = "class=org.apache.cassandra.io.compress.LZ4Compressor";
        check(&[], Ok("enabled=false"));
        check(&[("enabled", "false")], Ok("enabled=false"));
        check(&[LZ4], Ok(&format!("chunk_length_in_kb=16 {lz4}")));
        check(&[LZ4, ("enabled", "true")], Ok(&format!("chunk_length_in_kb=16 {lz4}")));
        check(&[LZ4, ("min_compress_ratio", "2")], Ok(&format!("chunk_length_in_kb=16 {lz4} min_compress_ratio=2.0")));
        check(
            &[("class", "org.apache.cassandra.io.compress.SnappyCompressor"), (CHUNK, "4")],
            Ok("chunk_length_in_kb=4 class=org.apache.cassandra.io.compress.SnappyCompressor"),
        );
        check(
            &[("class", "ZstdCompressor"), ("compression_level", "5")],
            Ok("chunk_length_in_kb=16 class=org.apache.cassandra.io.compress.ZstdCompressor compression_level=5"),
        );
    }

    #[test]
    fn wrong_options_get_cassandras_words() {
        let missing = "Missing sub-option 'class' for the 'compression' option.";
        check(&[("sstable_compression", "LZ4Compressor")], Err(missing));
        check(&[("enabled", "true")], Err(missing));
        check(
            &[("class", "NoSuchCompressor")],
            Err("Could not create Compression for type org.apache.cassandra.io.compress.NoSuchCompressor"),
        );
        check(
            &[("class", "")],
            Err("The 'class' option must not be empty. To disable compression use 'enabled' : false"),
        );
        check(
            &[LZ4, ("enabled", "false")],
            Err("If the 'enabled' option is set to false no other options must be specified"),
        );
        check(&[LZ4, (CHUNK, "3")], Err("chunk_length_in_kb must be a power of 2"));
        check(&[LZ4, (CHUNK, "x")], Err("Invalid value for chunk_length_in_kb"));
        check(&[LZ4, (CHUNK, "-4")], Err("Invalid negative or null chunk_length_in_kb"));
        check(&[LZ4, ("nosuch", "3")], Err("Unknown compression options nosuch"));
        check(&[LZ4, (RATIO, "0.5")], Err("min_compress_ratio can either be 0 or greater than or equal to 1"));
        check(
            &[LZ4, ("lz4_compressor_type", "x")],
            Err("Invalid compressor type 'x' specified for LZ4 parameter 'lz4_compressor_type'. \
                 Valid options are [high, fast]."),
        );
        check(
            &[("class", "SnappyCompressor"), ("compression_level", "1")],
            Err("Unknown compression options compression_level"),
        );
        check(
            &[("class", "ZstdCompressor"), ("compression_level", "500")],
            Err("ZstdCompressor: compression_level=500 is invalid"),
        );
    }
}
