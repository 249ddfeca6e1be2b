//! Golden texts.

use super::*;
use crate::ir::verify::{Level, verify};
use crate::schedule::ForKind;

fn v(n: &str) -> Expr {
    Expr::var(n)
}
fn call(name: &str, args: &[Expr], value: usize) -> Expr {
    Expr::call(name, ScalarType::F32, args.to_vec(), value)
}
fn provide(func: &str, args: &[Expr], values: Vec<Expr>, to: Target) -> Stmt {
    Stmt::Provide { func: func.into(), args: args.to_vec(), values, to }
}
fn f32s(n: usize) -> Vec<ScalarType> {
    vec![ScalarType::F32; n]
}

#[test]
fn a_folded_ring_below_an_output() {
    let mut env = FlattenEnv::default();
    let ring = Intermediate {
        types: f32s(1),
        memory: Memory::Heap,
        fold: vec![None, Some(4)],
        pad: vec![None; 2],
        order: (0..2).collect(),
        zeroed: false,
    };
    env.funcs.insert("p".into(), ring);
    env.inputs.insert("in".into(), External::new("in", &f32s(1), Layout::Planar));
    env.outputs.insert("q".into(), External::new("q", &f32s(1), Layout::Planar));
    let (x, y) = (v("x"), v("y"));
    let at = [x.clone(), y.clone()];
    let make = provide("p", &at, vec![call("in", &[x.clone() + 1, y.clone()], 0)], Target::Intermediate);
    let above = call("p", &[x.clone(), y.clone() - 1], 0);
    let take = provide("q", &at, vec![above + call("p", &at, 0)], Target::Output);
    let region = vec![(v("x0") - 1, v("w") + 2), (v("y0") - 1, v("h"))];
    let s = Stmt::Realize { func: "p".into(), region, body: Box::new(block(vec![make, take])) };
    let text = flatten(&s, &env).to_string();
    assert_eq!(
        text,
        "\
let p.min.0 = x0 - 1
let p.pitch.1 = (i64(w) + 1:i64) / 16:i64 * 16:i64 + select(((i64(w) + 1:i64) / 16:i64 * 16:i64 + 16:i64) % 1024:i64 == 0:i64, 16:i64, 0:i64) + 16:i64
let p.min.1 = y0 - 1
let p.size = p.pitch.1 * 4:i64
allocate p.0: f32[p.size]
p.0[i64(x) - i64(p.min.0) + i64(y % 4) * p.pitch.1] = in.0[i64(x) + i64(y) * in.stride.1 + 1:i64]
q.0[i64(x) + i64(y) * q.stride.1] = p.0[i64(x) - i64(p.min.0) + i64((y + 3) % 4) * p.pitch.1] + p.0[i64(x) - i64(p.min.0) + i64(y % 4) * p.pitch.1]
"
    );
}

#[test]
fn a_leading_dimension_of_one_element_takes_no_pitch() {
    let mut env = FlattenEnv::default();
    let sums = Intermediate {
        types: f32s(1),
        memory: Memory::Register,
        fold: vec![None; 3],
        pad: vec![None; 3],
        order: (0..3).collect(),
        zeroed: false,
    };
    env.funcs.insert("p".into(), sums);
    let at = [v("s"), v("l"), v("k")];
    let make = provide("p", &at, vec![Expr::from(0.0f32)], Target::Intermediate);
    let region = vec![(v("s"), Expr::from(1)), (0.into(), Expr::from(20)), (0.into(), Expr::from(2))];
    let s = Stmt::Realize { func: "p".into(), region, body: Box::new(make) };
    // Rows of the first dimension with several elements start at multiples of 16.
    let text = "allocate p.0: f32[64:i64] in registers\np.0[i64(l) + i64(k) * 32:i64] = 0f\n";
    assert_eq!(flatten(&s, &env).to_string(), text);
}

/// Rows of `extent` elements of these types on the heap or the stack: the elements of two.
fn two_rows(types: &[ScalarType], memory: Memory, extent: i32) -> i64 {
    let (fold, pad) = (vec![None; 2], vec![None; 2]);
    let types = types.to_vec();
    let rows = Intermediate { types, memory, fold, pad, order: vec![0, 1], zeroed: false };
    let mut env = FlattenEnv::default();
    env.funcs.insert("p".into(), rows);
    let region = vec![(0.into(), Expr::from(extent)), (0.into(), Expr::from(2))];
    let body = Box::new(Stmt::Block(vec![]));
    match flatten(&Stmt::Realize { func: "p".into(), region, body }, &env) {
        Stmt::Allocate { extent, .. } => extent.as_int().expect("a constant"),
        s => panic!("{s}"),
    }
}

#[test]
fn rows_on_the_heap_are_whole_lines_unless_they_are_shorter() {
    use ScalarType::{F32, F64, U8, U16};
    for (types, extent, pitch) in [
        (&[U8][..], 64, 64),
        (&[U8], 65, 128),
        (&[U8], 63, 64),
        (&[U8], 33, 48),
        (&[U8], 15, 15),
        (&[U16], 32, 32),
        (&[U16], 33, 64),
        (&[U16], 17, 32),
        (&[F32], 33, 48),
        (&[F64], 17, 32),
        (&[U8, F32], 65, 128),
    ] {
        assert_eq!(two_rows(types, Memory::Heap, extent), 2 * pitch, "{types:?}, {extent}");
    }
    assert_eq!(two_rows(&[U8], Memory::Stack, 65), 160);
}

#[test]
fn records_put_channels_innermost() {
    let mut env = FlattenEnv::default();
    env.inputs.insert("r".into(), External::new("r", &f32s(3), Layout::Record(4)));
    env.outputs.insert("o".into(), External::new("o", &f32s(2), Layout::Planar));
    let at = [v("x")];
    let values = vec![call("r", &at, 0), call("r", &[v("x") + 1], 2)];
    let text = flatten(&provide("o", &at, values, Target::Output), &env).to_string();
    assert_eq!(text, "o.0[i64(x)] = r[i64(x) * 4:i64]\no.1[i64(x)] = r[i64(x) * 4:i64 + 6:i64]\n");
}

#[test]
fn tuple_values_are_computed_before_any_store() {
    let mut env = FlattenEnv::default();
    env.outputs.insert("o".into(), External::new("o", &f32s(2), Layout::Planar));
    let at = [v("x")];
    let (a, b) = (call("o", &at, 0), call("o", &at, 1));
    // No value reads what an earlier store changes.
    let own = provide("o", &at, vec![a.clone() + b.clone(), b.clone() * b.clone()], Target::Output);
    assert_eq!(
        flatten(&own, &env).to_string(),
        "o.0[i64(x)] = o.0[i64(x)] + o.1[i64(x)]\no.1[i64(x)] = o.1[i64(x)] * o.1[i64(x)]\n"
    );
    let swap = provide("o", &at, vec![b, a], Target::Output);
    assert_eq!(
        flatten(&swap, &env).to_string(),
        "let o.value.0 = o.1[i64(x)]\nlet o.value.1 = o.0[i64(x)]\no.0[i64(x)] = o.value.0\no.1[i64(x)] = o.value.1\n"
    );
}

#[test]
fn flat_statements_pass_the_verifier() {
    let mut env = FlattenEnv::default();
    let mut out = External::new("q", &f32s(1), Layout::Planar);
    out.non_temporal = Some(Expr::param("nt", ScalarType::I32));
    env.outputs.insert("q".into(), out);
    let body = provide("q", &[v("x"), v("y")], vec![Expr::from(1.0f32)], Target::Output);
    let for_ = |var: &str, body: Stmt| Stmt::For {
        var: var.into(),
        min: Expr::from(0),
        extent: Expr::from(8),
        kind: ForKind::Serial,
        body: Box::new(body),
    };
    let s = for_("y", for_("x", body));
    assert_eq!(verify(&s, Level::Multi), Ok(()));
    let flat = flatten(&s, &env);
    assert_eq!(verify(&flat, Level::Flat), Ok(()));
    assert!(flat.to_string().contains("if nt != 0 {"), "{flat}");
    assert!(flat.to_string().contains("= 1f streaming"), "{flat}");
}

#[test]
fn integers_of_tuples_are_data() {
    let mut env = FlattenEnv::default();
    env.outputs.insert("o".into(), External::new("o", &[ScalarType::I32; 2], Layout::Planar));
    let at = [v("x")];
    let old = Expr::call("o", ScalarType::I32, at.to_vec(), 0);
    let wraps = provide("o", &at, vec![v("x") * 1_000_003, old], Target::Output);
    assert_eq!(
        flatten(&wraps, &env).to_string(),
        "let o.value.0 = bits_as_i32(x * 1000003)\nlet o.value.1 = bits_as_i32(o.0[i64(x)])\n\
         o.0[i64(x)] = o.value.0\no.1[i64(x)] = o.value.1\n"
    );
}
