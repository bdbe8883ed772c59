//! `speculative_retry` and `additional_write_policy`: a percentile, a time, the lesser or greater of both, always, never.

use crate::protocol::CqlError;
use crate::types::number;

/// The policy as it is stored: `99PERCENTILE` is `99p`, `none` is `NEVER`.
pub fn normalised(policy: &str) -> Result<String, CqlError> {
    match policy.to_ascii_uppercase().as_str() {
        "NONE" | "NEVER" => return Ok("NEVER".to_owned()),
        "ALWAYS" => return Ok("ALWAYS".to_owned()),
        _ => {}
    }
    if let Some((function, arguments)) = call(policy) {
        return both(policy, &function, arguments);
    }
    match part(policy, policy)? {
        Some(part) => Ok(part.to_string()),
        None => Err(unknown(policy)),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Percentile(f64),
    Millis(i64),
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Part::Percentile(percentile) => {
                let text = format!("{percentile:.5}");
                write!(f, "{}p", text.trim_end_matches('0').trim_end_matches('.'))
            }
            Part::Millis(millis) => write!(f, "{millis}ms"),
        }
    }
}

/// `MIN(…)` and `MAX(…)`: the function in capitals and what stands between the parentheses.
fn call(policy: &str) -> Option<(String, &str)> {
    let (function, rest) = policy.split_once('(')?;
    let function = function.to_ascii_uppercase();
    let arguments = rest.strip_suffix(')')?;
    matches!(function.as_str(), "MIN" | "MAX").then_some((function, arguments))
}

fn both(policy: &str, function: &str, arguments: &str) -> Result<String, CqlError> {
    let (first, second) = arguments.split_once(',').ok_or_else(|| unknown(policy))?;
    let read = |argument: &str| part(argument.trim(), policy)?.ok_or_else(|| unknown(policy));
    let (first, second) = (read(first)?, read(second)?);
    let (percentile, millis) = match (&first, &second) {
        (Part::Percentile(_), Part::Millis(_)) => (first, second),
        (Part::Millis(_), Part::Percentile(_)) => (second, first),
        _ => {
            let kind = if matches!(first, Part::Millis(_)) { "FIXED" } else { "PERCENTILE" };
            return Err(CqlError::config_error(format!(
                "Invalid value {policy} for option 'speculative_retry': MIN()/MAX() arguments should be of different \
                 types, but both are of type {kind}"
            )));
        }
    };
    Ok(format!("{function}({percentile},{millis})"))
}

/// `n`p, `n`percentile or `n`ms; none where it is neither.
fn part(text: &str, policy: &str) -> Result<Option<Part>, CqlError> {
    let lower = text.to_ascii_lowercase();
    let positive = |digits: &str| {
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if plain { number::parse_double(digits) } else { None }
    };
    if let Some(digits) = lower.strip_suffix("ms") {
        // A time is kept in whole milliseconds, as Cassandra truncates it.
        return Ok(positive(digits).map(|millis| Part::Millis(millis as i64)));
    }
    let Some(digits) = lower.strip_suffix("percentile").or_else(|| lower.strip_suffix('p')) else { return Ok(None) };
    match positive(digits) {
        Some(percentile) if percentile > 0.0 && percentile < 100.0 => Ok(Some(Part::Percentile(percentile))),
        Some(_) => Err(CqlError::config_error(format!(
            "Invalid value {policy} for PERCENTILE option 'speculative_retry': must be between (0.0 and 100.0)"
        ))),
        None => Ok(None),
    }
}

/// The option's name in the message is always this one, as in Cassandra.
fn unknown(policy: &str) -> CqlError {
    CqlError::config_error(format!("Invalid value {policy} for option 'speculative_retry'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: &str, expected: Result<&str, &str>) {
        let got = normalised(policy).map_err(|error| error.message().to_owned());
        assert_eq!(got, expected.map(str::to_owned).map_err(str::to_owned), "{policy}");
    }

    #[test]
    fn policies_have_one_spelling() {
        check("99PERCENTILE", Ok("99p"));
        check("99.0percentile", Ok("99p"));
        check("95.5p", Ok("95.5p"));
        check("10ms", Ok("10ms"));
        check("10.5MS", Ok("10ms"));
        check("none", Ok("NEVER"));
        check("Always", Ok("ALWAYS"));
        check("MIN(99p,50ms)", Ok("MIN(99p,50ms)"));
        check("max(50MS, 99PERCENTILE)", Ok("MAX(99p,50ms)"));
    }

    #[test]
    fn what_is_no_policy() {
        check("sometimes", Err("Invalid value sometimes for option 'speculative_retry'"));
        check("-1ms", Err("Invalid value -1ms for option 'speculative_retry'"));
        check("p", Err("Invalid value p for option 'speculative_retry'"));
        check("MIN(99p)", Err("Invalid value MIN(99p) for option 'speculative_retry'"));
        check(
            "101p",
            Err("Invalid value 101p for PERCENTILE option 'speculative_retry': must be between (0.0 and 100.0)"),
        );
        check(
            "MIN(99p,50p)",
            Err("Invalid value MIN(99p,50p) for option 'speculative_retry': MIN()/MAX() arguments should be of \
                 different types, but both are of type PERCENTILE"),
        );
    }
}
