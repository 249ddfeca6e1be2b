//! The agreement between generated code and its host.
//!
//! An entry point is an [`EntryFn`], described in [`crate::ir::stmt::LoweredFunction`]. It may call the functions of
//! [`symbols`], with the [`Context`] it was given. Nothing of that panics or unwinds: a failure is recorded in the
//! context and makes the entry point return non-zero.

use crate::runtime::memory::{HUGE_PAGE, in_huge_pages};
use crate::runtime::{BodyFn, Pool};
use crate::types::f16;
use std::alloc::Layout;
use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// The type of a compiled function: context, buffer pointers, scalar slots; see [`crate::ir::stmt::LoweredFunction`].
pub(crate) type EntryFn = unsafe extern "C" fn(*const Context, *const *mut c_void, *const u64) -> i32;

/// The code of a failed allocation, in the place of an assertion's number.
pub(crate) const OUT_OF_MEMORY: i32 = i32::MAX;

/// State of one call of an entry point. `failed` is read by generated code and stays the first field.
#[repr(C)]
pub struct Context<'a> {
    /// 0, or non-zero once an assertion failed or memory ran out.
    failed: AtomicI32,
    failure: Mutex<Option<Failure>>,
    pool: &'a Pool,
}

/// The arguments of an entry point: addresses of planes, and scalar slots.
pub(crate) struct Arguments {
    pointers: Vec<*mut c_void>,
    /// The scalar slots.
    pub(crate) scalars: Vec<u64>,
}

// SAFETY: the pointers are numbers until `call`, whose caller answers for them on whatever thread it is.
unsafe impl Send for Arguments {}

impl Arguments {
    /// So many null pointers and zeros.
    pub(crate) fn new(pointers: usize, scalars: usize) -> Arguments {
        Arguments { pointers: vec![std::ptr::null_mut(); pointers], scalars: vec![0; scalars] }
    }

    /// Replaces the addresses, in order.
    pub(crate) fn set_pointers(&mut self, pointers: impl Iterator<Item = *mut c_void>) {
        self.pointers.iter_mut().zip(pointers).for_each(|(to, p)| *to = p);
    }

    /// Calls an entry point; an error if it failed.
    ///
    /// # Safety
    /// There are as many arguments as it reads; the pointers are those of live memory of the sizes that it goes by, and nobody
    /// else touches that during the call, but as cells.
    pub(crate) unsafe fn call(&self, entry: EntryFn, pool: &Pool) -> Result<(), Failure> {
        let context = Context::new(pool);
        // SAFETY: by this function's contract.
        let code = unsafe { entry(&context, self.pointers.as_ptr(), self.scalars.as_ptr()) };
        if code == 0 {
            return Ok(());
        }
        Err(context.into_failure().unwrap_or(Failure { code, args: Default::default() }))
    }
}

/// The failure of a call: assertion `code - 1`, or [`OUT_OF_MEMORY`], with the values of its arguments.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Failure {
    /// 1 + the number of the assertion in the function, in program order.
    pub code: i32,
    /// Values of the assertion's arguments.
    pub args: smallvec::SmallVec<[i64; 6]>,
}

impl<'a> Context<'a> {
    /// A context whose parallel loops run on `pool`.
    pub fn new(pool: &'a Pool) -> Context<'a> {
        Context { failed: AtomicI32::new(0), failure: Mutex::new(None), pool }
    }

    /// Returns what failed, if anything did.
    pub fn into_failure(self) -> Option<Failure> {
        self.failure.into_inner().unwrap_or_else(|e| e.into_inner())
    }

    /// Records a failure. Iterations of a parallel loop all run, and of their failures the least is kept, so that the
    /// report does not depend on the thread count.
    fn fail(&self, failure: Failure) {
        let mut kept = self.failure.lock().unwrap_or_else(|e| e.into_inner());
        if kept.as_ref().is_none_or(|k| failure < *k) {
            *kept = Some(failure);
        }
        self.failed.store(1, Ordering::Release);
    }
}

/// Records the failure of assertion `code - 1`.
///
/// # Safety
/// Called by generated code: `context` is that of the running call, `args` points to `n` values.
unsafe extern "C" fn fail(context: *const Context, code: i32, args: *const i64, n: i32) {
    // SAFETY: by this function's contract.
    let (context, args) = unsafe { (&*context, std::slice::from_raw_parts(args, n as usize)) };
    context.fail(Failure { code, args: args.into() });
}

/// Runs `body(context, closure, i)` for every `i` in `[min, min + extent)` on the pool.
///
/// # Safety
/// Called by generated code: `context` is that of the running call, `body` takes `closure`.
unsafe extern "C" fn parallel_for(
    context: *const Context,
    body: BodyFn,
    closure: *const c_void,
    min: i32,
    extent: i32,
) {
    // SAFETY: the context outlives the call; generated iterations are independent and do not unwind.
    unsafe { (*context).pool.run_body(context.cast(), body, closure, min, extent) }
}

/// Alignment of every allocation: a cache line, and the widest vector.
const ALIGN: usize = 64;
/// Bytes that may be touched before and behind what was asked for, by vectors that stick out.
const SLACK: usize = 128;
/// Blocks kept per thread for the next allocation, and their bytes at most: what pyramids of a picture of 12 megapixels take, or the slopes
/// of learned demosaicking of one megapixel. What is not kept is faulted in anew, page by page, by every run.
const CACHED_BLOCKS: usize = 64;
const CACHED_BYTES: usize = 512 << 20;
/// Bytes from which on a block lies in huge pages: one fault for each, and few entries in the table of pages.
const LARGE: usize = 2 * HUGE_PAGE;
/// Distance between the beginnings of large blocks, one after the other, within their first page, and after how many it is the same again: where all
/// began alike, the same elements of several would meet in the same few lines of the caches.
const APART: usize = 4096 + 4 * ALIGN;
const PLACES: usize = 16;

/// A block stands in front of its first usable byte (at -SLACK).
#[derive(Clone, Copy)]
struct Block {
    base: *mut u8,
    /// From the first that may be used on.
    bytes: usize,
    /// Bytes in front of those.
    shift: usize,
}

/// Free blocks of this thread, the one freed last at the end. A loop body allocates and frees the same sizes in every iteration, a
/// solver in every step: keeping them saves the system calls and page faults of large blocks. What such a body allocates is the block that was freed last.
struct Cache {
    blocks: Vec<Block>,
    /// Of all of them together.
    bytes: usize,
}

impl Cache {
    fn new() -> Cache {
        Cache { blocks: Vec::with_capacity(CACHED_BLOCKS), bytes: 0 }
    }

    /// The smallest block that holds `bytes` and wastes no more than as many.
    fn take(&mut self, bytes: usize) -> Option<Block> {
        let found = self.blocks.pop_if(|b| b.bytes == bytes).or_else(|| {
            let fits = |b: &Block| b.bytes >= bytes && b.bytes <= bytes.saturating_mul(2);
            let all = self.blocks.iter().enumerate().filter(|(_, b)| fits(b));
            let (i, _) = all.min_by_key(|(_, b)| b.bytes)?;
            Some(self.blocks.remove(i))
        });
        self.bytes -= found.map_or(0, |b| b.bytes);
        found
    }

    /// Keeps a block, and of the others those freed last.
    fn keep(&mut self, b: Block) {
        if b.bytes > CACHED_BYTES {
            return release(b);
        }
        self.bytes += b.bytes;
        let (mut stale, kept) = (0, self.blocks.len());
        while stale < kept && (self.bytes > CACHED_BYTES || kept - stale >= CACHED_BLOCKS) {
            self.bytes -= self.blocks[stale].bytes;
            stale += 1;
        }
        self.blocks.drain(..stale).for_each(release);
        self.blocks.push(b);
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.blocks.drain(..).for_each(release);
    }
}

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::new(Cache::new());
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, if bytes < LARGE { ALIGN } else { HUGE_PAGE }).ok()
}

fn release(b: Block) {
    if let Some(layout) = layout(b.shift + b.bytes) {
        // SAFETY: `b` was allocated with this layout and is released once.
        unsafe { std::alloc::dealloc(b.base, layout) }
    }
}

fn obtain(bytes: usize) -> Option<Block> {
    let cached = CACHE.try_with(|c| c.borrow_mut().take(bytes));
    if let Ok(Some(b)) = cached {
        return Some(b);
    }
    let shift = if bytes < LARGE { 0 } else { PLACE.fetch_add(1, Ordering::Relaxed) % PLACES * APART };
    let all = bytes.checked_add(shift)?;
    // SAFETY: the size is not zero, as it includes the slack.
    let base = unsafe { std::alloc::alloc(layout(all)?) };
    if all >= LARGE && !base.is_null() {
        in_huge_pages(base, all);
    }
    (!base.is_null()).then_some(Block { base, bytes, shift })
}

/// Number of large blocks so far.
static PLACE: AtomicUsize = AtomicUsize::new(0);

/// `bytes` bytes, 64-byte aligned, with [`SLACK`] around them; null, and a recorded failure, if there are none.
///
/// # Safety
/// Called by generated code: `context` is that of the running call.
unsafe extern "C" fn alloc(context: *const Context, bytes: i64) -> *mut u8 {
    let total = usize::try_from(bytes.max(0)).ok().and_then(|b| b.checked_add(2 * SLACK));
    match total.map(|b| b.next_multiple_of(ALIGN)).and_then(obtain) {
        Some(b) => {
            // SAFETY: the block has at least 2 * SLACK bytes; its header lies in the first SLACK.
            unsafe {
                let first = b.base.add(b.shift);
                first.cast::<Block>().write(b);
                first.add(SLACK)
            }
        }
        None => {
            // SAFETY: by this function's contract.
            unsafe { &*context }.fail(Failure { code: OUT_OF_MEMORY, args: smallvec::smallvec![bytes] });
            std::ptr::null_mut()
        }
    }
}

/// Frees what [`alloc`] gave.
///
/// # Safety
/// `p` came from [`alloc`] and is not used afterwards.
unsafe extern "C" fn free(p: *mut u8) {
    // SAFETY: by this function's contract the header is in front of `p`. Vectors that stick out by less than SLACK
    // read, and never write, there.
    let b = unsafe { p.sub(SLACK).cast::<Block>().read() };
    if CACHE.try_with(|c| c.borrow_mut().keep(b)).is_err() {
        // The thread is ending.
        release(b);
    }
}

/// Name of the function that records a failure.
pub(crate) const FAIL: &str = "sumsq_fail";
/// Name of the function that runs a parallel loop.
pub(crate) const PARALLEL_FOR: &str = "sumsq_parallel_for";
/// Name of the allocator.
pub(crate) const ALLOC: &str = "sumsq_alloc";
/// Name of its counterpart.
pub(crate) const FREE: &str = "sumsq_free";
/// Name of the function that says which Func a thread computes, see [`crate::runtime::profile`].
pub(crate) const PROFILE_ENTER: &str = "sumsq_profile_enter";
/// Name of the function that says what was allocated for a Func.
pub(crate) const PROFILE_ALLOCATE: &str = "sumsq_profile_allocate";

unsafe extern "C" {
    // What LLVM itself may call for memory intrinsics and, on CPUs without the instructions, for f16 and rounding.
    fn memcpy(d: *mut c_void, s: *const c_void, n: usize) -> *mut c_void;
    fn memmove(d: *mut c_void, s: *const c_void, n: usize) -> *mut c_void;
    fn memset(d: *mut c_void, c: i32, n: usize) -> *mut c_void;
}

macro_rules! libm {
    ($table:ident: $($name:literal $f:ident($($a:ident),*)),* $(,)?) => { $({
        extern "C" fn single($($a: f32),*) -> f32 { f32::$f($($a),*) }
        extern "C" fn double($($a: f64),*) -> f64 { f64::$f($($a),*) }
        $table.push((concat!($name, "f").into(), single as *const () as usize));
        $table.push(($name.into(), double as *const () as usize));
    })* };
}

/// Every symbol that generated code may refer to, with its address. Maths functions are none of them.
pub(crate) fn symbols() -> Vec<(String, usize)> {
    let mut table: Vec<(String, usize)> = vec![
        (FAIL.into(), fail as *const () as usize),
        (PARALLEL_FOR.into(), parallel_for as *const () as usize),
        (ALLOC.into(), alloc as *const () as usize),
        (FREE.into(), free as *const () as usize),
        (PROFILE_ENTER.into(), crate::runtime::profile::enter as *const () as usize),
        (PROFILE_ALLOCATE.into(), crate::runtime::profile::allocate as *const () as usize),
        ("memcpy".into(), memcpy as *const () as usize),
        ("memmove".into(), memmove as *const () as usize),
        ("memset".into(), memset as *const () as usize),
    ];
    // Targets of conversions and intrinsics on CPUs without the instruction. A half is passed in the low bits of a float.
    extern "C" fn half_of(v: f32) -> f32 {
        f32::from_bits(f16::from_f32(v).to_bits() as u32)
    }
    extern "C" fn of_half(v: f32) -> f32 {
        f16::from_bits(v.to_bits() as u16).to_f32()
    }
    table.push(("__truncsfhf2".into(), half_of as *const () as usize));
    table.push(("__extendhfsf2".into(), of_half as *const () as usize));
    libm!(table: "floor" floor(x), "ceil" ceil(x), "trunc" trunc(x), "rint" round_ties_even(x),
        "roundeven" round_ties_even(x), "fma" mul_add(x, y, z));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pyramids of ten levels and their intermediates: the next run takes the same blocks.
    #[test]
    fn blocks_of_a_run_serve_the_next() {
        let sizes = [48, 16, 16, 4, 4, 2, 1].map(|n| n << 20).into_iter().chain((1..40).map(|n| n << 10));
        let made: Vec<Block> = sizes.map(|bytes| obtain(bytes).expect("memory")).collect();
        let mut cache = Cache::new();
        made.iter().for_each(|b| cache.keep(*b));
        let again: Vec<Block> = made.iter().map(|b| cache.take(b.bytes).expect("it was kept")).collect();
        assert!(again.iter().zip(&made).all(|(a, b)| a.bytes == b.bytes) && cache.blocks.is_empty());
        let places = |all: &[Block]| all.iter().map(|b| b.base).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(places(&again), places(&made));
        again.into_iter().for_each(|b| cache.keep(b));
    }

    /// Nested allocations of a loop's body are the same blocks in every iteration, whatever else is kept.
    #[test]
    fn the_block_freed_last_is_taken_first() {
        let mut cache = Cache::new();
        let [older, outer, inner] = [4096, 4096, 1 << 16].map(|bytes| obtain(bytes).expect("memory"));
        [older, inner, outer].into_iter().for_each(|b| cache.keep(b));
        for _ in 0..3 {
            let (first, second) = (cache.take(4096).expect("kept"), cache.take(1 << 16).expect("kept"));
            assert_eq!([first.base, second.base], [outer.base, inner.base]);
            assert_eq!(cache.bytes, older.bytes);
            [second, first].into_iter().for_each(|b| cache.keep(b));
        }
        assert_eq!(cache.bytes, cache.blocks.iter().map(|b| b.bytes).sum::<usize>());
    }

    /// Blocks freed last stay.
    #[test]
    fn a_cache_has_an_end() {
        let mut cache = Cache::new();
        let block = |bytes: usize| obtain(bytes).expect("memory");
        (0..CACHED_BLOCKS + 5).for_each(|k| cache.keep(block(64 * (k + 1))));
        assert_eq!(cache.blocks.len(), CACHED_BLOCKS);
        assert!(cache.take(64).is_none());
        cache.keep(block(CACHED_BYTES));
        assert_eq!(cache.blocks.len(), 1);
        cache.keep(block(CACHED_BYTES + ALIGN));
        assert_eq!(cache.blocks.len(), 1);
    }
}
