//! Functions of floats: how far off they may be, where they are looked at, and values that are known to many digits.

use sumsq_codegen::functions::Function;

/// Units in the last place that a function may be off, in f32 and in f64: the table of the definitions.
pub fn bound(f: Function) -> (f64, f64) {
    match f {
        Function::Abs => (0.0, 0.0),
        Function::Sqrt => (0.5, 0.5),
        Function::Sin | Function::Cos | Function::Exp | Function::Log => (2.5, 2.0),
        // Seen: 3.4 near odd multiples of pi/4, of 200,000 operands up to 1000.
        // In f64: 2.53 there, of 40 operands beyond 1e9.
        Function::Tan => (3.5, 3.0),
        Function::Asinh | Function::Acosh | Function::Atanh => (3.0, 3.0),
        Function::Log10 => (1.0, 1.0),
        Function::Pow => (1.5, 1.5),
        _ => (2.5, 2.5),
    }
}

/// Ends of the interval on which a function of f32 is looked at.
pub fn interval(f: Function) -> (f64, f64) {
    match f {
        Function::Acos | Function::Asin | Function::Atanh => (-1.0, 1.0),
        Function::Acosh => (1.0, 1e3),
        Function::Log | Function::Log10 | Function::Sqrt => (0.0, 10.0),
        Function::Exp | Function::Sinh | Function::Cosh => (-87.0, 87.0),
        Function::Tan => (-1e3, 1e3),
        _ => (-10.0, 10.0),
    }
}

/// A value of a function of f64, computed with 120 digits or more: the sum of two floats.
#[derive(Clone, Debug)]
pub struct Known {
    /// The function.
    pub function: Function,
    /// Its operands.
    pub operands: Vec<f64>,
    /// The float next to the value.
    pub high: f64,
    /// The rest.
    pub low: f64,
}

/// Values of all functions but those that are exact.
pub fn known() -> impl Iterator<Item = Known> {
    let files = [
        include_str!("../tests/golden/expand_math/f64.txt"),
        include_str!("../tests/golden/expand_math/defined.txt"),
    ];
    files.into_iter().flat_map(str::lines).filter(|l| !l.starts_with('#')).map(|line| {
        let (name, numbers) = line.split_once(' ').expect("a function and numbers");
        let function = Function::named(name).expect("a function");
        let mut numbers: Vec<f64> = numbers
            .split_whitespace()
            .map(|s| f64::from_bits(u64::from_str_radix(s, 16).expect("bits")))
            .collect();
        let rest = numbers.split_off(function.arity());
        Known { function, operands: numbers, high: rest[0], low: rest[1] }
    })
}
