//! The arguments of a command: words, then `--name VALUE` pairs and `--flags`. What is not known is an error that names
//! what is.

use std::collections::BTreeMap;

/// What a command takes.
pub struct Takes {
    pub command: &'static str,
    /// Options with a value.
    pub options: &'static [&'static str],
    pub flags: &'static [&'static str],
}

/// What was given.
#[derive(Debug, Default)]
pub struct Given {
    command: &'static str,
    pub words: Vec<String>,
    options: BTreeMap<&'static str, String>,
    flags: Vec<&'static str>,
}

impl Takes {
    pub fn parse(&self, arguments: &[String]) -> Result<Given, String> {
        let mut given = Given { command: self.command, ..Given::default() };
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            if !word.starts_with("--") {
                given.words.push(word.clone());
            } else if let Some(name) = self.options.iter().find(|name| *name == word) {
                let value = rest.next().ok_or_else(|| format!("bench {}: {name} needs a value", self.command))?;
                given.options.insert(name, value.clone());
            } else if let Some(name) = self.flags.iter().find(|name| *name == word) {
                given.flags.push(name);
            } else {
                let known: Vec<&str> = self.options.iter().chain(self.flags).copied().collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(format!("bench {}: unknown option {word} (there are: {known})", self.command));
            }
        }
        Ok(given)
    }
}

impl Given {
    pub fn flag(&self, name: &str) -> bool {
        self.flags.contains(&name)
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// A whole number above zero.
    pub fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        let Some(text) = self.text(name) else { return Ok(default) };
        self.positive(name, text)
    }

    /// Whole numbers above zero, parted by commas.
    pub fn numbers(&self, name: &str, default: &[u64]) -> Result<Vec<u64>, String> {
        let Some(text) = self.text(name) else { return Ok(default.to_vec()) };
        text.split(',').map(|one| self.positive(name, one)).collect()
    }

    fn positive(&self, name: &str, text: &str) -> Result<u64, String> {
        let number = text.parse::<u64>().ok().filter(|number| *number > 0);
        number.ok_or_else(|| format!("bench {}: {name} takes whole numbers above zero, not `{text}`", self.command))
    }

    /// For a command that takes no words.
    pub fn no_words(&self) -> Result<(), String> {
        match self.words.first() {
            Some(word) => Err(format!("bench {}: nothing is known about `{word}`", self.command)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const TAKES: Takes = Takes { command: "x", options: &["--rounds", "--shards"], flags: &["--quick"] };

    fn parse(words: &[&str]) -> Result<Given, String> {
        TAKES.parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn words_options_and_flags_come_in_any_order() {
        let given = parse(&["read", "--rounds", "3", "--quick", "write", "--shards", "1,2"]).unwrap();
        assert_eq!(given.words, ["read", "write"]);
        assert_eq!((given.number("--rounds", 1), given.flag("--quick")), (Ok(3), true));
        assert_eq!(given.numbers("--shards", &[]), Ok(vec![1, 2]));
        assert!(given.no_words().unwrap_err().contains("`read`"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(parse(&["--round", "3"]).unwrap_err().contains("--rounds, --shards, --quick"));
        assert!(parse(&["--rounds"]).unwrap_err().contains("needs a value"));
        let given = parse(&["--rounds", "0", "--shards", "1,x"]).unwrap();
        assert!(given.number("--rounds", 1).unwrap_err().contains("`0`"));
        assert!(given.numbers("--shards", &[]).unwrap_err().contains("`x`"));
    }
}
