//! A command's parameters: the query of its URL, each at most once, and none that the command does not know. `keyspace`
//! and `table` may be lists, separated by commas.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;

use crate::admin::Failed;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    pub keyspaces: Vec<String>,
    pub tables: Vec<String>,
    pub tag: Option<String>,
}

impl Parameters {
    /// Reads the query of a command that takes the parameters `known`.
    pub fn read(query: Option<&str>, known: &[&str]) -> Result<Parameters, Failed> {
        let mut given: Vec<(String, String)> = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if !known.contains(&name.as_str()) {
                let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                return Err(wrong(format!("unknown parameter `{}`: taken here: {known}", name.escape_debug())));
            }
            if value.is_empty() {
                return Err(wrong(format!("`{name}` is empty")));
            }
            if given.iter().any(|(other, _)| *other == name) {
                return Err(wrong(format!("`{name}` is given twice")));
            }
            given.push((name, value));
        }
        let mut parameters = Parameters::default();
        for (name, value) in given {
            match name.as_str() {
                "keyspace" => parameters.keyspaces = names(&name, &value)?,
                "table" => parameters.tables = names(&name, &value)?,
                _ => parameters.tag = Some(value),
            }
        }
        if !parameters.tables.is_empty() && parameters.keyspaces.len() != 1 {
            return Err(wrong("`table` needs `keyspace`, one and only one".into()));
        }
        Ok(parameters)
    }

    /// One keyspace or none, as flush, compact and tablestats take it.
    pub fn one_keyspace(&self) -> Result<Option<String>, Failed> {
        match self.keyspaces.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            _ => Err(wrong("one keyspace at a time".into())),
        }
    }
}

fn wrong(reason: String) -> Failed {
    Failed(StatusCode::BAD_REQUEST, reason)
}

fn names(parameter: &str, list: &str) -> Result<Vec<String>, Failed> {
    if list.split(',').any(str::is_empty) {
        return Err(wrong(format!("`{parameter}` holds an empty name")));
    }
    Ok(list.split(',').map(str::to_owned).collect())
}

/// The query of a route that takes no parameters.
pub(super) struct NoParameters;

impl<S: Sync> FromRequestParts<S> for NoParameters {
    type Rejection = Failed;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Self, Failed> {
        Parameters::read(head.uri.query(), &[]).map(|_| NoParameters)
    }
}

/// Text as a URL spells it: `+` for a space, `%` and two hexadecimal digits for a byte.
fn decoded(text: &str) -> Result<String, Failed> {
    let malformed = || wrong(format!("`{}` is not text as a URL spells it", text.escape_debug()));
    let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16)).ok_or_else(malformed);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let code = digit(rest.next())? * 16 + digit(rest.next())?;
                u8::try_from(code).map_err(|_| malformed())?
            }
            plain => plain,
        });
    }
    String::from_utf8(bytes).map_err(|_| malformed())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[&str] = &["keyspace", "table", "tag"];

    fn read(query: &str, known: &[&str]) -> Result<Parameters, String> {
        Parameters::read(Some(query), known).map_err(|failed| {
            assert_eq!(failed.0, StatusCode::BAD_REQUEST);
            failed.1
        })
    }

    #[test]
    fn names_are_split_at_commas_and_text_is_decoded() {
        let read = read("keyspace=ks&table=a,b%2Cc&tag=x%20y+z%C3%A9", ALL).expect("valid");
        let strings = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!((read.keyspaces, read.tables), (strings(&["ks"]), strings(&["a", "b", "c"])));
        assert_eq!(read.tag.as_deref(), Some("x y zé"));
        assert_eq!(Parameters::read(None, ALL).ok(), Some(Parameters::default()));
    }

    #[test]
    fn what_would_be_passed_over_is_refused() {
        for (query, says) in [
            ("tag=a&tag=b", "`tag` is given twice"),
            ("tagg=a", "unknown parameter `tagg`: taken here: keyspace, table, tag"),
            ("all", "unknown parameter `all`"),
            ("tag=", "`tag` is empty"),
            ("tag", "`tag` is empty"),
            ("keyspace=a,,b", "`keyspace` holds an empty name"),
            ("table=t", "`table` needs `keyspace`"),
            ("keyspace=a,b&table=t", "one and only one"),
            ("tag=%zz", "`%zz` is not text"),
            ("tag=%2", "`%2` is not text"),
            ("tag=%+1", "is not text"),
            ("tag=%ff", "`%ff` is not text"),
        ] {
            let error = read(query, ALL).expect_err(query);
            assert!(error.contains(says), "{query}: {error}");
        }
        assert!(read("tag=a", &[]).expect_err("none is taken").contains("taken here: none"));
        assert!(read("keyspace=a,b", ALL).is_ok_and(|both| both.one_keyspace().is_err()));
    }
}
