//! How alike two float vectors are, from 0 to 1.

use crate::types::{CqlType, collection, number};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Similarity {
    Cosine,
    Euclidean,
    DotProduct,
}

impl Similarity {
    pub(super) fn named(name: &str) -> Option<Similarity> {
        Some(match name {
            "similarity_cosine" => Similarity::Cosine,
            "similarity_euclidean" => Similarity::Euclidean,
            "similarity_dot_product" => Similarity::DotProduct,
            _ => return None,
        })
    }
}

/// The similarity of two vectors of type `ty` as a float; `None` where either has no bytes. The error says why the
/// request is invalid.
pub(super) fn apply(
    similarity: Similarity,
    ty: &CqlType,
    left: &[u8],
    right: &[u8],
) -> Result<Option<Vec<u8>>, String> {
    if left.is_empty() || right.is_empty() {
        return Ok(None);
    }
    let (Some(left), Some(right)) = (floats(ty, left), floats(ty, right)) else {
        return Ok(None);
    };
    let pairs = || left.iter().zip(&right);
    let dot: f32 = pairs().map(|(a, b)| a * b).sum();
    let value = match similarity {
        Similarity::DotProduct => ((1.0 + dot) / 2.0).max(0.0),
        Similarity::Euclidean => {
            let distance: f32 = pairs().map(|(a, b)| (a - b) * (a - b)).sum();
            1.0 / (1.0 + distance)
        }
        Similarity::Cosine => {
            let norm = |values: &[f32]| f64::from(values.iter().map(|value| value * value).sum::<f32>());
            let norms = norm(&left) * norm(&right);
            if norms == 0.0 {
                return Err("Function system.similarity_cosine doesn't support all-zero vectors.".to_owned());
            }
            let cosine = (f64::from(dot) / norms.sqrt()) as f32;
            ((1.0 + cosine) / 2.0).max(0.0)
        }
    };
    Ok(Some(value.to_be_bytes().to_vec()))
}

fn floats(ty: &CqlType, bytes: &[u8]) -> Option<Vec<f32>> {
    let elements = collection::elements(ty, bytes).ok()?;
    elements.map(|element| element.and_then(number::float32)).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    fn compute(name: &str, left: &[f32], right: &[f32]) -> Result<f32, String> {
        let ty = CqlType::vector(CqlType::Float, left.len() as u16);
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_be_bytes()).collect::<Vec<u8>>();
        let value = apply(Similarity::named(name).unwrap(), &ty, &bytes(left), &bytes(right))?;
        Ok(number::float32(&value.unwrap()).unwrap())
    }

    #[test]
    fn results_as_recorded() {
        assert_eq!(compute("similarity_cosine", &[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]), Ok(1.0));
        assert_eq!(compute("similarity_euclidean", &[1.0, 0.0], &[0.0, 1.0]), Ok(0.333_333_34));
        assert_eq!(compute("similarity_dot_product", &[1.0, 0.0], &[0.0, 1.0]), Ok(0.5));
        assert_eq!(
            compute("similarity_cosine", &[0.0], &[1.0]),
            Err("Function system.similarity_cosine doesn't support all-zero vectors.".to_owned())
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(left: Vec<u8>, right: Vec<u8>) {
            let ty = CqlType::vector(CqlType::Float, 2);
            for similarity in [Similarity::Cosine, Similarity::Euclidean, Similarity::DotProduct] {
                let _ = apply(similarity, &ty, &left, &right);
            }
        }
    }
}
