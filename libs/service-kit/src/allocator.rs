#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Uses pages of 4 KiB only, also in child processes. The allocator asks for huge pages of 2 MiB, which a process that uses a little of
/// each fills with memory that it never needs.
pub(crate) fn use_small_pages() {
    // A kernel without huge pages refuses the call.
    rustix::thread::disable_transparent_huge_pages(true).ok();
}
