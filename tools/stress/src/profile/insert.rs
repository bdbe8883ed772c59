//! The inserts of a profile: rows of one or several partitions, in one batch.

use helenus::protocol::{BatchKind, Opcode};
use helenus::types::quote_name;

use super::Profile;
use super::partition::{Choice, Table};
use super::plan::{BATCH_ROWS_MAX, Buffers, PlanError, ROWS_SALT, Shared};
use crate::arguments::{Inserts, Order};
use crate::distribution::{Distribution, Draws, Ratio};
use crate::random::{Random, mix};
use crate::request::Template;

/// Tell apart what is drawn for one operation.
const PARTITIONS_SALT: u64 = 0x7061_7274;
const SELECT_SALT: u64 = 0x7365_6c65;
const POPULATED_SALT: u64 = 0x706f_7075;

/// Rows inserted by one operation: all that it selects, in one batch.
#[derive(Clone, Debug)]
pub struct Insert {
    table: Shared,
    partitions: Distribution,
    select: Ratio,
    row_population: Ratio,
    batch: BatchKind,
    order: Order,
    condition: Option<String>,
}

impl Insert {
    /// The inserts of a profile; the command line's `inserts` come first.
    pub fn new(profile: &Profile, table: Shared, inserts: &Inserts, order: Order) -> Result<Insert, PlanError> {
        let spec = &profile.insert;
        let partitions = inserts.partitions.clone().or_else(|| spec.partitions.clone());
        let select = inserts.select.clone().or_else(|| spec.select.clone());
        let row_population = inserts.row_population.clone().or_else(|| spec.row_population.clone());
        let batch = match inserts.batch_type.as_deref().or(spec.batch_type.as_deref()) {
            Some("UNLOGGED") => BatchKind::Unlogged,
            Some("COUNTER") => BatchKind::Counter,
            _ => BatchKind::Logged,
        };
        let insert = Insert {
            partitions: partitions.unwrap_or_else(|| Distribution::fixed(1)),
            select: select.unwrap_or_else(Ratio::all),
            row_population: row_population.unwrap_or_else(Ratio::all),
            batch,
            order,
            condition: spec.condition.clone(),
            table,
        };
        if insert.partitions.min() < 1 || insert.partitions.max() > i64::from(BATCH_ROWS_MAX) {
            return Err(PlanError::Partitions { profile: profile.name.clone() });
        }
        let rows = insert.table.rows_max() * insert.partitions.max() as f64 * insert.select.max();
        if rows > f64::from(BATCH_ROWS_MAX) {
            return Err(PlanError::BatchTooLarge { profile: profile.name.clone(), rows });
        }
        Ok(insert)
    }

    /// How many partitions an operation inserts into, drawn with this seed.
    pub fn partitions(&self, seed: u64) -> u32 {
        self.partitions.draw(&mut Draws::of(seed, PARTITIONS_SALT)) as u32
    }

    /// Binds the columns that are not in the key, then those that are.
    pub fn statement(&self) -> String {
        let Table { partition, clustering, values, .. } = &*self.table;
        let key: Vec<String> = partition.iter().chain(clustering).map(|column| quote_name(&column.name)).collect();
        let table = self.table.qualified();
        if values.is_empty() {
            let places = vec!["?"; key.len()].join(", ");
            return format!("INSERT INTO {table} ({}) VALUES ({places})", key.join(", "));
        }
        let assigned = values.iter().map(|column| {
            let name = quote_name(&column.name);
            // Collections of several cells are added to, as counters are.
            if column.is_multi_cell() || column.ty.is_counter() {
                format!("{name} = {name} + ?")
            } else {
                format!("{name} = ?")
            }
        });
        let assigned = assigned.collect::<Vec<_>>().join(", ");
        let condition = self.condition.as_ref().map(|condition| format!(" {condition}")).unwrap_or_default();
        format!("UPDATE {table} SET {assigned} WHERE {} = ?{condition}", key.join(" = ? AND "))
    }

    /// Appends the request of the operation at `place`, on the partitions of these seeds. Gives its opcode and rows.
    pub fn put(
        &self,
        template: &Template,
        place: u64,
        seeds: impl Iterator<Item = u64>,
        buffers: &mut Buffers,
    ) -> (Opcode, u32) {
        let choice = Choice { share: self.select.draw(&mut Draws::of(place, SELECT_SALT)), order: self.order };
        let populated = self.row_population.draw(&mut Draws::of(place, POPULATED_SALT));
        let mut random = Random::of(mix(place) ^ ROWS_SALT);
        let Buffers { body, routing_key, partition: key, clustering } = buffers;
        let start = body.len();
        template.begin_batch(self.batch, body);
        let (mut rows, mut first) = (0u32, None);
        let mut put_row = |key: &[u8], clustering: &[u8], row_seed: u64| {
            if rows < BATCH_ROWS_MAX {
                rows += 1;
                template.put_entry(body);
                self.table.put_values(row_seed, populated, body);
                body.extend_from_slice(key);
                body.extend_from_slice(clustering);
            }
        };
        for seed in seeds {
            let partition = self.table.partition(seed, key);
            if first.is_none() {
                first = Some(seed);
                self.table.put_routing_key(key, routing_key);
            }
            self.table.visit(partition, &choice, &mut random, clustering, &mut |row| {
                put_row(key, row.clustering, row.seed);
            });
        }
        if rows == 0
            && let Some(seed) = first
        {
            // An operation writes something: where nothing was selected, any row.
            rows = 1;
            self.put_any_row(template, seed, populated, &mut random, (body, key, clustering));
        }
        (template.end_batch(start, rows, body), rows)
    }

    fn put_any_row(
        &self,
        template: &Template,
        seed: u64,
        populated: f64,
        random: &mut Random,
        (body, key, clustering): (&mut Vec<u8>, &mut Vec<u8>, &mut Vec<u8>),
    ) {
        clustering.clear();
        let partition = self.table.partition(seed, key);
        let row_seed = self.table.any_row(partition, random, clustering);
        template.put_entry(body);
        self.table.put_values(row_seed, populated, body);
        body.extend_from_slice(key);
        body.extend_from_slice(clustering);
    }
}
