//! Update definitions against plain loops: scans, predicates, histograms, scatters, tuples, several outputs.

use crate::{bindings, row};
use sumsq_codegen::func::extent_param;
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::schedule::{LoopLevel, Schedule, Tail};
use sumsq_codegen::{Constraint, Expr, Func, Input, Pipeline, RDom, ScalarType, Var};
use sumsq_codegen_testing::native::{agree, compile};
use sumsq_codegen_testing::reference::{Bindings, Realization, Value};

const I32: ScalarType = ScalarType::I32;
const U8: ScalarType = ScalarType::U8;

fn number(x: i64, y: i64) -> i64 {
    (x * x * 5 + y * 7 + x * y).rem_euclid(23) - 9
}

fn picture(ty: ScalarType, w: usize, h: usize) -> Realization {
    let value = |c: &[i32], _| ty.wrap(number(c[0] as i64, c[1] as i64)) as f64;
    Realization::from_fn(&[ty], &[w, h], value)
}

fn xy() -> ([Var; 2], [Expr; 2]) {
    let vars = [Var::new("x"), Var::new("y")];
    let at = [vars[0].expr(), vars[1].expr()];
    (vars, at)
}

fn int(r: &Realization, at: &[i32], k: usize) -> i64 {
    r.get(at, k).and_then(Value::as_int).unwrap_or_else(|| panic!("no integer at {at:?}"))
}

/// Summed areas: a scan along x, then one along y that reads it.
#[test]
fn scans_in_two_directions() {
    let (w, h) = (19, 8);
    let mut p = Pipeline::new("areas");
    let (vars, at) = xy();
    let i = p.input(Input::new("in", &[I32], 2));
    let f = Func::new("f", &vars, vec![i.at(&at, 0)]);
    let along = |name: &str, d: usize| RDom::new([(name, Expr::from(1), i.extent(d) - 1)]);
    let (rx, ry) = (along("rx", 0), along("ry", 1));
    let here = [rx.var(0), at[1].clone()];
    let sum = f.at(&here, 0) + f.at(&[rx.var(0) - 1, at[1].clone()], 0);
    let f = f.update(here.to_vec(), vec![sum], rx);
    let here = [at[0].clone(), ry.var(0)];
    let sum = f.at(&here, 0) + f.at(&[at[0].clone(), ry.var(0) - 1], 0);
    let f = p.func(f.update(here.to_vec(), vec![sum], ry));
    p.output(&f);
    let mut s = Schedule::new();
    s.func("f").vectorize("x", 8, Tail::Predicate);
    s.update("f", 0).parallel("y");
    s.update("f", 1).vectorize("x", 8, Tail::Predicate).reorder(&["xi", "ry", "xo"]).parallel("xo");
    for s in [Schedule::new(), s] {
        let r = &agree(&p, &s, &bindings(vec![("in", picture(I32, w, h))]), &[vec![w, h]])[0];
        for at in r.points() {
            let area = (0..=at[0]).flat_map(|x| (0..=at[1]).map(move |y| number(x as i64, y as i64)));
            assert_eq!(int(r, &at, 0), area.sum::<i64>(), "{at:?}");
        }
    }
}

/// A recurrence of two terms that runs backwards, in a type that wraps.
#[test]
fn a_backward_recurrence_wraps() {
    let n = 40;
    let mut p = Pipeline::new("backwards");
    let x = Var::new("x");
    let i = p.input(Input::new("in", &[U8], 1));
    let f = Func::new("f", std::slice::from_ref(&x), vec![i.at(&[x.expr().max(0).min(i.extent(0) - 1)], 0)]);
    let r = RDom::new([("r", Expr::from(2), i.extent(0) - 2)]);
    let place = |k: i64| [i.extent(0) - 1 - r.var(0) + k];
    let value = f.at(&place(0), 0) + f.at(&place(1), 0) * 3 - f.at(&place(2), 0);
    let f = p.func(f.update(place(0).to_vec(), vec![value], r.clone()));
    p.output(&f);
    let start: Vec<u8> = (0..n).map(|k| (k * 37 % 256) as u8).collect();
    let given = row(U8, start.iter().map(|&v| Value::Int(v as i64)).collect());
    let r = &agree(&p, &Schedule::new(), &bindings(vec![("in", given)]), &[vec![n]])[0];
    let mut want = start;
    for k in (0..n - 2).rev() {
        want[k] = want[k].wrapping_add(want[k + 1].wrapping_mul(3)).wrapping_sub(want[k + 2]);
    }
    assert_eq!(r.planes[0], want.into_iter().map(|v| Value::Int(v as i64)).collect::<Vec<_>>());
}

/// Four reduction variables, some with bounds that depend on the pure variable, and a predicate on all of them and the data.
#[test]
fn a_predicate_over_four_variables() {
    let n = 12;
    let mut p = Pipeline::new("predicate");
    let x = Var::new("x");
    let i = p.input(Input::new("in", &[I32], 1));
    let r = RDom::new([
        ("a", Expr::from(0), Expr::from(3)),
        ("b", Expr::from(-1), Expr::from(4)),
        ("c", x.expr().modulo(3), Expr::from(2)),
        ("d", Expr::from(0), x.expr() / 4),
    ]);
    let [a, b, c, d] = [0, 1, 2, 3].map(|k| r.var(k));
    let at = (x.expr() + &a - &b + &c * &d).max(0).min(i.extent(0) - 1);
    let read = i.at(std::slice::from_ref(&at), 0);
    let r = r.filter((&a + &b).le(&c + 1)).filter(read.gt(-3)).filter(d.ne_(x.expr()));
    let f = p.func(Func::sum("f", &[x], r, vec![&read * &(a * 100 + b * 10 + c + 1), Expr::from(1)]));
    p.output(&f);
    let values: Vec<i64> = (0..n).map(|k| number(k, 1)).collect();
    let given = row(I32, values.iter().map(|&v| Value::Int(v)).collect());
    let mut s = Schedule::new();
    s.update("f", 0).vectorize("x", 4, Tail::Predicate);
    for s in [Schedule::new(), s] {
        let r = &agree(&p, &s, &bindings(vec![("in", given.clone())]), &[vec![n as usize]])[0];
        for x in 0..n {
            let (mut sum, mut count) = (0, 0);
            for (d, c, b, a) in (0..x / 4).flat_map(|d| {
                let cs = x % 3..x % 3 + 2;
                cs.flat_map(move |c| (-1..3).flat_map(move |b| (0..3).map(move |a| (d, c, b, a))))
            }) {
                let v = values[(x + a - b + c * d).clamp(0, n - 1) as usize];
                if a + b <= c + 1 && v > -3 && d != x {
                    sum += v * (a * 100 + b * 10 + c + 1);
                    count += 1;
                }
            }
            assert_eq!((int(r, &[x as i32], 0), int(r, &[x as i32], 1)), (sum, count), "at {x}");
        }
    }
}

/// A two-dimensional histogram in a small type, and its cumulative sums, as two outputs.
#[test]
fn histograms_and_several_outputs() {
    let (w, h) = (33, 17);
    let mut p = Pipeline::new("histogram");
    let (vars, _) = xy();
    let i = p.input(Input::new("in", &[U8], 2));
    let r = RDom::new([("rx", Expr::from(0), i.extent(0)), ("ry", Expr::from(0), i.extent(1))]);
    let bins = [(i.at(&[r.var(0), r.var(1)], 0) / 32).cast(I32), r.var(1).modulo(3)];
    let f = Func::new("counts", &vars, vec![Expr::int(U8, 0)]);
    let more = f.at(&bins, 0) + 5;
    let f = p.func(f.update(bins.to_vec(), vec![more], r));
    p.output(&f);
    let (vars, at) = xy();
    let c = Func::new("sums", &vars, vec![f.at(&at, 0).cast(I32)]);
    let r = RDom::new([("r", Expr::from(1), Expr::from(7))]);
    let value = c.at(&[r.var(0), at[1].clone()], 0) + c.at(&[r.var(0) - 1, at[1].clone()], 0);
    let c = p.func(c.update(vec![r.var(0), at[1].clone()], vec![value], r));
    p.output(&c);
    let b = bindings(vec![("in", picture(U8, w, h))]);
    let mut s = Schedule::new();
    s.func("counts").compute_root();
    s.func("sums").parallel("y");
    for s in [Schedule::new(), s] {
        let r = agree(&p, &s, &b, &[vec![8, 3], vec![8, 3]]);
        let mut counts = [[0u8; 8]; 3];
        for (x, y) in (0..w).flat_map(|x| (0..h).map(move |y| (x, y))) {
            let bin = number(x as i64, y as i64) as u8 / 32;
            counts[y % 3][bin as usize] = counts[y % 3][bin as usize].wrapping_add(5);
        }
        for (y, counts) in counts.iter().enumerate() {
            let mut sum = 0;
            for (x, &n) in counts.iter().enumerate() {
                sum += n as i64;
                let at = [x as i32, y as i32];
                assert_eq!((int(&r[0], &at, 0), int(&r[1], &at, 0)), (n as i64, sum), "{at:?}");
            }
        }
    }
}

/// A scatter far beyond the output: what falls outside is computed all the same, and not stored to the output.
#[test]
fn scatters_beyond_the_output() {
    let mut p = Pipeline::new("scatter");
    let x = Var::new("x");
    let i = p.input(Input::new("in", &[I32], 1));
    let f = Func::new("f", std::slice::from_ref(&x), vec![x.expr() * 1000]);
    let r = RDom::new([("r", Expr::from(0), i.extent(0))]);
    let to = i.at(&[r.var(0)], 0).max(-50).min(50);
    let from = Expr::from(3) - &to;
    let value = f.at(&[from], 0) + r.var(0);
    let f = p.func(f.update(vec![to], vec![value], r));
    p.output_strided(&f, Constraint::defaults(1));
    let targets: Vec<i64> = (0..60).map(|k| number(k, k) * 4).collect();
    let b = bindings(vec![("in", row(I32, targets.iter().map(|&v| Value::Int(v)).collect()))]);
    let domain = vec![(-5, 12)];
    let r =
        &sumsq_codegen_testing::native::agree_over(&p, &Schedule::new(), &b, std::slice::from_ref(&domain))
            [0];
    let mut all: Vec<i64> = (-100..=100).map(|x| x * 1000).collect();
    for (k, &t) in targets.iter().enumerate() {
        let t = t.clamp(-50, 50);
        all[(t + 100) as usize] = all[(3 - t + 100) as usize] + k as i64;
    }
    for x in -5..7 {
        assert_eq!(int(r, &[x], 0), all[(x + 100) as usize], "at {x}");
    }
    sumsq_codegen_testing::check::try_check_over(&p, &Schedule::new(), &b, &[domain], 0.0).unwrap();
}

/// All values of an update are computed before any is stored: a tuple of numbers that follow one another.
#[test]
fn tuples_step_together() {
    let mut p = Pipeline::new("tuple");
    let x = Var::new("x");
    let f = Func::new("f", std::slice::from_ref(&x), vec![x.expr(), Expr::from(1), Expr::from(7)]);
    let r = RDom::new([("r", Expr::from(0), Expr::from(20))]);
    let [a, b, c] = [0, 1, 2].map(|k| f.at(&[x.expr()], k));
    let next = vec![b.clone(), &a + &b, (c * 31 + a + r.var(0)).modulo(1009)];
    let f = p.func(f.update(vec![x.expr()], next, r));
    p.output(&f);
    let mut s = Schedule::new();
    s.update("f", 0).vectorize("x", 8, Tail::Predicate);
    for s in [Schedule::new(), s] {
        let r = &agree(&p, &s, &Bindings::default(), &[vec![13]])[0];
        for x in 0..13i32 {
            let mut v = (x, 1i32, 7i32);
            for k in 0..20 {
                v = (v.1, v.0.wrapping_add(v.1), (v.2 * 31 + v.0 + k).rem_euclid(1009));
            }
            let got = [0, 1, 2].map(|k| int(r, &[x], k) as i32);
            assert_eq!(got, [v.0, v.1, v.2], "at {x}");
        }
    }
}

/// A Func with updates inside the loops of its consumer starts anew there.
#[test]
fn updates_inside_a_consumer() {
    let mut p = Pipeline::new("inside");
    let (vars, at) = xy();
    let i = p.input(Input::new("in", &[I32], 2));
    let r = RDom::new([("r", Expr::from(0), Expr::from(4))]);
    let least =
        p.minimum("least", &r, i.at(&[at[0].clone().max(0), (&at[1] + &r.var(0)).min(i.extent(1) - 1)], 0));
    let f = p.func(Func::new("f", &vars, vec![least * 2]));
    p.output(&f);
    let mut s = Schedule::new();
    s.func("f").vectorize("x", 4, Tail::GuardWithIf);
    s.func("least").compute_at(LoopLevel::pure("f", "y")).vectorize("x", 4, Tail::Predicate);
    s.update("least", 0).vectorize("x", 4, Tail::Predicate).reorder(&["xi", "r", "xo"]);
    let b = bindings(vec![("in", picture(I32, 11, 9))]);
    for s in [Schedule::new(), s] {
        let r = &agree(&p, &s, &b, &[vec![11, 9]])[0];
        for at in r.points() {
            let (x, y) = (at[0] as i64, at[1] as i64);
            let least = (0..4).map(|k| number(x, (y + k).min(8))).min().unwrap();
            assert_eq!(int(r, &at, 0), 2 * least, "{at:?}");
        }
    }
}

/// An output in place of the input that it starts from: only the updates run.
#[test]
fn updates_in_place_of_an_input() {
    use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool};
    let mut p = Pipeline::new("in_place");
    let x = Var::new("x");
    let i = p.input(Input::new("in", &[I32], 1));
    let f = Func::new("f", std::slice::from_ref(&x), vec![i.at(&[x.expr()], 0)]);
    let r = RDom::new([("r", Expr::from(0), extent_param("f", 0) / 2)]);
    let to = r.var(0) * 2;
    let value = f.at(std::slice::from_ref(&to), 0) * 10 + f.at(&[&to + 1], 0);
    let f = p.func(f.update(vec![to], vec![value], r));
    p.output(&f);
    let mut s = Schedule::new();
    s.func("f").in_place_of("in");
    let body =
        lower(&p, &s, &LowerOptions { verify: true, ..LowerOptions::default() }).unwrap().body.to_string();
    assert_eq!(body.matches("f.0[").count(), 3, "one store of two loads: {body}");
    let compiled = compile(&p, &s).unwrap_or_else(|e| panic!("{e}"));
    let buffer = Buffer::new(BufferSpec::new(I32, &[9])).unwrap();
    buffer.copy_from(&[1, 2, 3, 4, 5, 6, 7, 8, 9]).unwrap();
    compiled.run(&Pool::new(1), &[("in", &buffer), ("f", &buffer)], &[]).unwrap();
    assert_eq!(buffer.to_vec::<i32>(), [12, 2, 34, 4, 56, 6, 78, 8, 9]);
}
