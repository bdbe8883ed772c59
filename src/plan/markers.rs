//! Bind variables: what each marker of a statement stands for, found while it is prepared.

use crate::base::collections::{HashMap, hasher};
use crate::cql::ast::BindIndex;
use crate::plan::ColumnSpec;
use crate::protocol::CqlError;
use crate::schema::Table;

/// The markers of one statement and what has been found out about them.
#[derive(Debug)]
pub struct Markers {
    names: Vec<Option<String>>,
    variables: Vec<Option<Variable>>,
}

#[derive(Debug)]
struct Variable {
    spec: ColumnSpec,
    /// The name of what receives the value; the variable itself has the marker's name, if it has one.
    receiver: String,
}

impl Markers {
    /// `names` is the parser's list: one entry for each marker, in order of appearance.
    pub fn new(names: &[Option<String>]) -> Markers {
        Markers { names: names.to_vec(), variables: names.iter().map(|_| None).collect() }
    }

    /// What the value of this marker is for.
    pub fn assign(&mut self, marker: BindIndex, receiver: &ColumnSpec) {
        let at = marker.0 as usize;
        let mut spec = receiver.clone();
        if let Some(Some(name)) = self.names.get(at) {
            spec.name.clone_from(name);
        }
        if let Some(variable) = self.variables.get_mut(at) {
            *variable = Some(Variable { spec, receiver: receiver.name.clone() });
        }
    }

    /// The bind variables, and those that give the partition key of `table`, by its columns in order. The second list
    /// is empty unless there is one for each column of the key, and all variables are of this table; of several for one
    /// column the last counts.
    pub fn finish(self, table: Option<&Table>) -> Result<(Vec<ColumnSpec>, Vec<u16>), CqlError> {
        let variables: Vec<Variable> = self.variables.into_iter().collect::<Option<_>>().ok_or_else(|| {
            CqlError::invalid("Cannot infer the type of a bind marker (try using a cast to force a type)")
        })?;
        let key = table.map_or(Some(Vec::new()), |table| key_indexes(table, &variables));
        Ok((variables.into_iter().map(|variable| variable.spec).collect(), key.unwrap_or_default()))
    }
}

fn key_indexes(table: &Table, variables: &[Variable]) -> Option<Vec<u16>> {
    let of_table = |spec: &ColumnSpec| spec.table == table.name && spec.keyspace == table.keyspace;
    if !variables.iter().all(|variable| of_table(&variable.spec)) {
        return None;
    }
    let mut last: HashMap<&str, usize> = HashMap::with_hasher(hasher());
    last.extend(variables.iter().enumerate().map(|(at, variable)| (variable.receiver.as_str(), at)));
    table.partition_key().map(|column| u16::try_from(*last.get(column.name.as_str())?).ok()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::plan::testing;
    use crate::types::CqlType;

    fn spec(name: &str, ty: CqlType) -> ColumnSpec {
        ColumnSpec { keyspace: "ks".into(), table: "p".into(), name: name.into(), ty }
    }

    #[test]
    fn a_named_marker_keeps_its_name_and_still_gives_the_key() {
        let table = testing::table("p", "a int, b text, c int, PRIMARY KEY ((a, b), c)");
        let mut markers = Markers::new(&[Some("x".into()), None, None]);
        markers.assign(BindIndex(1), &spec("a", CqlType::Int));
        markers.assign(BindIndex(0), &spec("b", CqlType::Text));
        markers.assign(BindIndex(2), &spec("c", CqlType::Int));
        let (variables, key) = markers.finish(Some(&table)).unwrap();
        assert_eq!(variables.iter().map(|v| v.name.as_str()).collect::<Vec<_>>(), ["x", "a", "c"]);
        assert_eq!(key, [1, 0]);
    }

    #[test]
    fn half_a_key_is_none_and_the_last_of_two_counts() {
        let table = testing::table("p", "a int, b text, PRIMARY KEY ((a, b))");
        let mut markers = Markers::new(&[None]);
        markers.assign(BindIndex(0), &spec("a", CqlType::Int));
        assert_eq!(markers.finish(Some(&table)).unwrap().1, [0u16; 0]);
        let table = testing::table("p", "a int PRIMARY KEY");
        let mut markers = Markers::new(&[None, None, None]);
        markers.assign(BindIndex(0), &spec("a", CqlType::Int));
        markers.assign(BindIndex(1), &spec("a", CqlType::Int));
        markers.assign(BindIndex(2), &spec("in(a)", CqlType::list(CqlType::Int)));
        assert_eq!(markers.finish(Some(&table)).unwrap().1, [1]);
    }

    #[test]
    fn a_marker_that_nothing_gave_a_type_is_an_error() {
        assert!(Markers::new(&[None]).finish(None).is_err());
    }
}
