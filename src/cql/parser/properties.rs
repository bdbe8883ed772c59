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
