//! The queries of a profile: statements of its own, whose values are those of rows that are there.

use helenus::protocol::ColumnSpec as Variable;

use super::column::Column;
use super::plan::{Buffers, PlanError, ROWS_SALT, Shared};
use super::{Profile, QuerySpec};
use crate::random::{Random, mix};

/// Where a query's value comes from: a column, by its place among those of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Argument {
    Partition(usize),
    Clustering(usize),
    Value(usize),
}

/// A query of a profile.
#[derive(Clone, Debug)]
pub struct Query {
    table: Shared,
    same_row: bool,
    arguments: Vec<Argument>,
    /// The arguments that are the partition key, in its order; empty where they are not all there.
    routing: Vec<usize>,
}

impl Query {
    /// The query of this name, whose prepared statement has these variables.
    pub fn new(
        profile: &Profile,
        table: Shared,
        query: &str,
        spec: &QuerySpec,
        variables: &[Variable],
    ) -> Result<Query, PlanError> {
        let (profile, query) = (profile.name.clone(), query.to_owned());
        if has_bound_condition(&spec.cql) {
            return Err(PlanError::Condition { profile, query });
        }
        let argument = |variable: &Variable| {
            let at = |columns: &[Column]| columns.iter().position(|column| column.name == variable.name);
            at(&table.partition)
                .map(Argument::Partition)
                .or_else(|| at(&table.clustering).map(Argument::Clustering))
                .or_else(|| at(&table.values).map(Argument::Value))
                .ok_or_else(|| PlanError::Variable {
                    profile: profile.clone(),
                    query: query.clone(),
                    variable: variable.name.clone(),
                })
        };
        let arguments = variables.iter().map(argument).collect::<Result<Vec<_>, _>>()?;
        let place_of = |at| arguments.iter().position(|argument| *argument == Argument::Partition(at));
        let routing = (0..table.partition.len()).map(place_of).collect::<Option<Vec<_>>>().unwrap_or_default();
        Ok(Query { same_row: spec.same_row, arguments, routing, table })
    }

    /// Appends the values for the operation at `place`, on the partition of this seed.
    pub fn put_values(&self, place: u64, seed: u64, buffers: &mut Buffers) {
        let table = &*self.table;
        let mut random = Random::of(mix(place) ^ ROWS_SALT);
        let Buffers { body, routing_key, partition: key, clustering } = buffers;
        let partition = table.partition(seed, key);
        if !self.routing.is_empty() {
            table.put_routing_key(key, routing_key);
        }
        let mut row_seed = None;
        for argument in &self.arguments {
            if let Argument::Partition(at) = argument {
                table.put_partition_column(partition, *at, body);
                continue;
            }
            if row_seed.is_none() || !self.same_row {
                clustering.clear();
                row_seed = Some(table.any_row(partition, &mut random, clustering));
            }
            match (argument, row_seed) {
                (Argument::Clustering(at), _) => body.extend_from_slice(nth_value(clustering, *at)),
                (Argument::Value(at), Some(row_seed)) => table.values[*at].put(row_seed, body),
                _ => {}
            }
        }
    }
}

/// The value at a place among values with their lengths, with its own.
fn nth_value(mut values: &[u8], at: usize) -> &[u8] {
    for _ in 0..at {
        values = &values[value_bytes(values)..];
    }
    &values[..value_bytes(values)]
}

fn value_bytes(values: &[u8]) -> usize {
    values.first_chunk::<4>().map_or(0, |len| 4 + u32::from_be_bytes(*len) as usize)
}

/// Whether a text is an UPDATE whose condition binds values: those would have to be read first.
fn has_bound_condition(cql: &str) -> bool {
    let upper = cql.to_ascii_uppercase();
    let mut words = upper.split_whitespace();
    words.next() == Some("UPDATE") && words.skip_while(|word| *word != "IF").any(|word| word.contains('?'))
}
