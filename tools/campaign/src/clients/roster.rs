//! The clients, and the checks that each one's script reports.

use super::install::Kind;

/// One client: a kind of driver with the arguments that its script gets.
#[derive(Debug)]
pub struct Client {
    /// What `--only` selects by.
    pub name: &'static str,
    /// How it is installed and started.
    pub kind: Kind,
    /// Arguments of its own for the script.
    pub arguments: &'static [&'static str],
    /// Checks that its script reports, in any order, and no others.
    pub checks: &'static [&'static str],
}

const CQLSH: &[&str] = &[
    "connect",
    "execute",
    "file",
    "types",
    "describe_cluster",
    "describe_keyspaces",
    "describe_table",
    "describe_recreates",
    "copy_from",
    "copy_to",
    "paging",
    "batch",
    "alter",
    "error_syntax",
    "error_invalid",
    "error_exists",
    "error_in_file",
];

const PYTHON: &[&str] = &[
    "connect",
    "system",
    "schema",
    "types",
    "null_and_unset",
    "collections",
    "write_read",
    "paging",
    "paging_resumed",
    "token_ranges",
    "batches",
    "timestamps_ttl",
    "statics",
    "reprepare",
    "unprepared_id",
    "schema_events",
    "compression",
    "error_syntax",
    "error_invalid",
    "error_unconfigured",
    "error_exists",
    "truncate",
];

const NODE: &[&str] = &[
    "connect",
    "schema",
    "types",
    "collections",
    "write_read",
    "paging",
    "paging_resumed",
    "stream",
    "batches",
    "timestamps_ttl",
    "reprepare",
    "schema_events",
    "error_syntax",
    "error_invalid",
    "error_exists",
];

const JAVA: &[&str] = &[
    "connect",
    "schema",
    "types",
    "collections",
    "write_read",
    "paging",
    "paging_resumed",
    "batches",
    "timestamps_ttl",
    "reprepare",
    "schema_events",
    "compression",
    "error_syntax",
    "error_invalid",
    "error_exists",
];

const GOCQL: &[&str] = &[
    "connect",
    "schema",
    "types",
    "collections",
    "write_read",
    "paging",
    "paging_resumed",
    "batches",
    "timestamps_ttl",
    "reprepare",
    "schema_events",
    "compression",
    "error_syntax",
    "error_invalid",
    "error_exists",
];

/// All of them, in the order they run.
pub const CLIENTS: &[Client] = &[
    Client { name: "cqlsh", kind: Kind::Cqlsh, arguments: &[], checks: CQLSH },
    Client {
        name: "python-v5",
        kind: Kind::Python,
        arguments: &["--protocol", "5", "--compression", "lz4"],
        checks: PYTHON,
    },
    Client {
        name: "python-v4",
        kind: Kind::Python,
        arguments: &["--protocol", "4", "--compression", "snappy"],
        checks: PYTHON,
    },
    Client {
        name: "python-v3",
        kind: Kind::Python,
        arguments: &["--protocol", "3", "--compression", "lz4"],
        checks: PYTHON,
    },
    Client { name: "node", kind: Kind::Node, arguments: &[], checks: NODE },
    Client {
        name: "java-v5",
        kind: Kind::Java,
        arguments: &["--protocol", "V5", "--compression", "lz4"],
        checks: JAVA,
    },
    Client {
        name: "java-v4",
        kind: Kind::Java,
        arguments: &["--protocol", "V4", "--compression", "snappy"],
        checks: JAVA,
    },
    Client { name: "gocql", kind: Kind::Go, arguments: &[], checks: GOCQL },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_so_are_the_checks_of_each() {
        let names: BTreeSet<&str> = CLIENTS.iter().map(|client| client.name).collect();
        assert_eq!(names.len(), CLIENTS.len());
        for client in CLIENTS {
            let checks: BTreeSet<&&str> = client.checks.iter().collect();
            assert_eq!(checks.len(), client.checks.len(), "{}", client.name);
        }
    }

    #[test]
    fn every_driver_covers_what_an_application_needs() {
        let everywhere = ["connect", "types", "paging", "error_syntax", "error_invalid", "error_exists"];
        for client in CLIENTS {
            for check in everywhere {
                assert!(client.checks.contains(&check), "{} lacks {check}", client.name);
            }
            if client.name != "cqlsh" {
                for check in ["batches", "reprepare", "schema_events", "write_read"] {
                    assert!(client.checks.contains(&check), "{} lacks {check}", client.name);
                }
            }
        }
    }
}
