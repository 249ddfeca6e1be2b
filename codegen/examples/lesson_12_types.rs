//! Lesson 12: types. Where two meet, what is cast, what wraps, and what is refused.
//!
//! Every expression has one type. Operands of different types meet in one of them; a plain number takes the type of what it stands
//! beside. Nothing becomes wider by itself: the sum of two u8 is a u8, and wraps. To have room, cast first.
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_12_types
//! ```

use std::error::Error;
use sumsq_codegen::ScalarType::{Bool, F16, F32, F64, I16, I32, U8, U16, U32};
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Element, Pool};
use sumsq_codegen::{Expr, Input, Pipeline, ScalarType, Schedule, Source, Target, Var};

/// Types of operands, and the one in which they meet.
const MEETINGS: [[ScalarType; 3]; 7] = [
    // The wider of two that are both signed, both unsigned or both floats.
    [U8, U16, U16],
    [I16, I32, I32],
    [F32, F64, F64],
    // The float of a float and an integer, also where the integer is wider.
    [F32, I32, F32],
    [F16, U16, F16],
    // The signed type of the greater width, where one is signed.
    [U8, I16, I16],
    [U32, I32, I32],
];

/// An expression of two operands.
type Value = fn(Expr, Expr) -> Expr;

/// Computes `value` of each pair of u8 in `PAIRS`, to a buffer of the type that the expression has.
fn computed<T: Element>(value: Value) -> Result<Vec<T>, Box<dyn Error>> {
    let [i] = Var::all(["i"]);
    let mut p = Pipeline::new("lesson_12");
    let input = p.input(Input::new("pairs", &[U8, U8], 1));
    let value = value(input.at(&[i.expr()], 0), input.at(&[i.expr()], 1));
    let ty = value.ty().scalar;
    let out = p.define("out", [i], value);
    p.output(&out);
    let n = PAIRS.len() as i32;
    let pairs = Buffer::new(BufferSpec::new(U8, &[n]).channels(2))?;
    pairs.copy_from(PAIRS.as_flattened())?;
    let out = Buffer::new(BufferSpec::new(ty, &[n]))?;
    Compiled::new(&p, &Schedule::new(), &Target::host())?.run(
        &Pool::new(1),
        &[("pairs", &pairs), ("out", &out)],
        &[],
    )?;
    Ok(out.to_vec())
}

const PAIRS: [[u8; 2]; 4] = [[200, 100], [7, 2], [255, 255], [3, 0]];

fn wanted<T>(value: fn(u8, u8) -> T) -> Vec<T> {
    PAIRS.into_iter().map(|[a, b]| value(a, b)).collect()
}

/// Returns why a pipeline with this value of a u8 and an i32 is not compiled.
fn refused(value: Value) -> String {
    let [i] = Var::all(["i"]);
    let mut p = Pipeline::new("refused");
    let input = p.input(Input::new("bytes", &[U8], 1));
    let f = p.define("f", [i], value(input.of(i), i.expr()));
    p.output(&f);
    Compiled::new(&p, &Schedule::new(), &Target::host()).err().map_or(String::new(), |e| e.to_string())
}

pub fn main() -> Result<(), Box<dyn Error>> {
    for [a, b, both] in MEETINGS {
        let [one, other] = [a, b].map(|ty| Expr::param(ty.name(), ty));
        assert_eq!((one + other).ty().scalar, both, "{a:?} and {b:?}");
    }
    // Comparisons are of type bool; a number has the type of the other operand.
    let byte = Expr::param("byte", U8);
    assert_eq!([byte.lt(3).ty().scalar, (&byte * 3).ty().scalar], [Bool, U8]);

    // Integers wrap at the ends of their range. A cast gives room, and a cast back cuts off what does not fit.
    assert_eq!(computed::<u8>(|a, b| a + b)?, wanted(u8::wrapping_add));
    assert_eq!(computed::<u16>(|a, b| a.cast(U16) + b)?, wanted(|a, b| u16::from(a) + u16::from(b)));
    assert_eq!(computed::<u8>(|a, b| (a.cast(U16) + b).cast(U8))?, wanted(u8::wrapping_add));
    // A difference of unsigned numbers has no sign, unless it is one of signed numbers.
    assert_eq!(computed::<u8>(|a, b| b - a)?, wanted(|a, b| b.wrapping_sub(a)));
    assert_eq!(computed::<i16>(|a, b| b.cast(I16) - a)?, wanted(|a, b| i16::from(b) - i16::from(a)));

    // Operations that stay within the range, each one instruction where the processor has it.
    assert_eq!(computed::<u8>(|a, b| a.saturating_add(b))?, wanted(u8::saturating_add));
    assert_eq!(computed::<u8>(|a, b| (a.cast(U16) * b).saturating_cast(U8))?, wanted(u8::saturating_mul));
    assert_eq!(
        computed::<u8>(|a, b| a.halving_add(b))?,
        wanted(|a, b| ((u16::from(a) + u16::from(b)) / 2) as u8)
    );
    assert_eq!(computed::<u8>(|a, b| a.absd(b))?, wanted(u8::abs_diff));

    // Division by zero is 0. Quotients of integers are rounded so that the remainder is never negative.
    assert_eq!(computed::<u8>(|a, b| a / b)?, wanted(|a, b| a.checked_div(b).unwrap_or(0)));
    assert_eq!(
        computed::<i32>(|a, b| (a.cast(I32) - 205) / (b.cast(I32) + 1))?,
        wanted(|a, b| { (i32::from(a) - 205).div_euclid(i32::from(b) + 1) })
    );

    // A float meets the integers that stand beside it. To f32 and back, each step rounded.
    assert_eq!(computed::<f32>(|a, b| a * 0.5f32 + b)?, wanted(|a, b| f32::from(a) * 0.5 + f32::from(b)));
    assert_eq!(
        computed::<u8>(|a, _| (a.cast(F32) * 0.3 + 0.5).cast(U8))?,
        wanted(|a, _| (f32::from(a) * 0.3 + 0.5) as u8)
    );

    // What a type does not have is refused, and so are operations that it does not have.
    let faults: [(Value, &str); 4] = [
        (|byte, _| byte * 300, "300:i64 is no u8"),
        (|byte, _| byte * 0.5, "is no u8"),
        (|byte, i| byte.lt(3) + i.lt(3), "Add of bool"),
        (|byte, _| byte.sqrt(), "Sqrt of u8"),
    ];
    for (fault, said) in faults {
        let refused = refused(fault);
        println!("refused: {refused}");
        assert!(refused.contains(said), "{refused}");
    }
    Ok(())
}
