//! The floating-point environment that generated code and the solver's own arithmetic are meant for: round to nearest, subnormals
//! kept, nothing traps. A host may have set another, of which a new thread inherits a copy.

use std::marker::PhantomData;

/// Control bits of MXCSR in the standard environment: all exceptions masked.
const STANDARD: u32 = 0x1f80;

/// A floating-point environment of this thread; dropping it restores the one before.
#[must_use = "dropping it restores the environment before"]
pub struct FloatEnvironment {
    before: u32,
    /// Stays on its thread.
    thread: PhantomData<*const ()>,
}

impl FloatEnvironment {
    /// The standard one.
    pub fn standard() -> FloatEnvironment {
        FloatEnvironment::of(STANDARD)
    }

    /// That of these control bits (MXCSR of x86-64; of other machines none are set): a host's.
    #[doc(hidden)]
    pub fn of(control: u32) -> FloatEnvironment {
        let before = control_bits();
        if before != control {
            set_control_bits(control);
        }
        FloatEnvironment { before, thread: PhantomData }
    }
}

impl Drop for FloatEnvironment {
    fn drop(&mut self) {
        set_control_bits(self.before);
    }
}

/// MXCSR with its flags.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) fn control_bits() -> u32 {
    let mut bits = 0u32;
    // SAFETY: stores four bytes to where `bits` lies.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut bits, options(nostack, preserves_flags)) };
    bits
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn set_control_bits(bits: u32) {
    // SAFETY: every caller passes the standard bits or ones that MXCSR had, so none that are reserved. Rust's own arithmetic is right in the
    // standard environment; in a host's it is what that host has chosen.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &bits, options(nostack, preserves_flags, readonly)) };
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) fn control_bits() -> u32 {
    STANDARD
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn set_control_bits(_: u32) {}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    use super::*;
    use crate::runtime::Pool;
    use std::hint::black_box;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Flush to zero, denormals are zero, rounding to 0.
    const HOST: u32 = STANDARD | 0x8000 | 0x0040 | 0x6000;

    fn is_standard() -> bool {
        let halved = black_box(f64::MIN_POSITIVE) / 2.0;
        let rounded = black_box(1.0) + black_box(f64::EPSILON) * 0.75;
        halved > 0.0 && rounded == 1.0 + f64::EPSILON
    }

    #[test]
    fn a_hosts_environment_is_left_and_restored() {
        let host = FloatEnvironment::of(HOST);
        assert!(!is_standard());
        {
            let _standard = FloatEnvironment::standard();
            assert!(is_standard());
        }
        assert_eq!(control_bits() & !0x3f, HOST);
        drop(host);
        assert!(is_standard());
    }

    #[test]
    fn workers_do_not_inherit_a_hosts() {
        let _host = FloatEnvironment::of(HOST);
        let pool = Pool::new(4);
        let standard = AtomicBool::new(true);
        pool.for_each(64, |_| {
            standard.fetch_and(is_standard(), Ordering::Relaxed);
        });
        assert!(standard.into_inner());
        assert_eq!(control_bits() & !0x3f, HOST);
    }
}
