//! Large arrays on huge pages: both sides of a comparison must have them, or it is one of page tables.

const PAGE: usize = 4096;

/// `len` zeros.
pub fn zeros(len: usize) -> Vec<f32> {
    let mut v = vec![0.0f32; len];
    let bytes = std::mem::size_of_val(&v[..]);
    let skip = v.as_ptr().cast::<u8>().align_offset(PAGE);
    let whole = bytes.saturating_sub(skip) / PAGE * PAGE;
    if whole > 0 {
        // SAFETY: the range lies in the vector's own memory, in whole pages; the advice changes no contents and may fail.
        unsafe {
            libc::madvise(v.as_mut_ptr().cast::<u8>().add(skip).cast(), whole, libc::MADV_HUGEPAGE);
        }
    }
    v
}
