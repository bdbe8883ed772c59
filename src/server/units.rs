//! Sizes, durations and CPU lists as cassandra.yaml and taskset spell them.

use std::time::Duration;

/// `32MiB`, `64KiB`, `1GiB`, `100B`; a bare number is bytes.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let scale: u64 = match unit {
        "B" | "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(format!("`{text}`: expected a size such as 16MiB (units: B, KiB, MiB, GiB)")),
    };
    number.checked_mul(scale).ok_or_else(|| format!("`{text}` is too large"))
}

/// `10s`, `200ms`, `5m`, `1h`, `1d`, `50us`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    let seconds = |scale: u64| number.checked_mul(scale).map(Duration::from_secs);
    let duration = match unit {
        "ns" => Some(Duration::from_nanos(number)),
        "us" | "µs" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => seconds(1),
        "m" => seconds(60),
        "h" => seconds(3_600),
        "d" => seconds(86_400),
        _ => return Err(format!("`{text}`: expected a duration such as 200ms (units: ns, us, ms, s, m, h, d)")),
    };
    duration.ok_or_else(|| format!("`{text}` is too long"))
}

/// `0-3,8` as taskset takes it, ascending, each CPU once.
pub fn cpu_list(text: &str) -> Result<Vec<usize>, String> {
    const CPU_MAX: usize = 4_095;
    let wrong = || format!("`{text}`: expected CPUs such as 0-3,8");
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let from: usize = from.trim().parse().map_err(|_| wrong())?;
        let to: usize = to.trim().parse().map_err(|_| wrong())?;
        if from > to || to > CPU_MAX {
            return Err(wrong());
        }
        cpus.extend(from..=to);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// CPUs, ascending, as `cpu_list` takes them.
pub fn show_cpu_list(cpus: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, to)) if *to + 1 == cpu => *to = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let shown = |&(from, to): &(usize, usize)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    ranges.iter().map(shown).collect::<Vec<_>>().join(",")
}

fn split(text: &str) -> Result<(u64, &str), String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = number.parse().map_err(|_| format!("`{text}`: expected a number with a unit"))?;
    Ok((number, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(bytes("32MiB"), Ok(32 << 20));
        assert_eq!(bytes("7"), Ok(7));
        for wrong in ["32MB", "x", "-1B", "99999999999999999999", "18446744073709551615GiB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("10000ms"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7_200)));
        for wrong in ["10", "1y", "ms", "18446744073709551615d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(cpu_list("2,0-1,1"), Ok(vec![0, 1, 2]));
        assert_eq!(show_cpu_list(&[0, 1, 2, 8, 10, 11]), "0-2,8,10-11");
        for wrong in ["", "3-1", "a", "0-99999"] {
            assert!(cpu_list(wrong).is_err(), "{wrong}");
        }
    }
}
