//! ALTER TABLE.
//!
//! A column that is dropped keeps its id for ever, and one that is added, under an old name too, gets a new one: so the
//! cells written before a DROP stay gone.

use crate::base::collections::{HashMap, HashSet, hasher};
use crate::base::ids::ColumnId;
use crate::cql::ast::schema::{AlterTable, ColumnDefinition, TableChange};
use crate::cql::ast::{Ident, Properties};
use crate::plan::ddl::table::{COLUMNS_MAX, MASKING_OFF, STATIC_NEEDS_CLUSTERING, missing, parts_left, too_many_parts};
use crate::plan::ddl::{DdlPlan, access, column_type, options};
use crate::plan::system_rows::without_user_types;
use crate::plan::{Context, names};
use crate::protocol::{Change, CqlError, SchemaChange};
use crate::schema::{Column, ColumnKind, DroppedColumn, Schema, SchemaOp, Table};
use crate::types::CqlType;

/// The most columns that a table has had: their ids are never used again.
const COLUMN_IDS_MAX: usize = 65_535;

pub fn alter(
    alter: &AlterTable,
    schema: &Schema,
    current: Option<&str>,
    context: &Context,
) -> Result<DdlPlan, CqlError> {
    let keyspace = names::keyspace_of(&alter.table, current)?;
    let name = alter.table.name.as_str();
    access::check_modify("ALTER", keyspace, name)?;
    let Some(table) = schema.table(keyspace, name) else {
        return if alter.if_exists { Ok(DdlPlan::nothing()) } else { Err(missing(keyspace, name)) };
    };
    let mut altered = (**table).clone();
    match &alter.change {
        TableChange::Add { if_not_exists, columns } => add(&mut altered, columns, *if_not_exists, schema)?,
        TableChange::Drop { if_exists, columns, timestamp_us } => {
            drop(&mut altered, columns, *if_exists, timestamp_us.unwrap_or(context.now_us))?;
        }
        TableChange::Rename { renames, .. } => rename(&mut altered, renames)?,
        TableChange::AlterType { .. } => {
            return Err(CqlError::invalid("Altering column types is no longer supported"));
        }
        TableChange::Mask { .. } => return Err(CqlError::invalid(MASKING_OFF)),
        TableChange::Properties(properties) => set_options(&mut altered, properties)?,
        TableChange::DropCompactStorage => {
            return Err(CqlError::invalid("Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE"));
        }
    }
    if altered == **table {
        return Ok(DdlPlan::nothing());
    }
    altered.version += 1;
    let change = SchemaChange::table(Change::Updated, keyspace, name);
    Ok(DdlPlan::change(vec![SchemaOp::PutTable(Box::new(altered))], change))
}

fn set_options(table: &mut Table, properties: &Properties) -> Result<(), CqlError> {
    table.options = options::read(properties)?.for_alter(&table.options, table.is_counter)?;
    Ok(())
}

fn add(table: &mut Table, columns: &[ColumnDefinition], if_not_exists: bool, schema: &Schema) -> Result<(), CqlError> {
    let dropped = last_dropped(&table.dropped);
    let mut added: Vec<Column> = Vec::new();
    let mut parts_left = parts_left(&table.columns)?;
    let mut names: HashSet<&str> = HashSet::with_hasher(hasher());
    for definition in columns {
        let name = definition.name.as_str();
        if definition.mask.is_some() {
            return Err(CqlError::invalid(MASKING_OFF));
        }
        let ty = column_type::resolve(&definition.data_type, schema, &table.keyspace)?;
        if table.column(name).is_some() || !names.insert(name) {
            if if_not_exists {
                continue;
            }
            return Err(CqlError::invalid(format!("Column with name '{name}' already exists")));
        }
        if definition.is_static && table.clustering().next().is_none() {
            return Err(CqlError::invalid(STATIC_NEEDS_CLUSTERING));
        }
        check_counter(table, name, &ty)?;
        if let Some(dropped) = dropped.get(name) {
            check_dropped(table, dropped, &ty, definition.is_static)?;
        }
        if table.columns.len() + added.len() >= COLUMNS_MAX || usize::from(table.next_column_id) >= COLUMN_IDS_MAX {
            return Err(CqlError::invalid(format!("Table {}.{} cannot have more columns", table.keyspace, table.name)));
        }
        if !ty.take_parts(&mut parts_left) {
            return Err(too_many_parts());
        }
        let kind = if definition.is_static { ColumnKind::Static } else { ColumnKind::Regular };
        let id = ColumnId(table.next_column_id);
        table.next_column_id += 1;
        added.push(Column { id, name: name.to_owned(), ty, kind });
    }
    table.columns.change(|list| list.extend(added));
    Ok(())
}

fn check_counter(table: &Table, name: &str, ty: &CqlType) -> Result<(), CqlError> {
    let (what, of) = match (ty.is_counter(), table.is_counter) {
        (true, false) => ("a counter column", "a non counter table"),
        (false, true) => ("a non counter column", "a counter table"),
        _ => return Ok(()),
    };
    let (keyspace, table) = (&table.keyspace, &table.name);
    Err(CqlError::config_error(format!("{keyspace}.{table}: Cannot have {what} (\"{name}\") in {of}")))
}

/// The columns that were dropped, each name as it was dropped last.
fn last_dropped(dropped: &[DroppedColumn]) -> HashMap<&str, &DroppedColumn> {
    let mut last: HashMap<&str, &DroppedColumn> = HashMap::with_hasher(hasher());
    last.extend(dropped.iter().map(|column| (column.name.as_str(), column)));
    last
}

/// What a name was before decides what it may become: data of the old column may still be on disk somewhere.
fn check_dropped(table: &Table, dropped: &DroppedColumn, ty: &CqlType, is_static: bool) -> Result<(), CqlError> {
    let name = &dropped.name;
    if !may_replace(ty, &dropped.ty) {
        let old = without_user_types(&dropped.ty);
        return Err(CqlError::invalid(format!(
            "Cannot add a column '{name}' of type {ty}, incompatible with previously dropped column '{name}' of type {old}"
        )));
    }
    let kind = |is_static| if is_static { "STATIC" } else { "REGULAR" };
    if dropped.is_static != is_static {
        return Err(CqlError::invalid(format!(
            "Cannot re-add previously dropped column '{name}' of kind {}, incompatible with previous kind {}",
            kind(is_static),
            kind(dropped.is_static)
        )));
    }
    if table.is_counter {
        return Err(CqlError::invalid(format!("Cannot re-add previously dropped counter column {name}")));
    }
    Ok(())
}

/// Scalars may become what reads their bytes; everything made of other types must stay what it was.
fn may_replace(new: &CqlType, old: &CqlType) -> bool {
    let scalar = |ty: &CqlType| {
        !matches!(ty.unfrozen(), CqlType::Tuple(_) | CqlType::Vector(..) | CqlType::Udt(_)) && !ty.is_collection()
    };
    if scalar(new) && scalar(old) {
        return new.is_value_compatible_with(old);
    }
    new.is_multi_cell() == old.is_multi_cell() && without_user_types(new) == without_user_types(old)
}

fn drop(table: &mut Table, columns: &[Ident], if_exists: bool, dropped_at: i64) -> Result<(), CqlError> {
    let mut at_once: Vec<&str> = columns.iter().map(Ident::as_str).collect();
    at_once.sort_unstable();
    at_once.dedup();
    let mut gone: HashSet<ColumnId> = HashSet::with_hasher(hasher());
    for name in at_once {
        let Some(column) = table.column(name) else {
            if if_exists {
                continue;
            }
            let (keyspace, table) = (&table.keyspace, &table.name);
            return Err(CqlError::invalid(format!("Column {name} was not found in table '{keyspace}.{table}'")));
        };
        if matches!(column.kind, ColumnKind::PartitionKey(_) | ColumnKind::Clustering { .. }) {
            return Err(CqlError::invalid(format!("Cannot drop PRIMARY KEY column {name}")));
        }
        if let CqlType::Udt(udt) = &column.ty {
            let udt = &udt.name;
            return Err(CqlError::invalid(format!("Cannot drop non-frozen column {name} of user type {udt}")));
        }
        gone.insert(column.id);
    }
    let mut dropped: Vec<Column> =
        table.columns.change(|list| list.extract_if(.., |column| gone.contains(&column.id)).collect());
    dropped.sort_by(|a, b| a.name.cmp(&b.name));
    table.dropped.extend(dropped.into_iter().map(|Column { id, name, ty, kind }| DroppedColumn {
        id,
        name,
        ty,
        is_static: kind == ColumnKind::Static,
        dropped_at,
    }));
    Ok(())
}

fn rename(table: &mut Table, renames: &[(Ident, Ident)]) -> Result<(), CqlError> {
    let mut places: HashMap<String, usize> = HashMap::with_hasher(hasher());
    places.extend(table.columns.iter().enumerate().map(|(at, column)| (column.name.clone(), at)));
    for (from, to) in renames {
        let shown = format!("{}.{}", table.keyspace, table.name);
        let Some(at) = places.get(from.as_str()).copied() else {
            return Err(CqlError::invalid(format!("Undefined column name {from} in table {shown}")));
        };
        if matches!(table.columns[at].kind, ColumnKind::Static | ColumnKind::Regular) {
            return Err(CqlError::invalid(format!("Cannot rename non PRIMARY KEY column {from}")));
        }
        if places.contains_key(to.as_str()) {
            return Err(CqlError::invalid(format!(
                "Cannot rename column {from} to {to} in table '{shown}'; another column with that name already exists"
            )));
        }
        places.remove(from.as_str());
        places.insert(to.as_str().to_owned(), at);
    }
    table.columns.change(|list| places.into_iter().for_each(|(name, at)| list[at].name = name));
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::plan::ddl::testing::Node;
    use crate::schema::Table;

    fn node() -> Node {
        let mut node = Node::new();
        node.check(
            "CREATE TABLE t (k int, c int, v int, w text, s int static, l list<int>, PRIMARY KEY (k, c))",
            "CREATED TABLE t",
        );
        node
    }

    fn columns(table: &Table) -> String {
        let shown = |c: &crate::schema::Column| format!("{}:{}", c.name, c.id.0);
        table.columns.iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn columns_come_and_go_and_ids_are_never_reused() {
        let mut node = node();
        let shown = |node: &Node| columns(node.schema.table("ks", "t").unwrap());
        assert_eq!(shown(&node), "k:0 c:1 s:2 l:3 v:4 w:5");
        node.check("ALTER TABLE t ADD x int", "UPDATED TABLE t");
        node.check("ALTER TABLE t ADD (p int, q set<int>)", "UPDATED TABLE t");
        assert_eq!(shown(&node), "k:0 c:1 s:2 l:3 p:7 q:8 v:4 w:5 x:6");
        node.check("ALTER TABLE t DROP (v, x, x)", "UPDATED TABLE t");
        node.check("ALTER TABLE t ADD v int", "UPDATED TABLE t");
        assert_eq!(shown(&node), "k:0 c:1 s:2 l:3 p:7 q:8 v:9 w:5");
        let table = node.schema.table("ks", "t").unwrap();
        assert_eq!((table.version, table.dropped.len(), table.dropped[0].dropped_at), (5, 2, node.now_us - 1_000));
        node.check("ALTER TABLE t DROP w USING TIMESTAMP 20000", "UPDATED TABLE t");
        assert_eq!(node.schema.table("ks", "t").unwrap().dropped[2].dropped_at, 20_000);
    }

    #[test]
    fn what_cannot_be_added() {
        let mut node = node();
        node.check("ALTER TABLE t ADD v int", "0x2200 Column with name 'v' already exists");
        node.check("ALTER TABLE t ADD (a int, a int)", "0x2200 Column with name 'a' already exists");
        node.check("ALTER TABLE t ADD IF NOT EXISTS v int", "VOID");
        node.check("ALTER TABLE t ADD IF NOT EXISTS (v int, y int)", "UPDATED TABLE t");
        node.check(
            "ALTER TABLE t ADD cnt counter",
            "0x2300 ks.t: Cannot have a counter column (\"cnt\") in a non counter table",
        );
        node.check("ALTER TABLE t ADD bad nosuchtype", "0x2200 Unknown type ks.nosuchtype");
        node.check("CREATE TABLE c (k int PRIMARY KEY, n counter)", "CREATED TABLE c");
        node.check("ALTER TABLE c ADD m counter", "UPDATED TABLE c");
        node.check(
            "ALTER TABLE c ADD v int",
            "0x2300 ks.c: Cannot have a non counter column (\"v\") in a counter table",
        );
        node.check(
            "ALTER TABLE c ADD s counter static",
            "0x2200 Static columns are only useful (and thus allowed) if the table has at least one clustering column",
        );
        node.check("ALTER TABLE c DROP m", "UPDATED TABLE c");
        node.check("ALTER TABLE c ADD m counter", "0x2200 Cannot re-add previously dropped counter column m");
    }

    #[test]
    fn what_a_dropped_column_may_become() {
        let mut node = node();
        node.check("ALTER TABLE t DROP (w, s, l)", "UPDATED TABLE t");
        let incompatible = |name: &str, new: &str, old: &str| {
            format!(
                "0x2200 Cannot add a column '{name}' of type {new}, incompatible with previously dropped column \
                 '{name}' of type {old}"
            )
        };
        node.check("ALTER TABLE t ADD w int", &incompatible("w", "int", "text"));
        node.check("ALTER TABLE t ADD l set<int>", &incompatible("l", "set<int>", "list<int>"));
        node.check("ALTER TABLE t ADD l frozen<list<int>>", &incompatible("l", "frozen<list<int>>", "list<int>"));
        node.check("ALTER TABLE t ADD l list<blob>", &incompatible("l", "list<blob>", "list<int>"));
        node.check("ALTER TABLE t ADD l list<int>", "UPDATED TABLE t");
        node.check("ALTER TABLE t ADD w blob", "UPDATED TABLE t");
        node.check(
            "ALTER TABLE t ADD s int",
            "0x2200 Cannot re-add previously dropped column 's' of kind REGULAR, incompatible with previous kind STATIC",
        );
        node.check("ALTER TABLE t ADD s int static", "UPDATED TABLE t");
    }

    #[test]
    fn what_cannot_be_dropped() {
        let mut node = node();
        node.check("ALTER TABLE t DROP k", "0x2200 Cannot drop PRIMARY KEY column k");
        node.check("ALTER TABLE t DROP c", "0x2200 Cannot drop PRIMARY KEY column c");
        node.check("ALTER TABLE t DROP (v, nosuch)", "0x2200 Column nosuch was not found in table 'ks.t'");
        node.check("ALTER TABLE t DROP IF EXISTS nosuch", "VOID");
        node.check("CREATE TYPE ty (a int)", "CREATED TYPE ty");
        node.check("ALTER TABLE t ADD u ty", "UPDATED TABLE t");
        node.check("ALTER TABLE t DROP u", "0x2200 Cannot drop non-frozen column u of user type ty");
    }

    #[test]
    fn key_columns_are_renamed() {
        let mut node = node();
        node.check("ALTER TABLE t RENAME k TO key AND c TO cc", "UPDATED TABLE t");
        assert_eq!(columns(node.schema.table("ks", "t").unwrap()), "key:0 cc:1 s:2 l:3 v:4 w:5");
        node.check(
            "ALTER TABLE t RENAME cc TO v",
            "0x2200 Cannot rename column cc to v in table 'ks.t'; another column with that name already exists",
        );
        node.check("ALTER TABLE t RENAME v TO value", "0x2200 Cannot rename non PRIMARY KEY column v");
        node.check("ALTER TABLE t RENAME nosuch TO v2", "0x2200 Undefined column name nosuch in table ks.t");
        node.check("ALTER TABLE t RENAME IF EXISTS nosuch TO v2", "0x2200 Undefined column name nosuch in table ks.t");
    }

    #[test]
    fn other_changes_are_refused_and_missing_tables_named() {
        let mut node = node();
        node.check("ALTER TABLE t ALTER v TYPE bigint", "0x2200 Altering column types is no longer supported");
        node.check(
            "ALTER TABLE t DROP COMPACT STORAGE",
            "0x2200 Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE",
        );
        node.check("ALTER TABLE nosuch ADD x int", "0x2200 Table 'ks.nosuch' doesn't exist");
        node.check("ALTER TABLE IF EXISTS nosuch ADD x int", "VOID");
        node.check("ALTER TABLE system.local ADD x int", "0x2100 system keyspace is not user-modifiable.");
    }
}
