//! The ids by which statements and results are known: MD5, as in Cassandra, so that they outlive restarts.

use md5::{Digest, Md5};

/// The id of a prepared statement: of its text after the keyspace that it was prepared in, or of the text alone where
/// that names its keyspace itself.
pub fn statement_id(keyspace: Option<&str>, text: &str) -> [u8; 16] {
    let mut digest = Md5::new();
    digest.update(keyspace.unwrap_or_default());
    digest.update(text);
    digest.finalize().into()
}

/// The id of a result's columns: equal as long as names and types are.
pub fn columns_id<'a>(columns: impl Iterator<Item = (&'a str, &'a str)>) -> [u8; 16] {
    let mut digest = Md5::new();
    for (name, ty) in columns {
        digest.update(name);
        digest.update([0]);
        digest.update(ty);
        digest.update([0, 0]);
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(id: [u8; 16]) -> String {
        id.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn ids_are_md5() {
        assert_eq!(hex(statement_id(None, "abc")), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(hex(statement_id(Some("a"), "bc")), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(hex(columns_id(std::iter::empty())), "d41d8cd98f00b204e9800998ecf8427e");
    }

    #[test]
    fn names_types_and_order_of_columns_matter() {
        let id = |columns: &[(&str, &str)]| columns_id(columns.iter().copied());
        let base = id(&[("a", "int"), ("b", "text")]);
        assert_eq!(base, id(&[("a", "int"), ("b", "text")]));
        assert_ne!(base, id(&[("b", "text"), ("a", "int")]));
        assert_ne!(base, id(&[("a", "int"), ("b", "blob")]));
        assert_ne!(id(&[("ab", "")]), id(&[("a", "b")]));
    }
}
