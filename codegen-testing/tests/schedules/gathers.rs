//! gather: a coordinate that is computed as a loop of its own.

use crate::support::{plane, refused, schedule};
use sumsq_codegen::ScalarType::F32;
use sumsq_codegen::{Expr, Func, Pipeline, RDom, ScalarType};
use sumsq_codegen_testing::check::{bindings, check, pattern};
use sumsq_codegen_testing::native::{agree, compile, execute};
use sumsq_codegen_testing::reference::Bindings;

const SIZE: [usize; 2] = [11, 37];
/// Of `in`, with a border that not all rows of the output have.
const SOURCE: [usize; 2] = [9, 41];

/// The way from a row of the input to the first of five rows that it may add to: `(y by + to) / of`.
#[derive(Clone, Copy)]
struct Way {
    by: i32,
    to: i32,
    of: i32,
}
const WAYS: [Way; 4] = [
    Way { by: 1, to: -2, of: 1 },
    Way { by: 1, to: 6, of: 2 },
    Way { by: 2, to: -9, of: 1 },
    Way { by: -1, to: 30, of: 1 },
];

/// `out(x, y) = op(out(x, y), in)` at places that the input tells: x anywhere, y near `way` of the row, kept within the rows; where the input is no
/// multiple of 5.
fn scatter(way: Way, op: impl Fn(Expr, Expr) -> Expr) -> (Pipeline, Bindings) {
    let (mut p, i, vars) = plane("scatter");
    let r = RDom::new([("rx", Expr::from(0), i.extent(0)), ("ry", Expr::from(0), i.extent(1))]);
    let pixel = i.at(&[r.var(0), r.var(1)], 0);
    let x = (&pixel * 3 + r.var(0)).modulo(SIZE[0] as i32);
    let y = ((r.var(1) * way.by + way.to) / way.of + pixel.modulo(5)).clamp(0, SIZE[1] as i32 - 1);
    let out = Func::new("out", &vars, vec![Expr::from(1)]);
    let at = [x, y];
    let value = op(out.at(&at, 0), pixel.clone());
    let r = r.filter(pixel.modulo(5).ne_(0));
    let out = p.func(out.update(at.to_vec(), vec![value], r));
    p.output(&out);
    (p, bindings(vec![("in", pattern(&[ScalarType::I32], &SOURCE, 9))], vec![]))
}

const STRIPS: &str =
    "out.update(0): gather(y) split(y, strip, row, 5, guard) reorder(row, rx, ry, strip) parallel(strip)";

/// Under any loops each element has its terms in the order of the domain: also of an update that does not commute, and of floats.
#[test]
fn the_order_of_terms_stays() {
    for way in WAYS {
        for (p, b) in [scatter(way, |f, e| f + e), scatter(way, |f, e| f * 3 + e)] {
            for text in [
                "out.update(0): gather(y)",
                "out.update(0): gather(y) parallel(y)",
                "out.update(0): gather(x) parallel(x)",
                STRIPS,
                "out.update(0): gather(y) split(y, strip, row, 16, predicate) reorder(row, rx, ry, strip) parallel(strip)",
                "out.update(0): gather(y) split(y, strip, row, 64, guard) reorder(row, rx, ry, strip)",
                "out.update(0): gather(y) gather(x) split(y, yo, yi, 8, guard) split(x, xo, xi, 4, guard)
                 reorder(xi, yi, rx, ry, xo, yo) parallel(xo) parallel(yo)",
                "out.update(0): gather(x) split(x, xo, xi, 4, predicate) reorder(xi, rx, ry, xo) vectorize(xi)",
                "out.update(0): gather(y) split(y, strip, row, 4, guard) reorder(row, rx, ry, strip) unroll(row)",
                "out.update(0): split(ry, ro, ri, 8, guard) gather(y) split(y, strip, row, 8, guard)
                 reorder(row, rx, ri, ro, strip) parallel(strip)",
            ] {
                let s = schedule(text);
                check(&p, &s, &b, &[SIZE.to_vec()], 0.0);
                agree(&p, &s, &b, &[SIZE.to_vec()]);
            }
        }
    }
    let op = |f: Expr, e: Expr| (f.cast(F32) * 0.3 + e.cast(F32).sqrt()).cast(ScalarType::I32);
    let (p, b) = scatter(WAYS[0], op);
    agree(&p, &schedule(STRIPS), &b, &[SIZE.to_vec()]);
}

/// Lanes of the domain that have one place add up there, also where the loop over places is inside of them.
#[test]
fn lanes_meet() {
    for way in WAYS {
        let (p, b) = scatter(way, |f, e| f + e);
        for order in ["y, x, rx, ro, ri", "y, ri, x, rx, ro", "ri, y, x, rx, ro"] {
            let text = format!(
                "out.update(0): gather(y) gather(x) split(ry, ro, ri, 8, guard) reorder({order}) vectorize(ri)"
            );
            agree(&p, &schedule(&text), &b, &[SIZE.to_vec()]);
        }
    }
}

/// A strip of rows has one loop inside of the domain's, none for its rows, and goes through the rows alone that reach it.
#[test]
fn only_rows_that_reach_a_strip_are_read() {
    let [width, height] = SOURCE;
    let last = SIZE[1] as i32 - 1;
    for way in WAYS {
        let (p, b) = scatter(way, |f, e| f + e);
        let loops = p.print_loop_nest(&schedule(STRIPS)).unwrap();
        assert!(!loops.contains("for row"), "{loops}");
        let [once, strips] = ["", STRIPS].map(|text| check(&p, &schedule(text), &b, &[SIZE.to_vec()], 0.0));
        let reaches = |strip: i32, y: usize| {
            let first = (y as i32 * way.by + way.to).div_euclid(way.of);
            let [first, end] = [first, first + 4].map(|y| y.clamp(0, last));
            end >= strip * 5 && first <= (strip * 5 + 4).min(last)
        };
        let number = SIZE[1].div_ceil(5);
        let all = (0..number as i32).flat_map(|strip| (0..height).map(move |y| (strip, y)));
        let reached = all.filter(|(strip, y)| reaches(*strip, *y)).count();
        let more = number + number * height + reached * width;
        let before = once.counters.iterations - height - height * width;
        assert_eq!(strips.counters.iterations - before, more, "{}", strips.nests);
        assert!(reached < height * 3, "{reached} rows");
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    let (p, b) = scatter(WAYS[2], |f, e| f * 3 + e);
    let compiled = compile(&p, &schedule(STRIPS)).unwrap();
    let domain = SIZE.map(|n| (0, n)).to_vec();
    let run = |threads| execute(&p, &compiled, &b, &[domain.clone()], threads).unwrap();
    let one = run(1);
    for threads in [2, 3, 5, 8] {
        assert_eq!(run(threads)[0].planes, one[0].planes, "{threads} threads");
    }
}

#[test]
fn refusals() {
    let (p, _) = scatter(WAYS[0], |f, e| f + e);
    for (text, rule) in [
        ("out.update(0): gather(z)", "the Func has no such dimension"),
        ("out: gather(y)", "y is a loop already"),
        ("out.update(0): gather(y) gather(y)", "y is a loop already"),
        ("out.update(0): rename(ry, y) gather(y)", "y already names"),
        ("out.update(0): specialize(in.extent.0 > 4) { } gather(y)", "gather first"),
        ("out.update(0): gather(y) parallel(ry)", "may write the same element"),
    ] {
        let came = refused(&p, &schedule(text));
        assert!(came.contains(rule), "{text}: {came}");
    }
    let (mut p, i, vars) = plane("next");
    let r = RDom::new([("r", 0, 8)]);
    let out = Func::new("out", &vars, vec![Expr::from(0)]);
    let place = |by: i32| [r.var(0), i.at(&[r.var(0), Expr::from(0)], 0).clamp(0, 7) + by];
    let value = out.at(&place(1), 0) + 1;
    let out = p.func(out.update(place(0).to_vec(), vec![value], r.clone()));
    p.output(&out);
    let came = refused(&p, &schedule("out.update(0): gather(y)"));
    assert!(came.contains("reads another element"), "{came}");
}
