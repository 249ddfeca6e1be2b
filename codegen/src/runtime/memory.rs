//! Zeroed memory for buffers.

use super::Pool;
use memmap2::{Advice, MmapMut, MmapRaw};
use std::alloc::Layout;

/// From this size on memory comes from the kernel directly: zeroed lazily, in huge pages.
const LARGE: usize = 1 << 20;
/// Bytes of a huge page.
pub(crate) const HUGE_PAGE: usize = 2 << 20;
const PAGE: usize = 4096;
const ALIGN: usize = 64;

/// A zeroed block, 64-byte aligned; from 1 MiB on, 2 MiB aligned and, but for what is left over, advised to lie in
/// huge pages. Or somebody else's.
pub(super) struct Memory {
    base: *mut u8,
    bytes: usize,
    from: From,
}

/// Origin of a block of memory.
enum From {
    Allocator,
    /// A mapping that it lies in.
    Mapping(MmapRaw),
    /// Borrowed, for reading only or for writing too.
    Borrowed {
        writable: bool,
    },
}

// SAFETY: the block is plain memory, owned or borrowed exclusively (or by several that read it only).
unsafe impl Send for Memory {}

impl Memory {
    /// `bytes` zero bytes; `None` if there are not so many.
    pub(super) fn zeroed(bytes: usize) -> Option<Memory> {
        let bytes = bytes.max(ALIGN);
        if bytes >= LARGE { Memory::mapped(bytes) } else { Memory::small(bytes) }
    }

    fn small(bytes: usize) -> Option<Memory> {
        let layout = Layout::from_size_align(bytes, ALIGN).ok()?;
        // SAFETY: the size is not zero.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        (!base.is_null()).then_some(Memory { base, bytes, from: From::Allocator })
    }

    /// A block that is borrowed for as long as the result is used, by a [`super::View`] alone.
    pub(super) fn borrowed(base: *mut u8, bytes: usize, writable: bool) -> Memory {
        Memory { base, bytes, from: From::Borrowed { writable } }
    }

    /// True for memory that is somebody else's.
    pub(super) fn is_borrowed(&self) -> bool {
        matches!(self.from, From::Borrowed { .. })
    }

    /// False for memory borrowed for reading.
    pub(super) fn writable(&self) -> bool {
        !matches!(self.from, From::Borrowed { writable: false })
    }

    fn mapped(bytes: usize) -> Option<Memory> {
        let map = MmapRaw::from(MmapMut::map_anon(bytes.checked_add(HUGE_PAGE)?).ok()?);
        let skipped = map.as_ptr().align_offset(HUGE_PAGE);
        let base = map.as_mut_ptr().wrapping_add(skipped);
        in_huge_pages(base, bytes);
        Some(Memory { base, bytes, from: From::Mapping(map) })
    }

    /// Asks the kernel for all pages now, on the threads of `pool`, each for its share: their nodes' memory. A page that is refused comes
    /// when it is first touched.
    pub(super) fn populate(&self, pool: &Pool) {
        let From::Mapping(map) = &self.from else { return };
        let (pages, n) = (self.bytes.div_ceil(PAGE), pool.threads());
        let skipped = self.base as usize - map.as_ptr() as usize;
        pool.for_each(n as i32, |k| {
            let [from, to] = [k as usize, k as usize + 1].map(|k| pages * k / n * PAGE);
            let _ = map.advise_range(Advice::PopulateWrite, skipped + from, to - from);
        });
    }

    /// First byte.
    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }

    /// Size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Asks that a block, which begins at a huge page, lie in such pages, but for what is left over. A system without them refuses, and that is all
/// right.
pub(crate) fn in_huge_pages(base: *mut u8, bytes: usize) {
    // SAFETY: the advice changes no memory, and a range that is not mapped is refused.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::madvise(base.cast(), bytes / HUGE_PAGE * HUGE_PAGE, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (base, bytes);
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let (From::Allocator, Ok(layout)) = (&self.from, Layout::from_size_align(self.bytes, ALIGN)) {
            // SAFETY: allocated with this layout, freed once.
            unsafe { std::alloc::dealloc(self.base, layout) }
        }
    }
}
