//! The keyspace and the tables that cassandra-stress makes, and its statements on them.

use crate::arguments::{Basic, Columns, Schema};

/// What makes what is not there, as cassandra-stress does before anything else. The keyspace is used after the first.
pub fn statements(schema: &Schema, columns: &Columns) -> Vec<String> {
    let options: String = schema.replication.iter().map(|(name, value)| format!(", '{name}': '{value}'")).collect();
    let table = |name: &str, of_type: &str| {
        let columns: String = columns.names.iter().map(|name| format!(", \"{name}\" {of_type}")).collect();
        let compression = schema.compression.as_ref().map(|class| format!("'class': '{class}'")).unwrap_or_default();
        let compaction = schema.compaction.as_ref().map(|(strategy, options)| {
            let options: String = options.iter().map(|(name, value)| format!(", '{name}': '{value}'")).collect();
            format!(" AND compaction = {{'class': '{strategy}'{options}}}")
        });
        format!(
            "CREATE TABLE IF NOT EXISTS \"{name}\" (key blob PRIMARY KEY{columns}) WITH compression = \
             {{{compression}}}{}",
            compaction.unwrap_or_default()
        )
    };
    vec![
        format!(
            "CREATE KEYSPACE IF NOT EXISTS \"{}\" WITH replication = {{'class': '{}'{options}}} AND durable_writes = true",
            schema.keyspace, schema.strategy
        ),
        use_keyspace(&schema.keyspace),
        table("standard1", "blob"),
        table("counter1", "counter"),
    ]
}

pub fn use_keyspace(keyspace: &str) -> String {
    format!("USE \"{}\"", keyspace.replace('"', "\"\""))
}

/// What empties the tool's own tables.
pub fn truncate_statements(keyspace: &str) -> Vec<String> {
    ["standard1", "counter1"].map(|table| format!("TRUNCATE \"{keyspace}\".\"{table}\"")).to_vec()
}

/// The statement of an operation. Writes bind the columns, then the key; reads the key.
pub fn statement(basic: Basic, columns: &Columns) -> String {
    let each = |show: &dyn Fn(&String) -> String| columns.names.iter().map(show).collect::<Vec<_>>().join(", ");
    match basic {
        Basic::Write => {
            let timestamp = columns.timestamp.map(|micros| format!(" USING TIMESTAMP {micros}")).unwrap_or_default();
            let assigned = each(&|name| format!("\"{name}\" = ?"));
            format!("UPDATE \"standard1\"{timestamp} SET {assigned} WHERE KEY = ?")
        }
        // The key comes first then.
        Basic::Read if columns.slice => "SELECT * FROM \"standard1\" WHERE KEY = ?".into(),
        Basic::Read => format!("SELECT {} FROM \"standard1\" WHERE KEY = ?", each(&|name| format!("\"{name}\""))),
        Basic::CounterWrite => {
            let added = each(&|name| format!("\"{name}\" = \"{name}\" + ?"));
            format!("UPDATE \"counter1\" SET {added} WHERE KEY = ?")
        }
        Basic::CounterRead => "SELECT * FROM \"counter1\" WHERE KEY = ?".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn statements_are_those_of_cassandra_stress() {
        let arguments = Arguments::of("write n=1");
        let columns = &arguments.columns;
        assert_eq!(
            statement(Basic::Write, columns),
            "UPDATE \"standard1\" SET \"C0\" = ?, \"C1\" = ?, \"C2\" = ?, \"C3\" = ?, \"C4\" = ? WHERE KEY = ?"
        );
        assert_eq!(
            statement(Basic::Read, columns),
            "SELECT \"C0\", \"C1\", \"C2\", \"C3\", \"C4\" FROM \"standard1\" WHERE KEY = ?"
        );
        assert!(statement(Basic::CounterWrite, columns).starts_with("UPDATE \"counter1\" SET \"C0\" = \"C0\" + ?, "));
        assert_eq!(statement(Basic::CounterRead, columns), "SELECT * FROM \"counter1\" WHERE KEY = ?");
        let made = statements(&arguments.schema, columns);
        assert_eq!(
            made[0],
            "CREATE KEYSPACE IF NOT EXISTS \"keyspace1\" WITH replication = {'class': \
             'org.apache.cassandra.locator.SimpleStrategy', 'replication_factor': '1'} AND durable_writes = true"
        );
        assert_eq!(made[1], "USE \"keyspace1\"");
        assert!(made[2].contains("(key blob PRIMARY KEY, \"C0\" blob, \"C1\" blob") && made[2].ends_with("= {}"));
        assert!(made[3].contains("\"counter1\"") && made[3].contains("\"C4\" counter)"));
    }

    #[test]
    fn columns_and_schema_are_as_told() {
        let arguments = Arguments::of(
            "write n=1 -col names=a,b timestamp=5 slice -schema replication(strategy=S,dc1=2) compression=LZ4Compressor \
             compaction(strategy=L,x=1)",
        );
        let made = statements(&arguments.schema, &arguments.columns);
        assert!(made[0].contains("{'class': 'S', 'dc1': '2'}"), "{}", made[0]);
        let table = "CREATE TABLE IF NOT EXISTS \"standard1\" (key blob PRIMARY KEY, \"a\" blob, \"b\" blob) WITH \
                     compression = {'class': 'LZ4Compressor'} AND compaction = {'class': 'L', 'x': '1'}";
        assert_eq!(made[2], table);
        let write = statement(Basic::Write, &arguments.columns);
        assert_eq!(write, "UPDATE \"standard1\" USING TIMESTAMP 5 SET \"a\" = ?, \"b\" = ? WHERE KEY = ?");
        assert_eq!(statement(Basic::Read, &arguments.columns), "SELECT * FROM \"standard1\" WHERE KEY = ?");
    }
}
