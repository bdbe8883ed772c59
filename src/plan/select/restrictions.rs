//! The WHERE clause as a whole: which restrictions choose partitions, which choose rows within them, and which only
//! filter. Rules and words are those of Cassandra's StatementRestrictions.

use crate::cql::ast::Relation;
use crate::plan::select::relation::{RelationBuilder, Restricted};
use crate::plan::select::restriction::Restriction;
use crate::plan::term::Scope;
use crate::protocol::CqlError;
use crate::schema::{ColumnKind, Table};

pub(super) const FILTERING_REFUSED: &str = "Cannot execute this query as it might involve data filtering and thus \
     may have unpredictable performance. If you want to execute this query despite the performance unpredictability, \
     use ALLOW FILTERING";

/// The restrictions of a statement, each list in the order of its columns.
#[derive(Debug, Default)]
pub(super) struct Restrictions {
    pub partition_key: Vec<Restriction>,
    pub token: Option<Restriction>,
    pub clustering: Vec<Restriction>,
    pub others: Vec<Restriction>,
    /// How many of `clustering` make slices; the rest filter.
    pub sliced: usize,
    /// Whether the partition key is fully known, up to IN.
    pub is_key_known: bool,
}

impl Restrictions {
    pub fn prepare(
        relations: &[Relation],
        scope: &mut Scope<'_>,
        table: &Table,
        allow_filtering: bool,
    ) -> Result<Restrictions, CqlError> {
        let mut restrictions = Restrictions::default();
        for relation in relations {
            match (RelationBuilder { scope, table }).restriction(relation)? {
                Restricted::Token(token) => {
                    restrictions.token = Some(match restrictions.token.take() {
                        Some(before) => before.merge(token, table)?,
                        None => token,
                    });
                }
                Restricted::Columns(restriction) => restrictions.add(restriction, table, allow_filtering)?,
            }
        }
        restrictions.sliced = restrictions.count_sliced(table);
        restrictions.is_key_known = !restrictions.filters_partition_key(table)
            && restrictions.partition_key.len() == table.partition_key().count();
        Ok(restrictions)
    }

    fn add(&mut self, new: Restriction, table: &Table, allow_filtering: bool) -> Result<(), CqlError> {
        let kind = table.columns.get(new.first()).map(|column| column.kind);
        match kind {
            Some(ColumnKind::PartitionKey(_)) => insert(&mut self.partition_key, new, table),
            Some(ColumnKind::Clustering { .. }) => {
                let (first, is_slice) = (new.first(), new.is_slice());
                let last = self.clustering.last().map(|last| (last.first(), last.is_slice()));
                insert(&mut self.clustering, new, table)?;
                match last {
                    Some(last) if !allow_filtering => check_after_slice(table, last, (first, is_slice)),
                    _ => Ok(()),
                }
            }
            _ => insert(&mut self.others, new, table),
        }
    }

    /// How many clustering restrictions follow one another from the first column on, up to a slice.
    fn count_sliced(&self, table: &Table) -> usize {
        let mut next = table.partition_key().count();
        let mut count = 0;
        for restriction in &self.clustering {
            if restriction.is_contains() || restriction.first() != next {
                break;
            }
            count += 1;
            if restriction.is_slice() {
                break;
            }
            next = restriction.last() + 1;
        }
        count
    }

    /// Whether the restrictions of the partition key do not name partitions.
    pub fn filters_partition_key(&self, table: &Table) -> bool {
        !self.partition_key.is_empty()
            && (self.partition_key.len() < table.partition_key().count()
                || self.partition_key.iter().any(|one| one.is_slice() || one.is_contains()))
    }

    fn filters_clustering(&self) -> bool {
        self.sliced < self.clustering.len()
    }

    /// Whether any partition key column is restricted, or the token.
    pub fn restricts_partition_key(&self) -> bool {
        !self.partition_key.is_empty() || self.token.is_some()
    }

    /// Whether all partitions must be looked at, or those of a token range.
    pub fn is_key_range(&self) -> bool {
        !self.is_key_known
    }

    pub fn has_key_in(&self) -> bool {
        self.partition_key.iter().any(Restriction::is_in)
    }

    /// Whether this column has one known value.
    pub fn is_equal(&self, column: usize) -> bool {
        let all = self.partition_key.iter().chain(&self.clustering);
        all.into_iter().any(|restriction| restriction.is_equal() && restriction.columns.contains(&column))
    }

    /// What Cassandra checks while it takes the restrictions in.
    pub fn check(&self, table: &Table, allow_filtering: bool, selects_statics_only: bool) -> Result<(), CqlError> {
        let refused = || Err(CqlError::invalid(FILTERING_REFUSED));
        if self.filters_partition_key(table) && !allow_filtering {
            return refused();
        }
        if selects_statics_only && !self.clustering.is_empty() {
            return Err(CqlError::invalid("Cannot restrict clustering columns when selecting only static columns"));
        }
        if self.clustering.iter().any(Restriction::is_contains) && !allow_filtering {
            return Err(CqlError::invalid(
                "Clustering columns can only be restricted with CONTAINS with a secondary index or filtering",
            ));
        }
        if self.filters_clustering() && !allow_filtering {
            self.check_no_gap(table)?;
        }
        if !self.others.is_empty() && !allow_filtering {
            return refused();
        }
        Ok(())
    }

    fn check_no_gap(&self, table: &Table) -> Result<(), CqlError> {
        let mut restricted = self.clustering.iter().flat_map(|restriction| restriction.columns.iter().copied());
        for (at, column) in table.columns.iter().enumerate() {
            if !matches!(column.kind, ColumnKind::Clustering { .. }) {
                continue;
            }
            match restricted.next() {
                Some(next) if next != at => {
                    let name = table.columns.get(next).map_or("", |column| &column.name);
                    return Err(CqlError::invalid(format!(
                        "PRIMARY KEY column \"{name}\" cannot be restricted as preceding column \"{}\" is not restricted",
                        column.name
                    )));
                }
                Some(_) => {}
                None => break,
            }
        }
        Ok(())
    }

    /// What Cassandra checks last: whether rows would be read only to be dropped.
    pub fn check_filtering(&self, allow_filtering: bool) -> Result<(), CqlError> {
        if self.is_key_range() && !self.clustering.is_empty() && !allow_filtering {
            return Err(CqlError::invalid(FILTERING_REFUSED));
        }
        Ok(())
    }
}

/// Puts a restriction among those of its kind, merged with the ones it shares a column with.
fn insert(list: &mut Vec<Restriction>, new: Restriction, table: &Table) -> Result<(), CqlError> {
    let shares = |held: &Restriction| held.columns.iter().any(|column| new.columns.contains(column));
    let merged = match list.iter().position(shares) {
        Some(at) => list.remove(at).merge(new, table)?,
        None => new,
    };
    let at = list.partition_point(|held| held.first() < merged.first());
    list.insert(at, merged);
    Ok(())
}

/// Without filtering, nothing may be restricted behind a slice. (first column, whether a slice) of the restriction
/// that was the last one and of the new one.
fn check_after_slice(table: &Table, last: (usize, bool), new: (usize, bool)) -> Result<(), CqlError> {
    let name = |at: usize| table.columns.get(at).map_or("", |column| &column.name);
    if last.1 && new.0 > last.0 {
        return Err(CqlError::invalid(format!(
            "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
            name(new.0),
            name(last.0)
        )));
    }
    if new.1 && new.0 < last.0 {
        return Err(CqlError::invalid(format!(
            "PRIMARY KEY column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
            name(last.0),
            name(new.0)
        )));
    }
    Ok(())
}
