//! Words and their groups, and what the readers of all groups share.

use std::collections::BTreeMap;

use super::{GROUPS, GROUPS_NOT_YET, UsageError};
use crate::distribution::{Distribution, Ratio};

/// The words of each group that was given, by its name in lower case.
pub type Groups = BTreeMap<String, Vec<String>>;

/// Words whose values are taken as they are, spaces included, where the shell keeps them together.
const FREE_TEXT: [&str; 5] = ["title=", "revision=", "op=", "file=", "profile="];

/// Words as they are meant: spaces beside `,`, `=` and parentheses do not part them.
pub fn repair(given: &[String]) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for argument in given {
        if FREE_TEXT.iter().any(|name| argument.starts_with(name)) {
            words.push(argument.clone());
            continue;
        }
        for word in argument.split_whitespace() {
            match words.last_mut() {
                Some(last) if last.ends_with([',', '=', '(']) || word.starts_with([',', '=', '(', ')']) => {
                    last.push_str(word);
                }
                _ => words.push(word.to_owned()),
            }
        }
    }
    words
}

/// The command line for others to see.
pub fn without_password(given: &[String]) -> String {
    let shown = |word: &String| match word.split_once('=') {
        Some((name, _)) if name.eq_ignore_ascii_case("password") => format!("{name}=*******"),
        _ => word.clone(),
    };
    given.iter().map(shown).collect::<Vec<_>>().join(" ")
}

/// Parts the words after the command's name into the command's own and those of the groups.
pub fn grouped(words: &[String]) -> Result<(Vec<String>, Groups), UsageError> {
    let (mut own, mut groups) = (Vec::new(), Groups::new());
    let mut current: Option<String> = None;
    for word in words {
        if word.starts_with('-') {
            let group = word.to_ascii_lowercase();
            if GROUPS_NOT_YET.contains(&group.as_str()) {
                return Err(UsageError::NotYet(group));
            }
            if !GROUPS.contains(&group.as_str()) {
                return Err(UsageError::UnknownGroup(word.clone()));
            }
            if groups.insert(group.clone(), Vec::new()).is_some() {
                return Err(UsageError::Twice(group));
            }
            current = Some(group);
            continue;
        }
        match &current {
            None => own.push(word.clone()),
            Some(group) => groups.entry(group.clone()).or_default().push(word.clone()),
        }
    }
    Ok((own, groups))
}

/// A word and its group, for what may be wrong with it.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub group: &'a str,
    pub word: &'a str,
}

impl<'a> Place<'a> {
    /// What stands behind `prefix`, written in any case.
    pub fn after(self, prefix: &str) -> Option<&'a str> {
        let (head, rest) = (self.word.get(..prefix.len())?, self.word.get(prefix.len()..)?);
        head.eq_ignore_ascii_case(prefix).then_some(rest)
    }

    pub fn is(self, name: &str) -> bool {
        self.word.eq_ignore_ascii_case(name)
    }

    pub fn unknown(self) -> UsageError {
        UsageError::UnknownWord { group: self.group.into(), word: self.word.into() }
    }

    pub fn bad(self, expected: &'static str) -> UsageError {
        UsageError::BadValue { group: self.group.into(), word: self.word.into(), expected }
    }

    pub fn not_yet(self, why: &str) -> UsageError {
        UsageError::NotYet(format!("{} {}{why}", self.group, self.word))
    }

    /// Keeps a value that may be given once.
    pub fn once<T>(self, slot: &mut Option<T>, value: T) -> Result<(), UsageError> {
        match slot.replace(value) {
            None => Ok(()),
            Some(_) => Err(UsageError::Twice(format!("{} {}", self.group, self.word))),
        }
    }

    pub fn distribution(self, text: &str) -> Result<Distribution, UsageError> {
        Distribution::parse(text).map_err(|source| self.wrong(source))
    }

    pub fn ratio(self, text: &str) -> Result<Ratio, UsageError> {
        Ratio::parse(text).map_err(|source| self.wrong(source))
    }

    fn wrong(self, source: crate::distribution::DistributionError) -> UsageError {
        UsageError::Distribution { group: self.group.into(), word: self.word.into(), source }
    }

    /// The parts of `name(A,B,…)`.
    pub fn parts(self, name: &str) -> Option<Vec<&'a str>> {
        let inner = self.after(name)?.strip_prefix('(')?.strip_suffix(')')?;
        Some(if inner.is_empty() { Vec::new() } else { inner.split(',').collect() })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn spaces_beside_punctuation_part_nothing() {
        let expected = words("mixed ratio(write=10,read=90) n=5 -rate threads=3");
        for line in [
            "mixed ratio(write=10,read=90) n=5 -rate threads=3",
            "mixed ratio( write = 10 , read=90 ) n=5 -rate threads= 3",
            "mixed ratio (write=10, read=90) n =5 -rate threads=3",
        ] {
            assert_eq!(repair(&words(line)), expected, "{line}");
        }
        assert_eq!(repair(&["mixed ratio(a=1)".into(), "n=1".into()]), words("mixed ratio(a=1) n=1"));
        assert_eq!(repair(&[]), Vec::<String>::new());
        let title = ["title=W1, mixed".to_owned(), "op=x y".to_owned()];
        assert_eq!(repair(&title), title);
    }

    #[test]
    fn words_stand_in_their_groups() {
        let (own, groups) = grouped(&words("n=1 -Rate threads=1 fixed=9/s -verify")).unwrap();
        assert_eq!((own, groups["-rate"].len(), groups["-verify"].len()), (words("n=1"), 2, 0));
        assert_eq!(grouped(&words("-rate -pop -rate")).unwrap_err(), UsageError::Twice("-rate".into()));
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(
            without_password(&words("write -mode user=a password=secret")),
            "write -mode user=a password=*******"
        );
    }
}
