//! Zeroed memory for buffers.

use super::Pool;
use std::alloc::Layout;

/// From this size on memory comes from the kernel directly: zeroed lazily, in huge pages.
const LARGE: usize = 1 << 20;
const HUGE_PAGE: usize = 2 << 20;
const PAGE: usize = 4096;
const ALIGN: usize = 64;

/// A zeroed block, 64-byte aligned; from 1 MiB on, 2 MiB aligned and, but for what is left over, advised to lie in
/// huge pages. Or somebody else's.
pub(super) struct Memory {
    base: *mut u8,
    bytes: usize,
    from: From,
}

/// Where a block comes from.
enum From {
    Allocator,
    /// Start and length of the mapping that it lies in.
    Mapping(*mut u8, usize),
    /// Borrowed, for reading only or for writing too.
    Borrowed {
        writable: bool,
    },
}

// SAFETY: the block is plain memory, owned or borrowed exclusively (or by several that read it only).
unsafe impl Send for Memory {}

impl Memory {
    /// `bytes` zero bytes; `None` if there are not so many.
    pub fn zeroed(bytes: usize) -> Option<Memory> {
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
    pub fn borrowed(base: *mut u8, bytes: usize, writable: bool) -> Memory {
        Memory { base, bytes, from: From::Borrowed { writable } }
    }

    /// False for memory borrowed for reading.
    pub fn writable(&self) -> bool {
        !matches!(self.from, From::Borrowed { writable: false })
    }

    fn mapped(bytes: usize) -> Option<Memory> {
        let length = bytes.checked_add(HUGE_PAGE)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh anonymous mapping; the advice, on whole pages inside it, changes no contents and may fail.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0);
            if start == libc::MAP_FAILED {
                return None;
            }
            let start = start.cast::<u8>();
            let base = start.add(start.align_offset(HUGE_PAGE));
            libc::madvise(base.cast(), bytes / HUGE_PAGE * HUGE_PAGE, libc::MADV_HUGEPAGE);
            Some(Memory { base, bytes, from: From::Mapping(start, length) })
        }
    }

    /// Asks the kernel for all pages now, on the threads of `pool`, each for its share: their nodes' memory. A page that is refused comes
    /// when it is first touched.
    pub fn populate(&self, pool: &Pool) {
        if !matches!(self.from, From::Mapping(..)) {
            return;
        }
        let (pages, n) = (self.bytes.div_ceil(PAGE), pool.threads());
        let base = self.base as usize;
        pool.for_each(n as i32, |k| {
            let [from, to] = [k as usize, k as usize + 1].map(|k| pages * k / n * PAGE);
            // SAFETY: inside our mapping, which goes on behind the block; the advice changes no contents, and does nothing where
            // pages are larger.
            unsafe {
                libc::madvise((base + from) as *mut libc::c_void, to - from, libc::MADV_POPULATE_WRITE)
            };
        });
    }

    /// First byte.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match self.from {
            // SAFETY: ours, as `mapped` made it, and unmapped once.
            From::Mapping(start, length) => unsafe {
                libc::munmap(start.cast(), length);
            },
            From::Borrowed { .. } => {}
            From::Allocator => {
                if let Ok(layout) = Layout::from_size_align(self.bytes, ALIGN) {
                    // SAFETY: allocated with this layout, freed once.
                    unsafe { std::alloc::dealloc(self.base, layout) }
                }
            }
        }
    }
}
