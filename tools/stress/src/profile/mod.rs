//! Profiles of `user` runs: a table, how its rows are made, how they are inserted, and queries, in cassandra-stress's
//! YAML.

mod column;
mod insert;
mod partition;
mod plan;
mod query;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::distribution::{Distribution, DistributionError, Ratio};
pub use column::ColumnSpec;
pub use insert::Insert;
pub use partition::Table;
pub use plan::{Buffers, Draft, PlanError};
pub use query::Query;

/// A profile that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error("the profile {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the profile {path}: {source}")]
    Yaml { path: PathBuf, source: serde_yaml_ng::Error },
    #[error("the profile {path}: {place}: {source}")]
    Distribution { path: PathBuf, place: String, source: DistributionError },
    #[error("the profile {path}: {problem}")]
    Content { path: PathBuf, problem: String },
}

/// The file, as it is written. Options within column specs and inserts are read in any case.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    specname: Option<String>,
    keyspace: String,
    keyspace_definition: Option<String>,
    table: String,
    table_definition: Option<String>,
    extra_definitions: Option<Vec<String>>,
    columnspec: Option<Vec<BTreeMap<String, String>>>,
    insert: Option<BTreeMap<String, String>>,
    queries: Option<BTreeMap<String, FileQuery>>,
    token_range_queries: Option<BTreeMap<String, FileRange>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileQuery {
    cql: String,
    fields: Option<String>,
}

/// Known, and refused where it is to run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRange {
    #[serde(rename = "columns")]
    _columns: Option<String>,
    #[serde(rename = "page_size")]
    _page_size: Option<i32>,
}

/// A profile that was read.
#[derive(Debug)]
pub struct Profile {
    /// What `ops(…)` calls it, where there are several.
    pub name: String,
    pub keyspace: String,
    pub table: String,
    /// To run before anything else: what they create may be there already.
    pub keyspace_definition: Option<String>,
    pub table_definitions: Vec<String>,
    /// By column.
    pub columns: BTreeMap<String, ColumnSpec>,
    pub insert: InsertSpec,
    /// By name, in lower case.
    pub queries: BTreeMap<String, QuerySpec>,
    pub range_queries: Vec<String>,
}

/// How rows are inserted; what is `None` the command line or a default says.
#[derive(Debug, Default)]
pub struct InsertSpec {
    pub partitions: Option<Distribution>,
    pub select: Option<Ratio>,
    pub row_population: Option<Ratio>,
    pub batch_type: Option<String>,
    /// An `IF …` after the statement.
    pub condition: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct QuerySpec {
    pub cql: String,
    /// All values are of one row, rather than each of any row of the partition.
    pub same_row: bool,
}

impl Profile {
    pub fn read(path: &Path) -> Result<Profile, ProfileError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ProfileError::Read { path: path.to_owned(), source })?;
        Profile::parse(path, &text)
    }

    pub fn parse(path: &Path, text: &str) -> Result<Profile, ProfileError> {
        let file: File =
            serde_yaml_ng::from_str(text).map_err(|source| ProfileError::Yaml { path: path.to_owned(), source })?;
        let content = |problem: String| ProfileError::Content { path: path.to_owned(), problem };
        let mut columns = BTreeMap::new();
        for spec in file.columnspec.unwrap_or_default() {
            let (name, spec) = column_spec(path, spec)?;
            if columns.insert(name.clone(), spec).is_some() {
                return Err(content(format!("column `{name}` is specified twice")));
            }
        }
        let mut queries = BTreeMap::new();
        for (name, query) in file.queries.unwrap_or_default() {
            let same_row = match query.fields.as_deref().map(str::to_ascii_lowercase).as_deref() {
                None | Some("multirow") => false,
                Some("samerow") => true,
                Some(other) => {
                    return Err(content(format!("query `{name}`: fields: `{other}`: samerow or multirow is expected")));
                }
            };
            queries.insert(name.to_ascii_lowercase(), QuerySpec { cql: query.cql.trim().to_owned(), same_row });
        }
        let range_queries: Vec<String> = file.token_range_queries.unwrap_or_default().into_keys().collect();
        if let Some(name) = range_queries.iter().find(|name| queries.contains_key(&name.to_ascii_lowercase())) {
            return Err(content(format!("`{name}` is both in queries and in token_range_queries")));
        }
        let table_definitions = file.table_definition.into_iter().chain(file.extra_definitions.unwrap_or_default());
        Ok(Profile {
            name: file.specname.unwrap_or_else(|| format!("{}.{}", file.keyspace, file.table)),
            keyspace_definition: file.keyspace_definition.filter(|text| !text.trim().is_empty()),
            table_definitions: table_definitions.filter(|text| !text.trim().is_empty()).collect(),
            columns,
            insert: insert_spec(path, file.insert.unwrap_or_default())?,
            queries,
            range_queries,
            keyspace: file.keyspace,
            table: file.table,
        })
    }
}

/// The entries of a map under their names in lower case.
fn lowered(map: BTreeMap<String, String>) -> BTreeMap<String, String> {
    map.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()
}

fn unknown(path: &Path, place: &str, rest: &BTreeMap<String, String>) -> Result<(), ProfileError> {
    let Some(name) = rest.keys().next() else { return Ok(()) };
    Err(ProfileError::Content { path: path.to_owned(), problem: format!("{place}: unknown option `{name}`") })
}

fn column_spec(path: &Path, spec: BTreeMap<String, String>) -> Result<(String, ColumnSpec), ProfileError> {
    let mut spec = lowered(spec);
    let content = |problem: String| ProfileError::Content { path: path.to_owned(), problem };
    let name = spec.remove("name").ok_or_else(|| content("a columnspec has no `name`".into()))?;
    let mut taken = |option: &str| {
        let Some(text) = spec.remove(option) else { return Ok(None) };
        let place = || format!("column `{name}`: {option}");
        Distribution::parse(&text).map(Some).map_err(|source| ProfileError::Distribution {
            path: path.to_owned(),
            place: place(),
            source,
        })
    };
    let read = ColumnSpec { size: taken("size")?, population: taken("population")?, cluster: taken("cluster")? };
    unknown(path, &format!("column `{name}`"), &spec)?;
    if read.size.as_ref().is_some_and(|size| size.min() < 0 || size.max() > column::VALUE_BYTES_MAX) {
        return Err(content(format!("column `{name}`: size: from 0 to 16 MiB is expected")));
    }
    if read.cluster.as_ref().is_some_and(|cluster| cluster.min() < 1) {
        return Err(content(format!("column `{name}`: cluster: numbers above 0 are expected")));
    }
    Ok((name, read))
}

fn insert_spec(path: &Path, insert: BTreeMap<String, String>) -> Result<InsertSpec, ProfileError> {
    let mut insert = lowered(insert);
    let wrong = |option: &str| {
        let place = format!("insert: {option}");
        move |source| ProfileError::Distribution { path: path.to_owned(), place, source }
    };
    let ratio =
        |option: &str, text: Option<String>| text.map(|text| Ratio::parse(&text)).transpose().map_err(wrong(option));
    let partitions = insert.remove("partitions").map(|text| Distribution::parse(&text)).transpose();
    let read = InsertSpec {
        partitions: partitions.map_err(wrong("partitions"))?,
        select: ratio("select", insert.remove("select"))?,
        row_population: ratio("row-population", insert.remove("row-population"))?,
        batch_type: insert.remove("batchtype").map(|name| name.to_ascii_uppercase()),
        condition: insert.remove("condition"),
    };
    unknown(path, "insert", &insert)?;
    if let Some(name) = read.batch_type.as_deref().filter(|name| !["LOGGED", "UNLOGGED", "COUNTER"].contains(name)) {
        let problem = format!("insert: batchtype: `{name}`: LOGGED, UNLOGGED or COUNTER is expected");
        return Err(ProfileError::Content { path: path.to_owned(), problem });
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const WHOLE: &str = "
specname: one
keyspace: ks
keyspace_definition: |
  CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
table: t
table_definition: |
  CREATE TABLE t (a text, b int, c text, PRIMARY KEY (a, b))
extra_definitions:
  - CREATE TABLE other (a int PRIMARY KEY)
columnspec:
  - name: a
    Size: fixed(15)
    population: seq(1..2000000)
  - name: b
    cluster: uniform(2..4)
insert:
  partitions: fixed(1)
  batchType: unlogged
  select: fixed(1)/2
  row-population: uniform(1..2)/2
  condition: IF NOT EXISTS
queries:
  One:
    cql: select * from t where a = ? and b = ?
    fields: samerow
  many:
    cql: select * from t where a = ?
token_range_queries:
  all:
    columns: '*'
    page_size: 5000
";

    fn parse(text: &str) -> Result<Profile, ProfileError> {
        Profile::parse(Path::new("x.yaml"), text)
    }

    #[test]
    fn a_whole_profile_is_read() {
        let profile = parse(WHOLE).unwrap();
        assert_eq!((profile.name.as_str(), profile.keyspace.as_str(), profile.table.as_str()), ("one", "ks", "t"));
        assert!(profile.keyspace_definition.unwrap().starts_with("CREATE KEYSPACE ks"));
        assert_eq!(profile.table_definitions.len(), 2);
        assert_eq!(profile.columns["a"].size, Some(Distribution::fixed(15)));
        assert_eq!(profile.columns["b"].cluster, Some(Distribution::uniform(2, 4)));
        let insert = profile.insert;
        assert_eq!(
            (insert.batch_type.as_deref(), insert.condition.as_deref()),
            (Some("UNLOGGED"), Some("IF NOT EXISTS"))
        );
        assert_eq!((insert.select.unwrap().max(), insert.partitions), (0.5, Some(Distribution::fixed(1))));
        assert!(profile.queries["one"].same_row && !profile.queries["many"].same_row);
        assert_eq!(profile.range_queries, ["all"]);
    }

    #[test]
    fn the_least_is_a_keyspace_and_a_table() {
        let profile = parse("keyspace: ks\ntable: t\n").unwrap();
        assert_eq!((profile.name.as_str(), profile.columns.len(), profile.queries.len()), ("ks.t", 0, 0));
        assert!(profile.keyspace_definition.is_none() && profile.insert.select.is_none());
    }

    #[test]
    fn what_is_wrong_says_file_and_place() {
        for (text, part) in [
            ("table: t", "keyspace"),
            ("keyspace: ks\ntable: t\ntabel: x", "tabel"),
            ("keyspace: ks\ntable: t\ncolumnspec:\n  - size: fixed(1)", "no `name`"),
            (
                "keyspace: ks\ntable: t\ncolumnspec:\n  - name: a\n    sise: fixed(1)",
                "column `a`: unknown option `sise`",
            ),
            ("keyspace: ks\ntable: t\ncolumnspec:\n  - name: a\n    size: odd(1)", "column `a`: size: `odd(1)` is no"),
            ("keyspace: ks\ntable: t\ncolumnspec:\n  - name: a\n    cluster: fixed(0)", "column `a`: cluster"),
            ("keyspace: ks\ntable: t\ncolumnspec:\n  - name: a\n  - name: a", "column `a` is specified twice"),
            ("keyspace: ks\ntable: t\ninsert:\n  select: fixed(1)", "insert: select: `fixed(1)`: DISTRIBUTION/DIVISOR"),
            ("keyspace: ks\ntable: t\ninsert:\n  batchtype: ODD", "insert: batchtype: `ODD`"),
            ("keyspace: ks\ntable: t\ninsert:\n  visits: fixed(1)", "insert: unknown option `visits`"),
            ("keyspace: ks\ntable: t\nqueries:\n  q:\n    cql: x\n    fields: row", "query `q`: fields: `row`"),
            ("keyspace: [", "line 1"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with("the profile x.yaml: ") && error.contains(part), "{text}\n{error}");
        }
        let absent = Profile::read(Path::new("/nonexistent/p.yaml")).unwrap_err().to_string();
        assert!(absent.contains("/nonexistent/p.yaml"), "{absent}");
    }
}
