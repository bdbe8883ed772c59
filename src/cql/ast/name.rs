//! Identifiers and the names made of them.

use std::fmt;

/// An identifier after folding: unquoted text in lower case, quoted text as it stands between its quotes.
///
/// `Display` gives the bare text, which is how Cassandra names result columns; [`Ident::to_cql`] quotes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ident(String);

impl Ident {
    /// An identifier written without quotes: case does not count.
    pub fn unquoted(text: &str) -> Ident {
        Ident(text.to_lowercase())
    }

    /// An identifier whose case counts, without its quotes.
    pub fn quoted(text: impl Into<String>) -> Ident {
        Ident(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }

    /// The identifier as it must be written in CQL: quoted unless it is a plain lower-case word that is not
    /// reserved.
    pub fn to_cql(&self) -> String {
        let mut chars = self.0.chars();
        let plain = chars.next().is_some_and(|c| c.is_ascii_lowercase())
            && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if plain && !crate::cql::keyword::is_reserved(&self.0) {
            self.0.clone()
        } else {
            format!("\"{}\"", self.0.replace('"', "\"\""))
        }
    }
}

impl fmt::Display for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Ident {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// The name of a table, view, index or user type: `[keyspace.]name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QualifiedName {
    pub keyspace: Option<Ident>,
    pub name: Ident,
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(keyspace) = &self.keyspace {
            write!(f, "{keyspace}.")?;
        }
        self.name.fmt(f)
    }
}

/// The name of a function or aggregate: `[keyspace.]name`. A name without keyspace is looked for in `system`
/// first, then in the current keyspace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionName {
    pub keyspace: Option<Ident>,
    pub name: Ident,
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(keyspace) = &self.keyspace {
            write!(f, "{keyspace}.")?;
        }
        self.name.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_cql(ident: &Ident, expected: &str) {
        assert_eq!(ident.to_cql(), expected);
    }

    #[test]
    fn unquoted_names_fold_to_lower_case() {
        assert_eq!(Ident::unquoted("MyTable"), Ident::quoted("mytable"));
        assert_ne!(Ident::quoted("MyTable"), Ident::quoted("mytable"));
    }

    #[test]
    fn names_are_quoted_only_where_cql_needs_it() {
        check_cql(&Ident::quoted("plain_1"), "plain_1");
        check_cql(&Ident::quoted("Mixed"), "\"Mixed\"");
        check_cql(&Ident::quoted("1st"), "\"1st\"");
        check_cql(&Ident::quoted("two words"), "\"two words\"");
        check_cql(&Ident::quoted("qu\"ote"), "\"qu\"\"ote\"");
        check_cql(&Ident::quoted("select"), "\"select\"");
        check_cql(&Ident::quoted("key"), "key");
        check_cql(&Ident::quoted(""), "\"\"");
    }

    #[test]
    fn qualified_names_print_their_parts() {
        let name = QualifiedName { keyspace: Some(Ident::unquoted("KS")), name: Ident::quoted("T") };
        assert_eq!(name.to_string(), "ks.T");
        let bare = FunctionName { keyspace: None, name: Ident::unquoted("intAsBlob") };
        assert_eq!(bare.to_string(), "intasblob");
    }
}
