//! Whether a condition of ALLOW FILTERING holds for a value. Pure.

use std::cmp::Ordering;

use crate::mutation::read::{FilterExpression, FilterOperator};
use crate::types::{self, CqlType, collection};

impl FilterExpression {
    /// Whether it holds for a column of type `ty` that has `value`.
    pub fn holds_for(&self, ty: &CqlType, value: &[u8]) -> bool {
        let order = || types::compare(ty, value, &self.value);
        match self.operator {
            FilterOperator::Equal => order() == Ordering::Equal,
            FilterOperator::NotEqual => order() != Ordering::Equal,
            FilterOperator::Less => order() == Ordering::Less,
            FilterOperator::LessOrEqual => order() != Ordering::Greater,
            FilterOperator::Greater => order() == Ordering::Greater,
            FilterOperator::GreaterOrEqual => order() != Ordering::Less,
            FilterOperator::In => {
                let list = CqlType::list(ty.clone());
                elements(&list, &self.value).any(|candidate| types::compare(ty, value, candidate) == Ordering::Equal)
            }
            FilterOperator::Contains => contains(ty, value, &self.value),
            FilterOperator::ContainsKey => pairs(ty, value).any(|(key, _)| equal_key(ty, key, &self.value)),
            FilterOperator::Element => pairs(ty, value)
                .any(|(key, value)| equal_key(ty, key, &self.element) && equal_element(ty, value, &self.value)),
        }
    }
}

/// The elements of a serialised list or set; none where the value is not one.
fn elements<'a>(ty: &CqlType, value: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    collection::elements(ty, value).into_iter().flatten().flatten()
}

/// The entries of a serialised map; none where the value is not one.
fn pairs<'a>(ty: &CqlType, value: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    collection::map_entries(ty, value).into_iter().flatten()
}

fn contains(ty: &CqlType, value: &[u8], wanted: &[u8]) -> bool {
    match ty.unfrozen() {
        CqlType::Map(..) => pairs(ty, value).any(|(_, value)| equal_element(ty, value, wanted)),
        _ => elements(ty, value).any(|element| equal_element(ty, element, wanted)),
    }
}

/// Whether two keys of a map of type `ty` are equal.
pub fn equal_key(ty: &CqlType, a: &[u8], b: &[u8]) -> bool {
    matches!(ty.unfrozen(), CqlType::Map(key, _) if types::compare(key, a, b) == Ordering::Equal)
}

/// Whether two elements of a collection of type `ty` are equal; of a map, its values.
pub fn equal_element(ty: &CqlType, a: &[u8], b: &[u8]) -> bool {
    let element = match ty.unfrozen() {
        CqlType::Map(_, value) => value,
        CqlType::List(element) | CqlType::Set(element) => element,
        _ => return false,
    };
    types::compare(element, a, b) == Ordering::Equal
}
