//! Properties after WITH.

use super::{Parse, Parser};
use crate::base::collections::HashSet;
use crate::cql::ast::{Literal, Properties, PropertyValue, Term};
use crate::cql::error::SyntaxError;
use crate::cql::token::TokenKind;

/// The most properties of a statement: several times what exists, and few enough to search one by one.
const PROPERTIES_MAX: usize = 256;

impl Parser<'_> {
    /// `a = 1 AND b = {…}`
    pub(super) fn properties(&mut self) -> Parse<Properties> {
        let mut properties = Properties::default();
        self.joined_by_and(|parser| parser.property(&mut properties))?;
        Ok(properties)
    }

    /// One property, added to those before it.
    pub(super) fn property(&mut self, properties: &mut Properties) -> Parse<()> {
        let name = self.ident()?.into_string();
        self.expect(TokenKind::Eq)?;
        let value = self.property_value()?;
        if properties.get(&name).is_some() {
            return Err(SyntaxError::rule(format!("Multiple definitions for property '{name}'")));
        }
        if properties.0.len() == PROPERTIES_MAX {
            return Err(SyntaxError::rule(format!("The statement has more than {PROPERTIES_MAX} properties")));
        }
        properties.0.push((name, value));
        Ok(())
    }

    fn property_value(&mut self) -> Parse<PropertyValue> {
        if self.peek() == TokenKind::LeftBrace {
            return Ok(PropertyValue::Map(self.constant_map()?));
        }
        if let Some(literal) = self.constant()? {
            return Ok(PropertyValue::Text(literal.text));
        }
        match self.peek() {
            TokenKind::Keyword(_) => Ok(PropertyValue::Text(self.ident()?.into_string())),
            _ => Err(self.no_viable()),
        }
    }

    /// A map whose keys and values are constants, as their raw texts.
    pub(super) fn constant_map(&mut self) -> Parse<Vec<(String, String)>> {
        self.expect(TokenKind::LeftBrace)?;
        let entries = self.separated_until(TokenKind::RightBrace, Self::map_entry)?;
        let mut map = Vec::new();
        let mut keys = HashSet::default();
        for (key, value) in entries {
            let key_text = match &key {
                Term::Literal(literal) => literal.text.clone(),
                _ => {
                    return Err(not_constant(&key, &format!("Invalid property name: {key}")));
                }
            };
            let value_text = match value {
                Term::Literal(Literal { text, .. }) => text,
                _ => {
                    let message = format!("Invalid property value: {value} for property: {key}");
                    return Err(not_constant(&value, &message));
                }
            };
            if !keys.insert(key_text.clone()) {
                return Err(SyntaxError::rule(format!("Multiple definition for property {key_text}")));
            }
            map.push((key_text, value_text));
        }
        Ok(map)
    }
}

fn not_constant(term: &Term, message: &str) -> SyntaxError {
    match term {
        Term::Marker(_) => SyntaxError::rule(format!("{message} (bind variables are not supported in DDL queries)")),
        _ => SyntaxError::rule(message),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_error, error, statement};
    use super::*;
    use crate::cql::ast::Statement;

    fn properties(text: &str) -> Vec<(String, PropertyValue)> {
        match statement(&format!("ALTER KEYSPACE k WITH {text}")) {
            Statement::AlterKeyspace(alter) => alter.properties.0,
            other => panic!("{other:?}"),
        }
    }

    fn text(text: &str) -> PropertyValue {
        PropertyValue::Text(text.to_owned())
    }

    fn check(cql: &str, name: &str, value: PropertyValue) {
        assert_eq!(properties(cql), [(name.to_owned(), value)], "{cql}");
    }

    fn check_property_error(cql: &str, message: &str) {
        check_error(&format!("ALTER KEYSPACE k WITH {cql}"), message);
    }

    #[test]
    fn values_are_raw_texts() {
        check("a = 1", "a", text("1"));
        check("A = -1.50", "a", text("-1.50"));
        check("\"A\" = 'it''s'", "A", text("it's"));
        check("a = True", "a", text("True"));
        check("a = 0x0F", "a", text("0x0F"));
        let uuid = "123e4567-e89b-12d3-a456-426614174000";
        check(&format!("id = {uuid}"), "id", text(uuid));
        check("a = KEYS", "a", text("keys"));
        check("a = NaN", "a", text("NaN"));
    }

    #[test]
    fn maps_hold_constants() {
        let map = |entries: &[(&str, &str)]| {
            let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
            PropertyValue::Map(entries.iter().map(owned).collect())
        };
        check("m = {}", "m", map(&[]));
        check("m = {'class': 'S', 'n': 1, 2: true}", "m", map(&[("class", "S"), ("n", "1"), ("2", "true")]));
    }

    #[test]
    fn several_properties_keep_their_order() {
        let found = properties("b = 1 AND a = {'x': 'y'} AND c = 'z'");
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["b", "a", "c"]);
        let found = Properties(found);
        assert_eq!(found.get("c"), Some(&text("z")));
        assert_eq!(found.get("d"), None);
        assert!(!found.is_empty());
    }

    #[test]
    fn nothing_is_defined_twice() {
        check_property_error("a = 1 AND A = 2", "Multiple definitions for property 'a'");
        check_property_error("m = {'a': 1, 'a': 2}", "Multiple definition for property a");
        let many: Vec<_> = (0..=PROPERTIES_MAX).map(|n| format!("p{n} = 1")).collect();
        let message = error(&format!("ALTER KEYSPACE k WITH {}", many.join(" AND ")));
        assert_eq!(message, "The statement has more than 256 properties");
    }

    #[test]
    fn what_is_no_property() {
        check_property_error("a", "line 0:-1 mismatched input '<EOF>' expecting '='");
        check_property_error("a = ?", "line 1:26 no viable alternative at input '?'");
        check_property_error("a = [1]", "line 1:26 no viable alternative at input '['");
        check_property_error("a = select", "line 1:26 no viable alternative at input 'select'");
        check_property_error("a = {'b'}", "line 1:30 mismatched input '}' expecting ':'");
        check_property_error(
            "a = {'b': ?}",
            "Invalid property value: ? for property: 'b' \
             (bind variables are not supported in DDL queries)",
        );
        check_property_error(
            "a = {?: 'b'}",
            "Invalid property name: ? (bind variables are not supported in DDL queries)",
        );
        check_property_error("a = {'b': [1]}", "Invalid property value: [1] for property: 'b'");
        check_property_error("a = {'b': null}", "Invalid property value: NULL for property: 'b'");
    }
}
