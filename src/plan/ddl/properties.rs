//! The values of `WITH name = value`, read as what the option wants them to be.

use crate::cql::ast::{Properties, PropertyValue};
use crate::protocol::CqlError;

type Read<T> = Result<Option<T>, CqlError>;

/// Fails on the first property that is not among the known ones.
pub fn check_known(properties: &Properties, known: &[&str]) -> Result<(), CqlError> {
    match properties.0.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        Some((name, _)) => Err(CqlError::syntax(format!("Unknown property '{name}'"))),
        None => Ok(()),
    }
}

/// A constant's text.
pub fn text<'a>(properties: &'a Properties, name: &str) -> Read<&'a str> {
    match properties.get(name) {
        None => Ok(None),
        Some(PropertyValue::Text(text)) => Ok(Some(text)),
        Some(PropertyValue::Map(_)) => {
            Err(CqlError::syntax(format!("Invalid value for property '{name}'. It should be a string")))
        }
    }
}

pub fn map<'a>(properties: &'a Properties, name: &str) -> Read<&'a [(String, String)]> {
    match properties.get(name) {
        None => Ok(None),
        Some(PropertyValue::Map(map)) => Ok(Some(map)),
        Some(PropertyValue::Text(_)) => {
            Err(CqlError::syntax(format!("Invalid value for property '{name}'. It should be a map.")))
        }
    }
}

pub fn boolean(properties: &Properties, name: &str) -> Read<bool> {
    let Some(value) = text(properties, name)? else { return Ok(None) };
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" => Ok(Some(true)),
        "0" | "false" | "no" => Ok(Some(false)),
        _ => Err(CqlError::syntax(format!(
            "Invalid boolean value {value} for '{name}'. Positive values can be '1', 'true' or 'yes'. \
             Negative values can be '0', 'false' or 'no'."
        ))),
    }
}

pub fn int(properties: &Properties, name: &str) -> Read<i32> {
    let Some(value) = text(properties, name)? else { return Ok(None) };
    match value.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(CqlError::syntax(format!("Invalid integer value {value} for '{name}'"))),
    }
}

pub fn double(properties: &Properties, name: &str) -> Read<f64> {
    let Some(value) = text(properties, name)? else { return Ok(None) };
    match crate::types::number::parse_double(value) {
        Some(number) => Ok(Some(number)),
        None => Err(CqlError::syntax(format!("Invalid double value {value} for '{name}'"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties() -> Properties {
        let text = |text: &str| PropertyValue::Text(text.to_owned());
        Properties(vec![
            ("n".to_owned(), text("-12")),
            ("x".to_owned(), text("0.5")),
            ("b".to_owned(), text("YES")),
            ("s".to_owned(), text("some text")),
            ("m".to_owned(), PropertyValue::Map(vec![("a".to_owned(), "1".to_owned())])),
        ])
    }

    fn error<T>(result: Read<T>) -> String {
        result.err().map_or_else(String::new, |error| error.message().to_owned())
    }

    #[test]
    fn values_are_read_as_what_they_should_be() {
        let all = properties();
        assert_eq!(int(&all, "n"), Ok(Some(-12)));
        assert_eq!(double(&all, "x"), Ok(Some(0.5)));
        assert_eq!(double(&all, "n"), Ok(Some(-12.0)));
        assert_eq!(boolean(&all, "b"), Ok(Some(true)));
        assert_eq!(text(&all, "s"), Ok(Some("some text")));
        assert_eq!(map(&all, "m").map(|map| map.map(<[_]>::len)), Ok(Some(1)));
        assert_eq!(int(&all, "absent"), Ok(None));
        assert_eq!(map(&all, "absent"), Ok(None));
    }

    #[test]
    fn values_of_another_sort_are_syntax_errors() {
        let all = properties();
        assert_eq!(error(int(&all, "x")), "Invalid integer value 0.5 for 'x'");
        assert_eq!(error(double(&all, "s")), "Invalid double value some text for 's'");
        assert!(error(boolean(&all, "s")).starts_with("Invalid boolean value some text for 's'."));
        assert_eq!(error(text(&all, "m")), "Invalid value for property 'm'. It should be a string");
        assert_eq!(error(map(&all, "s")), "Invalid value for property 's'. It should be a map.");
    }

    #[test]
    fn unknown_names_are_errors() {
        assert_eq!(check_known(&properties(), &["n", "x", "b", "s", "m"]), Ok(()));
        let failed = check_known(&properties(), &["n"]).err().map(|error| error.message().to_owned());
        assert_eq!(failed.as_deref(), Some("Unknown property 'x'"));
    }
}
