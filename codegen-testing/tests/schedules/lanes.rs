//! Vectors of other lengths than the processor's: the same values on every target.

use crate::support::plane;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Dimension, Pool, View};
use sumsq_codegen::{
    Constraint, Func, Input, Layout, Pipeline, RDom, ScalarType, Schedule, Source, Tail, Target, Var,
};

const F64: ScalarType = ScalarType::F64;
const EXTENTS: [i32; 2] = [53, 3];

/// `out(x, y) = g(x, y) + g(x, y) * in(x, y)`, `g(x, y)` the sum of `in(x + r, y)` over r = 0, 1, 2, all in f64.
fn pipeline() -> Pipeline {
    let (mut p, i, vars) = plane("lanes");
    let at = [vars[0].expr(), vars[1].expr()];
    let r = RDom::new([("r", 0, 3)]);
    let g = Func::new("g", &vars, vec![i.at(&at, 0).cast(F64)]);
    let sum = g.at(&at, 0) + i.at(&[&at[0] + r.var(0), at[1].clone()], 0).cast(F64);
    let g = p.func(g.update(at.to_vec(), vec![sum], r));
    let out = p.func(Func::new("out", &vars, vec![g.at(&at, 0) + g.at(&at, 0) * i.at(&at, 0).cast(F64)]));
    p.output(&out);
    p
}

fn schedule(lanes: i32, tail: Tail) -> Schedule {
    let mut s = Schedule::new();
    s.func("out").vectorize("x", lanes, tail).non_temporal(1.into());
    s.func("g").compute_root().vectorize("x", lanes, Tail::Predicate);
    s.update("g", 0).reorder(&["r", "x"]).vectorize("x", lanes, Tail::Predicate);
    s
}

fn value(x: i32, y: i32) -> i32 {
    7 * x + y * y - 3
}

fn wanted(x: i32, y: i32) -> f64 {
    let g = (0..3).map(|r| value(x + r, y)).sum::<i32>() + value(x, y);
    f64::from(g + g * value(x, y))
}

fn input() -> Buffer {
    let input = Buffer::new(BufferSpec::new(ScalarType::I32, &[EXTENTS[0] + 2, EXTENTS[1]])).expect("memory");
    for (x, y) in (0..EXTENTS[0] + 2).flat_map(|x| (0..EXTENTS[1]).map(move |y| (x, y))) {
        assert!(input.set(&[x, y], 0, i64::from(value(x, y))));
    }
    input
}

#[test]
fn any_number_of_lanes_gives_the_same_values() {
    let buffer = |ty, extents: &[i32]| Buffer::new(BufferSpec::new(ty, extents)).expect("memory");
    let (input, pool) = (input(), Pool::new(1));
    for lanes in [4, 8, 16, 32] {
        for tail in [Tail::Predicate, Tail::ShiftInwards] {
            let target = Target::host().with_lanes(lanes);
            let compiled =
                Compiled::new(&pipeline(), &schedule(target.lanes, tail), &target).expect("compiles");
            let out = buffer(F64, &EXTENTS);
            compiled.run(&pool, &[("in", &input), ("out", &out)], &[]).expect("runs");
            for (x, y) in (0..EXTENTS[0]).flat_map(|x| (0..EXTENTS[1]).map(move |y| (x, y))) {
                assert_eq!(
                    out.get::<f64>(&[x, y], 0),
                    Some(wanted(x, y)),
                    "{lanes} lanes, {tail:?}, at {x}, {y}"
                );
            }
        }
    }
}

/// Stores around the caches where nothing is known of addresses: at each place of the first element and for rows at any distance, no element but
/// those of the output changes, and each has its value.
#[test]
fn stores_around_the_caches_may_begin_anywhere() {
    let mut p = pipeline();
    p.outputs[0].layout = Layout::Strided;
    p.outputs[0].constraints = Constraint::defaults(2);
    let pool = Pool::new(1);
    let input = input();
    for tail in [Tail::Predicate, Tail::ShiftInwards] {
        let compiled = Compiled::new(&p, &schedule(8, tail), &Target::host()).expect("compiles");
        for (first, pitch) in (0..9).flat_map(|first| [53, 56, 61, 64].map(|pitch| (first, pitch))) {
            let mut memory = vec![-1.0f64; first + 3 * pitch + 8];
            {
                let steps = [1, pitch as i64];
                let dims = [0, 1].map(|d| Dimension::new(0, EXTENTS[d], steps[d]));
                let out = View::new(&mut memory[first..], &dims).expect("room");
                compiled.run(&pool, &[("in", &input), ("out", &out)], &[]).expect("runs");
            }
            for (i, &found) in memory.iter().enumerate() {
                let (x, y) = (i.wrapping_sub(first) % pitch, i.wrapping_sub(first) / pitch);
                let inside = i >= first && x < EXTENTS[0] as usize && y < EXTENTS[1] as usize;
                let expected = if inside { wanted(x as i32, y as i32) } else { -1.0 };
                assert_eq!(found, expected, "element {i}, rows of {pitch} from {first}, {tail:?}");
            }
        }
    }
}

/// Sums of products that may be fused, a quotient and a function, of rows that may lie anywhere as those of the output may.
fn rounded() -> Pipeline {
    let mut p = Pipeline::new("rounded");
    let [x, y] = Var::all(["x", "y"]);
    let input = p.input(Input::strided("in", &[ScalarType::F32], 2));
    let near = |dx: i32| input.of((x + dx, y));
    let sum = near(0) * 0.3f32 + near(1) * near(2) * 1.7f32 + near(2) * near(0);
    let out = p.define("out", [x, y], (sum.clone() * 0.1f32).exp() / (sum.clone() * sum + 0.7f32));
    p.output_strided(&out, Constraint::defaults(2));
    p
}

/// Bits of the output, whose first element and whose input's lie so many elements behind a line of a cache, rows this far apart.
fn bits_at(compiled: &Compiled, pool: &Pool, [from, to]: [usize; 2], pitch: usize) -> Vec<u32> {
    let [width, height] = EXTENTS.map(|n| n as usize);
    let dims =
        |width: usize| [Dimension::new(0, width as i32, 1), Dimension::new(0, height as i32, pitch as i64)];
    let (mut read, mut written) =
        (vec![f32::NAN; 16 + 16 + height * pitch], vec![0.0f32; 16 + 16 + height * pitch]);
    let [read_line, line] = [read.as_ptr(), written.as_ptr()].map(|start| start.align_offset(64));
    for (x, y) in (0..width + 2).flat_map(|x| (0..height).map(move |y| (x, y))) {
        read[read_line + from + y * pitch + x] = (x as f32 * 0.37 + y as f32 * 1.9).sin();
    }
    {
        let input = View::reading(&read[read_line + from..], &dims(width + 2)).expect("room");
        let out = View::new(&mut written[line + to..], &dims(width)).expect("room");
        compiled.run(pool, &[("in", &input), ("out", &out)], &[]).expect("runs");
    }
    let rows = (0..height).map(|y| &written[line + to + y * pitch..][..width]);
    rows.flatten().map(|v| v.to_bits()).collect()
}

/// Code for vectors that are aligned and code for those that are not compute the same bits, also where operations may be reordered.
#[test]
fn addresses_do_not_change_a_bit() {
    let (p, pool) = (rounded(), Pool::new(3));
    let mut all = vec![];
    for (tail, around) in [(Tail::Predicate, 1), (Tail::ShiftInwards, 1), (Tail::Predicate, 0)] {
        let mut s = Schedule::new();
        s.func("out").relaxed().vectorize("x", 8, tail).parallel("y").non_temporal(around.into());
        let compiled = Compiled::new(&p, &s, &Target::host()).expect("compiles");
        for to in 0..16 {
            // Rows of whole lines, and others.
            all.extend([64, 80, 61].map(|pitch| bits_at(&compiled, &pool, [3 * to % 16, to], pitch)));
        }
    }
    assert!(all.iter().all(|bits| *bits == all[0]), "bits follow addresses");
    assert!(all[0].iter().collect::<std::collections::BTreeSet<_>>().len() > 100);
}
