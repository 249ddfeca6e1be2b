//! Kernels compiled for several instruction sets, the best of the host chosen at run time.

/// Vector instructions of the host, best last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isa {
    /// Instructions of every processor of the target.
    Baseline,
    /// 256-bit vectors with fused multiply-add.
    Avx2,
    /// 512-bit vectors.
    Avx512,
}

impl Isa {
    /// The best that this processor has.
    pub fn host() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                return Isa::Avx512;
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return Isa::Avx2;
            }
        }
        Isa::Baseline
    }
}

/// Defines `fn name(isa, arguments)` that runs `body(arguments)`, an `#[inline(always)]` function, compiled for
/// the instructions of `isa`.
macro_rules! multiversion {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty = $body:ident) => {
        $(#[$meta])*
        $vis fn $name(isa: $crate::yardstick::isa::Isa, $($arg: $ty),*) -> $ret {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f")]
            fn avx512($($arg: $ty),*) -> $ret {
                $body($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $ty),*) -> $ret {
                $body($($arg),*)
            }
            match isa {
                // SAFETY: `Isa::host` returns this value only on a processor with the feature.
                #[cfg(target_arch = "x86_64")]
                $crate::yardstick::isa::Isa::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above, for both features.
                #[cfg(target_arch = "x86_64")]
                $crate::yardstick::isa::Isa::Avx2 => unsafe { avx2($($arg),*) },
                _ => $body($($arg),*),
            }
        }
    };
}
pub(crate) use multiversion;
