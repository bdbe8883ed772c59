//! Modifications with their values, as encoded mutations: those of one request on one partition share one.

use std::rc::Rc;

use crate::base::collections::{HashMap, hasher};
use crate::base::ids::TableId;
use crate::mutation::MutationBuilder;
use crate::plan::term::{Binding, Uses, invalid};
use crate::plan::{PlannedMutation, RequestOptions};
use crate::protocol::{CqlError, Value};
use crate::schema::{Table, partitioner};

use super::json;
use super::rows::Rows;
use super::timing::Moment;
use super::{PreparedWrite, Verb};

/// One modification of a request, with its values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'p> {
    pub write: &'p PreparedWrite,
    pub values: &'p [Value<'p>],
}

/// The most rows and ranges that one request may change.
pub const CHANGES_MAX: usize = 131_072;

/// The most values that the INSERT JSONs of one request give: each gives one for every column of its table.
pub const JSON_VALUES_MAX: usize = 1 << 20;

/// The most bytes of one request's mutations, far above what a log takes: so much is never held to be refused.
pub const ENCODED_BYTES_MAX: usize = 128 << 20;

/// All that a request does to one partition.
struct Group<'p> {
    table: &'p Rc<Table>,
    key: Vec<u8>,
    /// The parts that change it, in order.
    parts: Vec<usize>,
}

/// What a request has come to so far.
#[derive(Default)]
struct Totals {
    changes: usize,
    bytes: usize,
}

impl Totals {
    fn add(&mut self, changes: usize) -> Result<(), CqlError> {
        self.changes += changes;
        if self.changes > CHANGES_MAX {
            return Err(invalid(format!("One request may change at most {CHANGES_MAX} rows")));
        }
        Ok(())
    }

    /// `bytes`: of the mutation that is being encoded.
    fn check(&self, bytes: usize) -> Result<(), CqlError> {
        if self.bytes + bytes > ENCODED_BYTES_MAX {
            return Err(invalid(format!("The changes of one request have more than {ENCODED_BYTES_MAX} bytes")));
        }
        Ok(())
    }
}

/// The mutations of a request's modifications. Within one they stand in the order of the statements.
pub(super) fn mutations(parts: &[Part<'_>], options: &RequestOptions<'_>) -> Result<Vec<PlannedMutation>, CqlError> {
    for part in parts {
        part.write.conditions.refuse()?;
    }
    let json_values = parts.iter().filter(|part| part.write.json.is_some()).map(|part| part.write.table.columns.len());
    if json_values.sum::<usize>() > JSON_VALUES_MAX {
        return Err(invalid(format!("The INSERT JSONs of one request may give at most {JSON_VALUES_MAX} values")));
    }
    // The columns of INSERT JSONs, where their bindings can borrow them.
    let mut columns = Vec::with_capacity(parts.len());
    let uses = Uses::default();
    for part in parts {
        let binding = Binding::new(part.values, options.context, &uses);
        let table = &part.write.table;
        let given = part.write.json.as_ref().map(|json| json.columns(table, &binding)).transpose()?;
        binding.claim(given.iter().flatten().map(json::Column::len_bytes).sum())?;
        columns.push(given);
    }
    let columns: Vec<Vec<Value<'_>>> =
        columns.iter().map(|columns| columns.iter().flatten().map(json::Column::as_value).collect()).collect();
    let bindings: Vec<Binding<'_>> = parts
        .iter()
        .zip(&columns)
        .map(|(part, columns)| Binding::new(part.values, options.context, &uses).with_columns(columns))
        .collect();
    let moments = parts
        .iter()
        .zip(&bindings)
        .map(|(part, binding)| part.write.using.bind(&part.write.table, binding, options))
        .collect::<Result<Vec<Moment>, _>>()?;
    let mut totals = Totals::default();
    let mut out = Vec::new();
    for group in grouped(parts, &bindings, &mut totals)? {
        let mut bytes = Vec::with_capacity(128);
        let mut builder = MutationBuilder::begin(&mut bytes, group.table.id, group.table.version, &group.key);
        let empty_bytes = builder.len_bytes();
        for at in group.parts {
            parts[at].write.encode(&mut builder, &moments[at], &bindings[at], &mut totals)?;
        }
        if builder.len_bytes() > empty_bytes {
            let token = partitioner::token_of(&group.key);
            totals.bytes += bytes.len();
            out.push(PlannedMutation { table: group.table.clone(), token, bytes });
        }
    }
    Ok(out)
}

/// Which parts change which partition, partitions in the order in which they are first named.
fn grouped<'p>(parts: &[Part<'p>], bindings: &[Binding<'_>], totals: &mut Totals) -> Result<Vec<Group<'p>>, CqlError> {
    let mut groups: Vec<Group<'_>> = Vec::with_capacity(1);
    let mut places: HashMap<(TableId, Vec<u8>), usize> = HashMap::with_hasher(hasher());
    for (at, (part, binding)) in parts.iter().zip(bindings).enumerate() {
        let table = &part.write.table;
        let keys = part.write.which.keys(table, binding)?;
        totals.add(keys.len())?;
        for key in keys {
            if parts.len() == 1 {
                groups.push(Group { table, key, parts: vec![at] });
                continue;
            }
            let place = *places.entry((table.id, key)).or_insert_with_key(|(_, key)| {
                groups.push(Group { table, key: key.clone(), parts: Vec::new() });
                groups.len() - 1
            });
            groups[place].parts.push(at);
        }
    }
    Ok(groups)
}

impl PreparedWrite {
    /// Appends what the modification does to one partition.
    fn encode<'v>(
        &'v self,
        builder: &mut MutationBuilder<'_>,
        moment: &Moment,
        binding: &Binding<'v>,
        totals: &mut Totals,
    ) -> Result<(), CqlError> {
        let only_static = super::only_static(&self.operations, &self.conditions);
        if only_static && self.which.clustering.is_empty() && self.table.clustering().next().is_some() {
            return self.encode_statics(builder, moment, binding);
        }
        match self.which.rows(&self.table, binding)? {
            Rows::Keys(rows) => {
                totals.add(rows.len().saturating_sub(1))?;
                for row in rows {
                    self.encode_row(&row, builder, moment, binding)?;
                    totals.check(builder.len_bytes())?;
                }
                self.encode_statics(builder, moment, binding)
            }
            _ if !self.operations.is_empty() => Err(invalid("Range deletions are not supported for specific columns")),
            Rows::Partition => {
                builder.partition_deletion(moment.stamp, moment.now_s);
                Ok(())
            }
            Rows::Ranges(ranges) => {
                totals.add(ranges.len().saturating_sub(1))?;
                for range in &ranges {
                    builder.range_tombstone(range.start(), range.end(), moment.stamp, moment.now_s);
                }
                Ok(())
            }
        }
    }

    fn encode_row<'v>(
        &'v self,
        row: &[u8],
        builder: &mut MutationBuilder<'_>,
        moment: &Moment,
        binding: &Binding<'v>,
    ) -> Result<(), CqlError> {
        if self.verb == Verb::Delete && self.operations.is_empty() {
            if self.table.clustering().next().is_none() {
                builder.partition_deletion(moment.stamp, moment.now_s);
            } else {
                builder.row(row).row_deletion(moment.stamp, moment.now_s);
            }
            return Ok(());
        }
        let has_regular = self.operations.iter().any(|operation| !operation.is_static);
        if self.verb != Verb::Insert && !has_regular {
            return Ok(());
        }
        builder.row(row);
        if self.verb == Verb::Insert {
            builder.liveness(moment.stamp, moment.expiry);
        }
        for operation in self.operations.iter().filter(|operation| !operation.is_static) {
            operation.encode(builder, moment, binding)?;
        }
        Ok(())
    }

    /// The changes of static columns.
    fn encode_statics<'v>(
        &'v self,
        builder: &mut MutationBuilder<'_>,
        moment: &Moment,
        binding: &Binding<'v>,
    ) -> Result<(), CqlError> {
        let mut operations = self.operations.iter().filter(|operation| operation.is_static).peekable();
        if operations.peek().is_some() {
            builder.static_row();
        }
        operations.try_for_each(|operation| operation.encode(builder, moment, binding))
    }
}
