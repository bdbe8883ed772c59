//! Statements of a QUERY or BATCH that came as text, by keyspace and text: one that comes again is not parsed and planned
//! anew. Most texts with literals come once; so one is kept from its second time on.

use std::cell::RefCell;
use std::hash::BuildHasher as _;
use std::rc::Rc;

use hashbrown::HashTable;

use crate::base::collections::hasher;
use crate::net::statements::Statement;
use crate::protocol::CqlError;
use crate::schema::Schema;

/// Texts that are kept, and the bytes of all of them: once there are more, all are forgotten.
const TEXTS_MAX: usize = 1024;
const TEXTS_BYTES_MAX: usize = 1 << 20;
/// A longer text is planned each time. A plan takes many times what its text does, and what is kept of plans is bounded by
/// this.
const TEXT_BYTES_MAX: usize = 2 << 10;
/// Of how many texts that came once it is known; a power of two.
const SEEN: usize = 4096;

pub struct Texts(RefCell<Kept>);

struct Kept {
    texts: HashTable<Text>,
    bytes: usize,
    /// Hashes of texts that came, each at its place.
    seen: Vec<u64>,
}

struct Text {
    hash: u64,
    keyspace: Option<Box<str>>,
    text: Box<str>,
    statement: Rc<Statement>,
}

impl Texts {
    pub fn new() -> Self {
        Texts(RefCell::new(Kept { texts: HashTable::new(), bytes: 0, seen: Vec::new() }))
    }

    /// The statement of a text, planned now or under the schema as it still is.
    pub fn statement(&self, schema: &Schema, text: &str, keyspace: Option<&str>) -> Result<Rc<Statement>, CqlError> {
        if text.len() > TEXT_BYTES_MAX {
            return Statement::new(schema, text, keyspace);
        }
        let hash = hasher().hash_one((keyspace, text));
        let mut kept = self.0.borrow_mut();
        let is_same = |known: &Text| &*known.text == text && known.keyspace.as_deref() == keyspace;
        if let Some(known) = kept.texts.find(hash, is_same) {
            return Ok(known.statement.clone());
        }
        let statement = Statement::new(schema, text, keyspace)?;
        if statement.prepared.reads_or_writes() && kept.was_seen(hash) {
            kept.keep(Text {
                hash,
                keyspace: keyspace.map(Box::from),
                text: text.into(),
                statement: statement.clone(),
            });
        }
        Ok(statement)
    }

    /// The schema has changed: every text is to be planned anew.
    pub fn forget(&self) {
        let mut kept = self.0.borrow_mut();
        kept.texts.clear();
        kept.bytes = 0;
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.borrow().texts.len()
    }
}

impl Kept {
    /// Whether a text with this hash has come before, as far as it is known. Now one has.
    fn was_seen(&mut self, hash: u64) -> bool {
        if self.seen.is_empty() {
            self.seen = vec![0; SEEN];
        }
        let place = hash as usize % SEEN;
        self.seen.get_mut(place).is_some_and(|seen| std::mem::replace(seen, hash) == hash)
    }

    fn keep(&mut self, text: Text) {
        if self.texts.len() >= TEXTS_MAX || self.bytes + text.text.len() > TEXTS_BYTES_MAX {
            self.texts.clear();
            self.bytes = 0;
        }
        self.bytes += text.text.len();
        self.texts.insert_unique(text.hash, text, |text| text.hash);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]
    use super::*;
    use crate::plan::testing;

    fn schema() -> Schema {
        testing::schema(&["CREATE TABLE t (k int PRIMARY KEY, v int)"])
    }

    fn insert(k: usize) -> String {
        format!("INSERT INTO t (k, v) VALUES ({k}, ?)")
    }

    #[test]
    fn a_text_that_comes_again_is_planned_twice_and_no_more() {
        let (schema, texts) = (schema(), Texts::new());
        let take = |keyspace| texts.statement(&schema, &insert(1), Some(keyspace));
        let (first, second, third) = (take("ks").unwrap(), take("ks").unwrap(), take("ks").unwrap());
        assert!(!Rc::ptr_eq(&first, &second) && Rc::ptr_eq(&second, &third));
        assert!(take("other").is_err(), "the same text means another table there");
        texts.forget();
        assert!(!Rc::ptr_eq(&third, &take("ks").unwrap()));
    }

    #[test]
    fn what_is_wrong_or_changes_the_schema_is_not_kept() {
        let (schema, texts) = (schema(), Texts::new());
        let long = format!("SELECT v FROM t WHERE k = 1 /* {} */", "x".repeat(TEXT_BYTES_MAX));
        for text in ["SELEC", "SELECT w FROM t", "DROP TABLE t", "TRUNCATE t", "USE ks", &long] {
            for _ in 0..3 {
                let _ = texts.statement(&schema, text, Some("ks"));
            }
        }
        assert_eq!(texts.len(), 0);
    }

    #[test]
    fn texts_and_their_bytes_are_bounded() {
        let (schema, texts) = (schema(), Texts::new());
        let most = (0..2 * TEXTS_MAX)
            .map(|k| {
                for _ in 0..2 {
                    texts.statement(&schema, &insert(k), Some("ks")).unwrap();
                }
                texts.len()
            })
            .max();
        assert_eq!(most, Some(TEXTS_MAX));
        texts.forget();
        for k in 0..2 * TEXTS_BYTES_MAX / TEXT_BYTES_MAX {
            let text = format!("{} /* {} */", insert(k), "x".repeat(TEXT_BYTES_MAX - 100));
            for _ in 0..2 {
                texts.statement(&schema, &text, Some("ks")).unwrap();
            }
            assert!(texts.0.borrow().bytes <= TEXTS_BYTES_MAX);
        }
        assert!(texts.len() > 1);
    }
}
