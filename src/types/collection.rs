//! The bytes of lists, sets, maps, tuples, user-defined types and vectors: walking them and building them.
//!
//! ```text
//! list, set      [count: i32] count × ([length: i32] bytes)
//! map            [count: i32] count × ([length: i32] key bytes, [length: i32] value bytes)
//! tuple, udt     up to one ([length: i32] bytes) a field; missing at the end is null
//! vector         one element a dimension: bare bytes where `CqlType::fixed_len` is known, else [length: vint] bytes
//! ```
//! A negative length is null. Sets and maps are kept sorted by element and key, each of which occurs once.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::compare::compare;
use super::cql_type::CqlType;
use super::error::ValueError;
use super::vint;

/// How the length of an element is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// A 4-byte length; negative is null.
    Sized,
    /// All elements are this long.
    Fixed(usize),
    /// A vint length.
    Vint,
}

/// The elements of one value, in order; `None` is null. Of a map: keys and values by turns.
/// Where bytes are damaged, it ends early; `elements` gives none of that sort.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    rest: &'a [u8],
    left: usize,
    form: Form,
}

impl<'a> Elements<'a> {
    /// What has not been walked yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn take(&mut self) -> Option<Option<&'a [u8]>> {
        let (length, rest) = match self.form {
            Form::Fixed(length) => (length, self.rest),
            Form::Sized => {
                let (head, rest) = self.rest.split_first_chunk::<4>()?;
                match usize::try_from(i32::from_be_bytes(*head)) {
                    Ok(length) => (length, rest),
                    Err(_) => {
                        self.rest = rest;
                        return Some(None);
                    }
                }
            }
            Form::Vint => {
                let mut rest = self.rest;
                let length = usize::try_from(vint::read_unsigned(&mut rest)?).ok()?;
                (length, rest)
            }
        };
        let (element, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Some(element))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let element = self.take();
        self.left = if element.is_some() { self.left - 1 } else { 0 };
        element
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // A count is a claim of the sender: at least a byte must stand for each element.
        (0, Some(self.left.min(self.rest.len())))
    }
}

/// The elements of a value without a check of its form: as many as can be read.
pub(super) fn elements_unchecked<'a>(ty: &CqlType, bytes: &'a [u8]) -> Elements<'a> {
    match ty.unfrozen() {
        CqlType::List(_) | CqlType::Set(_) => counted(bytes, 1),
        CqlType::Map(..) => counted(bytes, 2),
        CqlType::Tuple(types) => Elements { rest: bytes, left: types.len(), form: Form::Sized },
        CqlType::Udt(udt) => Elements { rest: bytes, left: udt.fields.len(), form: Form::Sized },
        CqlType::Vector(element, dimensions) => {
            let form = element.fixed_len().map_or(Form::Vint, Form::Fixed);
            let left = if bytes.is_empty() { 0 } else { usize::from(*dimensions) };
            Elements { rest: bytes, left, form }
        }
        _ => Elements { rest: bytes, left: 0, form: Form::Sized },
    }
}

fn counted(bytes: &[u8], per_entry: usize) -> Elements<'_> {
    let (left, rest) = match bytes.split_first_chunk::<4>() {
        Some((head, rest)) => (usize::try_from(i32::from_be_bytes(*head)).unwrap_or(0), rest),
        None => (0, bytes),
    };
    Elements { rest, left: left.saturating_mul(per_entry), form: Form::Sized }
}

/// The elements of a list, set, map (keys and values by turns), tuple, user-defined type or vector, once the form of
/// the whole is known to be right. What the elements hold is not checked: see `validate`.
pub fn elements<'a>(ty: &CqlType, bytes: &'a [u8]) -> Result<Elements<'a>, ValueError> {
    let out = elements_unchecked(ty, bytes);
    let mut walk = out.clone();
    match ty.unfrozen() {
        CqlType::List(_) => check_counted("list", bytes, walk),
        CqlType::Set(_) => check_counted("set", bytes, walk),
        CqlType::Map(..) => check_counted("map", bytes, walk),
        CqlType::Tuple(types) => check_fields(walk, types.len(), "tuple", &|index, size| match size {
            true => ValueError::TupleTruncatedPart { part: "size of", index },
            false => ValueError::TupleTruncated { index },
        }),
        CqlType::Udt(udt) => check_fields(walk, udt.fields.len(), "UDT", &|index, size| {
            let name = udt.fields.get(index).map_or("", |(name, _)| name);
            let size = if size { "size of " } else { "" };
            ValueError::UdtTruncated { what: format!("{size}{index}th field {name}") }
        }),
        CqlType::Vector(_, dimensions) => {
            let read = walk.by_ref().count();
            if !bytes.is_empty() && read < usize::from(*dimensions) {
                Err(ValueError::VectorTruncated)
            } else if !walk.rest.is_empty() {
                Err(ValueError::VectorExtraneous)
            } else {
                Ok(())
            }
        }
        other => Err(ValueError::UnknownType(format!("{other} has no elements"))),
    }?;
    Ok(out)
}

fn check_counted(kind: &'static str, bytes: &[u8], mut walk: Elements<'_>) -> Result<(), ValueError> {
    let Some(head) = bytes.first_chunk::<4>() else {
        return Err(ValueError::CollectionTruncated { kind });
    };
    if i32::from_be_bytes(*head) < 0 {
        return Err(ValueError::CollectionCount { kind });
    }
    let want = walk.left;
    if walk.by_ref().count() < want {
        return Err(ValueError::CollectionTruncated { kind });
    }
    if walk.rest.is_empty() { Ok(()) } else { Err(ValueError::CollectionExtraneous { kind }) }
}

fn check_fields(
    mut walk: Elements<'_>,
    fields: usize,
    kind: &'static str,
    truncated: &dyn Fn(usize, bool) -> ValueError,
) -> Result<(), ValueError> {
    for index in 0..fields {
        if walk.rest.is_empty() {
            return Ok(());
        }
        if walk.rest.len() < 4 {
            return Err(truncated(index, true));
        }
        if walk.next().is_none() {
            return Err(truncated(index, false));
        }
    }
    if walk.rest.is_empty() { Ok(()) } else { Err(ValueError::TupleExtraneous { kind }) }
}

/// Key and value of a map's entry.
pub type Entry<'a> = (&'a [u8], &'a [u8]);

/// The entries of a map whose form is right; null keys and values are refused.
pub fn map_entries<'a>(ty: &CqlType, bytes: &'a [u8]) -> Result<Vec<Entry<'a>>, ValueError> {
    let mut walk = elements(ty, bytes)?;
    let mut out = Vec::new();
    while let Some(key) = walk.next() {
        match (key, walk.next().flatten()) {
            (Some(key), Some(value)) => out.push((key, value)),
            _ => return Err(ValueError::CollectionNull),
        }
    }
    Ok(out)
}

/// How many elements (of a map: entries) a list, set or map has; 0 where its bytes are not one.
pub fn count(bytes: &[u8]) -> usize {
    counted(bytes, 1).left
}

fn push_sized(out: &mut Vec<u8>, element: Option<&[u8]>) {
    match element {
        Some(bytes) => {
            // Frames and mutations are far smaller than 2 GiB, so no element reaches the limit.
            let length = i32::try_from(bytes.len()).expect("an element is shorter than a frame");
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(bytes);
        }
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
    }
}

fn pack_counted<'a>(count: usize, elements: impl Iterator<Item = Option<&'a [u8]>>) -> Vec<u8> {
    let count = i32::try_from(count).expect("each element takes four bytes of a frame");
    let mut out = count.to_be_bytes().to_vec();
    elements.for_each(|element| push_sized(&mut out, element));
    out
}

/// A list of these elements, in this order.
pub fn pack_list<'a>(elements: impl IntoIterator<Item = Option<&'a [u8]>>) -> Vec<u8> {
    let elements: Vec<_> = elements.into_iter().collect();
    pack_counted(elements.len(), elements.into_iter())
}

/// A set of these elements: sorted, and of equal ones the first.
pub fn pack_set<'a>(element_type: &CqlType, elements: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut elements: Vec<_> = elements.into_iter().collect();
    elements.sort_by(|a, b| compare(element_type, a, b));
    elements.dedup_by(|later, kept| compare(element_type, kept, later) == Ordering::Equal);
    pack_counted(elements.len(), elements.into_iter().map(Some))
}

/// A map of these entries: sorted by key, and of equal keys the first key with the last value.
pub fn pack_map<'a>(key_type: &CqlType, entries: impl IntoIterator<Item = Entry<'a>>) -> Vec<u8> {
    let mut entries: Vec<_> = entries.into_iter().collect();
    entries.sort_by(|a, b| compare(key_type, a.0, b.0));
    entries.dedup_by(|later, kept| {
        let same = compare(key_type, kept.0, later.0) == Ordering::Equal;
        if same {
            kept.1 = later.1;
        }
        same
    });
    pack_counted(entries.len(), entries.into_iter().flat_map(|(key, value)| [Some(key), Some(value)]))
}

/// A tuple or user-defined type of these fields.
pub fn pack_tuple<'a>(fields: impl IntoIterator<Item = Option<&'a [u8]>>) -> Vec<u8> {
    let mut out = Vec::new();
    fields.into_iter().for_each(|field| push_sized(&mut out, field));
    out
}

/// A vector of these elements, whose number and lengths the caller has checked.
pub fn pack_vector<'a>(element_type: &CqlType, elements: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for element in elements {
        if element_type.fixed_len().is_none() {
            vint::write_unsigned(&mut out, element.len() as u64);
        }
        out.extend_from_slice(element);
    }
    out
}

/// The value with its sets and maps, at any depth, sorted and without duplicates, as Cassandra stores what clients
/// bind in any order. Borrowed where it is so already. The value must be valid.
pub fn normalise<'a>(ty: &CqlType, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    let ty = ty.unfrozen();
    if !ty.any(&|ty| matches!(ty, CqlType::Set(_) | CqlType::Map(..))) {
        return Cow::Borrowed(bytes);
    }
    let parts: Vec<_> = elements_unchecked(ty, bytes)
        .enumerate()
        .map(|(at, part)| part.map(|part| element_type(ty, at).map_or(Cow::Borrowed(part), |ty| normalise(ty, part))))
        .collect();
    let sorted = is_sorted(ty, &parts);
    if sorted && parts.iter().flatten().all(|part| matches!(part, Cow::Borrowed(_))) {
        return Cow::Borrowed(bytes);
    }
    let slices = || parts.iter().map(|part| part.as_deref());
    Cow::Owned(match ty {
        CqlType::Set(element) => pack_set(element, slices().flatten()),
        CqlType::Map(key, _) => {
            let flat: Vec<&[u8]> = slices().flatten().collect();
            pack_map(key, flat.as_chunks::<2>().0.iter().map(|[key, value]| (*key, *value)))
        }
        CqlType::List(_) => pack_list(slices()),
        CqlType::Vector(element, _) => pack_vector(element, slices().flatten()),
        _ => pack_tuple(slices()),
    })
}

/// The type of the element at this place of a walk through a value of type `ty`.
pub fn element_type(ty: &CqlType, at: usize) -> Option<&CqlType> {
    match ty.unfrozen() {
        CqlType::List(element) | CqlType::Set(element) | CqlType::Vector(element, _) => Some(element),
        CqlType::Map(key, value) => Some(if at.is_multiple_of(2) { key } else { value }),
        CqlType::Tuple(types) => types.get(at),
        CqlType::Udt(udt) => udt.fields.get(at).map(|(_, ty)| ty),
        _ => None,
    }
}

/// The text of each element of a value as `elements` walks through it, `null` for one that is not there; `None` where
/// the bytes are not of the type.
pub(super) fn element_texts(
    ty: &CqlType,
    bytes: &[u8],
    text: impl Fn(&CqlType, &[u8]) -> String,
) -> Option<Vec<String>> {
    let null = || "null".to_owned();
    let mut texts: Vec<String> = elements(ty, bytes)
        .ok()?
        .enumerate()
        .map(|(at, part)| part.zip(element_type(ty, at)).map_or_else(null, |(part, element)| text(element, part)))
        .collect();
    match ty.unfrozen() {
        CqlType::Tuple(types) => texts.resize(types.len(), null()),
        CqlType::Udt(udt) => texts.resize(udt.fields.len(), null()),
        _ => {}
    }
    Some(texts)
}

fn is_sorted(ty: &CqlType, parts: &[Option<Cow<'_, [u8]>>]) -> bool {
    let (key, step) = match ty {
        CqlType::Set(element) => (element, 1),
        CqlType::Map(key, _) => (key, 2),
        _ => return true,
    };
    let keys = || parts.iter().step_by(step);
    keys().zip(keys().skip(1)).all(|pair| match pair {
        (Some(a), Some(b)) => compare(key, a, b) == Ordering::Less,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    fn int(value: i32) -> Vec<u8> {
        value.to_be_bytes().to_vec()
    }

    fn ints(values: &[i32]) -> Vec<u8> {
        let values: Vec<_> = values.iter().map(|value| int(*value)).collect();
        pack_list(values.iter().map(|value| Some(value.as_slice())))
    }

    fn message(ty: &CqlType, bytes: &[u8]) -> String {
        elements(ty, bytes).unwrap_err().to_string()
    }

    #[test]
    fn lists_walk_and_build() {
        let list = CqlType::list(CqlType::Int);
        let bytes = ints(&[1, -2]);
        assert_eq!(bytes, [0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 4, 255, 255, 255, 254]);
        let walked: Vec<_> = elements(&list, &bytes).unwrap().map(|e| e.map(<[u8]>::to_vec)).collect();
        assert_eq!(walked, [Some(int(1)), Some(int(-2))]);
        assert_eq!(count(&bytes), 2);
        let null = pack_list([None]);
        assert_eq!(elements(&list, &null).unwrap().collect::<Vec<_>>(), [None]);
    }

    #[test]
    fn damage_is_named_as_cassandra_names_it() {
        let list = CqlType::list(CqlType::Int);
        assert_eq!(message(&list, &[]), "Not enough bytes to read a list");
        assert_eq!(message(&list, &[0, 0, 0, 2, 0, 0, 0, 4, 0, 0]), "Not enough bytes to read a list");
        assert_eq!(message(&list, &[255; 4]), "The data cannot be deserialized as a list");
        assert_eq!(
            message(&list, &[0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 255, 0]),
            "Unexpected extraneous bytes after list value"
        );
        let tuple = CqlType::tuple([CqlType::Int, CqlType::Text]);
        assert_eq!(message(&tuple, &[0, 0, 0, 4]), "Not enough bytes to read 0th component");
        assert_eq!(message(&tuple, &[0, 0]), "Not enough bytes to read size of 0th component");
        assert_eq!(message(&tuple, &[255; 13]), "Invalid remaining data after end of tuple value");
        assert!(elements(&tuple, &[]).unwrap().next().is_none());
        let vector = CqlType::vector(CqlType::Int, 2);
        assert!(elements(&vector, &[0; 7]).is_err());
        assert!(elements(&vector, &[0; 9]).is_err());
        assert_eq!(elements(&vector, &[0; 8]).unwrap().count(), 2);
    }

    #[test]
    fn sets_and_maps_are_sorted_without_duplicates() {
        let set = pack_set(&CqlType::Int, [int(3), int(-1), int(3)].iter().map(Vec::as_slice));
        assert_eq!(set, ints(&[-1, 3]));
        let (one, two, a, b) = (int(1), int(2), b"a".as_slice(), b"b".as_slice());
        let map = pack_map(&CqlType::Int, [(two.as_slice(), a), (&one, a), (&two, b)]);
        let ty = CqlType::map(CqlType::Int, CqlType::Text);
        assert_eq!(map_entries(&ty, &map).unwrap(), [(one.as_slice(), a), (&two, b)]);
    }

    #[test]
    fn vectors_of_variable_elements_carry_vint_lengths() {
        let bytes = pack_vector(&CqlType::Text, [b"a".as_slice(), b""]);
        assert_eq!(bytes, [1, b'a', 0]);
        let vector = CqlType::vector(CqlType::Text, 2);
        assert_eq!(elements(&vector, &bytes).unwrap().collect::<Vec<_>>(), [Some(b"a".as_slice()), Some(b"")]);
        assert_eq!(pack_vector(&CqlType::SmallInt, [[0u8, 1].as_slice()]), [2, 0, 1]);
    }

    #[test]
    fn normalise_sorts_at_any_depth() {
        let ty = CqlType::list(CqlType::set(CqlType::Int).freeze());
        let nested = |inner: &[i32]| pack_list([Some(ints(inner).as_slice())]);
        assert_eq!(normalise(&ty, &nested(&[2, 1, 2])), nested(&[1, 2]));
        assert!(matches!(normalise(&ty, &nested(&[1, 2])), Cow::Borrowed(_)));
        let set = CqlType::set(CqlType::Int);
        assert_eq!(normalise(&set, &ints(&[5, 5])), ints(&[5]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked_without_panic(bytes: Vec<u8>, dimensions in 1u16..5) {
            let types = [
                CqlType::list(CqlType::Int),
                CqlType::map(CqlType::Text, CqlType::Int),
                CqlType::tuple([CqlType::Int, CqlType::Text]),
                CqlType::vector(CqlType::Int, dimensions),
                CqlType::vector(CqlType::Text, dimensions),
            ];
            for ty in types {
                let walked: usize = elements_unchecked(&ty, &bytes).map(|e| e.map_or(0, <[u8]>::len)).sum();
                prop_assert!(walked <= bytes.len());
                let _ = elements(&ty, &bytes);
                let _ = map_entries(&ty, &bytes);
                let _ = normalise(&ty, &bytes);
            }
        }

        #[test]
        fn normalised_sets_stay(values: Vec<i32>) {
            let set = CqlType::set(CqlType::Int);
            let bytes = ints(&values);
            let once = normalise(&set, &bytes).into_owned();
            prop_assert_eq!(normalise(&set, &once).into_owned(), once.clone());
            let mut expected = values;
            expected.sort_unstable();
            expected.dedup();
            prop_assert_eq!(once, ints(&expected));
        }
    }
}
