//! Instructions of inner loops, for processors with AVX2, with AVX-512, and with NEON.

use ScalarType::*;
use sumsq_codegen::{
    Constraint, Expr, Func, Input, Pipeline, RDom, ScalarType, Schedule, Source, Tail, Target, Var, boundary,
};
use sumsq_codegen_testing::assembly::{Loop, avx2, avx2_vnni, avx512, avx512_vbmi, avx512_vnni, neon};

/// `out(x) = value(in(x))` in vectors of `lanes`.
fn map(from: ScalarType, lanes: i32, target: &Target, value: impl Fn(Expr) -> Expr) -> Loop {
    let mut p = Pipeline::new("map");
    let x = Var::new("x").expr();
    let value = value(p.input(Input::new("in", &[from], 1)).at(&[x], 0));
    row(p, value, lanes, target, false)
}

/// `out(x) = value` in vectors of `lanes`.
fn row(mut p: Pipeline, value: Expr, lanes: i32, target: &Target, relaxed: bool) -> Loop {
    let out = p.func(Func::new("out", &[Var::new("x")], vec![value]));
    p.output(&out);
    let mut s = Schedule::new();
    let stage = s.func("out").bound("x", 0, 4096).vectorize("x", lanes, Tail::Predicate);
    if relaxed {
        stage.relaxed().reciprocals();
    }
    Loop::innermost(&p, &s, target)
}

/// Conversions that saturate, with the most instructions for AVX2 and AVX-512 besides loads and stores.
#[test]
fn saturating_conversions_are_few_instructions() {
    let cases = [
        (F32, I32, 16, [12, 6]),
        (F32, U32, 16, [18, 4]),
        (F32, U8, 32, [18, 8]),
        (F32, I8, 32, [26, 12]),
        (F32, U16, 16, [8, 4]),
        (F32, I16, 16, [12, 6]),
        (F64, I32, 8, [10, 5]),
        (F64, U32, 8, [20, 4]),
        (F64, U8, 16, [19, 8]),
        (F16, U8, 32, [22, 10]),
        (F16, I32, 16, [20, 8]),
        (F32, I64, 8, [40, 6]),
        (F32, U64, 8, [52, 4]),
        (F64, I64, 8, [40, 6]),
        (F64, U64, 8, [50, 4]),
    ];
    let mut over = vec![];
    for (from, to, lanes, most) in cases {
        let found = [avx2(), avx512()].map(|target| map(from, lanes, &target, |v| v.cast(to)).work());
        if found[0] > most[0] || found[1] > most[1] {
            over.push(format!("{lanes} {} to {}: {found:?} of {most:?}", from.name(), to.name()));
        }
    }
    assert_eq!(over, [""; 0]);
}

#[test]
fn what_is_clamped_to_bytes_is_converted_and_packed() {
    let clamped = |v: Expr| v.clamp(0.0f32, 255.0f32).cast(U8);
    let found = map(F32, 32, &avx2(), clamped);
    // Four conversions, three packs and their permutations; what is clamped is not clamped again.
    let counts = ["vcvttps2dq", "vpackusdw", "vpackuswb", "vpermq", "vminps"].map(|n| found.count(n));
    assert_eq!(counts, [4, 2, 1, 3, 4], "{found}");
    assert_eq!(found.work(), 10 + 4 + 8, "{found}");
    let found = map(F32, 32, &avx512(), clamped);
    let counts = ["vcvttps2dq", "vpmovdb", "vmaxps", "vminps"].map(|n| found.count(n));
    assert_eq!((counts, found.work()), ([2, 2, 2, 2], 8), "{found}");
}

/// A byte by a number of at most 16 bits has 32 bits, and is multiplied by what multiplies words: vpmulld would take twice as long.
#[test]
fn bytes_are_multiplied_as_words() {
    for ((a, b), (target, vectors)) in
        [(U8, I8), (U8, U8), (U8, I16)].into_iter().flat_map(|ty| [(ty, (avx2(), 2)), (ty, (avx512(), 1))])
    {
        let mut p = Pipeline::new("taps");
        let [x] = Var::all(["x"]);
        let [f, w] = [("f", a), ("w", b)].map(|(name, ty)| p.input(Input::new(name, &[ty], 1)));
        let tap = |k: i32| f.of(x + k).cast(I32) * w.of(k).cast(I32);
        let found = row(p.clone(), tap(0) + tap(1) + tap(2), 16, &target, false);
        let counts = ["vpmaddwd", "vpmulld", "vpaddd"].map(|n| found.count(n));
        assert_eq!(counts, [3 * vectors, 0, 2 * vectors], "{found}");
    }
}

/// `f(x) += term(a, b, x, k)` for k in [0, n), a vector of `lanes` sums at a time, each of n lanes.
fn neighbours(
    types: [ScalarType; 2],
    n: i32,
    lanes: i32,
    target: &Target,
    term: impl Fn(&Input, &Input, Expr, Expr) -> Expr,
) -> Loop {
    let mut p = Pipeline::new("neighbours");
    let [x] = Var::all(["x"]);
    let [a, b] = [("a", types[0]), ("b", types[1])].map(|(name, ty)| p.input(Input::new(name, &[ty], 1)));
    let k = RDom::new([("k", Expr::from(0), Expr::from(n))]);
    let f = p.define("f", [x], Expr::from(0));
    let f = p.add_to(&f, x, term(&a, &b, Expr::from(x), k.var(0)), &k);
    p.output(&f);
    let text =
        format!("f: bound(x, 0, 4096)  f.update(0): vectorize(x, {lanes}) reorder(k, xi, x) vectorize(k)");
    Loop::innermost(&p, &Schedule::parse(&text).expect("text"), target)
}

/// Products and distances of neighbours are added by the instruction that makes them: one for a vector, and the sum with what was there.
#[test]
fn neighbours_are_added_at_once() {
    let both = |n: i32| {
        move |a: &Input, b: &Input, x: Expr, k: Expr| {
            a.of(x.clone() * n + &k).cast(I32) * b.of(x * n + &k).cast(I32)
        }
    };
    let taps =
        |n: i32| move |a: &Input, b: &Input, x: Expr, k: Expr| a.of(x * n + &k).cast(I32) * b.of(k).cast(I32);
    let pair = |name, target, lanes| {
        for found in [
            neighbours([I16, I16], 2, lanes, &target, both(2)),
            neighbours([I16, I16], 2, lanes, &target, taps(2)),
        ] {
            assert_eq!(
                (found.count(name), found.count("vpmulld"), found.is_dense()),
                (1, 0, true),
                "{found}"
            );
            assert!(found.work() <= 3, "{found}");
        }
    };
    pair("vpmaddwd", avx2(), 8);
    pair("vpmaddwd", avx512(), 16);
    for (target, lanes) in [(avx2_vnni(), 8), (avx512_vnni(), 16)] {
        for found in [
            neighbours([U8, I8], 4, lanes, &target, both(4)),
            neighbours([I8, U8], 4, lanes, &target, taps(4)),
        ] {
            assert_eq!((found.count("vpdpbusd"), found.work()), (1, 1), "{found}");
        }
    }
    // Without it bytes are products of words, which no sum saturates.
    for (target, lanes) in [(avx2(), 8), (avx512(), 16)] {
        let found = neighbours([U8, I8], 4, lanes, &target, both(4));
        let counts = ["vpmaddwd", "vpmaddubsw", "vpmulld"].map(|n| found.count(n));
        assert_eq!((counts, found.is_dense()), ([2, 0, 0], true), "{found}");
        assert!(found.work() <= 12, "{found}");
    }
    let distances =
        |a: &Input, b: &Input, x: Expr, k: Expr| a.of(x.clone() * 8 + &k).absd(b.of(x * 8 + k)).cast(I32);
    for (target, lanes, most) in [(avx2(), 8, 6), (avx512(), 8, 3)] {
        let found = neighbours([U8, U8], 8, lanes, &target, distances);
        let vectors = (2 * lanes / target.lanes) as usize;
        assert_eq!((found.count("vpsadbw"), found.is_dense()), (vectors, true), "{found}");
        assert!(found.work() <= most, "{found}");
    }
}

/// Tiles of lanes read and write rows; transposed ones are turned in registers.
#[test]
fn tiles_are_rows() {
    let mut p = Pipeline::new("tiles");
    let [x, y] = Var::all(["x", "y"]);
    let a = p.input(Input::new("a", &[F32], 2));
    let straight = p.define("straight", [x, y], a.of((x, y)) * 3);
    let turned = p.define("turned", [x, y], a.of((y, x)) * 3);
    [straight, turned].iter().for_each(|f| {
        p.output(f);
    });
    let tile = |name: &str, order: &str| {
        format!(
            "{name}: bound(x, 0, 512) bound(y, 0, 512) split(x, x, xi, 4, guard) split(y, y, yi, 4, guard) \
             reorder({order}, x, y) vectorize(xi) vectorize(yi)\n"
        )
    };
    for (target, vectors) in [(avx2(), 2), (avx512(), 1)] {
        for order in ["xi, yi", "yi, xi"] {
            let s =
                Schedule::parse(&[tile("straight", order), tile("turned", order)].concat()).expect("text");
            let loops = Loop::all(&p, &s, &target);
            let found: Vec<&Loop> = loops.iter().filter(|l| l.count("vmulps") > 0).collect();
            assert_eq!(found.len(), 2);
            for found in found {
                assert_eq!((found.count("vmulps"), found.is_dense()), (vectors, true), "{order}\n{found}");
                assert!(found.work() <= 26, "{order}\n{found}");
            }
        }
    }
}

/// A column of a matrix beside each lane, and one sum in lanes by way of `rfactor`.
#[test]
fn products_of_bytes_are_added_wherever_they_lie() {
    let columns = || {
        let mut p = Pipeline::new("columns");
        let [x] = Var::all(["x"]);
        let four = RDom::new([("k", Expr::from(0), Expr::from(4))]);
        let m = p.input(Input::new("m", &[U8], 2));
        let v = p.input(Input::new("v", &[I8], 1));
        let f = p.define("f", [x], Expr::from(0));
        let f = p.add_to(&f, x, m.of((x, four.var(0))).cast(I32) * v.of(four.var(0)).cast(I32), &four);
        p.output(&f);
        p
    };
    for bound in ["f: bound(x, 0, 4096)", ""] {
        let text = format!("{bound} f.update(0): vectorize(x, 16) reorder(k, xi, x) vectorize(k)");
        let all = Loop::all(&columns(), &Schedule::parse(&text).expect("text"), &avx512_vnni());
        let found = all.iter().find(|l| l.count("vpdpbusd") > 0).expect("a product of bytes");
        assert_eq!((found.count("vpdpbusd"), found.is_dense()), (1, true), "{found}");
        assert!(found.work() <= 9, "{found}");
    }

    let mut p = Pipeline::new("product");
    let [a, b] = [("a", U8), ("b", I8)].map(|(name, ty)| p.input(Input::new(name, &[ty], 1)));
    let r = RDom::new([("r", Expr::from(0), a.extent(0))]);
    let total = p.define("total", [], Expr::from(0));
    let total = p.add_to(&total, (), a.of(r.var(0)).cast(I32) * b.of(r.var(0)).cast(I32), &r);
    p.output(&total);
    let text = |lanes: i32| {
        format!(
            "total.update(0): split(r, ro, ri, {}, guard) split(ri, rv, rk, 4, guard) rfactor(rv as v, into partial)
             partial: compute_root vectorize(v)
             partial.update(0): reorder(rk, v, ro) vectorize(v) vectorize(rk)",
            4 * lanes
        )
    };
    for (target, lanes) in [(avx2_vnni(), 8), (avx512_vnni(), 16)] {
        let s = Schedule::parse(&text(lanes)).expect("text");
        let all = Loop::all(&p, &s, &target);
        let found = all.iter().find(|l| l.count("vpdpbusd") > 0).expect("a product of bytes");
        assert!(found.work() <= found.count("vpdpbusd"), "{found}");
    }
}

/// Relaxed, a product that is added is one operation, and a quotient by a constant a product; marked strict, each stands as it is written.
#[test]
fn strict_operations_stand_as_they_are() {
    let names = ["vfmadd", "vmulps", "vaddps", "vdivps"];
    let of = |strict: bool, target: &Target| {
        let mut p = Pipeline::new("strict");
        let [x] = Var::all(["x"]);
        let [a, b, c] = ["a", "b", "c"].map(|name| p.input(Input::new(name, &[F32], 1)));
        let value = a.of(x) * b.of(x) + c.of(x) / 3;
        let found = row(p, if strict { value.strict_float() } else { value }, 16, target, true);
        names.map(|n| found.count(n))
    };
    for (target, vectors) in [(avx2(), 2), (avx512(), 1)] {
        assert_eq!(of(true, &target), [0, vectors, vectors, vectors]);
        let [fused, _, _, quotients] = of(false, &target);
        assert_eq!((fused, quotients), (vectors, 0));
    }
    // A strict value costs nothing where relaxed code takes it.
    let fenced = map(F32, 8, &avx2(), |v| (v.clone() * 0.3f32).strict_float() + v);
    assert_eq!(fenced.work(), 2, "{fenced}");
}

/// Lanes divide as floats, exactly; processors have no division of integers in vectors.
#[test]
fn lanes_divide_at_once() {
    for (ty, division) in [(U8, "vdivps"), (I16, "vdivps"), (I32, "vdivpd"), (U32, "vdivpd")] {
        for target in [avx2(), avx512()] {
            let found = map(ty, 16, &target, |v| v.clone() / (v % 7 + 2));
            assert_ne!(found.count(division), 0, "{found}");
            assert_eq!(["div", "idiv"].map(|n| found.count(n)), [0; 2], "{found}");
        }
    }
}

/// Four numbers beside each other in each lane are one load a lane, and no gather.
#[test]
fn neighbours_are_no_gathers() {
    let mut p = Pipeline::new("table");
    let x = Var::new("x").expr();
    let at = p.input(Input::new("in", &[U8], 1)).at(&[x], 0).cast(I32) * 4;
    let t = p.input(Input::new("t", &[F32], 1));
    let sum = (1..4).fold(t.at(std::slice::from_ref(&at), 0), |sum, k| sum + t.at(&[&at + k], 0));
    for target in [avx2(), avx512()] {
        let found = row(p.clone(), sum.clone(), 16, &target, false);
        assert!(found.is_dense(), "{found}");
    }
}

/// Neither are those that copies of an unrolled sum read one after the other.
#[test]
fn neighbours_of_copies_are_no_gathers() {
    let [x] = Var::all(["x"]);
    let mut p = Pipeline::new("filter");
    let first = p.input(Input::new("first", &[I32], 1));
    let t = p.input(Input::new("t", &[F32], 1));
    let k = RDom::new([("k", Expr::from(0), Expr::from(8))]);
    let sum = p.define("sum", [x], 0.0f32);
    let sum = p.add_to(&sum, x, t.of((first.of(x) % 64) + k.var(0)), &k);
    let out = p.define("out", [x], sum.of(x));
    p.output(&out);
    let text = "out: bound(x, 0, 4096) split(x, xo, xi, 16, guard) vectorize(xi)
        sum: compute_at(out, xo) bound_extent(x, 16) vectorize(x) store_in(register)
        sum.update(0): reorder(x, k) vectorize(x) unroll(k, 4, guard)";
    for target in [avx2(), avx512()] {
        let found = Loop::innermost(&p, &Schedule::parse(text).expect("text"), &target);
        assert!(found.is_dense(), "{found}");
    }
}

/// Lanes beyond a picture are a constant: rows are loaded under a mask, in the interior without one.
#[test]
fn constants_beyond_a_picture_are_masks() {
    let [x] = Var::all(["x"]);
    let mut p = Pipeline::new("padded");
    let input = p.input(Input::strided("in", &[F32], 1));
    let around = boundary::constant_exterior("around", &input, &input.domain(), &[Expr::float(F32, 7.0)]);
    let around = p.func(around);
    let out = p.define("out", [x], around.of(x - 1) * 2);
    p.output(&out);
    let schedule = Schedule::parse("out: bound(x, 0, 4096) vectorize(x, 16)").expect("text");
    for target in [avx2(), avx512()] {
        let loops: Vec<Loop> = Loop::all(&p, &schedule, &target).into_iter().filter(Loop::is_wide).collect();
        assert!(!loops.is_empty());
        for found in loops {
            assert!(found.is_dense(), "{found}");
        }
    }
}

/// A version for a stride loads as many vectors as it spans, and shuffles; one for a divisor does not divide.
#[test]
fn versions_know_strides_and_divisors() {
    let mut p = Pipeline::new("stripe");
    let [x] = Var::all(["x"]);
    let mut input = Input::strided("in", &[F32], 1);
    input.constraints = vec![Constraint::default()];
    let input = p.input(input);
    let by = p.param("by", F32);
    let out = p.define("out", [x], input.of(x) / by);
    p.output(&out);
    let found = |text: &str, target: &Target| {
        let all = Loop::all(&p, &Schedule::parse(text).expect("text"), target);
        all.into_iter().find(Loop::is_wide).expect("a loop of vectors")
    };
    for target in [avx2(), avx512()] {
        let plain = found("out: bound(x, 0, 4096) vectorize(x, 16)", &target);
        assert!(!plain.is_dense(), "{plain}");
        for stride in 2..=4 {
            let version = format!(
                "out: bound(x, 0, 4096) specialize(in.step.0 == {stride} && by == 1) {{ vectorize(x, 16) }}"
            );
            let special = found(&version, &target);
            assert!(special.is_dense(), "{special}");
            assert_eq!([special.count("vdiv"), special.count("div")], [0; 2], "{special}");
        }
    }
}

/// Products of fractions of 16 bits are one instruction, and the correction of one product.
#[test]
fn fractions_are_multiplied_at_once() {
    for (target, lanes) in [(avx2(), 16), (avx512(), 32)] {
        let found = map(I16, lanes, &target, |v| v.rounding_mul_shift_right(v.clone() + 3, 15));
        assert_eq!(found.count("vpmulhrsw"), 1, "{found}");
        assert!(found.work() <= 5, "{found}");
        let found = map(F32, 8, &target, |v| v.fast_inverse() + v.fast_inverse_sqrt());
        assert_eq!(["vdiv", "vsqrt"].map(|n| found.count(n)), [0; 2], "{found}");
    }
}

/// 64 lanes look into a table of 1024 bytes at once, where a processor permutes bytes: a permutation for each 128 of them.
#[test]
fn tables_of_bytes_are_permuted() {
    let mut p = Pipeline::new("tables");
    let [x] = Var::all(["x"]);
    let input = p.input(Input::new("in", &[I16], 1));
    let curve = p.define("curve", [x], (Expr::from(x) * 7).cast(U8));
    let value = curve.of(input.of(x).clamp(0, 1023).cast(I32));
    let out = p.define("out", [x], value);
    p.output(&out);
    let text = "curve: compute_root  out: bound(x, 0, 4096) vectorize(x, 64)";
    let schedule = Schedule::parse(text).expect("text");
    let looks = |target: &Target| {
        let all = Loop::all(&p, &schedule, target);
        let found = all.into_iter().max_by_key(|l| l.count("vpmaxsw")).expect("a loop");
        (
            found.count("vpermi2b") + found.count("vpermt2b"),
            found.work(),
            found.count("vpinsrb"),
            found.to_string(),
        )
    };
    let (permutations, work, ..) = looks(&avx512_vbmi());
    assert_eq!(permutations, 8);
    assert!(work <= 45, "{work}");
    let (permutations, _, inserted, text) = looks(&avx512());
    assert!(permutations == 0 && inserted > 50, "{text}");
}

/// Weights of rows and columns are multiplied apart, and four rows of the output share the sums along rows of the input: 8 rows of sums and 4 of
/// their weights are 24 instructions a vector at most, where 25 products and 24 sums were.
#[test]
fn separable_sums_are_shared_by_rows() {
    for (target, lanes) in [(avx2(), 16), (avx512(), 32)] {
        let mut p = Pipeline::new("separable");
        let [x, y] = Var::all(["x", "y"]);
        let input = p.input(Input::new("in", &[U16], 2));
        let tap = |k: i32| input.of((x + k % 5, y + k / 5)) * ((k / 5 + 1) * (k % 5 + 1));
        let out = p.define("out", [x, y], (1..25).fold(tap(0), |sum, k| sum + tap(k)));
        p.output(&out);
        let text = format!(
            "out: bound(x, 0, 1024) bound(y, 0, 64) vectorize(x, {lanes}) unroll(y, 4) reorder(xi, yu, x, y)"
        );
        let found = Loop::innermost(&p, &Schedule::parse(&text).expect("text"), &target);
        assert!(found.work() <= 4 * 36, "{found}");
    }
}

/// Inside of a picture nothing is left of its border: three loads, a product and two sums a vector, one store.
#[test]
fn borders_leave_the_interior() {
    let [x] = Var::all(["x"]);
    for (target, vectors) in [(avx2(), 2), (avx512(), 1)] {
        let mut p = Pipeline::new("sharper");
        let input = p.input(Input::strided("in", &[F32], 1));
        let edge = p.func(boundary::repeat_edge("edge", &input, &input.domain()));
        let out = p.define("out", [x], edge.of(x) * 4.0 - edge.of(x - 1) - edge.of(x + 1));
        p.output_strided(&out, Constraint::defaults(1));
        let loops = Loop::all(&p, &Schedule::parse("out: vectorize(x, 16)").expect("text"), &target);
        let computes = |l: &Loop| l.is_wide() && l.count("vmulps") > 0;
        let inside = loops.into_iter().filter(computes).min_by_key(Loop::work).expect("a loop over vectors");
        assert_eq!((inside.work(), inside.is_dense()), (3 * vectors, true), "{inside}");
    }
}

/// An output that lies anywhere has stores around the caches where its rows allow them, decided in front of each loop over a row.
#[test]
fn outputs_that_lie_anywhere_are_stored_around_the_caches() {
    let mut p = Pipeline::new("copy");
    let [x, y] = Var::all(["x", "y"]);
    let input = p.input(Input::strided("in", &[U16], 2));
    let out = p.define("out", [x, y], input.of((x, y)) + 1);
    p.output_strided(&out, Constraint::defaults(2));
    for (condition, stores) in [("1", 1), ("out.extent.0 > 100", 1), ("0", 0)] {
        let text =
            format!("out: split(x, xo, xi, 32, shift_inwards) vectorize(xi) non_temporal({condition})");
        let s = Schedule::parse(&text).expect("text");
        for target in [avx2(), avx512()] {
            let code = sumsq_codegen::backend::llvm::listing(
                &sumsq_codegen::lower::lower(&p, &s, &Default::default()).expect("legal"),
                &target,
            );
            let asm = code.expect("code").asm;
            let found = asm.lines().filter(|l| l.contains("movnt")).count();
            assert!(found >= stores && (stores > 0 || found == 0), "{condition}: {asm}");
            assert_eq!(asm.contains("sfence"), stores > 0, "{condition}: {asm}");
        }
    }
}

/// Lanes that lie apart by a number that only a run knows are stored one by one, at addresses that are added up: none is taken from a vector.
#[test]
fn stores_that_lie_apart_have_scalar_addresses() {
    let [x] = Var::all(["x"]);
    for (ty, lanes) in [(F32, 16), (U8, 32)] {
        let mut p = Pipeline::new("apart");
        let input = p.input(Input::new("in", &[ty], 1));
        let out = p.define("out", [x], input.of(x) + input.of(x + 1));
        p.output_strided(&out, vec![Constraint::new()]);
        let text = format!("out: bound(x, 0, 4096) vectorize(x, {lanes})");
        let schedule = Schedule::parse(&text).expect("text");
        for target in [avx2(), avx512()] {
            let found = Loop::innermost(&p, &schedule, &target);
            assert!(found.is_dense() && found.count("vpextrq") == 0 && found.count("vmovq") == 0, "{found}");
        }
    }
}

/// Means of two bytes or words that are rounded up have an instruction.
#[test]
fn rounded_means_are_one_instruction() {
    for (ty, lanes, name) in [(U8, 32, "vpavgb"), (U16, 16, "vpavgw")] {
        for target in [avx2(), avx512()] {
            let mut p = Pipeline::new("means");
            let x = [Var::new("x").expr()];
            let [a, b] = ["a", "b"].map(|n| p.input(Input::new(n, &[ty], 1)).at(&x, 0).cast(U32));
            let found = row(p, ((a + b + 1) / 2).cast(ty), lanes, &target, false);
            assert_eq!((found.count(name), found.work()), (1, 1), "{found}");
        }
    }
}

#[test]
fn what_fits_is_converted_as_it_is() {
    // A byte, moved and scaled, stays within 16 bits.
    let scaled = |v: Expr| (v.cast(F32) * Expr::from(1.5f32) - Expr::from(20.0f32)).round().cast(I32);
    let bounded = |v: Expr| v.max(-1e9f32).min(1e9f32).cast(I32);
    for (target, vectors) in [(avx2(), 2), (avx512(), 1)] {
        let found = map(U8, 16, &target, scaled);
        assert_eq!(found.count("vcvttps2dq"), vectors, "{found}");
        assert_eq!(["vcmp", "vmax", "vmin", "vblend"].map(|n| found.count(n)), [0; 4], "{found}");
        let found = map(F32, 16, &target, bounded);
        assert_eq!(found.work(), 3 * vectors, "{found}");
        // A range that reaches beyond by one is none.
        let found = map(F32, 16, &target, |v| v.max(0.0f32).min(2147483648.0f32).cast(I32));
        assert_ne!(found.count("vcmp"), 0, "{found}");
    }
}

/// The work in a vector of 16 lanes of `value(a, b, p)`, two inputs and a parameter, strict and relaxed with reciprocals.
fn work(target: &Target, value: impl Fn(Expr, Expr, Expr) -> Expr) -> [Loop; 2] {
    [false, true].map(|relaxed| {
        let mut p = Pipeline::new("two");
        let x = [Var::new("x").expr()];
        let [a, b] = ["a", "b"].map(|n| p.input(Input::new(n, &[F32], 1)).at(&x, 0));
        let value = value(a, b, p.param("p", F32));
        row(p, value, 16, target, relaxed)
    })
}

#[test]
fn relaxed_extrema_are_one_instruction() {
    for (target, vectors) in [(avx2(), 2), (avx512(), 1)] {
        for (name, other) in [("vminps", "vmaxps"), ("vmaxps", "vminps")] {
            let of = |a: &Expr, b: &Expr| if name == "vminps" { a.min(b) } else { a.max(b) };
            let [strict, relaxed] = work(&target, |a, b, _| of(&a, &b));
            assert!(strict.work() > vectors, "{strict}");
            assert_eq!(
                [relaxed.count(name), relaxed.count(other), relaxed.work()],
                [vectors, 0, vectors],
                "{relaxed}"
            );
            // Of a number, strict as well: which operand it is does not matter.
            for number in [1.0f32, -3.5] {
                let [first, _] = work(&target, |a, _, _| of(&Expr::from(number), &a));
                let [second, _] = work(&target, |a, _, _| of(&a, &Expr::from(number)));
                assert_eq!([first.work(), second.work()], [vectors; 2], "{first}\n{second}");
            }
        }
    }
}

#[test]
fn divisions_by_what_lanes_share_become_products() {
    for (target, vectors) in [(avx2(), 2), (avx512(), 1)] {
        let [strict, relaxed] = work(&target, |a, _, _| a / Expr::from(3.0f32));
        assert_eq!([strict.count("vdivps"), relaxed.count("vdiv")], [vectors, 0], "{relaxed}");
        assert_eq!([relaxed.count("vmulps"), relaxed.work()], [vectors; 2], "{relaxed}");
        let [strict, relaxed] = work(&target, |a, _, p| a / p);
        assert_eq!([strict.count("vdivps"), relaxed.count("vdiv")], [vectors, 0], "{relaxed}");
        assert_eq!([relaxed.count("vmulps"), relaxed.work()], [vectors; 2], "{relaxed}");
        // Each lane has a divisor of its own.
        let [_, relaxed] = work(&target, |a, b, _| a / b);
        assert_eq!(relaxed.count("vdivps"), vectors, "{relaxed}");
    }
}

/// Every second element, and each element twice, are rows and shuffles: no lane loads by itself.
#[test]
fn pictures_are_halved_and_doubled_in_rows() {
    type Value = fn(&Input, Var) -> Expr;
    let cases: [(&str, Value); 14] = [
        ("f(2x)", |f, x| f.of(x * 2)),
        ("f(2x + 1)", |f, x| f.of(x * 2 + 1)),
        ("f(2x) and its neighbour", |f, x| f.of(x * 2).halving_add(f.of(x * 2 + 1))),
        ("f(x / 2)", |f, x| f.of(x / 2)),
        ("f((x + 1) / 2)", |f, x| f.of((x + 1) / 2)),
        ("f(x / 2) and the next", |f, x| f.of(x / 2).halving_add(f.of(x / 2 + 1))),
        ("between two", |f, x| {
            let (a, b) = (f.of(x / 2), f.of((x + 1) / 2));
            Expr::select((x % 2).eq_(0), &a, a.halving_add(&b))
        }),
        ("f(x / 3)", |f, x| f.of(x / 3)),
        ("f(x / 4)", |f, x| f.of(x / 4)),
        ("f(x % 4)", |f, x| f.of(x % 4)),
        ("f(x / 4) or the next", |f, x| Expr::select((x % 4).lt(2), f.of(x / 4), f.of(x / 4 + 1))),
        ("f(x / 3) or the next", |f, x| Expr::select((x % 3).eq_(1), f.of(x / 3), f.of(x / 3 + 1))),
        ("each 3 turned", |f, x| f.of(x + 2 - (x % 3) * 2)),
        ("each four turned", |f, x| f.of(x + 3 - (x % 4) * 2)),
    ];
    for (ty, lanes) in [(F32, 16), (U8, 32), (U16, 16)] {
        for ((name, value), target) in cases.iter().flat_map(|c| [(c, avx2()), (c, avx512())]) {
            let lanes = if name.contains('3') { lanes / 16 * 12 } else { lanes };
            let mut p = Pipeline::new("rows");
            let input = p.input(Input::strided("in", &[ty], 1));
            let [x] = Var::all(["x"]);
            let out = p.define("out", [x], value(&input, x));
            p.output(&out);
            let text = format!("out: bound(x, 0, {}) vectorize(x, {lanes})", 192 * lanes);
            let found = Loop::innermost(&p, &Schedule::parse(&text).expect("text"), &target);
            assert!(found.is_dense(), "{name} of {}, {}:\n{found}", ty.name(), target.lanes);
        }
    }
}

/// Products of 32 rows and 12 columns stay in the 24 registers that are left by what is multiplied.
#[test]
fn products_of_matrices_stay_in_registers() {
    let mut p = Pipeline::new("products");
    let [i, j] = Var::all(["i", "j"]);
    let [a, b] = ["a", "b"].map(|name| p.input(Input::strided(name, &[F32], 2)));
    let r = RDom::new([("k", Expr::from(0), a.extent(1))]);
    let columns = [None, b.domain()[1].clone()];
    let right = p.func(boundary::repeat_edge("right", &b, &columns));
    let left = p.define("left", [i, j], a.of((i, j)));
    let product = p.define("product", [i, j], 0.0f32);
    let product = p.add_to(&product, (i, j), left.of((i, r.var(0))) * right.of((r.var(0), j)), &r);
    let out = p.define("out", [i, j], product.of((i, j)));
    p.output_strided(&out, Constraint::defaults(2));
    let text = "
        out: split(i, io, ii, 32, auto) split(j, jo, ji, 12, auto) reorder(ii, ji, jo, io) split(ii, iv, lane, 16, guard) vectorize(lane) unroll(iv) unroll(ji)
        left: compute_at(out, io) split(i, io, ii, 16, round_up) vectorize(ii)
        product: compute_at(out, jo) bound_extent(i, 32) bound_extent(j, 12) store_in(register) split(i, iv, lane, 16, round_up) vectorize(lane) unroll(iv) unroll(j)
        product.update(0): relaxed split(i, iv, lane, 16, predicate) reorder(lane, iv, j, k) vectorize(lane) unroll(iv) unroll(j)";
    let loops = Loop::all(&p, &Schedule::parse(text).expect("text"), &avx512());
    let products: Vec<&Loop> = loops.iter().filter(|l| l.count("vfmadd") == 24).collect();
    assert!(!products.is_empty());
    for found in products {
        assert!(found.spills() <= 4, "{}:\n{found}", found.spills());
    }
}

/// NEON has an instruction for a rounding average, for products of bytes and for what AVX2 does in several steps to floats.
#[test]
fn neon_has_what_pictures_need() {
    let wide = |v: &Expr| v.clone().cast(U16);
    let average = |v: Expr| ((wide(&v) + wide(&(v + 3)) + 1) / 2).cast(U8);
    let cases: [(&str, Loop); 4] = [
        ("urhadd", map(U8, 16, &neon(), average)),
        ("umull", map(U8, 16, &neon(), |v| wide(&v) * wide(&(v.clone() + 1)))),
        ("fcvtzs", map(F32, 4, &neon(), |v| v.cast(I32))),
        ("scvtf", map(I32, 4, &neon(), |v| v.cast(F32))),
    ];
    for (name, found) in &cases {
        assert!(found.count(name) > 0, "no {name}\n{found}");
    }
}
