//! The replication options of a keyspace: which there are, what they default to, and what is wrong with them.

use std::collections::BTreeMap;

use crate::protocol::CqlError;

/// The one data centre of a node on its own, to which `replication_factor` expands.
pub const DATA_CENTER: &str = "datacenter1";

const PACKAGE: &str = "org.apache.cassandra.locator.";
const FACTOR: &str = "replication_factor";
const DEFAULT_FACTOR: &str = "1";
const NODES: u32 = 1;

pub type Options = BTreeMap<String, String>;

/// The options to store for those that a statement gives; `previous` are those of the keyspace it alters.
pub fn resolve(keyspace: &str, given: &[(String, String)], previous: &Options) -> Result<Options, CqlError> {
    let mut options: Options = given.iter().cloned().collect();
    let class = match options.remove("class") {
        None => return Err(CqlError::config_error("Missing replication strategy class")),
        Some(class) if class.contains('.') => class,
        Some(class) => format!("{PACKAGE}{class}"),
    };
    match class.strip_prefix(PACKAGE) {
        Some("SimpleStrategy") => {
            options.entry(FACTOR.to_owned()).or_insert_with(|| DEFAULT_FACTOR.to_owned());
            check_names(keyspace, "SimpleStrategy", &options, FACTOR)?;
        }
        Some("NetworkTopologyStrategy") => {
            expand_factor(&mut options, previous)?;
            check_names(keyspace, "NetworkTopologyStrategy", &options, DATA_CENTER)?;
        }
        Some("LocalStrategy") => {
            return Err(CqlError::invalid(
                "Unable to use given strategy class: LocalStrategy is reserved for internal use.",
            ));
        }
        _ => return Err(CqlError::config_error(format!("Unable to find replication strategy class '{class}'"))),
    }
    options.values().try_for_each(|factor| check_factor(factor))?;
    options.insert("class".to_owned(), class);
    Ok(options)
}

/// What the user is told where the factor is more than there are nodes.
pub fn warnings(keyspace: &str, options: &Options) -> Vec<String> {
    let mut warnings = Vec::new();
    for (name, factor) in options.iter().filter(|(name, _)| *name != "class") {
        let Some(factor) = factor.split('/').next().and_then(|factor| factor.parse::<u32>().ok()) else { continue };
        if factor > NODES {
            let place = if name == FACTOR { String::new() } else { format!(" for datacenter {name}") };
            warnings.push(format!(
                "Your replication factor {factor} for keyspace {keyspace} is higher than the number of nodes \
                 {NODES}{place}"
            ));
        }
    }
    warnings
}

/// `replication_factor` stands for every data centre without one of its own. An ALTER never changes what a data centre
/// has unless it names it.
fn expand_factor(options: &mut Options, previous: &Options) -> Result<(), CqlError> {
    let given = options.remove(FACTOR);
    if given.is_some() || options.is_empty() {
        for (name, factor) in previous.iter().filter(|(name, _)| *name != "class" && *name != FACTOR) {
            options.entry(name.clone()).or_insert_with(|| factor.clone());
        }
        let factor = given.or_else(|| previous.get(FACTOR).cloned()).unwrap_or_else(|| DEFAULT_FACTOR.to_owned());
        // A factor that is no number gives no data centre anything.
        if check_factor(&factor).is_ok() {
            options.entry(DATA_CENTER.to_owned()).or_insert(factor);
        }
    }
    options.retain(|_, factor| factor != "0");
    if options.is_empty() {
        return Err(CqlError::config_error("Configuration for at least one datacenter must be present"));
    }
    Ok(())
}

fn check_names(keyspace: &str, class: &str, options: &Options, known: &str) -> Result<(), CqlError> {
    let unknown: Vec<&str> = options.keys().map(String::as_str).filter(|name| *name != known).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let unknown = unknown.join(", ");
    Err(CqlError::config_error(format!(
        "Unrecognized strategy option {{{unknown}}} passed to {class} for keyspace {keyspace}"
    )))
}

/// `n`, or `n/t` of which t are transient: those need a feature that is off.
fn check_factor(factor: &str) -> Result<(), CqlError> {
    let (all, transient) = factor.split_once('/').unwrap_or((factor, "0"));
    let number =
        |text: &str| text.parse::<i32>().map_err(|_| CqlError::config_error(format!("For input string: \"{text}\"")));
    let (all, transient) = (number(all)?, number(transient)?);
    if all < 0 {
        return Err(CqlError::config_error(format!("Replication factor must be non-negative, found {all}")));
    }
    if transient != 0 {
        return Err(CqlError::config_error("Transient replication is not enabled on this node"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(entries: &[(&str, &str)]) -> Options {
        entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn resolved(given: &[(&str, &str)], previous: &[(&str, &str)]) -> Result<Options, String> {
        let given: Vec<_> = options(given).into_iter().collect();
        resolve("ks", &given, &options(previous)).map_err(|error| error.message().to_owned())
    }

    const SIMPLE: &str = "org.apache.cassandra.locator.SimpleStrategy";
    const NETWORK: &str = "org.apache.cassandra.locator.NetworkTopologyStrategy";

    #[test]
    fn options_are_completed() {
        let check = |given: &[(&str, &str)], previous: &[(&str, &str)], expected: &[(&str, &str)]| {
            assert_eq!(resolved(given, previous), Ok(options(expected)), "{given:?} after {previous:?}");
        };
        let network = ("class", "NetworkTopologyStrategy");
        let (simple_class, network_class) = (("class", SIMPLE), ("class", NETWORK));
        check(&[("class", "SimpleStrategy")], &[], &[simple_class, (FACTOR, "1")]);
        check(&[simple_class, (FACTOR, "3")], &[], &[simple_class, (FACTOR, "3")]);
        check(&[simple_class, (FACTOR, "1/0")], &[], &[simple_class, (FACTOR, "1/0")]);
        check(&[network], &[], &[network_class, (DATA_CENTER, "1")]);
        check(&[network, (FACTOR, "3")], &[], &[network_class, (DATA_CENTER, "3")]);
        check(&[network, (DATA_CENTER, "2")], &[], &[network_class, (DATA_CENTER, "2")]);
        check(&[network, (FACTOR, "2")], &[network_class, (DATA_CENTER, "1")], &[network_class, (DATA_CENTER, "1")]);
        check(&[network], &[network_class, (DATA_CENTER, "2")], &[network_class, (DATA_CENTER, "2")]);
        check(&[network], &[simple_class, (FACTOR, "3")], &[network_class, (DATA_CENTER, "3")]);
        check(&[network, (FACTOR, "2")], &[simple_class, (FACTOR, "3")], &[network_class, (DATA_CENTER, "2")]);
    }

    #[test]
    fn wrong_options_get_cassandras_words() {
        let check = |given: &[(&str, &str)], expected: &str| {
            assert_eq!(resolved(given, &[]), Err(expected.to_owned()), "{given:?}");
        };
        let (simple, network) = (("class", "SimpleStrategy"), ("class", "NetworkTopologyStrategy"));
        check(&[(FACTOR, "1")], "Missing replication strategy class");
        check(
            &[("class", "NoSuchStrategy")],
            "Unable to find replication strategy class 'org.apache.cassandra.locator.NoSuchStrategy'",
        );
        check(&[("class", "org.x.S")], "Unable to find replication strategy class 'org.x.S'");
        check(
            &[("class", "LocalStrategy")],
            "Unable to use given strategy class: LocalStrategy is reserved for internal use.",
        );
        check(&[simple, (FACTOR, "x")], "For input string: \"x\"");
        check(&[simple, (FACTOR, "-1")], "Replication factor must be non-negative, found -1");
        check(&[simple, (FACTOR, "3/1")], "Transient replication is not enabled on this node");
        check(
            &[simple, (FACTOR, "1"), ("other", "1")],
            "Unrecognized strategy option {other} passed to SimpleStrategy for keyspace ks",
        );
        check(
            &[network, ("dcx", "2")],
            "Unrecognized strategy option {dcx} passed to NetworkTopologyStrategy for keyspace ks",
        );
        let none = "Configuration for at least one datacenter must be present";
        check(&[network, (FACTOR, "x")], none);
        check(&[network, (DATA_CENTER, "0")], none);
        check(&[network, (DATA_CENTER, "x")], "For input string: \"x\"");
    }

    #[test]
    fn more_replicas_than_nodes_are_warned_of() {
        let check = |given: &[(&str, &str)], expected: &[&str]| {
            assert_eq!(warnings("k6", &options(given)), expected, "{given:?}");
        };
        check(&[("class", SIMPLE), (FACTOR, "1")], &[]);
        check(
            &[("class", SIMPLE), (FACTOR, "3")],
            &["Your replication factor 3 for keyspace k6 is higher than the number of nodes 1"],
        );
        check(
            &[("class", NETWORK), (DATA_CENTER, "2")],
            &[
                "Your replication factor 2 for keyspace k6 is higher than the number of nodes 1 for datacenter datacenter1",
            ],
        );
    }
}
