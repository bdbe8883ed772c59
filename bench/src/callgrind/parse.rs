//! A profile as callgrind writes it, instruction by instruction, with strings and positions uncompressed
//! (valgrind's manual, "Callgrind Format Specification").

use std::collections::HashMap;

/// A function's number in its profile.
pub type FunctionId = usize;

#[derive(Debug, Default, PartialEq)]
pub struct Profile {
    pub functions: Vec<Function>,
    pub costs: Vec<Cost>,
    pub calls: Vec<Call>,
    /// How often each instruction was executed, for `executed`.
    executions: HashMap<(FunctionId, u64), u64>,
}

impl Profile {
    /// How often the calling instruction was executed.
    pub fn executed(&self, call: &Call) -> f64 {
        self.executions.get(&(call.caller, call.address)).copied().unwrap_or(0) as f64
    }
}

#[derive(Debug, PartialEq, Eq, Hash, Clone)]
pub struct Function {
    /// The path of its binary or library.
    pub object: String,
    /// Mangled.
    pub name: String,
}

/// Instructions executed at one address.
#[derive(Debug, PartialEq, Eq)]
pub struct Cost {
    pub function: FunctionId,
    pub address: u64,
    pub instructions: u64,
}

/// Calls from one place of a function to another.
#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    pub caller: FunctionId,
    /// Of the calling instruction.
    pub address: u64,
    pub callee: FunctionId,
    /// By the callee and all that it called.
    pub instructions: u64,
}

/// Where the reader stands.
#[derive(Default)]
struct State {
    profile: Profile,
    ids: HashMap<Function, FunctionId>,
    object: String,
    callee_object: Option<String>,
    function: Option<FunctionId>,
    callee: Option<FunctionId>,
    /// The next line is the cost of calls. Their number is not used: it has those made while nothing was collected.
    calls: bool,
}

pub fn parse(text: &str) -> Result<Profile, String> {
    let mut state = State::default();
    for (line, number) in text.lines().zip(1..) {
        state.take(line).ok_or_else(|| format!("line {number} of callgrind's profile: `{line}`"))?;
    }
    match state.profile.costs.is_empty() {
        true => Err("callgrind collected nothing".into()),
        false => Ok(state.profile),
    }
}

impl State {
    fn take(&mut self, line: &str) -> Option<()> {
        if line.starts_with(|first: char| first.is_ascii_digit()) {
            return self.take_cost(line);
        }
        match line.split_once('=') {
            Some(("ob", object)) => self.object = object.to_owned(),
            Some(("cob", object)) => self.callee_object = Some(object.to_owned()),
            Some(("fn", name)) => self.function = Some(self.id(self.object.clone(), name)),
            Some(("cfn", name)) => {
                let object = self.callee_object.take().unwrap_or_else(|| self.object.clone());
                self.callee = Some(self.id(object, name));
            }
            Some(("calls", _)) => self.calls = true,
            // Files are found by address; the header says nothing that is needed.
            _ => {}
        }
        Some(())
    }

    fn take_cost(&mut self, line: &str) -> Option<()> {
        let (address, instructions) = line.split_once(' ')?;
        let address = u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
        let instructions = instructions.trim().parse().ok()?;
        let function = self.function?;
        if std::mem::take(&mut self.calls) {
            let callee = self.callee.take()?;
            self.profile.calls.push(Call { caller: function, address, callee, instructions });
        } else {
            *self.profile.executions.entry((function, address)).or_default() += instructions;
            self.profile.costs.push(Cost { function, address, instructions });
        }
        Some(())
    }

    fn id(&mut self, object: String, name: &str) -> FunctionId {
        let function = Function { object, name: name.to_owned() };
        let next = self.profile.functions.len();
        *self.ids.entry(function).or_insert_with_key(|function| {
            self.profile.functions.push(function.clone());
            next
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn costs_and_calls_are_told_apart() {
        let text = "version: 1\npositions: instr\nevents: Ir\n\nob=/bin/a\nfl=x.rs\nfn=f\n0x10 3\ncob=/lib/c\n\
                    cfn=malloc\ncalls=9 0x99\n0x11 40\n0x11 2\n0x12 1\n\nfn=g\ncfn=f\ncalls=1 0x10\n0x20 44\n0x21 5\n";
        let profile = parse(text).unwrap();
        let names: Vec<&str> = profile.functions.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["f", "malloc", "g"]);
        assert_eq!(profile.functions[1].object, "/lib/c");
        let costs: Vec<(usize, u64, u64)> =
            profile.costs.iter().map(|one| (one.function, one.address, one.instructions)).collect();
        assert_eq!(costs, [(0, 0x10, 3), (0, 0x11, 2), (0, 0x12, 1), (2, 0x21, 5)]);
        assert_eq!(profile.calls[0], Call { caller: 0, address: 0x11, callee: 1, instructions: 40 });
        assert_eq!(profile.executed(&profile.calls[0]), 2.0);
        assert_eq!(profile.calls[1].callee, 0);
    }

    #[test]
    fn what_is_no_profile_is_told() {
        assert!(parse("ob=/bin/a\n0x10 3\n").unwrap_err().contains("line 2"));
        assert!(parse("").unwrap_err().contains("nothing"));
    }
}
