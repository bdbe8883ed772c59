//! CREATE and DROP TABLE.

use crate::base::collections::{HashMap, HashSet, hasher};
use crate::base::ids::{ColumnId, TableId};
use crate::cql::ast::schema::{ColumnDefinition, CreateTable, DropNamed, PrimaryKey};
use crate::cql::ast::{Ident, SortOrder};
use crate::plan::ddl::{DdlPlan, access, column_type, keyspace, options};
use crate::plan::{Context, names};
use crate::protocol::{Change, CqlError, SchemaChange};
use crate::schema::{Column, ColumnKind, Columns, Schema, SchemaOp, Table};
use crate::types::uuid;

/// What still leaves room for the id in a directory's name of 255 bytes.
const NAME_CHARS_MAX: usize = 222;
/// The most columns of a table: each is a row of `system_schema`, and all are one write.
pub const COLUMNS_MAX: usize = 10_000;
/// The most columns of its primary key: what looks for a component walks over those before it.
pub const KEY_COLUMNS_MAX: usize = 256;

/// The most types that all its columns are made of.
pub const COLUMN_TYPE_PARTS_MAX: usize = 65_536;

pub const MASKING_OFF: &str = "Cannot mask columns because dynamic data masking is not enabled. You can enable it with \
                               the dynamic_data_masking_enabled property on cassandra.yaml";
pub const STATIC_NEEDS_CLUSTERING: &str =
    "Static columns are only useful (and thus allowed) if the table has at least one clustering column";

pub fn create(
    create: &CreateTable,
    schema: &Schema,
    current: Option<&str>,
    context: &Context,
) -> Result<DdlPlan, CqlError> {
    let keyspace = names::keyspace_of(&create.table, current)?;
    let name = create.table.name.as_str();
    access::check_create(keyspace)?;
    let key = primary_key(create)?;
    let given = options::read(&create.properties)?;
    if schema.keyspace(keyspace).is_none() {
        return Err(keyspace::missing(keyspace));
    }
    if schema.table(keyspace, name).is_some() {
        return if create.if_not_exists { Ok(DdlPlan::nothing()) } else { Err(CqlError::table_exists(keyspace, name)) };
    }
    check_name(keyspace, name)?;
    let columns = columns(create, key, schema, keyspace)?;
    let is_counter = is_counter_table(&columns)?;
    if create.compact_storage {
        return Err(compact_storage(&columns));
    }
    let id = table_id(given.id, schema, context)?;
    let options = given.for_new_table(is_counter)?;
    let next_column_id = u16::try_from(columns.len()).expect("the number of columns was checked");
    let mut columns = Columns::new(columns);
    columns.change(|list| (0..).zip(list).for_each(|(id, column)| column.id = ColumnId(id)));
    let table = Table {
        id,
        keyspace: keyspace.to_owned(),
        name: name.to_owned(),
        version: 1,
        columns,
        dropped: Vec::new(),
        next_column_id,
        options,
        is_counter,
    };
    let change = SchemaChange::table(Change::Created, keyspace, name);
    Ok(DdlPlan::change(vec![SchemaOp::PutTable(Box::new(table))], change))
}

pub fn drop(drop: &DropNamed, schema: &Schema, current: Option<&str>) -> Result<DdlPlan, CqlError> {
    let keyspace = names::keyspace_of(&drop.name, current)?;
    let name = drop.name.name.as_str();
    access::check_modify("DROP", keyspace, name)?;
    let Some(table) = schema.table(keyspace, name) else {
        return if drop.if_exists { Ok(DdlPlan::nothing()) } else { Err(missing(keyspace, name)) };
    };
    let op = SchemaOp::DropTable { keyspace: keyspace.to_owned(), name: name.to_owned(), id: table.id };
    Ok(DdlPlan::change(vec![op], SchemaChange::table(Change::Dropped, keyspace, name)))
}

pub fn missing(keyspace: &str, table: &str) -> CqlError {
    CqlError::invalid(format!("Table '{keyspace}.{table}' doesn't exist"))
}

fn check_name(keyspace: &str, name: &str) -> Result<(), CqlError> {
    if !keyspace::is_word(name) {
        return Err(CqlError::config_error(format!(
            "{keyspace}.{name}: Table name must not be empty or not contain non-alphanumeric-underscore characters \
             (got \"{name}\")"
        )));
    }
    if name.len() > NAME_CHARS_MAX {
        return Err(CqlError::config_error(format!(
            "{keyspace}.{name}: Table name must not be more than {NAME_CHARS_MAX} characters long \
             (got {} characters for \"{name}\")",
            name.len()
        )));
    }
    Ok(())
}

/// The one primary key, after what can be said of the statement without a schema.
fn primary_key(create: &CreateTable) -> Result<&PrimaryKey, CqlError> {
    let table = &create.table.name;
    if create.columns.len() > COLUMNS_MAX {
        return Err(CqlError::invalid(format!("A table has at most {COLUMNS_MAX} columns")));
    }
    if let Some(twice) = first_twice(create.columns.iter().map(|column| &column.name)) {
        return Err(CqlError::invalid(format!("Duplicate column '{twice}' declaration for table '{table}'")));
    }
    let key = match create.primary_keys.as_slice() {
        [key] => key,
        [] => {
            return Err(CqlError::invalid(format!(
                "No PRIMARY KEY specifed for table '{table}' (exactly one required)"
            )));
        }
        _ => {
            return Err(CqlError::invalid(format!(
                "Multiple PRIMARY KEY specified for table '{table}' (exactly one required)"
            )));
        }
    };
    if key.partition.len() + key.clustering.len() > KEY_COLUMNS_MAX {
        return Err(CqlError::invalid(format!("A primary key has at most {KEY_COLUMNS_MAX} columns")));
    }
    if let Some(twice) = first_twice(key.partition.iter().chain(&key.clustering)) {
        return Err(CqlError::invalid(format!("Duplicate column '{twice}' in PRIMARY KEY clause for table '{table}'")));
    }
    if let Some(twice) = first_twice(create.clustering_order.iter().map(|(name, _)| name)) {
        return Err(CqlError::invalid(format!(
            "Duplicate column '{twice}' in CLUSTERING ORDER BY clause for table '{table}'"
        )));
    }
    Ok(key)
}

fn first_twice<'a>(mut names: impl Iterator<Item = &'a Ident>) -> Option<&'a Ident> {
    let mut seen: HashSet<&Ident> = HashSet::with_hasher(hasher());
    names.find(|name| !seen.insert(*name))
}

/// The columns with their kinds; their ids are given once they are in order.
fn columns(create: &CreateTable, key: &PrimaryKey, schema: &Schema, keyspace: &str) -> Result<Vec<Column>, CqlError> {
    if create.columns.iter().any(|column| column.mask.is_some()) {
        return Err(CqlError::invalid(MASKING_OFF));
    }
    let mut defined: HashSet<&Ident> = HashSet::with_hasher(hasher());
    defined.extend(create.columns.iter().map(|column| &column.name));
    if let Some(unknown) = key.partition.iter().chain(&key.clustering).find(|name| !defined.contains(name)) {
        let table = &create.table.name;
        return Err(CqlError::invalid(format!(
            "Unknown column '{unknown}' referenced in PRIMARY KEY for table '{table}'"
        )));
    }
    check_clustering_order(&create.clustering_order, &key.clustering)?;
    let kinds = key_kinds(create, key);
    let mut columns = Vec::with_capacity(create.columns.len());
    let mut parts_left = COLUMN_TYPE_PARTS_MAX;
    for definition in &create.columns {
        let column = column(definition, kinds.get(&definition.name).copied(), schema, keyspace)?;
        if !column.ty.take_parts(&mut parts_left) {
            return Err(too_many_parts());
        }
        columns.push(column);
    }
    if key.clustering.is_empty() && columns.iter().any(|column| column.kind == ColumnKind::Static) {
        return Err(CqlError::invalid(STATIC_NEEDS_CLUSTERING));
    }
    Ok(columns)
}

/// How many types columns beside these may be made of; an error where there are too many already.
pub fn parts_left(columns: &[Column]) -> Result<usize, CqlError> {
    let mut left = COLUMN_TYPE_PARTS_MAX;
    if columns.iter().all(|column| column.ty.take_parts(&mut left)) { Ok(left) } else { Err(too_many_parts()) }
}

pub fn too_many_parts() -> CqlError {
    CqlError::invalid(format!("The columns of a table can be made of at most {COLUMN_TYPE_PARTS_MAX} types together"))
}

/// What the columns of the primary key are.
fn key_kinds<'c>(create: &'c CreateTable, key: &'c PrimaryKey) -> HashMap<&'c Ident, ColumnKind> {
    let mut kinds: HashMap<&Ident, ColumnKind> = HashMap::with_hasher(hasher());
    kinds.extend((0..).zip(&key.partition).map(|(position, name)| (name, ColumnKind::PartitionKey(position))));
    for (position, name) in (0..).zip(&key.clustering) {
        let order = create.clustering_order.iter().find(|(other, _)| other == name);
        let descending = matches!(order, Some((_, SortOrder::Descending)));
        kinds.insert(name, ColumnKind::Clustering { position, descending });
    }
    kinds
}

/// `key`: what the column is to the primary key, if it is part of that.
fn column(
    definition: &ColumnDefinition,
    key: Option<ColumnKind>,
    schema: &Schema,
    keyspace: &str,
) -> Result<Column, CqlError> {
    let name = &definition.name;
    let ty = column_type::resolve(&definition.data_type, schema, keyspace)?;
    let other = if definition.is_static { ColumnKind::Static } else { ColumnKind::Regular };
    if key.is_some() {
        if definition.is_static {
            return Err(CqlError::invalid(format!("Static column '{name}' cannot be part of the PRIMARY KEY")));
        }
        column_type::check_key(&ty, name.as_str())?;
    }
    Ok(Column { id: ColumnId(0), name: name.as_str().to_owned(), ty, kind: key.unwrap_or(other) })
}

/// CLUSTERING ORDER BY names clustering columns from the first on, in their order.
fn check_clustering_order(order: &[(Ident, SortOrder)], clustering: &[Ident]) -> Result<(), CqlError> {
    let mut known: HashSet<&Ident> = HashSet::with_hasher(hasher());
    known.extend(clustering);
    let strangers: Vec<&str> =
        order.iter().map(|(name, _)| name).filter(|name| !known.contains(name)).map(Ident::as_str).collect();
    if !strangers.is_empty() {
        return Err(CqlError::invalid(format!(
            "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{}] are not clustering columns",
            strangers.join(", ")
        )));
    }
    for ((name, _), expected) in order.iter().zip(clustering) {
        if name == expected {
            continue;
        }
        if !order.iter().any(|(other, _)| other == expected) {
            return Err(CqlError::invalid(format!("Missing CLUSTERING ORDER for column {expected}")));
        }
        return Err(CqlError::invalid(format!(
            "The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns \
             ({expected} must appear before {name})"
        )));
    }
    Ok(())
}

/// Either every column outside the key is a counter or none is.
fn is_counter_table(columns: &[Column]) -> Result<bool, CqlError> {
    let counts = |counter: bool| {
        let outside = |column: &&Column| matches!(column.kind, ColumnKind::Static | ColumnKind::Regular);
        columns.iter().filter(outside).any(|column| column.ty.is_counter() == counter)
    };
    if counts(true) && counts(false) {
        return Err(CqlError::invalid("Cannot mix counter and non counter columns in the same table"));
    }
    Ok(counts(true))
}

/// Why COMPACT STORAGE is refused: for Cassandra's reasons, or because there is none here.
fn compact_storage(columns: &[Column]) -> CqlError {
    let clustered = columns.iter().any(|column| matches!(column.kind, ColumnKind::Clustering { .. }));
    let mut values: Vec<&str> =
        columns.iter().filter(|column| column.kind == ColumnKind::Regular).map(|column| column.name.as_str()).collect();
    values.sort_unstable();
    if values.is_empty() && !clustered {
        return CqlError::invalid("No definition found that is not part of the PRIMARY KEY");
    }
    if clustered && values.len() > 1 {
        return CqlError::invalid(format!(
            "COMPACT STORAGE with composite PRIMARY KEY allows no more than one column not part of the PRIMARY KEY \
             (got: {})",
            values.join(", ")
        ));
    }
    CqlError::invalid("COMPACT STORAGE is not supported: leave it out")
}

/// The id that `WITH ID` gives, or a fresh time-based one.
fn table_id(given: Option<TableId>, schema: &Schema, context: &Context) -> Result<TableId, CqlError> {
    match given {
        Some(id) => match schema.table_by_id(id) {
            Some(table) => Err(CqlError::config_error(format!(
                "Table id {id} is already that of {}.{}",
                table.keyspace, table.name
            ))),
            None => Ok(id),
        },
        None => Ok(fresh_id(context)),
    }
}

fn fresh_id(context: &Context) -> TableId {
    let ticks = uuid::ticks_of_unix_ms(0) + context.now_us * 10;
    let mut low = context.random[0].to_be_bytes();
    low[0] = low[0] & 0x3f | 0x80;
    low[2] |= 1;
    TableId(uuid::version1(ticks, low))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::{COLUMNS_MAX, KEY_COLUMNS_MAX};
    use crate::plan::ddl::testing::Node;
    use crate::schema::ColumnKind;

    /// What `CREATE TABLE u …` answers.
    #[track_caller]
    fn check(definition: &str, expected: &str) {
        Node::new().check(&format!("CREATE TABLE u {definition}"), expected);
    }

    #[test]
    fn a_table_is_created_and_dropped() {
        let mut node = Node::new();
        node.check("CREATE TABLE t (k int PRIMARY KEY, v int)", "CREATED TABLE t");
        node.check(
            "CREATE TABLE t (k int PRIMARY KEY, v int)",
            "0x2400 Cannot add already existing table \"t\" to keyspace \"ks\"",
        );
        node.check("CREATE TABLE IF NOT EXISTS t (x text PRIMARY KEY)", "VOID");
        node.check("DROP TABLE t", "DROPPED TABLE t");
        node.check("DROP TABLE t", "0x2200 Table 'ks.t' doesn't exist");
        node.check("DROP TABLE IF EXISTS t", "VOID");
        node.check("CREATE TABLE nosuch.t (k int PRIMARY KEY)", "0x2200 Keyspace 'nosuch' doesn't exist");
        node.check("CREATE TABLE system.t (k int PRIMARY KEY)", "0x2100 system keyspace is not user-modifiable.");
        node.check("DROP TABLE system.local", "0x2100 system keyspace is not user-modifiable.");
        node.check("DROP TABLE system_traces.events", "0x2100 Cannot DROP <table system_traces.events>");
    }

    #[test]
    fn columns_stand_in_order_with_their_kinds() {
        let mut node = Node::new();
        let definition = "(v int, l list<int>, b int, s int static, a int, d int, c int, PRIMARY KEY ((b, a), d, c))";
        node.check(&format!("CREATE TABLE t {definition} WITH CLUSTERING ORDER BY (d DESC)"), "CREATED TABLE t");
        let table = node.schema.table("ks", "t").unwrap();
        let names: Vec<_> = table.columns.iter().map(|column| (column.name.as_str(), column.id.0)).collect();
        assert_eq!(names, [("b", 0), ("a", 1), ("d", 2), ("c", 3), ("s", 4), ("l", 5), ("v", 6)]);
        assert_eq!(table.columns[2].kind, ColumnKind::Clustering { position: 0, descending: true });
        assert_eq!(table.columns[3].kind, ColumnKind::Clustering { position: 1, descending: false });
        assert_eq!((table.version, table.next_column_id, table.is_counter), (1, 7, false));
    }

    #[test]
    fn keys_are_checked() {
        check("(k int PRIMARY KEY, k int)", "0x2200 Duplicate column 'k' declaration for table 'u'");
        check("(k int, v int)", "0x2200 No PRIMARY KEY specifed for table 'u' (exactly one required)");
        let multiple = "0x2200 Multiple PRIMARY KEY specified for table 'u' (exactly one required)";
        check("(k int PRIMARY KEY, v int PRIMARY KEY)", multiple);
        check("(k int PRIMARY KEY, PRIMARY KEY (k))", multiple);
        check(
            "(k int, PRIMARY KEY (nosuch))",
            "0x2200 Unknown column 'nosuch' referenced in PRIMARY KEY for table 'u'",
        );
        check("(k int, PRIMARY KEY ((k, k)))", "0x2200 Duplicate column 'k' in PRIMARY KEY clause for table 'u'");
        check(
            "(k int PRIMARY KEY, s int static)",
            "0x2200 Static columns are only useful (and thus allowed) if the table has at least one clustering column",
        );
        check(
            "(k int, c int static, PRIMARY KEY (k, c))",
            "0x2200 Static column 'c' cannot be part of the PRIMARY KEY",
        );
        check("(k int PRIMARY KEY,)", "CREATED TABLE u");
    }

    #[test]
    fn clustering_orders_are_checked() {
        let columns = "(k int, a int, b int, PRIMARY KEY (k, a, b)) WITH CLUSTERING ORDER BY";
        let only = "0x2200 Only clustering key columns can be defined in CLUSTERING ORDER directive:";
        check(&format!("{columns} (a DESC)"), "CREATED TABLE u");
        check(
            &format!("{columns} (b DESC, a DESC)"),
            "0x2200 The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns \
             (a must appear before b)",
        );
        check(&format!("{columns} (b DESC)"), "0x2200 Missing CLUSTERING ORDER for column a");
        check(&format!("{columns} (k DESC)"), &format!("{only} [k] are not clustering columns"));
        check(
            &format!("{columns} (a DESC, a ASC)"),
            "0x2200 Duplicate column 'a' in CLUSTERING ORDER BY clause for table 'u'",
        );
    }

    #[test]
    fn counters_stand_alone() {
        let mut node = Node::new();
        node.check("CREATE TABLE c (k int, c int, n counter, s counter static, PRIMARY KEY (k, c))", "CREATED TABLE c");
        assert!(node.schema.table("ks", "c").unwrap().is_counter);
        check(
            "(k int PRIMARY KEY, c counter, v int)",
            "0x2200 Cannot mix counter and non counter columns in the same table",
        );
        check(
            "(k int PRIMARY KEY, c counter) WITH default_time_to_live = 10",
            "0x2200 Cannot set default_time_to_live on a table with counters",
        );
    }

    #[test]
    fn names_are_checked() {
        let mut node = Node::new();
        node.check(
            "CREATE TABLE \"bad-name\" (k int PRIMARY KEY)",
            "0x2300 ks.bad-name: Table name must not be empty or not contain non-alphanumeric-underscore characters \
             (got \"bad-name\")",
        );
        let long = "a".repeat(222);
        node.check(&format!("CREATE TABLE {long} (k int PRIMARY KEY)"), &format!("CREATED TABLE {long}"));
        let longer = "a".repeat(223);
        node.check(
            &format!("CREATE TABLE {longer} (k int PRIMARY KEY)"),
            &format!(
                "0x2300 ks.{longer}: Table name must not be more than 222 characters long (got 223 characters for \"{longer}\")"
            ),
        );
    }

    #[test]
    fn ids_are_given_or_fresh() {
        let mut node = Node::new();
        let id = "123e4567-e89b-12d3-a456-426614174000";
        node.check(&format!("CREATE TABLE a (k int PRIMARY KEY) WITH id = {id}"), "CREATED TABLE a");
        assert_eq!(node.schema.table("ks", "a").unwrap().id.to_string(), id);
        node.check(
            &format!("CREATE TABLE b (k int PRIMARY KEY) WITH id = {id}"),
            &format!("0x2300 Table id {id} is already that of ks.a"),
        );
        node.check("CREATE TABLE b (k int PRIMARY KEY) WITH ID = 'x'", "0x2300 Invalid table id");
        node.check("CREATE TABLE b (k int PRIMARY KEY)", "CREATED TABLE b");
        node.check("CREATE TABLE c (k int PRIMARY KEY)", "CREATED TABLE c");
        let id = |name: &str| node.schema.table("ks", name).unwrap().id;
        assert_ne!(id("b"), id("c"));
        assert_eq!(crate::types::uuid::version(&id("b").0), 1);
        assert_eq!(crate::types::uuid::unix_ms(&id("c").0), node.now_us / 1_000);
    }

    #[test]
    fn compact_storage_and_masks_are_refused() {
        check(
            "(k int PRIMARY KEY) WITH COMPACT STORAGE",
            "0x2200 No definition found that is not part of the PRIMARY KEY",
        );
        check(
            "(k int, c int, v int, w int, PRIMARY KEY (k, c)) WITH COMPACT STORAGE",
            "0x2200 COMPACT STORAGE with composite PRIMARY KEY allows no more than one column not part of the PRIMARY KEY \
             (got: v, w)",
        );
        check(
            "(k int PRIMARY KEY, v int) WITH COMPACT STORAGE",
            "0x2200 COMPACT STORAGE is not supported: leave it out",
        );
        check("(k int PRIMARY KEY, v int MASKED WITH DEFAULT)", &format!("0x2200 {}", super::MASKING_OFF));
    }

    /// As many columns as there may be: were one looked for among the others, this would take longer than anyone waits.
    #[test]
    fn wide_tables_are_made_and_changed_at_once() {
        let names = |range: std::ops::Range<usize>| range.map(|at| format!("c{at}")).collect::<Vec<_>>();
        let columns = |range| names(range).iter().map(|name| format!("{name} int")).collect::<Vec<_>>().join(", ");
        let mut node = Node::new();
        let half = COLUMNS_MAX / 2;
        node.check(&format!("CREATE TABLE t (k int PRIMARY KEY, {})", columns(0..half)), "CREATED TABLE t");
        node.check(&format!("ALTER TABLE t ADD ({})", columns(half..COLUMNS_MAX - 1)), "UPDATED TABLE t");
        node.check("ALTER TABLE t ADD one_more int", "0x2200 Table ks.t cannot have more columns");
        node.check(&format!("ALTER TABLE t DROP ({})", names(1..half).join(", ")), "UPDATED TABLE t");
        node.check(&format!("ALTER TABLE t ADD ({})", columns(1..half)), "UPDATED TABLE t");
        assert_eq!(node.schema.table("ks", "t").unwrap().columns.len(), COLUMNS_MAX);
        let all = columns(0..COLUMNS_MAX);
        node.check(&format!("CREATE TABLE u (k int PRIMARY KEY, {all})"), "0x2200 A table has at most 10000 columns");
        let keys = names(0..KEY_COLUMNS_MAX + 1).join(", ");
        node.check(
            &format!("CREATE TABLE u ({}, PRIMARY KEY ({keys}))", columns(0..KEY_COLUMNS_MAX + 1)),
            "0x2200 A primary key has at most 256 columns",
        );
    }
}
