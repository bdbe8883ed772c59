//! RocksDB behind the calls. Its log is written to the system with each write, as it does by itself.

use std::path::Path;

use rocksdb::{BlockBasedOptions, Cache, DB, DBCompressionType, Options, WriteBatch};

use super::CACHE_BYTES;
use super::workload::{Key, KeyValue, Row, pack, put_key, unpack};

pub struct RocksDb {
    db: DB,
    /// Put and not written.
    waiting: WriteBatch,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl RocksDb {
    pub fn open(dir: &Path, memtable_bytes: u64) -> Result<RocksDb, String> {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES));
        blocks.set_bloom_filter(10.0, false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&blocks);
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_write_buffer_size(usize::try_from(memtable_bytes).unwrap_or(usize::MAX));
        let db = DB::open(&options, dir.join("rocksdb")).map_err(text)?;
        Ok(RocksDb { db, waiting: WriteBatch::default(), key: Vec::new(), value: Vec::new() })
    }
}

fn text(error: rocksdb::Error) -> String {
    format!("RocksDB: {error}")
}

impl KeyValue for RocksDb {
    async fn put(&mut self, key: &Key, rows: &[Row<'_>]) -> Result<(), String> {
        for row in rows {
            put_key(key, row.clustering.as_ref(), &mut self.key);
            pack(row, &mut self.value);
            self.waiting.put(&self.key, &self.value);
        }
        Ok(())
    }

    async fn logged(&mut self) -> Result<(), String> {
        self.db.write(std::mem::take(&mut self.waiting)).map_err(text)
    }

    async fn get(&mut self, key: &Key, out: &mut Vec<u8>) -> Result<bool, String> {
        let found = self.db.get_pinned(key).map_err(text)?;
        if let Some(packed) = &found {
            unpack(packed, out);
        }
        Ok(found.is_some())
    }

    async fn slice(&mut self, key: &Key, from: &Key, count: u64, out: &mut Vec<u8>) -> Result<u64, String> {
        put_key(key, Some(from), &mut self.key);
        let mut rows = self.db.raw_iterator();
        rows.seek(&self.key);
        let mut found = 0;
        while found < count
            && let Some((place, packed)) = rows.item()
            && place.starts_with(key)
        {
            unpack(packed, out);
            found += 1;
            rows.next();
        }
        rows.status().map_err(text)?;
        Ok(found)
    }

    async fn settle(&mut self) -> Result<(), String> {
        self.db.flush().map_err(text)?;
        self.db.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }
}
