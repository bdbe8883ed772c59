//! Whether enough replicas are there for a consistency level. One node: every keyspace has it as its one live replica,
//! whatever more its replication asks for.

use crate::protocol::{Consistency, CqlError};
use crate::schema::Keyspace;

/// The data centre of this node.
const DATA_CENTER: &str = "datacenter1";

/// How many replicas a keyspace has by its settings: in this data centre, and in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Replicas {
    local: u32,
    all: u32,
}

impl Replicas {
    fn of(keyspace: &Keyspace) -> Replicas {
        // Transient replicas (`3/1`) count among the full number.
        let number = |text: &String| text.split('/').next().and_then(|full| full.parse().ok()).unwrap_or(0);
        let class = keyspace.replication.get("class").map_or("", String::as_str);
        if class.ends_with("NetworkTopologyStrategy") {
            let centers = keyspace.replication.iter().filter(|(key, _)| *key != "class");
            let local = keyspace.replication.get(DATA_CENTER).map_or(0, number);
            return Replicas { local, all: centers.map(|(_, value)| number(value)).sum() };
        }
        let all = keyspace.replication.get("replication_factor").map_or(1, number);
        Replicas { local: all, all }
    }
}

/// UNAVAILABLE where the level wants more replicas than are alive.
pub fn check(keyspace: &Keyspace, consistency: Consistency) -> Result<(), CqlError> {
    let replicas = Replicas::of(keyspace);
    let quorum = |of: u32| of / 2 + 1;
    let required = match consistency {
        Consistency::Any => return Ok(()),
        Consistency::One | Consistency::LocalOne | Consistency::NodeLocal => 1,
        Consistency::Two => 2,
        Consistency::Three => 3,
        Consistency::Quorum | Consistency::Serial => quorum(replicas.all),
        Consistency::All => replicas.all.max(1),
        Consistency::LocalQuorum | Consistency::LocalSerial | Consistency::EachQuorum => quorum(replicas.local),
    };
    let alive = replicas.local.min(1);
    if alive >= required { Ok(()) } else { Err(CqlError::unavailable(consistency, required, alive)) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn keyspace(replication: &[(&str, &str)]) -> Keyspace {
        Keyspace {
            name: "ks".into(),
            durable_writes: true,
            replication: replication.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            types: BTreeMap::new(),
            tables: BTreeMap::new(),
        }
    }

    #[test]
    fn a_level_is_met_by_the_one_live_replica_or_not() {
        let check = |replication: &[(&str, &str)], consistency, expected: bool| {
            assert_eq!(check(&keyspace(replication), consistency).is_ok(), expected, "{replication:?} {consistency}");
        };
        let one = [("class", "org.apache.cassandra.locator.SimpleStrategy"), ("replication_factor", "1")];
        for level in
            [Consistency::Any, Consistency::One, Consistency::Quorum, Consistency::All, Consistency::LocalQuorum]
        {
            check(&one, level, true);
        }
        check(&one, Consistency::Two, false);
        check(&one, Consistency::Three, false);
        let three = [("class", "SimpleStrategy"), ("replication_factor", "3/1")];
        check(&three, Consistency::One, true);
        check(&three, Consistency::Quorum, false);
        check(&three, Consistency::All, false);
        let elsewhere = [("class", "NetworkTopologyStrategy"), ("dc2", "3")];
        check(&elsewhere, Consistency::One, false);
        check(&elsewhere, Consistency::Any, true);
        let both = [("class", "NetworkTopologyStrategy"), ("datacenter1", "1"), ("dc2", "3")];
        check(&both, Consistency::LocalQuorum, true);
        check(&both, Consistency::Quorum, false);
        check(&[("class", "LocalStrategy")], Consistency::All, true);
    }

    #[test]
    fn the_error_carries_what_drivers_read() {
        let error =
            super::check(&keyspace(&[("class", "SimpleStrategy"), ("replication_factor", "1")]), Consistency::Two);
        assert_eq!(error.expect_err("two").message(), "Cannot achieve consistency level TWO");
    }
}
