//! The one seam to the outside: files, sockets, clocks, random numbers, tasks, timers, the mesh between shards.
//!
//! Each type here is an enum over two halves, matched per operation: the real one (one io_uring a shard, driven by one
//! glommio task) and the simulated one (a seeded scheduler, virtual time, a disk that tells durable from pending).
//! Nothing above this module names the operating system.
