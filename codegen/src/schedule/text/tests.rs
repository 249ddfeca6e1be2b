//! Printing and reading are inverse; errors say where.

use crate::expr::{BinaryOp, Part, UnaryOp};
use crate::schedule::text::*;
use crate::types::Type;
use proptest::prelude::*;

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9_]{0,4}".prop_filter("words with a meaning of their own", |s| {
        ![
            "true", "false", "min", "max", "pow", "atan2", "into", "select", "likely", "as", "bool", "inf",
            "inff",
        ]
        .contains(&s.as_str())
            && !UNARY.iter().any(|op| format!("{op:?}").to_lowercase() == *s)
            && !["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64"]
                .contains(&s.as_str())
    })
}

const UNARY: [UnaryOp; 22] = {
    use UnaryOp::*;
    [
        Neg, Abs, Sqrt, Floor, Ceil, Round, Trunc, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Asinh,
        Acosh, Atanh, Exp, Log, Log10,
    ]
};

/// Numbers of a float type, some without a fraction, some infinite, of both signs.
fn float_literal(ty: ScalarType) -> impl Strategy<Value = Expr> {
    let special =
        prop::sample::select(vec![0.0, -0.0, 1.0, -3.0, 1e30, 1e-30, f64::INFINITY, f64::NEG_INFINITY]);
    prop_oneof![special, any::<f64>(), any::<f32>().prop_map(f64::from), -10.0..10.0]
        .prop_filter("NaN is not equal to itself", |v: &f64| !v.is_nan())
        .prop_map(move |v| Expr::float(ty, v))
}

/// Float expressions whose type their first leaf says.
fn float(ty: ScalarType) -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![float_literal(ty), name().prop_map(move |n| Expr::param(n, ty))];
    let tree = leaf.prop_recursive(3, 12, 2, |inner| {
        use BinaryOp::*;
        let op = prop::sample::select(vec![Add, Sub, Mul, Div, Mod, Min, Max, Pow, Atan2]);
        prop_oneof![
            (op, inner.clone(), inner.clone()).prop_map(|(op, a, b)| Expr::binary(op, a, b)),
            (prop::sample::select(UNARY.to_vec()), inner).prop_map(|(op, a)| a.unary(op)),
        ]
    });
    (float_literal(ty), tree).prop_map(|(a, b)| a + b)
}

/// Conditions on float parameters.
fn float_condition() -> impl Strategy<Value = Expr> {
    use BinaryOp::*;
    let ty = prop::sample::select(vec![ScalarType::F16, ScalarType::F32, ScalarType::F64]);
    let op = prop::sample::select(vec![Eq, Ne, Lt, Le, Gt, Ge]);
    let operands = ty.prop_flat_map(|ty| (float(ty), float(ty)));
    prop_oneof![
        (op, operands.clone()).prop_map(|(op, (a, b))| Expr::binary(op, a, b)),
        operands.prop_map(|(a, _)| a.is_nan()),
    ]
}

fn leaf(variables: bool) -> impl Strategy<Value = Expr> {
    let named = move |n: String| if variables { Expr::var(n) } else { Expr::param(n, Type::I32) };
    prop_oneof![
        any::<i32>().prop_map(Expr::from),
        name().prop_map(named),
        name().prop_map(|n| Expr::part(n, Part::Extent(0))),
    ]
}

/// i32 expressions that print as trees.
fn integer(variables: bool) -> impl Strategy<Value = Expr> {
    leaf(variables).prop_recursive(3, 12, 3, |inner| {
        use BinaryOp::*;
        let op = prop::sample::select(vec![Add, Sub, Mul, Div, Mod, Min, Max, And, Or, Xor, Shl, Shr]);
        prop_oneof![
            (op, inner.clone(), inner.clone()).prop_map(|(op, a, b)| Expr::binary(op, a, b)),
            inner.clone().prop_map(|a| a.unary(UnaryOp::Abs)),
            inner.clone().prop_map(|a| a.unary(UnaryOp::Neg)),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(c, a, b)| Expr::select(c.gt(0), a, b)),
            (name(), inner, 0usize..3).prop_map(|(f, a, k)| Expr::call(f, ScalarType::I32, vec![a], k)),
        ]
    })
}

fn condition() -> impl Strategy<Value = Expr> {
    use BinaryOp::*;
    let op = prop::sample::select(vec![Eq, Ne, Lt, Le, Gt, Ge]);
    let comparison = (op, integer(true), integer(true)).prop_map(|(op, a, b)| Expr::binary(op, a, b));
    let byte = (name(), integer(true))
        .prop_map(|(f, a)| Expr::call(f, ScalarType::U8, vec![a], 0).ne_(Expr::int(ScalarType::U8, 0)));
    prop_oneof![comparison, byte].prop_recursive(2, 4, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| a.and(b)),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| a.or(b)),
            inner.prop_map(|a| a.not_()),
        ]
    })
}

fn stage() -> impl Strategy<Value = StageId> {
    (name(), 0usize..3).prop_map(|(func, stage)| StageId { func: func.into(), stage })
}

fn level() -> impl Strategy<Value = LoopLevel> {
    (stage(), name()).prop_map(|(stage, var)| LoopLevel { stage, var: var.into() })
}

fn directive() -> impl Strategy<Value = Directive> {
    plain_directive().prop_recursive(2, 8, 3, |inner| {
        let special = (condition_of_parameters(), prop::collection::vec(inner.clone(), 0..3))
            .prop_map(|(cond, directives)| Directive::Specialize { cond, directives });
        prop_oneof![9 => inner, 1 => special]
    })
}

fn condition_of_parameters() -> impl Strategy<Value = Expr> {
    use BinaryOp::*;
    let op = prop::sample::select(vec![Eq, Ne, Lt, Le, Gt, Ge]);
    let integers = (op, integer(false), integer(false)).prop_map(|(op, a, b)| Expr::binary(op, a, b));
    prop_oneof![integers, float_condition()]
}

fn plain_directive() -> impl Strategy<Value = Directive> {
    use Directive::*;
    let n = || name().prop_map(Name::from);
    let tail = prop::sample::select(vec![
        Tail::Auto,
        Tail::GuardWithIf,
        Tail::Predicate,
        Tail::RoundUp,
        Tail::ShiftInwards,
    ]);
    let kind = prop::sample::select(vec![
        ForKind::Serial,
        ForKind::Parallel,
        ForKind::Vectorized,
        ForKind::Unrolled,
        ForKind::GpuBlock,
        ForKind::GpuThread,
        ForKind::GpuLane,
    ]);
    prop_oneof![
        (n(), n(), n(), integer(false), tail).prop_map(|(old, outer, inner, factor, tail)| Split {
            old,
            outer,
            inner,
            factor,
            tail
        }),
        (n(), n(), n()).prop_map(|(inner, outer, fused)| Fuse { inner, outer, fused }),
        (n(), n()).prop_map(|(old, new)| Rename { old, new }),
        prop::collection::vec(n(), 0..4).prop_map(Reorder),
        (n(), kind).prop_map(|(var, kind)| Kind { var, kind }),
        (prop::collection::vec((n(), n()), 0..3), n()).prop_map(|(keep, into)| Rfactor { keep, into }),
        (n(), condition()).prop_map(|(var, cond)| SkipUnless { var, cond }),
        n().prop_map(Gather),
        prop::sample::select(vec![
            Atomic,
            Relaxed,
            Reciprocals,
            GpuSingle,
            Inline,
            ComputeRoot,
            Sink,
            StoreWhole
        ]),
        (
            n(),
            prop::sample::select(vec![
                crate::schedule::Partition::Auto,
                crate::schedule::Partition::Never,
                crate::schedule::Partition::Always
            ])
        )
            .prop_map(|(var, policy)| Partition { var, policy }),
        (n(), n(), any::<u32>()).prop_map(|(name, var, ahead)| Prefetch { name, var, ahead }),
        (prop::collection::vec(n(), 0..3), n()).prop_map(|(consumers, wrapper)| In { consumers, wrapper }),
        (prop::collection::vec(n(), 0..3), n()).prop_map(|(consumers, clone)| CloneIn { consumers, clone }),
        level().prop_map(ComputeAt),
        level().prop_map(ComputeWith),
        level().prop_map(StoreAt),
        level().prop_map(HoistStorage),
        (n(), any::<u32>()).prop_map(|(var, factor)| FoldStorage { var, factor }),
        (n(), any::<u32>()).prop_map(|(var, modulus)| AlignBounds { var, modulus }),
        (n(), any::<bool>(), integer(false), integer(false)).prop_map(|(var, m, min, extent)| Bound {
            var,
            min: m.then_some(min),
            extent
        }),
        (n(), any::<i32>(), any::<i32>()).prop_map(|(var, min, extent)| Estimate { var, min, extent }),
        (n(), any::<u32>()).prop_map(|(var, modulus)| AlignStorage { var, modulus }),
        prop::collection::vec(n(), 0..4).prop_map(ReorderStorage),
        prop::sample::select(vec![Memory::Heap, Memory::Stack, Memory::Register, Memory::Shared])
            .prop_map(StoreIn),
        integer(false).prop_map(NonTemporal),
        n().prop_map(InPlaceOf),
    ]
}

fn schedule() -> impl Strategy<Value = Schedule> {
    prop::collection::vec((stage(), prop::collection::vec(directive(), 0..5)), 0..4)
        .prop_map(|stages| Schedule { stages: stages.into_iter().collect() })
}

proptest! {
    #[test]
    fn reading_inverts_printing(s in schedule()) {
        let text = s.to_string();
        let read = Schedule::parse(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(read, s, "{}", text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-z0-9 :(),.+*<!|&\\-\n]{0,60}") {
        let _ = Schedule::parse(&text);
    }
}

#[test]
fn the_two_sweeps() {
    let mut s = Schedule::new();
    s.update("pq", 0).split("y", "strip", "row", 32, Tail::GuardWithIf).rfactor(&[("strip", "s")], "pq_s");
    s.update("pq_s", 0).parallel("s").vectorize("x", 16, Tail::Predicate);
    let row = || LoopLevel::update("pq_s", 0, "row");
    s.func("p").store_at(LoopLevel::update("pq_s", 0, "s")).compute_at(row()).fold_storage("y", 4).sink();
    let text = "
        // a comment
        pq.update(0): split(y, strip, row, 32, guard) rfactor(strip as s, into pq_s)
        pq_s.update(0): parallel(s)
            split(x, xo, xi, 16, predicate) vectorize(xi)
        p: store_at(pq_s.update(0), s) compute_at(pq_s.update(0), row) fold_storage(y, 4) sink";
    assert_eq!(Schedule::parse(text).unwrap(), s);
}

/// Constants of every type, and operators on constants.
#[test]
fn constants() {
    use ScalarType::*;
    let gain = || Expr::param("gain", F32);
    let negated = Expr::from(3).unary(UnaryOp::Neg);
    for (text, e) in [
        ("gain > 0.5f", gain().gt(Expr::from(0.5f32))),
        ("gain <= -2f", gain().le(Expr::from(-2f32))),
        ("gain < -inff", gain().lt(Expr::float(F32, f64::NEG_INFINITY))),
        ("isnan(gain)", gain().is_nan()),
        ("sqrt(gain) != 1f", gain().sqrt().ne_(Expr::from(1f32))),
        ("gain == 1.0", Expr::param("gain", F64).eq_(Expr::from(1.0))),
        ("gain >= 1e300", Expr::param("gain", F64).ge(Expr::from(1e300))),
        ("gain + 1 > 0.5f", (gain() + 1).gt(Expr::from(0.5f32))),
        ("2 * gain > 0.5 + 1f", (Expr::from(2f32) * gain()).gt(Expr::from(0.5f32) + Expr::from(1f32))),
        ("gain + 1 > 0.5", (Expr::param("gain", F64) + 1).gt(Expr::from(0.5))),
        ("gain > -0:f16", Expr::param("gain", F16).gt(Expr::float(F16, -0.0))),
        ("n > -(3)", Expr::param("n", I32).gt(negated)),
        ("n > 18446744073709551615:u64", Expr::param("n", U64).gt(Expr::int(U64, -1))),
        ("n > -9223372036854775808:i64", Expr::param("n", I64).gt(Expr::int(I64, i64::MIN))),
    ] {
        let mut s = Schedule::new();
        s.func("f").specialize(e, |_| ());
        let text = format!("f: specialize({text}) {{ }}");
        assert_eq!(Schedule::parse(&text).unwrap(), s, "{text}");
        assert_eq!(Schedule::parse(&s.to_string()).unwrap(), s, "{s}");
    }
    for (text, rule) in [
        ("n > 0.5:i32", "a number with a point is no i32"),
        ("n > -1:u64", "-1 does not fit in u64"),
        ("n > 1:bool", "`bool` is not the type of a number"),
        ("n + 0.5 > 2:i64", "`0.5` is f64, but i64 is needed"),
        ("n + 300 > 2:u8", "`300` is i32, but u8 is needed"),
        ("n > %0", "%0 was not named before"),
        ("{ %1 = n; %1 > 0 }", "expected %0, not %1"),
        ("fma(n, 1f) > 0f", "`fma` takes 3 operands, not 2"),
    ] {
        let error = Schedule::parse(&format!("f: specialize({text}) {{ }}")).unwrap_err().to_string();
        assert!(error.ends_with(&format!("line 1: {rule}")), "{error}");
    }
}

#[test]
fn errors_name_stage_directive_and_cause() {
    for (text, message) in [
        ("f: splat(x)", "f: splat(: line 1: there is no directive `splat`"),
        ("f:\n\n split(x, xo xi", "f: split(x, xo: line 3: expected `,`, not `xi`"),
        (
            "f: split(x, xo, xi, 8, shift)",
            "f: split(x, xo, xi, 8, shift: line 1: `shift` is not a tail: auto, guard, predicate, round_up or shift_inwards",
        ),
        ("inline", "line 1: inline: line 1: expected `:` after the stage `inline`"),
        ("f.update(x): inline", "line 1: f.update(: line 1: expected a number, not `x`"),
        ("f: fold_storage(x, -4)", "f: fold_storage(x,: line 1: expected a number, not `-`"),
        (
            "f: skip_unless(x, x + true > 1)",
            "f: skip_unless(x, x + true > 1: line 1: `1` is i32, but bool is needed",
        ),
        ("f: non_temporal(", "f: non_temporal(: line 1: expected an expression, not the end"),
        ("f: inline ?", "f: ?: line 1: expected a name, not `?`"),
    ] {
        assert_eq!(Schedule::parse(text).unwrap_err().to_string(), message, "{text}");
    }
    let deep = format!("f: non_temporal({}1)", "(".repeat(100_000));
    assert!(Schedule::parse(&deep).unwrap_err().to_string().contains("nested deeper than 200"));
    let versions = |n: usize| format!("f: {}{}", "specialize(n > 1) {".repeat(n), "}".repeat(n));
    assert!(Schedule::parse(&versions(16)).is_ok());
    for n in [17, 100_000] {
        let text = Schedule::parse(&versions(n)).unwrap_err().to_string();
        assert!(text.ends_with("line 1: special versions nested deeper than 16"), "{text}");
    }
}
