//! Zeroed memory for buffers.

use std::alloc::Layout;

/// From this size on memory comes from the kernel directly: zeroed lazily, in huge pages.
const LARGE: usize = 4 << 20;
const HUGE_PAGE: usize = 2 << 20;
const ALIGN: usize = 64;

/// A zeroed block, 64-byte aligned; from 4 MiB on, 2 MiB aligned and advised to lie in huge pages.
pub(super) struct Memory {
    base: *mut u8,
    bytes: usize,
    /// Where the mapping starts and how long it is, if it is one.
    mapping: Option<(*mut u8, usize)>,
}

// SAFETY: the block is owned, plain memory.
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
        (!base.is_null()).then_some(Memory { base, bytes, mapping: None })
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
            libc::madvise(base.cast(), bytes, libc::MADV_HUGEPAGE);
            Some(Memory { base, bytes, mapping: Some((start, length)) })
        }
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
        match self.mapping {
            // SAFETY: ours, as `mapped` made it, and unmapped once.
            Some((start, length)) => unsafe {
                libc::munmap(start.cast(), length);
            },
            None => {
                if let Ok(layout) = Layout::from_size_align(self.bytes, ALIGN) {
                    // SAFETY: allocated with this layout, freed once.
                    unsafe { std::alloc::dealloc(self.base, layout) }
                }
            }
        }
    }
}
