//! Comparisons and classes, which give predicates.

use super::{Arity, floats, integers, op};
use half::f16;
use std::cmp::Ordering::{Equal, Greater, Less};

/// The function of a comparison.
pub fn function(parts: &[&str]) -> Option<Arity> {
    match parts {
        ["setp", how, t] if t.starts_with('f') => float(how, t),
        ["setp", how, t] => integer(how, t),
        ["testp", class, t] => test(class, t),
        _ => None,
    }
}

fn integer(how: &str, t: &str) -> Option<Arity> {
    Some(match how {
        "eq" => integers!(t, |a, b| a == b),
        "ne" => integers!(t, |a, b| a != b),
        "lt" | "lo" => integers!(t, |a, b| a < b),
        "le" | "ls" => integers!(t, |a, b| a <= b),
        "gt" | "hi" => integers!(t, |a, b| a > b),
        "ge" | "hs" => integers!(t, |a, b| a >= b),
        _ => return None,
    })
}

/// Names that end in `u` are true where one is not a number.
fn float(how: &str, t: &str) -> Option<Arity> {
    Some(match how {
        "eq" => floats!(t, |a, b| a == b),
        "ne" => floats!(t, |a, b| matches!(a.partial_cmp(&b), Some(Less | Greater))),
        "lt" => floats!(t, |a, b| a < b),
        "le" => floats!(t, |a, b| a <= b),
        "gt" => floats!(t, |a, b| a > b),
        "ge" => floats!(t, |a, b| a >= b),
        "equ" => floats!(t, |a, b| matches!(a.partial_cmp(&b), None | Some(Equal))),
        "neu" => floats!(t, |a, b| a != b),
        "ltu" => floats!(t, |a, b| matches!(a.partial_cmp(&b), None | Some(Less))),
        "leu" => floats!(t, |a, b| matches!(a.partial_cmp(&b), None | Some(Less | Equal))),
        "gtu" => floats!(t, |a, b| matches!(a.partial_cmp(&b), None | Some(Greater))),
        "geu" => floats!(t, |a, b| matches!(a.partial_cmp(&b), None | Some(Greater | Equal))),
        "num" => floats!(t, |a, b| a.partial_cmp(&b).is_some()),
        "nan" => floats!(t, |a, b| a.partial_cmp(&b).is_none()),
        _ => return None,
    })
}

fn test(class: &str, t: &str) -> Option<Arity> {
    if t == "f16" {
        return None;
    }
    Some(match class {
        "finite" => floats!(t, |a| a.is_finite()),
        "infinite" => floats!(t, |a| a.is_infinite()),
        "number" => floats!(t, |a| !a.is_nan()),
        "notanumber" => floats!(t, |a| a.is_nan()),
        // Zeros are, too.
        "normal" => floats!(t, |a| a.is_normal() || a.classify() == std::num::FpCategory::Zero),
        "subnormal" => floats!(t, |a| a.classify() == std::num::FpCategory::Subnormal),
        _ => return None,
    })
}

/// Comparisons of the low and of the high halves of two words.
pub fn halves(op: &str) -> Option<[Arity; 2]> {
    macro_rules! pair {
        (|$a:ident, $b:ident| $e:expr) => {
            [
                op!(u32, |x, y| {
                    let ($a, $b) = (f16::from_bits(x as u16), f16::from_bits(y as u16));
                    $e
                }),
                op!(u32, |x, y| {
                    let ($a, $b) = (f16::from_bits((x >> 16) as u16), f16::from_bits((y >> 16) as u16));
                    $e
                }),
            ]
        };
    }
    let how = op.strip_prefix("setp.")?.strip_suffix(".f16x2")?;
    Some(match how {
        "eq" => pair!(|a, b| a == b),
        "neu" => pair!(|a, b| a != b),
        "lt" => pair!(|a, b| a < b),
        "le" => pair!(|a, b| a <= b),
        "gt" => pair!(|a, b| a > b),
        "ge" => pair!(|a, b| a >= b),
        _ => return None,
    })
}
