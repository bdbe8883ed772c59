#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::base::ids::Token;
use crate::mutation::{Item, MutationView, set_timestamp};
use crate::plan::ddl::testing::Node;
use crate::schema::{Schema, clustering, system};

const CONTEXT: Context = Context { now_us: 5_000_000, random: [1, 2] };

#[test]
fn placeholder() {
    let _ = (system::schema(), Token(0), Node::new(), CONTEXT);
}
