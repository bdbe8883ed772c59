//! Whose a sample is.

use std::collections::BTreeMap;

/// Marks the kernel's functions.
const KERNEL: &str = "_[k]";
/// What the ring does for an operation is named after the function that does it.
const OPERATIONS: [&str; 10] = [
    "io_send",
    "io_recv",
    "io_write",
    "io_read",
    "io_fsync",
    "io_accept",
    "io_poll_add",
    "io_timeout",
    "io_cqring_wait",
    "io_msg_ring",
];

/// Costs with their samples, the largest first.
pub fn of(folded: &str) -> Vec<(String, u64)> {
    let mut costs: BTreeMap<String, u64> = BTreeMap::new();
    for line in folded.lines() {
        if let Some((chain, count)) = line.rsplit_once(' ')
            && let Ok(count) = count.parse::<u64>()
        {
            *costs.entry(owner(chain)).or_default() += count;
        }
    }
    let mut costs: Vec<(String, u64)> = costs.into_iter().collect();
    costs.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    costs
}

/// Of a chain of functions from the outermost on; the first is the thread's name.
fn owner(chain: &str) -> String {
    let functions: Vec<&str> = chain.split(';').skip(1).collect();
    if let Some(first) = functions.iter().position(|function| function.ends_with(KERNEL)) {
        let kernel = || functions[first..].iter().map(|function| function.trim_end_matches(KERNEL));
        let operation = kernel().find(|function| OPERATIONS.contains(function));
        let named = operation.or_else(|| kernel().find(|function| function.starts_with("__x64_sys_")));
        let named = named.or_else(|| kernel().next()).unwrap_or_default();
        return format!("the kernel, in {}", named.trim_start_matches("__x64_sys_"));
    }
    let ours = functions.iter().rev().find_map(|function| name_of_ours(function));
    let own = ours.or_else(|| functions.last().map(|function| plain(function)));
    own.unwrap_or_else(|| chain.to_owned())
}

fn name_of_ours(function: &str) -> Option<String> {
    let name = plain(function);
    name.contains("helenus::").then_some(name)
}

/// Without the hash that ends a symbol, and without type parameters.
fn plain(function: &str) -> String {
    let hashless = match function.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => function,
    };
    hashless.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_belongs_to_us_or_to_what_the_kernel_was_asked_for() {
        let folded = "\
shard;start;helenus::net::connection::Connection::serve;helenus::memtable::apply::h0123456789abcdef;__memcpy_avx 3
shard;start;helenus::net::connection::Connection::serve;helenus::memtable::apply::hfedcba9876543210 4
shard;start;helenus::io::real::ring::enter;entry_SYSCALL_64_[k];__x64_sys_io_uring_enter_[k];io_issue_sqe_[k];io_send_[k];tcp_sendmsg_[k] 9
shard;start;entry_SYSCALL_64_[k];__x64_sys_io_uring_enter_[k];io_submit_sqes_[k] 2
shard;ret_from_fork_[k];io_wq_worker_[k] 1
shard;start;malloc 1
";
        let costs = of(folded);
        let named: Vec<(&str, u64)> = costs.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(
            named,
            [
                ("the kernel, in io_send", 9),
                ("helenus::memtable::apply", 7),
                ("the kernel, in io_uring_enter", 2),
                ("malloc", 1),
                ("the kernel, in ret_from_fork", 1),
            ]
        );
    }
}
