//! fjall behind the calls. Its log is written to the system with each write, as it does by itself.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, UserKey, UserValue};

use super::CACHE_BYTES;
use super::workload::{Key, KeyValue, Row, pack, put_key, unpack};

pub struct Fjall {
    database: Database,
    keyspace: Keyspace,
    /// Put and not written.
    waiting: Vec<(UserKey, UserValue)>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Fjall {
    pub fn open(dir: &Path, memtable_bytes: u64) -> Result<Fjall, String> {
        let database = Database::builder(dir.join("fjall")).cache_size(CACHE_BYTES as u64).open().map_err(text)?;
        let options = move || KeyspaceCreateOptions::default().max_memtable_size(memtable_bytes);
        let keyspace = database.keyspace("rows", options).map_err(text)?;
        Ok(Fjall { database, keyspace, waiting: Vec::new(), key: Vec::new(), value: Vec::new() })
    }
}

fn text(error: fjall::Error) -> String {
    format!("fjall: {error}")
}

impl KeyValue for Fjall {
    async fn put(&mut self, key: &Key, rows: &[Row<'_>]) -> Result<(), String> {
        for row in rows {
            put_key(key, row.clustering.as_ref(), &mut self.key);
            pack(row, &mut self.value);
            self.waiting.push((self.key.as_slice().into(), self.value.as_slice().into()));
        }
        Ok(())
    }

    async fn logged(&mut self) -> Result<(), String> {
        if self.waiting.len() == 1 {
            let (key, value) = self.waiting.remove(0);
            return self.keyspace.insert(key, value).map_err(text);
        }
        let mut batch = self.database.batch();
        self.waiting.drain(..).for_each(|(key, value)| batch.insert(&self.keyspace, key, value));
        batch.commit().map_err(text)
    }

    async fn get(&mut self, key: &Key, out: &mut Vec<u8>) -> Result<bool, String> {
        let found = self.keyspace.get(key).map_err(text)?;
        if let Some(packed) = &found {
            unpack(packed, out);
        }
        Ok(found.is_some())
    }

    async fn slice(&mut self, key: &Key, from: &Key, count: u64, out: &mut Vec<u8>) -> Result<u64, String> {
        put_key(key, Some(from), &mut self.key);
        let mut found = 0;
        for row in self.keyspace.range(self.key.as_slice()..).take(count as usize) {
            let (place, packed) = row.into_inner().map_err(text)?;
            if !place.starts_with(key) {
                break;
            }
            unpack(&packed, out);
            found += 1;
        }
        Ok(found)
    }

    async fn settle(&mut self) -> Result<(), String> {
        self.keyspace.rotate_memtable_and_wait().map_err(text)?;
        self.keyspace.major_compact().map_err(text)
    }
}
