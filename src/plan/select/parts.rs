//! The parts of composed values in a selection: what a literal is made of, and what may be taken of a collection or
//! user type.

use crate::base::collections::{HashMap, hasher};
use crate::cql::ast::{Ident, Selectable};
use crate::plan::ColumnSpec;
use crate::protocol::CqlError;
use crate::types::CqlType;

pub(super) fn is_tuple(receiver: Option<&ColumnSpec>) -> bool {
    receiver.is_some_and(|receiver| matches!(receiver.ty, CqlType::Tuple(_)))
}

pub(super) fn refusal(what: &str, of: &str) -> Option<String> {
    Some(format!("value for {what} selection on {of}"))
}

/// What the key of an element or the end of a slice goes into.
pub(super) fn element_spec(what: &str, of: &ColumnSpec) -> Result<ColumnSpec, CqlError> {
    match of.ty.unfrozen() {
        CqlType::Map(key, _) => Ok(of.key_spec(key)),
        CqlType::Set(element) => Ok(of.value_spec(element)),
        CqlType::List(_) => Err(CqlError::invalid(format!(
            "{what} selection is only allowed on sets and maps, but {} is a list",
            of.name
        ))),
        _ => Err(CqlError::invalid(format!(
            "Invalid {} selection: {} is of type {} is not a collection",
            what.to_lowercase(),
            of.name,
            of.ty
        ))),
    }
}

pub(super) fn field_index(of: &str, ty: &CqlType, field: &Ident) -> Result<usize, CqlError> {
    let Some(udt) = ty.as_udt() else {
        return Err(CqlError::invalid(format!("Invalid field selection: {of} of type {ty} is not a user type")));
    };
    udt.field_index(field.as_str())
        .ok_or_else(|| CqlError::invalid(format!("{of} of type {} has no field {field}", ty.unfrozen())))
}

/// A part of a literal with the type that it must have; no part where a user type's field is left out.
pub(super) type Part<'a> = (Option<&'a Selectable>, CqlType);

/// The parts of a literal of type `ty`; `None` where it is no literal of that type.
pub(super) fn parts_of<'a>(literal: &'a Selectable, ty: &CqlType) -> Option<Vec<Part<'a>>> {
    match (literal, ty.unfrozen()) {
        (Selectable::List(items), CqlType::List(element)) | (Selectable::Set(items), CqlType::Set(element)) => {
            Some(items.iter().map(|item| (Some(item), (**element).clone())).collect())
        }
        (Selectable::List(items), CqlType::Vector(element, dimensions)) if items.len() == usize::from(*dimensions) => {
            Some(items.iter().map(|item| (Some(item), (**element).clone())).collect())
        }
        (Selectable::Set(items), CqlType::Map(..)) if items.is_empty() => Some(Vec::new()),
        (Selectable::Map(entries), CqlType::Map(key, value)) => {
            Some(entries.iter().flat_map(|(k, v)| [(Some(k), (**key).clone()), (Some(v), (**value).clone())]).collect())
        }
        (Selectable::Map(entries), CqlType::Udt(udt)) => {
            // Of a field named twice the last value counts.
            let mut values: HashMap<&str, &Selectable> = HashMap::with_hasher(hasher());
            for (name, value) in entries {
                let Selectable::Column(name) = name else { return None };
                values.insert(name.as_str(), value);
            }
            let fields = udt.fields.iter().map(|(field, ty)| (values.remove(field.as_str()), ty.clone())).collect();
            values.is_empty().then_some(fields)
        }
        (Selectable::Parenthesized(items), CqlType::Tuple(types)) if items.len() <= types.len() => {
            Some(items.iter().map(Some).zip(types.iter().cloned()).collect())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::cql::ast::{Selection, Statement};
    use crate::plan::testing;
    use crate::types::UdtType;

    fn selectable(text: &str) -> Selectable {
        match crate::cql::parse(&format!("SELECT {text} FROM t")).unwrap().statement {
            Statement::Select(select) => match select.selection {
                Selection::Selectors(mut selectors) => selectors.remove(0).selectable,
                Selection::All => panic!("{text}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn udt() -> CqlType {
        let fields = vec![("a".into(), CqlType::Int), ("b".into(), CqlType::Text)];
        CqlType::Udt(Box::new(UdtType { keyspace: "ks".into(), name: "ty".into(), fields }))
    }

    /// Each part with its type; `-` where a field is left out.
    fn check(literal: &str, ty: &CqlType, expected: Option<&str>) {
        let literal = selectable(literal);
        let parts = parts_of(&literal, ty).map(|parts| {
            let text = |part: &Part<'_>| format!("{} {}", part.0.map_or("-".to_owned(), ToString::to_string), part.1);
            parts.iter().map(text).collect::<Vec<_>>().join(", ")
        });
        assert_eq!(parts.as_deref(), expected, "{literal} as {ty}");
    }

    #[test]
    fn literals_have_the_parts_of_their_type() {
        let pair = CqlType::tuple([CqlType::Int, CqlType::Text]);
        check("[k, 1]", &CqlType::list(CqlType::Int), Some("k int, 1 int"));
        check("[k, 1]", &CqlType::vector(CqlType::Float, 2), Some("k float, 1 float"));
        check("[k]", &CqlType::vector(CqlType::Float, 2), None);
        check("[k]", &CqlType::set(CqlType::Int), None);
        check("{k}", &CqlType::set(CqlType::Int), Some("k int"));
        check("{}", &CqlType::map(CqlType::Int, CqlType::Int), Some(""));
        check("{k: v}", &CqlType::map(CqlType::Int, CqlType::Text), Some("k int, v text"));
        check("{b: v}", &udt(), Some("- int, v text"));
        check("{c: v}", &udt(), None);
        check("(k, v)", &pair, Some("k int, v text"));
        check("(k, v, w)", &pair, None);
    }

    #[test]
    fn keys_of_elements_are_named_after_what_holds_them() {
        let spec =
            |ty| element_spec("Element", &testing::spec("m", ty)).map(|spec| format!("{} {}", spec.name, spec.ty));
        assert_eq!(spec(CqlType::map(CqlType::Int, CqlType::Text)).unwrap(), "key(m) int");
        assert_eq!(spec(CqlType::set(CqlType::Text).freeze()).unwrap(), "value(m) text");
        let list = spec(CqlType::list(CqlType::Int)).unwrap_err();
        assert_eq!(list.message(), "Element selection is only allowed on sets and maps, but m is a list");
        let int = spec(CqlType::Int).unwrap_err();
        assert_eq!(int.message(), "Invalid element selection: m is of type int is not a collection");
    }

    #[test]
    fn fields_are_found_by_name() {
        assert_eq!(field_index("u", &udt().freeze(), &Ident::unquoted("b")).unwrap(), 1);
        let unknown = field_index("u", &udt(), &Ident::unquoted("c")).unwrap_err();
        assert_eq!(unknown.message(), "u of type ty has no field c");
    }
}
