//! What is measured counts its allocations. In a file of its own: what the compiler makes of this is everyone's
//! (`callgrind::owners`).

#[global_allocator]
static ALLOCATOR: helenus::io::CountingAllocator = helenus::io::CountingAllocator;
