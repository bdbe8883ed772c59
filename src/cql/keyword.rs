//! The keywords of Cassandra 5.0's CQL, and which of them may still name things.

/// Where a keyword may stand for an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Nowhere.
    Reserved,
    /// Anywhere, function and type names included.
    Unreserved,
    /// Anywhere but as the name of a user type.
    NativeType,
    /// Anywhere but as the name of a function or a user type (`key` may name a type).
    NotFunction,
}

macro_rules! keywords {
    ($($variant:ident $text:literal $class:expr;)*) => {
        /// A keyword; its case does not count.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Keyword { $($variant),* }

        impl Keyword {
            /// The keyword spelled by text that is in lower case already.
            pub fn from_lower(text: &str) -> Option<Keyword> {
                match text {
                    $($text => Some(Keyword::$variant),)*
                    _ => None,
                }
            }

            /// The first spelling, in lower case.
            pub fn text(self) -> &'static str {
                match self {
                    $(Keyword::$variant => $text,)*
                }
            }

            pub fn class(self) -> Class {
                match self {
                    $(Keyword::$variant => $class,)*
                }
            }

            #[cfg(test)]
            pub const ALL: &[Keyword] = &[$(Keyword::$variant),*];
        }
    };
}

/// The longest keyword in bytes (`columnfamilies`, `materialized`, `select_masked`, `norecursive` …).
pub const KEYWORD_BYTES_MAX: usize = 14;

use Class::{NativeType, NotFunction, Reserved, Unreserved};

keywords! {
    Access "access" Unreserved;
    Add "add" Reserved;
    Aggregate "aggregate" Unreserved;
    Aggregates "aggregates" Unreserved;
    All "all" Unreserved;
    Allow "allow" Reserved;
    Alter "alter" Reserved;
    And "and" Reserved;
    Ann "ann" Unreserved;
    Apply "apply" Reserved;
    As "as" Unreserved;
    Asc "asc" Reserved;
    Ascii "ascii" NativeType;
    Authorize "authorize" Reserved;
    Batch "batch" Reserved;
    Begin "begin" Reserved;
    BigInt "bigint" NativeType;
    Blob "blob" NativeType;
    Boolean "boolean" NativeType;
    By "by" Reserved;
    Called "called" Unreserved;
    Cast "cast" NotFunction;
    Cidrs "cidrs" Unreserved;
    Cluster "cluster" Unreserved;
    Clustering "clustering" Unreserved;
    Compact "compact" Unreserved;
    Contains "contains" Unreserved;
    Count "count" NotFunction;
    Counter "counter" NativeType;
    Create "create" Reserved;
    Custom "custom" Unreserved;
    Datacenters "datacenters" Unreserved;
    Date "date" NativeType;
    Decimal "decimal" NativeType;
    Default "default" Unreserved;
    Delete "delete" Reserved;
    Desc "desc" Reserved;
    Describe "describe" Reserved;
    Distinct "distinct" NotFunction;
    Double "double" NativeType;
    Drop "drop" Reserved;
    Duration "duration" NativeType;
    Entries "entries" Reserved;
    Execute "execute" Reserved;
    Exists "exists" Unreserved;
    Filtering "filtering" Unreserved;
    FinalFunc "finalfunc" Unreserved;
    Float "float" NativeType;
    From "from" Reserved;
    Frozen "frozen" Unreserved;
    Full "full" Reserved;
    Function "function" Unreserved;
    Functions "functions" Unreserved;
    Grant "grant" Reserved;
    Group "group" Unreserved;
    Hashed "hashed" Unreserved;
    Identity "identity" Unreserved;
    If "if" Reserved;
    In "in" Reserved;
    Index "index" Reserved;
    Inet "inet" NativeType;
    Infinity "infinity" Reserved;
    InitCond "initcond" Unreserved;
    Input "input" Unreserved;
    Insert "insert" Reserved;
    Int "int" NativeType;
    Internals "internals" Unreserved;
    Into "into" Reserved;
    Is "is" Reserved;
    Json "json" NotFunction;
    Key "key" NotFunction;
    Keys "keys" Unreserved;
    Keyspace "keyspace" Reserved;
    Keyspaces "keyspaces" Unreserved;
    Language "language" Unreserved;
    Like "like" Unreserved;
    Limit "limit" Reserved;
    List "list" Unreserved;
    Login "login" Unreserved;
    Map "map" Unreserved;
    Masked "masked" Unreserved;
    Materialized "materialized" Reserved;
    MaxWriteTime "maxwritetime" NotFunction;
    Mbean "mbean" Unreserved;
    Mbeans "mbeans" Unreserved;
    Modify "modify" Reserved;
    NaN "nan" Reserved;
    NoLogin "nologin" Unreserved;
    NoRecursive "norecursive" Reserved;
    NoSuperuser "nosuperuser" Unreserved;
    Not "not" Reserved;
    Null "null" Reserved;
    Of "of" Reserved;
    On "on" Reserved;
    Only "only" Unreserved;
    Options "options" Unreserved;
    Or "or" Reserved;
    Order "order" Reserved;
    Partition "partition" Unreserved;
    Password "password" Unreserved;
    Per "per" Unreserved;
    Permission "permission" Unreserved;
    Permissions "permissions" Unreserved;
    Primary "primary" Reserved;
    Rename "rename" Reserved;
    Replace "replace" Unreserved;
    Returns "returns" Unreserved;
    Revoke "revoke" Reserved;
    Role "role" Unreserved;
    Roles "roles" Unreserved;
    Schema "schema" Reserved;
    Select "select" Reserved;
    SelectMasked "select_masked" Unreserved;
    Set "set" Reserved;
    SFunc "sfunc" Unreserved;
    SmallInt "smallint" NativeType;
    Static "static" Unreserved;
    Storage "storage" Unreserved;
    SType "stype" Unreserved;
    Superuser "superuser" Unreserved;
    Superusers "superusers" Unreserved;
    Table "table" Reserved;
    ColumnFamily "columnfamily" Reserved;
    Tables "tables" Unreserved;
    ColumnFamilies "columnfamilies" Unreserved;
    Text "text" NativeType;
    Time "time" NativeType;
    Timestamp "timestamp" NativeType;
    TimeUuid "timeuuid" NativeType;
    TinyInt "tinyint" NativeType;
    To "to" Reserved;
    Token "token" Reserved;
    Trigger "trigger" Unreserved;
    Truncate "truncate" Reserved;
    Ttl "ttl" NotFunction;
    Tuple "tuple" Unreserved;
    Type "type" Unreserved;
    Types "types" Unreserved;
    Unlogged "unlogged" Reserved;
    Unmask "unmask" Unreserved;
    Unset "unset" Unreserved;
    Update "update" Reserved;
    Use "use" Reserved;
    User "user" Unreserved;
    Users "users" Unreserved;
    Using "using" Reserved;
    Uuid "uuid" NativeType;
    Values "values" Unreserved;
    Varchar "varchar" NativeType;
    VarInt "varint" NativeType;
    Vector "vector" Unreserved;
    View "view" Reserved;
    Where "where" Reserved;
    With "with" Reserved;
    WriteTime "writetime" NotFunction;
}

impl Keyword {
    /// The keyword that text spells in any case.
    pub fn parse(text: &str) -> Option<Keyword> {
        let mut lower = [0; KEYWORD_BYTES_MAX];
        let lower = lower.get_mut(..text.len())?;
        lower.copy_from_slice(text.as_bytes());
        lower.make_ascii_lowercase();
        Keyword::from_lower(std::str::from_utf8(lower).ok()?)
    }
}

/// Whether lower-case text can name something only in quotes.
pub fn is_reserved(lower: &str) -> bool {
    Keyword::from_lower(lower).is_some_and(|keyword| keyword.class() == Class::Reserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_parses_in_any_case() {
        for &keyword in Keyword::ALL {
            let text = keyword.text();
            assert!(text.len() <= KEYWORD_BYTES_MAX, "{text}");
            assert_eq!(Keyword::parse(text), Some(keyword));
            assert_eq!(Keyword::parse(&text.to_uppercase()), Some(keyword));
            assert_eq!(Keyword::parse(&format!("{text}_")), None);
        }
    }

    #[test]
    fn what_is_reserved() {
        for word in ["select", "table", "index", "token", "order", "schema", "nan", "add"] {
            assert!(is_reserved(word), "{word}");
        }
        for word in ["key", "type", "ttl", "timestamp", "count", "json", "values", "int", "between"] {
            assert!(!is_reserved(word), "{word}");
        }
    }
}
