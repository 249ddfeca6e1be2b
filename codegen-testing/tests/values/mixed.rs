//! Tuples of several types in buffers: one for each element, of the same domain and strides.

use crate::bindings;
use sumsq_codegen::runtime::{Buffer, Dimension, Pool, View};
use sumsq_codegen::{Constraint, Error, Expr, Func, Input, Pipeline, ScalarType, Schedule, Var};
use sumsq_codegen_testing::native::{agree_over, compile};
use sumsq_codegen_testing::reference::{Realization, Value};

const TYPES: [ScalarType; 3] = [ScalarType::U8, ScalarType::F32, ScalarType::I64];

/// `f = (in.0 + 1, in.1 * 2, in.2 + in.0)`, then all doubled by an update if `updated`.
fn tuple(updated: bool) -> Pipeline {
    let [vx, vy] = ["x", "y"].map(Var::new);
    let at = [vx.expr(), vy.expr()];
    let mut p = Pipeline::new("mixed");
    let i = p.input(Input::strided("in", &TYPES, 2));
    let [a, b, c] = [0, 1, 2].map(|k| i.at(&at, k));
    let f = Func::new("f", &[vx, vy], vec![a.clone() + 1, b * 2.0, c + a.cast(ScalarType::I64)]);
    let twice: Vec<Expr> = (0..3).map(|k| f.at(&at, k) + f.at(&at, k)).collect();
    let f = if updated { f.update(at.to_vec(), twice, Default::default()) } else { f };
    let f = p.func(f);
    p.output_strided(&f, Constraint::defaults(2));
    p
}

#[test]
fn every_element_has_a_buffer() {
    let mut input = Realization::zeros(&TYPES, &[9, 5]).moved_to(&[-2, 3]);
    let n = input.planes[0].len();
    input.planes = TYPES
        .iter()
        .enumerate()
        .map(|(k, ty)| (0..n).map(|i| Value::of(*ty, (i * 7 % 23 + 100 * k) as f64)).collect())
        .collect();
    for updated in [false, true] {
        for text in ["", "f: split(x, xo, xi, 4, auto) vectorize(xi) parallel(y)"] {
            let s = Schedule::parse(text).expect("text");
            let b = bindings(vec![("in", input.clone())]);
            agree_over(&tuple(updated), &s, &b, &[vec![(-2, 9), (3, 5)]]);
            agree_over(&tuple(updated), &s, &b, &[vec![(0, 3), (4, 2)]]);
        }
    }
}

/// Buffers of a tuple that do not look alike are refused, as are layouts that give every type another pitch.
#[test]
fn refusals() {
    let compiled = compile(&tuple(false), &Schedule::new()).expect("legal");
    let mut memory =
        (vec![0u8; 64], vec![0f32; 64], vec![0i64; 64], vec![0u8; 64], vec![0f32; 64], vec![0i64; 64]);
    let dense = Dimension::dense(&[4, 3]);
    let mut run = |last: &[Dimension]| {
        let (a, b, c, d, e, f) = &mut memory;
        let views = [
            View::new(a, &dense),
            View::new(b, &dense),
            View::new(c, &dense),
            View::new(d, &dense),
            View::new(e, &dense),
            View::new(f, last),
        ]
        .map(|v| v.expect("fits"));
        let names = ["in.0", "in.1", "in.2", "f.0", "f.1", "f.2"];
        let buffers: Vec<(&str, &Buffer)> = names.into_iter().zip(views.iter().map(|v| &**v)).collect();
        compiled.run(&Pool::new(1), &buffers, &[]).map_err(|e: Error| e.to_string())
    };
    assert_eq!(run(&dense), Ok(()));
    let error = |what: &str, d: usize, want: i32, is: i32| {
        Err(format!("mixed: f.2: the {what} of dimension {d} must be {want}, it is {is}"))
    };
    assert_eq!(run(&Dimension::dense(&[4, 2])), error("extent", 1, 3, 2));
    assert_eq!(run(&[Dimension::new(0, 4, 1), Dimension::new(0, 3, 5)]), error("stride", 1, 4, 5));
    assert_eq!(run(&[Dimension::new(1, 4, 1), Dimension::new(0, 3, 4)]), error("minimum", 0, 0, 1));

    let mut p = tuple(false);
    let f = p.funcs["f"].clone();
    p.outputs.clear();
    p.output(&f);
    assert_eq!(
        compile(&p, &Schedule::new()).err().map(|e| e.to_string()).as_deref(),
        Some(
            "pipeline mixed: f has values of several types, which lie in strided buffers, one for each, and not in place of \
             others"
        )
    );
}
