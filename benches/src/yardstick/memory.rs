//! Large arrays on huge pages: both sides of a comparison must have them, or it is one of page tables.

const PAGE: usize = 4096;

/// `len` zeros.
pub fn zeros(len: usize) -> Vec<f32> {
    let mut v = vec![0.0f32; len];
    advise(&mut v);
    v
}

/// Asks for huge pages under the whole pages of this memory.
pub fn advise<T>(memory: &mut [T]) {
    let bytes = size_of_val(memory);
    let skip = memory.as_ptr().cast::<u8>().align_offset(PAGE);
    let whole = bytes.saturating_sub(skip) / PAGE * PAGE;
    if whole > 0 {
        // SAFETY: the range lies in the slice's own memory, in whole pages; the advice changes no contents and may fail.
        unsafe {
            libc::madvise(memory.as_mut_ptr().cast::<u8>().add(skip).cast(), whole, libc::MADV_HUGEPAGE);
        }
    }
}
