//! Buffers anywhere in memory: minima, strides, borrowed slices, domains that are shifted or part of the whole, constraints,
//! ranges of parameters.

use crate::bindings;
use sumsq_codegen::func::extent_param;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Dimension, Pool, Scalar, View};
use sumsq_codegen::schedule::{LoopLevel, Schedule, Tail};
use sumsq_codegen::{Constraint, Error, Expr, Func, Input, Layout, Pipeline, ScalarType, Var, boundary};
use sumsq_codegen_testing::check::try_check_over;
use sumsq_codegen_testing::native::{agree, agree_over, compile};
use sumsq_codegen_testing::reference::{Bindings, Realization, Value};

const I32: ScalarType = ScalarType::I32;

/// Blur of a strided input, with an intermediate Func, to a strided output.
fn blur(input: Input, constraints: Vec<Constraint>) -> Pipeline {
    let mut p = Pipeline::new("blur");
    let (vx, vy) = (Var::new("x"), Var::new("y"));
    let (x, y) = (vx.expr(), vy.expr());
    let i = p.input(input);
    let sum = i.at(&[&x - 1, y.clone()], 0) + i.at(&[&x + 1, y.clone()], 0);
    let g = p.func(Func::new("g", &[vx, vy], vec![sum]));
    let sum = g.at(&[x.clone(), &y - 1], 0) + g.at(&[x.clone(), &y + 1], 0) * 3 + &x * &y;
    let f = p.func(Func::new("f", &[vx, vy], vec![sum]));
    p.output_strided(&f, constraints);
    p
}

fn strided() -> Pipeline {
    blur(Input::strided("in", &[I32], 2), Constraint::defaults(2))
}

/// A value of every point, whatever the domain.
fn value(at: &[i32]) -> i32 {
    (at[0] * 31 + at[1] * 17).rem_euclid(101) - 40
}

fn image(min: [i32; 2], extents: [usize; 2]) -> Realization {
    let mut r = Realization::zeros(&[I32], &extents).moved_to(&min);
    r.planes[0] = r.points().iter().map(|at| Value::Int(value(at) as i64)).collect();
    r
}

fn blurred(at: &[i32]) -> i32 {
    let g = |x: i32, y: i32| value(&[x - 1, y]) + value(&[x + 1, y]);
    g(at[0], at[1] - 1) + g(at[0], at[1] + 1) * 3 + at[0] * at[1]
}

fn schedules() -> Vec<Schedule> {
    let mut root = Schedule::new();
    root.func("g").compute_root().vectorize("x", 8, Tail::RoundUp);
    root.func("f").vectorize("x", 8, Tail::Predicate).parallel("y");
    let mut sliding = Schedule::new();
    sliding.func("f").vectorize("x", 4, Tail::GuardWithIf);
    sliding.func("g").compute_at(LoopLevel::pure("f", "y")).vectorize("x", 4, Tail::Predicate);
    vec![Schedule::new(), root, sliding]
}

#[test]
fn shifted_and_partial_domains() {
    let p = strided();
    let whole = image([-30, -20], [70, 50]);
    for s in schedules() {
        for (min, extent) in
            [([0, 0], [13, 7]), ([-17, 3], [16, 4]), ([5, -12], [1, 1]), ([-21, -19], [40, 3])]
        {
            let domain = vec![(min[0], extent[0]), (min[1], extent[1])];
            let b = bindings(vec![("in", whole.clone())]);
            let r = &agree_over(&p, &s, &b, std::slice::from_ref(&domain))[0];
            for at in r.points() {
                assert_eq!(r.get(&at, 0), Some(Value::Int(blurred(&at) as i64)), "{at:?}");
            }
            // The smallest input that is enough, on checked memory.
            let tight = image([min[0] - 1, min[1] - 1], [extent[0] + 2 + 7, extent[1] + 2]);
            try_check_over(&p, &s, &bindings(vec![("in", tight)]), &[domain], 0.0).unwrap();
        }
    }
}

/// Memory in use by others: every second column of an image that lies upside down, and part of a larger one.
#[test]
fn borrowed_memory_is_touched_inside_only() {
    let p = strided();
    let constraint = |stride| vec![Constraint::new().stride(stride), Constraint::new()];
    let input = Input::strided("in", &[I32], 2).constrain(0, Constraint::new().stride(2));
    let every_second = blur(input, constraint(1));
    for s in schedules() {
        for (p, step) in [(&p, 1usize), (&every_second, 2)] {
            let compiled = compile(p, &s).unwrap();
            let (w, h) = (37 + 10, 11 + 2);
            let at = |x: usize, y: usize| y * (w * step + 5) + x * step;
            let mut source = vec![i32::MIN; at(w, h)];
            for (x, y) in (0..w).flat_map(|x| (0..h).map(move |y| (x, y))) {
                source[at(x, h - 1 - y)] = value(&[x as i32 - 3, y as i32 + 100]);
            }
            let row = (w * step + 5) as i64;
            let dims = [Dimension::new(-3, w as i32, step as i64), Dimension::new(100, h as i32, -row)];
            let mut target = vec![-7; 40 * 20 + 3];
            {
                let input = View::reading(&source, &dims).unwrap();
                let dims = [Dimension::new(-2, 37, 1), Dimension::new(101, 11, 40)];
                let output = View::new(&mut target[3..], &dims).unwrap();
                compiled.run(&Pool::new(2), &[("in", &input), ("f", &output)], &[]).unwrap();
            }
            for (i, &v) in target.iter().enumerate() {
                let (x, y) = ((i as i32 - 3).rem_euclid(40), (i as i32 - 3).div_euclid(40));
                let inside = i >= 3 && x < 37 && y < 11;
                let want = if inside { blurred(&[x - 2, y + 101]) } else { -7 };
                assert_eq!(v, want, "at {x}, {y}");
            }
        }
    }
}

/// Interleaved colours: the third dimension is the fastest.
#[test]
fn interleaved_channels() {
    let mut p = Pipeline::new("grey");
    let [x, y, c] = ["x", "y", "c"].map(Var::new);
    let colour = |d: usize| Constraint::new().stride([3, 0, 1][d]);
    let i = Input::strided("in", &[ScalarType::U8], 3)
        .constrain(0, colour(0))
        .constrain(2, colour(2).min(0).extent(3));
    let i = p.input(i);
    let at = |k: i32| i.at(&[x.expr(), y.expr(), Expr::from(k)], 0).cast(ScalarType::U16);
    let grey = p.func(Func::new("grey", &[x, y], vec![(at(0) + at(1) * 2 + at(2)) / 4]));
    let sum = i
        .at(&[x.expr(), y.expr(), c.expr()], 0)
        .halving_add(grey.at(&[x.expr(), y.expr()], 0).cast(ScalarType::U8));
    let f = p.func(Func::new("f", &[x, y, c], vec![sum]));
    p.output_strided(&f, vec![colour(0), Constraint::new(), colour(2)]);
    let mut s = Schedule::new();
    s.func("f")
        .reorder(&["c", "x", "y"])
        .split("x", "xo", "xi", 8, Tail::Predicate)
        .reorder(&["c", "xi", "xo", "y"]);
    for s in [Schedule::new(), s] {
        let rgb: Vec<u8> = (0..20 * 4 * 3).map(|i| (i * i % 251) as u8).collect();
        let dims = [Dimension::new(0, 20, 3), Dimension::new(0, 4, 60), Dimension::new(0, 3, 1)];
        let mut out = vec![0u8; rgb.len()];
        {
            let (input, output) = (View::reading(&rgb, &dims).unwrap(), View::new(&mut out, &dims).unwrap());
            compile(&p, &s).unwrap().run(&Pool::new(1), &[("in", &input), ("f", &output)], &[]).unwrap();
        }
        for (p, q) in rgb.chunks(3).zip(out.chunks(3)) {
            let grey = (p[0] as u16 + 2 * p[1] as u16 + p[2] as u16) / 4;
            for k in 0..3 {
                assert_eq!(q[k] as u16, (p[k] as u16 + grey) / 2);
            }
        }
    }
}

/// A boundary condition follows the domain of its input.
#[test]
fn boundary_of_a_shifted_input() {
    let mut p = Pipeline::new("edge");
    let (x, y) = (Var::new("x"), Var::new("y"));
    let i = p.input(Input::strided("in", &[I32], 2));
    let b = p.func(boundary::mirror_interior("b", &i, &i.domain()));
    let f = p.func(Func::new("f", &[x, y], vec![b.at(&[x.expr(), y.expr()], 0)]));
    p.output_strided(&f, Constraint::defaults(2));
    let b: Bindings = bindings(vec![("in", image([5, -9], [4, 3]))]);
    let r = &agree_over(&p, &Schedule::new(), &b, &[vec![(-3, 25), (-20, 30)]])[0];
    for at in r.points() {
        let fold = |c: i32, min: i32, n: i32| {
            let c = (c - min).rem_euclid(2 * n - 2);
            min + c.min(2 * n - 2 - c)
        };
        let want = value(&[fold(at[0], 5, 4), fold(at[1], -9, 3)]);
        assert_eq!(r.get(&at, 0), Some(Value::Int(want as i64)), "{at:?}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let n = Expr::param("n", I32);
    let fixed = Constraint::new().min(2).extent(&(n.clone() * 4)).stride(1);
    let mut p = blur(Input::strided("in", &[I32], 2).constrain(0, fixed), Constraint::defaults(2));
    p.param_in("n", I32, 1, 100);
    let compiled = compile(&p, &Schedule::new()).unwrap();
    let mut memory = vec![0; 1000];
    let mut target = vec![0; 1000];
    let mut run = |dims: [Dimension; 2], n: i32| -> String {
        let input = View::new(&mut memory, &dims).unwrap();
        let dims = [Dimension::new(3, 10, 1), Dimension::new(0, 5, 10)];
        let output = View::new(&mut target, &dims).unwrap();
        let result = compiled.run(&Pool::new(1), &[("in", &input), ("f", &output)], &[("n", Scalar::I32(n))]);
        result.err().map_or(String::new(), |e| e.to_string())
    };
    let rows = Dimension::new(-1, 7, 40);
    let d = Dimension::new;
    assert_eq!(run([d(2, 12, 1), rows], 3), "");
    assert_eq!(run([d(1, 12, 1), rows], 3), "blur: in: the minimum of dimension 0 must be 2, it is 1");
    assert_eq!(run([d(2, 13, 1), rows], 3), "blur: in: the extent of dimension 0 must be 12, it is 13");
    assert_eq!(run([d(2, 12, 2), rows], 3), "blur: in: the stride of dimension 0 must be 1, it is 2");
    assert_eq!(run([d(2, 12, 1), rows], 101), "blur: n: 101 is not in [1, 100]");
    assert_eq!(
        run([d(2, 8, 1), rows], 2),
        "blur: in is read beyond dimension 0 by f: from, to, first readable, last readable, missing before, missing behind: 2, 13, 2, 9, 0, 4"
    );
    assert_eq!(
        run([d(2, 12, 1), d(0, 7, 40)], 3),
        "blur: in is read beyond dimension 1 by f: from, to, first readable, last readable, missing before, missing behind: -1, 5, 0, 6, 1, 0"
    );
}

#[test]
fn buffers_of_the_wrong_kind_are_refused() {
    let mut p = Pipeline::new("copy");
    let x = Var::new("x");
    let i = p.input(Input::new("in", &[I32], 1));
    let f = p.func(Func::new("f", std::slice::from_ref(&x), vec![i.at(&[x.expr()], 0)]));
    p.output_strided(&f, Constraint::defaults(1));
    let compiled = compile(&p, &Schedule::new()).unwrap();
    let (a, mut b) = (vec![0; 8], vec![0; 8]);
    let dims = Dimension::dense(&[8]);
    let view = View::reading(&a, &dims).unwrap();
    let planar = Buffer::new(BufferSpec::new(I32, &[8])).unwrap();
    let shifted = Buffer::new(BufferSpec::new(I32, &[8]).starting_at(&[1])).unwrap();
    let output = View::new(&mut b, &dims).unwrap();
    let run = |i: &Buffer, f: &Buffer| {
        let result = compiled.run(&Pool::new(1), &[("in", i), ("f", f)], &[]);
        result.err().map_or(String::new(), |e| e.to_string())
    };
    assert_eq!(run(&planar, &output), "");
    assert_eq!(run(&view, &output), "copy: in: expected layout Planar, got Strided");
    assert_eq!(run(&shifted, &output), "copy: in: expected coordinates from 0 on, got a minimum of [1]");
    assert_eq!(run(&planar, &view), "copy: f: is written to, but its memory was borrowed for reading");
    let two = Buffer::new(BufferSpec::new(I32, &[8, 1])).unwrap();
    assert_eq!(run(&two, &output), "copy: in: expected 1 dimensions, got 2");
    let other = Buffer::new(BufferSpec::new(ScalarType::F32, &[8])).unwrap();
    assert_eq!(run(&other, &output), "copy: in: expected elements of type i32, got f32");
}

#[test]
fn declarations_are_checked() {
    let text = |input: Input| {
        compile(&blur(input, Constraint::defaults(2)), &Schedule::new()).err().unwrap().to_string()
    };
    let mut short = Input::strided("in", &[I32], 2);
    short.constraints.pop();
    assert_eq!(text(short), "pipeline blur: in needs 2 constraints, it has 1");
    let mut halo = Input::strided("in", &[I32], 2);
    halo.halo = vec![1, 0];
    assert_eq!(text(halo), "pipeline blur: input in is strided and has a halo");
    let undeclared = Constraint::new().extent(Expr::param("n", I32));
    assert_eq!(
        text(Input::strided("in", &[I32], 2).constrain(1, undeclared)),
        "pipeline blur: a constraint of in: parameter n: i32 is not declared"
    );
    let wide = Constraint::new().min(extent_param("in", 0).cast(ScalarType::I64));
    assert_eq!(
        text(Input::strided("in", &[I32], 2).constrain(1, wide)),
        "pipeline blur: a constraint of in is no i32 known before the run: i64(in.extent.0)"
    );
    let mut s = Schedule::new();
    s.func("f").in_place_of("in");
    let e = compile(&strided(), &s).err().unwrap();
    assert!(matches!(e, Error::Schedule { .. }));
    assert_eq!(e.to_string(), "f: in_place_of(in): its buffer is strided: minimum and strides are unknown");
}

/// Slots of records in vectors of every length.
#[test]
fn records_in_vectors() {
    for lanes in [2, 3, 4, 8, 12, 20] {
        let mut p = Pipeline::new("records");
        let x = Var::new("x");
        let mut input = Input::new("in", &[I32, I32], 1);
        input.layout = Layout::Record(4);
        let i = p.input(input);
        let value = i.at(&[x.expr()], 0) * 3 - i.at(&[x.expr()], 1);
        let f = p.func(Func::new("f", std::slice::from_ref(&x), vec![value]));
        p.output(&f);
        let mut s = Schedule::new();
        s.func("f").vectorize("x", lanes, Tail::Predicate);
        let records =
            Realization::from_fn(&[I32, I32], &[47], |at, k| f64::from(at[0] * at[0] + 7 * k as i32));
        agree(&p, &s, &bindings(vec![("in", records)]), &[vec![47]]);
    }
}
