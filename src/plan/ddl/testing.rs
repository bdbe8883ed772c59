//! For tests: a node's schema, to which statements are applied, and their answers as one line.

use crate::cql;
use crate::plan::Context;
use crate::plan::ddl::{DdlPlan, plan};
use crate::protocol::{CqlError, SchemaTarget};
use crate::schema::{Schema, system};

pub const SIMPLE: &str = "replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

/// A schema with the system's keyspaces and an empty keyspace `ks`, which is the current one.
pub struct Node {
    pub schema: Schema,
    pub now_us: i64,
}

impl Node {
    pub fn new() -> Node {
        let mut node = Node { schema: system::schema(), now_us: 1_700_000_000_000_000 };
        node.check(&format!("CREATE KEYSPACE ks WITH {SIMPLE}"), "CREATED KEYSPACE ks");
        node
    }

    /// Plans and applies.
    pub fn plan(&mut self, text: &str) -> Result<DdlPlan, CqlError> {
        self.now_us += 1_000;
        let parsed = cql::parse(text).map_err(|error| CqlError::syntax(error.to_string()))?;
        let context = Context { now_us: self.now_us, random: [self.now_us.cast_unsigned(), 7] };
        let plan = plan(&parsed, &self.schema, Some("ks"), &context)?;
        plan.ops.iter().for_each(|op| self.schema.apply(op));
        Ok(plan)
    }

    /// `expected` is `VOID`, `CREATED TABLE t` or `0x2200 message`.
    #[track_caller]
    pub fn check(&mut self, text: &str, expected: &str) {
        let answer = match self.plan(text) {
            Err(error) => format!("0x{:04X} {}", error.code().number(), error.message()),
            Ok(DdlPlan { change: None, ops, .. }) => {
                assert!(ops.is_empty(), "{text}");
                "VOID".to_owned()
            }
            Ok(DdlPlan { change: Some(change), .. }) => {
                let target = match &change.target {
                    SchemaTarget::Keyspace => format!("KEYSPACE {}", change.keyspace),
                    SchemaTarget::Table(name) => format!("TABLE {name}"),
                    SchemaTarget::Type(name) => format!("TYPE {name}"),
                    other => format!("{other:?}"),
                };
                format!("{} {target}", change.change.name())
            }
        };
        assert_eq!(answer, expected, "{text}");
    }
}
