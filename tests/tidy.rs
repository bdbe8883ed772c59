//! The house rules, proved by reading the code: imports point down, only `io` touches the outside, and nothing that
//! serves a request names a lock.
//!
//! Every path of every file of `src` is parsed with `syn`, `use` trees included.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// From the bottom up: each may import only what stands before it.
const LAYERS: [&str; 17] = [
    "base",
    "io",
    "types",
    "schema",
    "mutation",
    "protocol",
    "cql",
    "plan",
    "sstable",
    "commitlog",
    "memtable",
    "compaction",
    "shard",
    "router",
    "net",
    "admin",
    "server",
];

/// What only `io` may name. `std::time::Duration` and `std::net` addresses are plain values.
const SEAM: [&str; 12] = [
    "glommio",
    "io_uring",
    "core_affinity",
    "libc",
    "std::fs",
    "std::time",
    "std::thread",
    "std::process",
    "std::net::TcpStream",
    "std::net::TcpListener",
    "rand",
    "getrandom",
];

/// Exempt from the seam by name: ordinary threads off the request's way.
const SEAM_EXEMPT: [&str; 4] = ["io", "admin", "server", "main"];

/// Where no lock, no atomic and no shared pointer may stand.
const UNSHARED: [&str; 5] = ["net", "plan", "shard", "memtable", "sstable"];

/// Files that may hold `unsafe`, each with its proofs.
const UNSAFE_ALLOWED: [&str; 3] = ["src/io/", "src/memtable/arena.rs", "src/sstable/pins.rs"];

struct Reader<'a> {
    file: &'a Path,
    module: String,
    in_test: bool,
    complaints: BTreeSet<String>,
}

impl Reader<'_> {
    fn complain(&mut self, text: String) {
        self.complaints.insert(format!("{}: {text}", self.file.display()));
    }

    fn layer(module: &str) -> usize {
        LAYERS.iter().position(|layer| *layer == module).unwrap_or(LAYERS.len())
    }

    fn path(&mut self, segments: &[String]) {
        let text = segments.join("::");
        if let [root, target, ..] = segments
            && root == "crate"
            && LAYERS.contains(&target.as_str())
            && Self::layer(target) > Self::layer(&self.module)
        {
            self.complain(format!("`{text}` points up: `{}` may not import `{target}`", self.module));
        }
        if self.in_test {
            return;
        }
        let seam = SEAM.iter().any(|name| text == *name || text.starts_with(&format!("{name}::")));
        let plain = text.starts_with("std::time::Duration");
        if seam && !plain && !SEAM_EXEMPT.contains(&self.module.as_str()) {
            self.complain(format!("`{text}` belongs to `io`"));
        }
        let shared = |name: &String| {
            matches!(name.as_str(), "Arc" | "Mutex" | "RwLock" | "OnceLock" | "LazyLock") || name.starts_with("Atomic")
        };
        if UNSHARED.contains(&self.module.as_str()) && segments.iter().any(shared) {
            self.complain(format!("`{text}` is shared between threads"));
        }
    }

    fn use_tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| before.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
        match tree {
            syn::UseTree::Path(path) => self.use_tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.path(&with(&name.ident)),
            syn::UseTree::Rename(rename) => self.path(&with(&rename.ident)),
            syn::UseTree::Glob(_) => self.path(before),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.use_tree(before, item)),
        }
    }

    fn is_test(attributes: &[syn::Attribute]) -> bool {
        attributes.iter().any(|attribute| {
            attribute.path().is_ident("test")
                || (attribute.path().is_ident("cfg")
                    && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string().contains("test")))
        })
    }

    fn within(&mut self, attributes: &[syn::Attribute], walk: impl FnOnce(&mut Self)) {
        let before = self.in_test;
        self.in_test |= Self::is_test(attributes);
        walk(self);
        self.in_test = before;
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.within(&item.attrs, |reader| reader.use_tree(&[], &item.tree));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.path(&segments);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        if mac.path.is_ident("thread_local") && self.module != "io" && !self.in_test {
            self.complain("`thread_local!` belongs to `io`".into());
        }
        visit::visit_macro(self, mac);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        if !self.in_test && !SEAM_EXEMPT.contains(&self.module.as_str()) {
            self.complain(format!("`static {}` is state outside `io`", item.ident));
        }
        visit::visit_item_static(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.within(&item.attrs, |reader| visit::visit_item_mod(reader, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.within(&item.attrs, |reader| visit::visit_item_fn(reader, item));
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        let file = self.file.to_string_lossy().into_owned();
        if !UNSAFE_ALLOWED.iter().any(|allowed| file.starts_with(allowed)) {
            self.complain("`unsafe` outside the files listed in tests/tidy.rs".into());
        }
        visit::visit_expr_unsafe(self, block);
    }
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("src is readable") {
        let path = entry.expect("src is readable").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The complaints about `text` as if it stood in `file`.
fn complaints(file: &Path, text: &str) -> BTreeSet<String> {
    let module = file.iter().nth(1).map_or(String::new(), |part| part.to_string_lossy().replace(".rs", ""));
    let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut reader = Reader { file, module, in_test: false, complaints: BTreeSet::new() };
    reader.visit_file(&parsed);
    reader.complaints
}

#[test]
fn the_house_is_tidy() {
    let mut files = Vec::new();
    rust_files(Path::new("src"), &mut files);
    assert!(files.len() > 20, "run from the package's root");
    let mut all = BTreeSet::new();
    for file in &files {
        all.extend(complaints(file, &std::fs::read_to_string(file).expect("a source file")));
    }
    assert!(all.is_empty(), "{}", all.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
fn what_is_forbidden_is_found() {
    let check = |file: &str, text: &str, expected: usize| {
        assert_eq!(complaints(Path::new(file), text).len(), expected, "{file}: {text}");
    };
    check("src/types/mod.rs", "use crate::schema::Table;", 1);
    check("src/types/mod.rs", "use crate::{base::ids::Token, schema::Table};", 1);
    check("src/types/mod.rs", "fn f() { crate::shard::g() }", 1);
    check("src/shard/mod.rs", "use crate::types::CqlType;", 0);
    check("src/shard/mod.rs", "use std::sync::Arc;", 1);
    check("src/shard/mod.rs", "fn f(x: std::sync::atomic::AtomicU64) {}", 1);
    check("src/shard/mod.rs", "#[cfg(test)] mod tests { use std::sync::Arc; }", 0);
    check("src/shard/mod.rs", "use std::time::Duration; use std::net::SocketAddr;", 0);
    check("src/shard/mod.rs", "use std::time::Instant;", 1);
    check("src/shard/mod.rs", "static X: u8 = 1;", 1);
    check("src/router/mod.rs", "thread_local! { static X: u8 = 1; }", 1);
    check("src/router/mod.rs", "fn f() { unsafe { g() } }", 1);
    check("src/io/real/ring.rs", "use io_uring::IoUring; fn f() { unsafe { g() } }", 0);
    check("src/admin/mod.rs", "use std::thread;", 0);
}
