//! The keyspace and the tables that cassandra-stress makes, and its statements on them.

use crate::connection::{Connection, ConnectionError};
use crate::row::COLUMNS;

/// Makes what is not there, as cassandra-stress does before anything else.
pub fn create(connection: &mut Connection, keyspace: &str) -> Result<(), ConnectionError> {
    for statement in statements(keyspace) {
        connection.query(&statement)?;
    }
    Ok(())
}

fn statements(keyspace: &str) -> [String; 4] {
    let columns = |of_type: &str| (0..COLUMNS).map(|at| format!(", \"C{at}\" {of_type}")).collect::<String>();
    [
        format!(
            "CREATE KEYSPACE IF NOT EXISTS \"{keyspace}\" WITH replication = {{'class': \
             'org.apache.cassandra.locator.SimpleStrategy', 'replication_factor': '1'}} AND durable_writes = true"
        ),
        use_keyspace(keyspace),
        format!(
            "CREATE TABLE IF NOT EXISTS \"standard1\" (key blob PRIMARY KEY{}) WITH compression = {{}}",
            columns("blob")
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS \"counter1\" (key blob PRIMARY KEY{}) WITH compression = {{}}",
            columns("counter")
        ),
    ]
}

pub fn use_keyspace(keyspace: &str) -> String {
    format!("USE \"{keyspace}\"")
}

/// Binds the five columns, then the key.
pub fn write_statement() -> String {
    let columns: Vec<String> = (0..COLUMNS).map(|at| format!("\"C{at}\" = ?")).collect();
    format!("UPDATE \"standard1\" SET {} WHERE KEY = ?", columns.join(", "))
}

/// Binds the key.
pub fn read_statement() -> String {
    let columns: Vec<String> = (0..COLUMNS).map(|at| format!("\"C{at}\"")).collect();
    format!("SELECT {} FROM \"standard1\" WHERE KEY = ?", columns.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_those_of_cassandra_stress() {
        assert_eq!(
            write_statement(),
            "UPDATE \"standard1\" SET \"C0\" = ?, \"C1\" = ?, \"C2\" = ?, \"C3\" = ?, \"C4\" = ? WHERE KEY = ?"
        );
        assert_eq!(read_statement(), "SELECT \"C0\", \"C1\", \"C2\", \"C3\", \"C4\" FROM \"standard1\" WHERE KEY = ?");
        let [keyspace, in_it, standard, counter] = statements("keyspace1");
        assert!(keyspace.starts_with("CREATE KEYSPACE IF NOT EXISTS \"keyspace1\" WITH replication = {'class': 'org."));
        assert_eq!(in_it, "USE \"keyspace1\"");
        assert!(standard.contains("(key blob PRIMARY KEY, \"C0\" blob, \"C1\" blob") && standard.ends_with("= {}"));
        assert!(counter.contains("\"counter1\"") && counter.contains("\"C4\" counter)"));
    }
}
