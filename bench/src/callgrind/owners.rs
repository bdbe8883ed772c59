//! Whose an instruction is.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use addr2line::Loader;

use super::OUTSIDE;
use super::parse::{FunctionId, Profile};

/// What a profile comes to.
#[derive(Debug, Default)]
pub struct Spent {
    /// Instructions by module: those of `src` by their first name, and those of `OUTSIDE`.
    pub instructions: BTreeMap<String, f64>,
    /// Calls of the allocator, in the same way.
    pub allocations: BTreeMap<String, f64>,
    /// Instructions of the node by function, the most first.
    pub functions: Vec<(String, f64)>,
    /// Calls of the allocator by function, in the same way.
    pub allocating: Vec<(String, f64)>,
}

impl Spent {
    pub fn node_instructions(&self) -> f64 {
        of_node(&self.instructions)
    }

    pub fn node_allocations(&self) -> f64 {
        of_node(&self.allocations)
    }
}

fn of_node(by_module: &BTreeMap<String, f64>) -> f64 {
    by_module.iter().filter(|(module, _)| !OUTSIDE.contains(&&***module)).map(|(_, spent)| spent).sum()
}

/// Rounds in which callers' shares reach the functions they call, through other functions of no module.
const ROUNDS: usize = 40;

/// The allocator's functions that give memory.
const ALLOCATING: [&str; 6] = ["malloc", "calloc", "realloc", "memalign", "posix_memalign", "aligned_alloc"];

/// Shares of modules; they come to one, or to nothing where no caller is known.
type Shares = Vec<f64>;

pub fn attribute(profile: &Profile, exe: &Path) -> Result<Spent, String> {
    let mut places = Places::new(exe)?;
    let exe = exe.to_string_lossy();
    let mut own = |function: FunctionId, address: u64| {
        let known = profile.functions[function].object == exe;
        if known { places.at(address) } else { Place::default() }
    };
    let costs: Vec<Place> = profile.costs.iter().map(|cost| own(cost.function, cost.address)).collect();
    let sites: Vec<Place> = profile.calls.iter().map(|call| own(call.caller, call.address)).collect();
    let modules = places.modules;
    let shares = shares_of_functions(profile, &sites, modules.len());
    let mut instructions = vec![0.0; modules.len()];
    let mut functions: HashMap<String, f64> = HashMap::new();
    let is_node = |module: usize| !OUTSIDE.contains(&&*modules[module]);
    for (cost, place) in profile.costs.iter().zip(&costs) {
        let spent = cost.instructions as f64;
        if let Some(module) = place.module {
            instructions[module] += spent;
            if is_node(module) {
                *functions.entry(format!("{}: {}", modules[module], place.function)).or_default() += spent;
            }
            continue;
        }
        for (module, share) in shares[cost.function].iter().enumerate().filter(|(_, share)| **share > 0.0) {
            instructions[module] += spent * share;
            if is_node(module) {
                let name = addr2line::demangle_auto(profile.functions[cost.function].name.as_str().into(), None);
                *functions.entry(format!("{}: {name}", modules[module])).or_default() += spent * share;
            }
        }
    }
    let (allocations, allocating) = allocations(profile, &sites, &shares, &exe, &modules);
    let by_module = |spent: Vec<f64>| modules.iter().cloned().zip(spent).filter(|(_, spent)| *spent > 0.0).collect();
    Ok(Spent {
        instructions: by_module(instructions),
        allocations: by_module(allocations),
        functions: most_first(functions),
        allocating: most_first(allocating),
    })
}

fn most_first(spent: HashMap<String, f64>) -> Vec<(String, f64)> {
    let mut spent: Vec<(String, f64)> = spent.into_iter().collect();
    spent.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    spent
}

/// Calls of the allocator by module, and those of the node by function.
fn allocations(
    profile: &Profile,
    sites: &[Place],
    shares: &[Shares],
    exe: &str,
    modules: &[String],
) -> (Vec<f64>, HashMap<String, f64>) {
    let mut allocations = vec![0.0; modules.len()];
    let mut functions: HashMap<String, f64> = HashMap::new();
    for (call, site) in profile.calls.iter().zip(sites) {
        let (callee, caller) = (&profile.functions[call.callee], &profile.functions[call.caller]);
        // The allocator's calls of itself are no allocations.
        if !ALLOCATING.contains(&&*callee.name) || caller.object != exe {
            continue;
        }
        let executed = profile.executed(call);
        let mut add = |module: usize, spent: f64, function: &str| {
            allocations[module] += spent;
            if spent > 0.0 && !OUTSIDE.contains(&&*modules[module]) {
                *functions.entry(format!("{}: {function}", modules[module])).or_default() += spent;
            }
        };
        match site.module {
            Some(module) => add(module, executed, &site.function),
            None => {
                let name = addr2line::demangle_auto(caller.name.as_str().into(), None);
                shares[call.caller].iter().enumerate().for_each(|(module, share)| add(module, executed * share, &name));
            }
        }
    }
    (allocations, functions)
}

/// For each function, which modules it works for where its own code is of none.
fn shares_of_functions(profile: &Profile, sites: &[Place], modules: usize) -> Vec<Shares> {
    let mut shares: Vec<Shares> = vec![vec![0.0; modules]; profile.functions.len()];
    for _ in 0..ROUNDS {
        let mut next: Vec<Shares> = vec![vec![0.0; modules]; profile.functions.len()];
        for (call, site) in profile.calls.iter().zip(sites) {
            let spent = call.instructions as f64;
            match site.module {
                Some(module) => next[call.callee][module] += spent,
                None if call.caller != call.callee => {
                    let given = shares[call.caller].iter();
                    next[call.callee].iter_mut().zip(given).for_each(|(all, share)| *all += spent * share);
                }
                None => {}
            }
        }
        for one in &mut next {
            let all: f64 = one.iter().sum();
            if all > 0.0 {
                one.iter_mut().for_each(|share| *share /= all);
            }
        }
        shares = next;
    }
    shares
}

/// Where an address stands: the innermost place in this repository among those inlined there.
#[derive(Clone, Debug, Default)]
struct Place {
    module: Option<usize>,
    function: String,
}

struct Places {
    loader: Loader,
    root: PathBuf,
    modules: Vec<String>,
    known: HashMap<u64, Place>,
}

impl Places {
    fn new(exe: &Path) -> Result<Places, String> {
        let loader = Loader::new(exe).map_err(|error| format!("{}: {error}", exe.display()))?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/")).to_owned();
        Ok(Places { loader, root, modules: Vec::new(), known: HashMap::new() })
    }

    fn at(&mut self, address: u64) -> Place {
        if let Some(known) = self.known.get(&address) {
            return known.clone();
        }
        let place = self.find(address);
        self.known.insert(address, place.clone());
        place
    }

    fn find(&mut self, address: u64) -> Place {
        let Ok(mut frames) = self.loader.find_frames(address) else { return Place::default() };
        while let Ok(Some(frame)) = frames.next() {
            let file = frame.location.and_then(|location| location.file).unwrap_or_default();
            let Some(name) = module_of(&self.root, file) else { continue };
            let function = frame.function.and_then(|function| Some(function.demangle().ok()?.into_owned()));
            let module = self.modules.iter().position(|known| *known == name).unwrap_or(self.modules.len());
            if module == self.modules.len() {
                self.modules.push(name);
            }
            return Place { module: Some(module), function: function.unwrap_or_else(|| file.to_owned()) };
        }
        Place::default()
    }
}

/// The module of a source file of this repository. The counting allocator is everyone's, as the system's is.
fn module_of(root: &Path, file: &str) -> Option<String> {
    let path = Path::new(file);
    let path = path.strip_prefix(root).unwrap_or(path);
    if path.is_absolute() || ["src/io/count.rs", "bench/src/alloc.rs"].iter().any(|one| path == Path::new(one)) {
        return None;
    }
    if path.starts_with("bench") {
        return Some("client".into());
    }
    if path.starts_with("src/io/sim") {
        return Some("simulator".into());
    }
    let module = path.strip_prefix("src").ok()?.components().next()?;
    Some(module.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    #[test]
    fn files_belong_to_modules() {
        let of = |file: &str| module_of(Path::new("/home/bench"), file);
        assert_eq!(of("/home/bench/src/net/connection.rs").as_deref(), Some("net"));
        assert_eq!(of("src/io/sim/socket.rs").as_deref(), Some("simulator"));
        assert_eq!(of("/home/bench/src/io/mod.rs").as_deref(), Some("io"));
        assert_eq!(of("/home/bench/bench/src/inprocess/client.rs").as_deref(), Some("client"));
        assert_eq!(of("/home/bench/src/io/count.rs"), None);
        assert_eq!(of("bench/src/alloc.rs"), None);
        assert_eq!(of("/rustc/abc/library/core/src/ptr/mod.rs"), None);
    }

    #[test]
    fn what_is_of_no_module_goes_to_its_callers() {
        // f (of module 0) and g (of module 1) call a helper, which calls malloc.
        let text = "ob=/a\nfn=f\n0x10 1\ncfn=helper\ncalls=1 0x30\n0x11 30\n\nfn=g\n0x20 1\ncfn=helper\ncalls=1 0x30\n\
                    0x21 90\n\nfn=helper\n0x30 20\ncob=/libc\ncfn=malloc\ncalls=4 0x0\n0x31 100\n";
        let profile = parse(text).expect("a profile");
        let place = |module| Place { module, function: String::new() };
        let sites: Vec<Place> = profile
            .calls
            .iter()
            .map(|call| {
                place(
                    [Some(0), Some(1), None][[0x11, 0x21, 0x31].iter().position(|at| *at == call.address).unwrap_or(2)],
                )
            })
            .collect();
        let shares = shares_of_functions(&profile, &sites, 2);
        let of = |name: &str| profile.functions.iter().position(|one| one.name == name).map(|id| shares[id].clone());
        assert_eq!(of("helper"), Some(vec![0.25, 0.75]));
        assert_eq!(of("malloc"), Some(vec![0.25, 0.75]));
        assert_eq!(of("f"), Some(vec![0.0, 0.0]));
    }
}
