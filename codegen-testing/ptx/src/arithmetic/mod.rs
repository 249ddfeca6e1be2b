//! Instructions that compute a value from up to three others, as pure functions of 64-bit words.
//!
//! A register holds its value in the low bits of a word, zeros above. Halves and singles compute in their own precision, each
//! operation rounded once; their NaNs are the canonical one. What an assembler may fuse or a device may approximate is refused.

mod compare;
mod convert;
mod float;
mod integer;
mod word;

use crate::error::Refusal;

/// A function of up to three words.
pub type Pure = fn(u64, u64, u64) -> u64;

/// Values that a word holds.
pub trait Word: Copy {
    fn get(word: u64) -> Self;
    fn put(self) -> u64;
}

/// A pure function of one, two or three typed values, and their number.
macro_rules! op {
    ($t:ty, |$a:ident| $e:expr) => {
        (
            (|a, _, _| {
                let $a = <$t as crate::arithmetic::Word>::get(a);
                crate::arithmetic::Word::put($e)
            }) as crate::arithmetic::Pure,
            1,
        )
    };
    ($t:ty, |$a:ident, $b:ident| $e:expr) => {
        (
            (|a, b, _| {
                let ($a, $b) =
                    (<$t as crate::arithmetic::Word>::get(a), <$t as crate::arithmetic::Word>::get(b));
                crate::arithmetic::Word::put($e)
            }) as crate::arithmetic::Pure,
            2,
        )
    };
    ($t:ty, |$a:ident, $b:ident, $c:ident| $e:expr) => {
        (
            (|a, b, c| {
                let ($a, $b, $c) = (
                    <$t as crate::arithmetic::Word>::get(a),
                    <$t as crate::arithmetic::Word>::get(b),
                    <$t as crate::arithmetic::Word>::get(c),
                );
                crate::arithmetic::Word::put($e)
            }) as crate::arithmetic::Pure,
            3,
        )
    };
}

/// The function for integers of the type with this name.
macro_rules! integers {
    ($name:expr, $($f:tt)*) => {
        match $name {
            "s16" => op!(i16, $($f)*),
            "u16" | "b16" => op!(u16, $($f)*),
            "s32" => op!(i32, $($f)*),
            "u32" | "b32" => op!(u32, $($f)*),
            "s64" => op!(i64, $($f)*),
            "u64" | "b64" => op!(u64, $($f)*),
            _ => return None,
        }
    };
}

/// The function for floats of the type with this name.
macro_rules! floats {
    ($name:expr, $($f:tt)*) => {
        match $name {
            "f16" => op!(half::f16, $($f)*),
            "f32" => op!(f32, $($f)*),
            "f64" => op!(f64, $($f)*),
            _ => return None,
        }
    };
}

use {floats, integers, op};

/// A function with the number of its arguments.
pub type Arity = (Pure, usize);

/// The function of an instruction, given by its mnemonic; `None` where it is no such instruction.
///
/// # Errors
/// Refuses instructions whose bits depend on the assembler or the device.
pub fn pure(op: &str) -> Result<Option<Arity>, Refusal> {
    let parts: Vec<&str> = op.split('.').collect();
    if parts.iter().any(|p| ["approx", "full", "ftz"].contains(p)) {
        return Err(Refusal::Approximate(op.into()));
    }
    if let ["add" | "sub" | "mul" | "fma" | "mad" | "div" | "sqrt" | "rcp", t] = parts[..]
        && (t.starts_with('f') || t.starts_with("bf"))
    {
        return Err(Refusal::Unrounded(op.into()));
    }
    Ok(integer::function(&parts)
        .or_else(|| float::function(&parts))
        .or_else(|| compare::function(&parts))
        .or_else(|| convert::function(&parts)))
}

/// A function of both halves of a 32-bit word, each with its own arguments.
macro_rules! both_halves {
    ($f:expr) => {{
        const F: crate::arithmetic::Pure = $f;
        |a, b, c| {
            let low = F(a & 0xffff, b & 0xffff, c & 0xffff);
            let high = F(a >> 16 & 0xffff, b >> 16 & 0xffff, c >> 16 & 0xffff);
            low | high << 16
        }
    }};
}
use both_halves;

/// The same of both halves of a 64-bit word.
macro_rules! both_words {
    ($f:expr) => {{
        const F: crate::arithmetic::Pure = $f;
        |a, b, c| F(a as u32 as u64, b as u32 as u64, c as u32 as u64) | F(a >> 32, b >> 32, c >> 32) << 32
    }};
}
use both_words;

pub use compare::halves;
pub use integer::{ADD_32, ADD_64, SUB_32, SUB_64, divides, quad};
