//! The meaning of the energy language, point by point, by evaluating what files build.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use sumsq_energy::dag::{Access, At, Env, Offset, Source};
use sumsq_energy::losses::LossKind;
use sumsq_energy::model::{ArrayId, Domain, GraphId, Loss, ParamId, SpaceId};
use sumsq_energy::rust::{EnergyBuilder, vector};
use sumsq_energy::{Budgets, Energy};

/// Z is zero everywhere; added to an expression it makes a residual of it.
const PREAMBLE: &str = r#"
    W, H, N = Dim("W", 0), Dim("H", 1), Dim("N", 2)
    Z = Unknown("Z", opt_float, {W,H}, 0)
    X = Unknown("X", opt_float3, {W,H}, 1)
    A = Array("A", {W,H}, 2)
    V = Array("V", opt_float3, {W,H}, 3)
    w = Param("w", float, 4)
    p = Param("p", float3, 5)
    Y = Unknown("Y", double2, {N}, 6)
    G = Graph("G", 7, "v0", {N}, 8, "v1", {N}, 9)
    Energy(Z(0,0)) Energy(X(0,0)) Energy(Y(0))
"#;
const RESIDUALS_OF_PREAMBLE: usize = 1 + 3 + 2;

/// The middle of a 5x5 image with distinct values everywhere.
struct Middle;

impl Env for Middle {
    fn access(&self, a: &Access) -> f64 {
        let channel = f64::from(a.channel);
        let place = match &a.at {
            At::Offset(o) => f64::from(o[0]) + 10.0 * f64::from(o.get(1).copied().unwrap_or(0)),
            At::Vertex(_, slot) => 100.0 * f64::from(*slot + 1),
            At::Edge(_) | At::Global => 1000.0,
        };
        match a.source {
            Source::Unknown(u) if u.0 == 0 => 0.0,
            Source::Unknown(u) => f64::from(u.0) + 0.25 * channel + place,
            Source::Array(i) => 0.5 + f64::from(i.0) + 0.125 * channel + place,
            _ => panic!("{a:?} is not written by front ends"),
        }
    }
    fn tap(&self, (image, channel): (ArrayId, u16), at: &[i64]) -> f64 {
        f64::from(image.0) + 0.5 * f64::from(channel) + (at[0] + 10 * at[1]) as f64
    }
    fn param(&self, p: ParamId, channel: u16) -> f64 {
        3.0 + f64::from(p.0) + f64::from(channel)
    }
    fn index(&self, dim: u16) -> f64 {
        2.0 + f64::from(dim) / 8.0
    }
    fn in_bounds(&self, lo: &Offset, hi: &Offset) -> bool {
        lo.iter().all(|&v| v >= -2) && hi.iter().all(|&v| v <= 2)
    }
    fn free(&self, _: SpaceId, _: &At) -> bool {
        panic!("not written by front ends")
    }
    fn same_vertex(&self, _: GraphId, _: u16, _: u16) -> bool {
        panic!("not written by front ends")
    }
    fn in_bounds_at(&self, _: GraphId, _: u16, _: &Offset, _: &Offset) -> bool {
        panic!("not written by front ends")
    }
    fn index_at(&self, _: GraphId, _: u16, _: u16) -> f64 {
        panic!("not written by front ends")
    }
}

fn load(text: &str) -> Energy {
    Energy::from_text("e.t", &format!("{PREAMBLE}{text}\n"))
        .unwrap_or_else(|e| panic!("{:?}", miette::Report::new(e)))
}

/// The channels of an expression at the middle.
fn values(expression: &str) -> Vec<f64> {
    let e = load(&format!("Energy(({expression}) + Z(0,0))"));
    e.residuals[RESIDUALS_OF_PREAMBLE..].iter().map(|r| e.dag.eval(r.value, &Middle)).collect()
}

#[track_caller]
fn check(expression: &str, expected: &[f64]) {
    let got = values(expression);
    let close = |a: f64, b: f64| a == b || (a - b).abs() <= 1e-14 * b.abs() || (a.is_nan() && b.is_nan());
    let same = got.len() == expected.len() && got.iter().zip(expected).all(|(&a, &b)| close(a, b));
    assert!(same, "{expression}: got {got:?}, expected {expected:?}");
}

#[test]
fn reads() {
    check("A(0,0)", &[0.5]);
    check("A(1,-2)", &[0.5 + 1.0 - 20.0]);
    check("X(0,0)", &[1.0, 1.25, 1.5]);
    check("X(0,1,2)", &[11.5]);
    check("X(1.0, -0.0, 2.0)", &[2.5]);
    check("X(abs(-1), 0, 1)", &[2.25]);
    check("X(0,0)(1)", &[1.25]);
    check("X(0,0)[2]", &[1.5]);
    check("Slice(V, 1, 3)(0,0)", &[1.625, 1.75]);
    check("Slice(V, 1, 3)(0,0,1)", &[1.75]);
    check("Slice(V, 2, 3)(1,0)", &[2.75]);
    check("w", &[3.0]);
    check("p", &[4.0, 5.0, 6.0]);
    check("p[1]", &[5.0]);
    check("Vector(Index(0), Index(1))", &[2.0, 2.125]);
}

#[test]
fn graph_reads() {
    let e = load("Energy(Y(G.v0) - Y(G.v1, 1))");
    let r = &e.residuals[RESIDUALS_OF_PREAMBLE..];
    assert_eq!(r.len(), 2);
    assert!(r.iter().all(|r| r.domain == Domain::Graph(GraphId(0)) && r.guard.is_none()));
    assert_eq!(e.dag.eval(r[0].value, &Middle), 102.0 - 202.25);
    assert_eq!(e.dag.eval(r[1].value, &Middle), 102.25 - 202.25);
    assert_eq!(r[0].unknown_reads.len(), 2);
    assert_eq!(r[1].unknown_reads.len(), 2);
}

#[test]
fn operators() {
    check("X(0,0) + 1", &[2.0, 2.25, 2.5]);
    check("1 - X(0,0)", &[0.0, -0.25, -0.5]);
    check("X(0,0) * V(0,0)", &[1.5, 1.25 * 1.625, 1.5 * 1.75]);
    check("X(0,0) / A(0,0)", &[2.0, 2.5, 3.0]);
    check("1 / X(0,0)[1]", &[0.8]);
    check("-X(0,0)", &[-1.0, -1.25, -1.5]);
    check("X(0,0)^2", &[1.0, 1.5625, 2.25]);
    check("X(0,0)^-1", &[1.0, 0.8, 1.0 / 1.5]);
    check("(0 - X(0,0)[1])^3", &[-1.953125]);
    check("(0 - X(0,0)[1])^0.5", &[f64::NAN]);
    check("X(0,0)[1]^w", &[1.25f64.powi(3)]);
    check("X(0,0)[1]^A(0,0)", &[1.25f64.sqrt()]);
    check("X(0,0)[1]^0", &[1.0]);
}

#[test]
fn functions() {
    let x: f64 = 1.25;
    let a: f64 = 0.5;
    for (name, value) in [
        ("acosh", x.acosh()),
        ("asinh", x.asinh()),
        ("atan", x.atan()),
        ("cos", x.cos()),
        ("cosh", x.cosh()),
        ("exp", x.exp()),
        ("log", x.ln()),
        ("log10", x.log10()),
        ("sin", x.sin()),
        ("sinh", x.sinh()),
        ("sqrt", x.sqrt()),
        ("Sqrt", x.sqrt()),
        ("opt.sqrt", x.sqrt()),
        ("tan", x.tan()),
        ("tanh", x.tanh()),
    ] {
        check(&format!("{name}(X(0,0,1))"), &[value]);
    }
    for (name, value) in [("acos", a.acos()), ("asin", a.asin()), ("atanh", a.atanh())] {
        check(&format!("{name}(A(0,0))"), &[value]);
    }
    check("abs(0 - X(0,0))", &[1.0, 1.25, 1.5]);
    check("atan2(X(0,0,1), A(0,0))", &[x.atan2(a)]);
    check("pow(X(0,0,1), A(0,0))", &[x.powf(a)]);
    check("pow(A(0,0), X(0,0,1))", &[a.powf(x)]);
    check("sqrt(2)", &[2f64.sqrt()]);
    check("mul(2, X(0,0), w)", &[6.0, 7.5, 9.0]);
    check("div(X(0,0), 2, A(0,0))", &[1.0, 1.25, 1.5]);
    check("prod(2, 3, X(0,0,1))", &[7.5]);
}

#[test]
fn logic() {
    check("eq(X(0,0), 1.25)", &[0.0, 1.0, 0.0]);
    check("less(X(0,0), 1.25)", &[1.0, 0.0, 0.0]);
    check("lesseq(X(0,0), 1.25)", &[1.0, 1.0, 0.0]);
    check("greater(X(0,0), 1.25)", &[0.0, 0.0, 1.0]);
    check("greatereq(1.25, X(0,0))", &[1.0, 1.0, 0.0]);
    for and in ["And", "and_", "opt.And"] {
        check(&format!("{and}(A(0,0), 1, less(A(0,0), 1))"), &[1.0]);
        check(&format!("{and}(A(0,0), 0)"), &[0.0]);
    }
    for or in ["Or", "or_"] {
        check(&format!("{or}(eq(A(0,0), 1), A(0,0))"), &[1.0]);
        check(&format!("{or}(eq(A(0,0), 1), 0)"), &[0.0]);
    }
    for not in ["Not", "not_"] {
        check(&format!("{not}(A(0,0))"), &[0.0]);
        check(&format!("{not}(eq(A(0,0), 1))"), &[1.0]);
    }
    check("All(greatereq(X(0,0), 1))", &[1.0]);
    check("All(X(0,0))", &[1.25 * 1.5]);
    check("Any(eq(X(0,0), 1.5))", &[1.0]);
    check("Any(eq(X(0,0), 2))", &[0.0]);
}

#[test]
fn select_chooses_values() {
    check("Select(A(0,0), 1, 2)", &[1.0]);
    check("Select(eq(A(0,0), 1), 1, X(0,0))", &[1.0, 1.25, 1.5]);
    check("Select(greatereq(X(0,0), 1.25), 7, 0)", &[0.0, 7.0, 7.0]);
    // NaN and Inf of the branch not taken stay there, be it a Select or a product with a boolean.
    check("Select(less(A(0,0), 0), log(0 - A(0,0)), X(0,0,1))", &[1.25]);
    check("less(A(0,0), 0) * log(0 - A(0,0))", &[0.0]);
    check("eq(A(0,0), 1) / (A(0,0) - 0.5)", &[0.0]);
    // NaN is not 0: as a condition it is true.
    check("Select(log(0 - A(0,0)), 1, 2)", &[1.0]);
}

#[test]
fn vectors() {
    check("Vector(1, A(0,0), w)", &[1.0, 0.5, 3.0]);
    check("X(0,0):dot(V(0,0))", &[1.5 + 1.25 * 1.625 + 1.5 * 1.75]);
    check("Dot3(X(0,0), V(0,0))", &[1.5 + 1.25 * 1.625 + 1.5 * 1.75]);
    check("X(0,0):sum()", &[3.75]);
    check("X(0,0):size()", &[3.0]);
    let norm = (1.0f64 + 1.5625 + 2.25).sqrt();
    check("L_2_norm(X(0,0))", &[norm]);
    check("normalize(X(0,0))", &[1.0 / norm, 1.25 / norm, 1.5 / norm]);
    check("length(X(0,0), Vector(1, 1, 1))", &[(0.0625f64 + 0.25).sqrt()]);
    check("Matrix3x3Mul(Vector(1,2,3, 4,5,6, 7,8,A(0,0)), X(0,0))", &[8.0, 19.25, 17.75]);
}

#[test]
fn rotations() {
    let near = |expression: &str, expected: &[f64]| {
        let got = values(expression);
        let off = got.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(got.len() == expected.len() && off < 1e-14, "{expression}: {got:?}, expected {expected:?}");
    };
    let quarter = std::f64::consts::FRAC_PI_2;
    // Counter-clockwise: x to y.
    near(&format!("Rotate2D({quarter:?} + Z(0,0), Vector(1, 0))"), &[0.0, 1.0]);
    // About x: y to z. About y: z to x. About z: x to y.
    near(&format!("Rotate3D(Vector({quarter:?}, 0, 0), Vector(0, 1, 0))"), &[0.0, 0.0, 1.0]);
    near(&format!("Rotate3D(Vector(0, {quarter:?}, 0), Vector(0, 0, 1))"), &[1.0, 0.0, 0.0]);
    near(&format!("Rotate3D(Vector(0, 0, {quarter:?}), Vector(1, 0, 0))"), &[0.0, 1.0, 0.0]);
    // Rz Ry Rx as matrices, against the product of the three.
    let (a, v) = ([0.3f64, -0.7, 1.1], [1.0, 1.25, 1.5]);
    let rotate = |v: [f64; 3], i: usize, j: usize, t: f64| {
        let mut r = v;
        r[i] = t.cos() * v[i] - t.sin() * v[j];
        r[j] = t.sin() * v[i] + t.cos() * v[j];
        r
    };
    let turned = rotate(rotate(rotate(v, 1, 2, a[0]), 2, 0, a[1]), 0, 1, a[2]);
    near("Rotate3D(Vector(0.3, -0.7, 1.1), X(0,0))", &turned);
}

#[test]
fn bounds_tests() {
    check("InBounds(2,-2)", &[1.0]);
    check("InBounds(3,0)", &[0.0]);
    check("InBoundsExpanded(1,0,1)", &[1.0]);
    check("InBoundsExpanded(1,0,2)", &[0.0]);
    check("InBounds(0,0)", &[1.0]);
}

/// Boundary boxes of the residuals of an `Energy(...)`.
fn guards(arguments: &str) -> Vec<Option<([i32; 2], [i32; 2])>> {
    let e = load(&format!("Energy({arguments})"));
    let corner = |o: &Offset| [o[0], o[1]];
    let guards = e.residuals[RESIDUALS_OF_PREAMBLE..].iter();
    guards.map(|r| r.guard.as_ref().map(|(lo, hi)| (corner(lo), corner(hi)))).collect()
}

#[test]
fn boundary_rule() {
    assert_eq!(guards("X(0,0,0)"), [Some(([0, 0], [0, 0]))]);
    // Unknowns and arrays alike; offset 0 is always in the box.
    assert_eq!(guards("X(1,2,0) - A(3,-1)"), [Some(([0, -1], [3, 2]))]);
    assert_eq!(guards("X(-2,0,0)"), [Some(([-2, 0], [0, 0]))]);
    // Each channel has its own box.
    let vector = guards("Vector(X(0,0,0), X(1,0,1), Z(0,0) * InBounds(0,1))");
    assert_eq!(vector, [Some(([0, 0], [0, 0])), Some(([0, 0], [1, 0])), None]);
    // As constructed, after constant folding.
    assert_eq!(guards("X(0,0,0) + 0 * A(5,5)"), [Some(([0, 0], [0, 0]))]);
    assert_eq!(guards("X(0,0,0) + A(5,5) - A(5,5)"), [Some(([0, 0], [0, 0]))]);
    // The use counts as written, folded or not, in whatever branch.
    assert_eq!(guards("X(1,0,0) * InBounds(0,0)"), [None]);
    assert_eq!(guards("X(1,0,0) + 0 * InBounds(1,0)"), [None]);
    assert_eq!(guards("Select(InBounds(1,0), X(1,0,0), 0)"), [None]);
    assert_eq!(guards("X(1,0,0) * InBoundsExpanded(0,0,1)"), [None]);
    // Another residual of the same energy keeps its own.
    assert_eq!(guards("X(1,0,0) * InBounds(1,0), X(1,0,0)"), [None, Some(([0, 0], [1, 0]))]);
    // A condition's reads are in the box too.
    assert_eq!(guards("Select(A(0,1), X(0,0,0), 0)"), [Some(([0, 0], [0, 1]))]);
}

#[test]
fn constants_are_left_out_with_a_warning() {
    let e = load("Energy(A(0,0), X(0,0,0), 0 * X(1,0,0))");
    assert_eq!(e.residuals.len(), RESIDUALS_OF_PREAMBLE + 1);
    assert_eq!(e.warnings.len(), 2);
    assert_eq!(
        e.warnings[0],
        "line 12: a residual of energy_4 reads no unknown; it is constant and left out: A(0,0)"
    );
}

#[test]
fn exclude() {
    let e = load("Exclude(Not(eq(A(0,0), 0)))\nExclude(less(V(0,0), 0))\nExclude(eq(Index(0) * A(0,0), 0))");
    assert_eq!(e.excludes.len(), 1 + 3 + 1);
    assert!(e.excludes.iter().all(|x| e.space_name(x.0) == "{W,H}"));
    assert_eq!(e.dag.eval(e.excludes[0].1, &Middle), 1.0);
    assert_eq!(e.dag.eval(e.excludes[1].1, &Middle), 0.0);
}

#[test]
fn unknowns_that_a_residual_reads() {
    // Whatever branch a Select takes; arrays do not count; folded reads are gone.
    let e = load("Energy(Select(A(0,0), X(1,0,0), X(0,1,1)) + V(0,0,2) + 0 * X(2,2,2))");
    let reads = &e.residuals[RESIDUALS_OF_PREAMBLE].unknown_reads;
    let offsets: Vec<_> = reads
        .iter()
        .map(|a| match &a.at {
            At::Offset(o) => (o[0], o[1], a.channel),
            _ => panic!("a stencil residual"),
        })
        .collect();
    assert_eq!(offsets, [(1, 0, 0), (0, 1, 1)]);
}

#[test]
fn groups_and_lines() {
    let e = load("Energy(X(0,0), Z(0,0))\n\nEnergy(Z(1,0))");
    assert_eq!(e.groups, ["energy_1", "energy_2", "energy_3", "energy_4", "energy_5"]);
    let last: Vec<_> = e.residuals[RESIDUALS_OF_PREAMBLE..].iter().map(|r| (r.group.0, r.line)).collect();
    assert_eq!(last, [(3, Some(12)), (3, Some(12)), (3, Some(12)), (3, Some(12)), (4, Some(14))]);
}

#[test]
fn lua_is_there() {
    check("math.pow(2, 3)", &[8.0]);
    check("#string.rep('x', 3)", &[3.0]);
    check("select('#', unpack({1, 2}))", &[2.0]);
    check("opt.Vector(1, 2):size()", &[2.0]);
    let e = load(
        "local terms = {}\nfor x, y in Stencil { {1,0}, {0,1} } do table.insert(terms, X(x,y) - X(0,0)) end\n\
         for _, t in ipairs(terms) do Energy(t) end Energy(unpack(terms))",
    );
    assert_eq!(e.residuals.len(), RESIDUALS_OF_PREAMBLE + 12);
}

fn last(e: &Energy) -> &sumsq_energy::model::Residual {
    e.residuals.last().expect("a residual")
}

#[test]
fn computed_arrays_bring_their_box_and_their_unknowns() {
    let e = load("C = ComputedArray('C', {W,H}, X(1,0) * A(0,2))\nEnergy(C(0,-1,0) + Z(0,0))");
    assert_eq!(e.computed[0].values.len(), 3);
    let r = last(&e);
    assert_eq!(r.guard, Some(([0, -1].into_iter().collect(), [1, 1].into_iter().collect())));
    let offsets: Vec<_> = r.unknown_reads.iter().map(|a| format!("{:?}", a.at)).collect();
    assert_eq!(offsets.len(), 1 + 3, "all channels of the array's reads: {offsets:?}");
    // InBounds inside makes the box {0} and leaves the guard of the reader.
    let e = load("C = ComputedArray('C', {W,H}, Select(InBounds(1,0), Z(1,0), 0))\nEnergy(C(0,-1))");
    assert_eq!(last(&e).guard, Some(([0, -1].into_iter().collect(), [0, 0].into_iter().collect())));
}

#[test]
fn inlined_energies_mean_the_same() {
    let e = load(
        "C = ComputedArray('C', {W,H}, A(1,0) + 2)\nD = ComputedArray('D', {W,H}, C(0,1) * Z(0,0))\nEnergy(D(1,1))",
    );
    let inlined = e.inlined();
    assert!(inlined.computed.is_empty());
    let expected = Energy::from_text(
        "e.t",
        &format!(
            "{PREAMBLE}Energy(Select(InBounds(1,1), Z(1,1) * Select(InBounds(1,2), A(2,2) + 2, 0), 0))\n"
        ),
    );
    let expected = expected.expect("well formed");
    let text = |e: &Energy| e.dag.display_with(last(e).value, e);
    assert_eq!(text(&inlined), text(&expected));
}

#[test]
fn sampled_images() {
    // Bilinear between (1,2) = 21 and its neighbours of a linear image: exact.
    check("SampledImage(A)(1.25, 2.5)", &[1.25 + 25.0]);
    check("SampledImage(V)(1, 2, 1)", &[1.0 + 0.5 + 21.0]);
    let e = load("B = Array('B', {W,H}, 30)\nS = SampledImage(A, B, A)\nEnergy(S(1 + 3 * Z(0,0), 2))");
    let mut dag = e.dag.clone();
    let read = last(&e).unknown_reads[0].clone();
    let slope = dag.derivative(last(&e).value, &read);
    // 3 times the derivative image at the place, which is (1, 2) as Z is 0.
    assert_eq!(dag.eval(slope, &Middle), 3.0 * (2.0 + 1.0 + 20.0));
    // Sampling contributes nothing to the box; the coordinates' own reads do.
    let e = load("S = SampledImage(A)\nEnergy(S(Index(0) + A(1,0), 3) + Z(0,0))");
    assert_eq!(last(&e).guard, Some(([0, 0].into_iter().collect(), [1, 0].into_iter().collect())));
}

#[test]
fn views_globals_groups_losses_and_bounds() {
    let e = load(
        "VX = Array('VX', opt_float3, {W,H}, 1)\nT = Unknown('T', opt_float2, {}, 20)\n\
         Energy(X(0,0) - VX(0,0))\nEnergy(Z(0,0) - T(1))\nEnergy(T())\n\
         Residual{name='fit', loss=Huber(w), X(0,0) - V(0,0), Z(1,0)}\nResidual{name='fit', merge=true, Z(0,0)}\n\
         Bounds(X, -1, A(0,0))",
    );
    assert_eq!(e.arrays[2].view_of.map(|u| u.0), Some(1));
    let view = e.residuals.iter().find(|r| r.group.0 == 3).expect("the view's group");
    assert_eq!(view.unknown_reads.len(), 1, "a view is no unknown");
    let global = e.residuals.iter().find(|r| r.group.0 == 5).expect("the globals' group");
    assert!(matches!(global.domain, Domain::Space(s) if e.is_global(s)));
    assert_eq!(e.groups.last().map(String::as_str), Some("fit"));
    let fit: Vec<_> = e.residuals.iter().filter(|r| r.group.0 == 6).map(|r| r.block.map(|b| b.0)).collect();
    assert_eq!(fit, [Some(0), Some(0), Some(0), Some(1), None]);
    assert!(matches!(e.blocks[0].loss, Loss::Scaled(LossKind::Huber, _)) && !e.blocks[0].second_order);
    assert_eq!((e.bounds[0].lower.len(), e.bounds[0].unknown.0), (3, 1));
}

#[test]
fn near_null_displacements_in_both_front_ends() {
    let file = load("NearNull(X, Vector(A(0,0), A(0,0), A(0,0)))\nNearNull(X, 2)\nEnergy(X(0,0))");
    let e = EnergyBuilder::new();
    let n = e.dim("N");
    let (a, x) = (e.array("A", 1, &[n]), e.unknown("X", 3, &[n]));
    e.near_null(&x, vector([a.at([0]), a.at([0]), a.at([0])]));
    e.near_null(&x, 2.0);
    e.energy(x.at([0]));
    for energy in [file, e.finish().unwrap()] {
        assert!(energy.near_null.iter().all(|n| n.values.len() == 3));
        let last = &energy.near_null[1].values;
        assert!(energy.near_null.len() == 2 && last.iter().all(|&v| energy.dag.as_constant(v) == Some(2.0)));
    }
}

#[test]
fn losses_of_second_order_in_both_front_ends() {
    let file = load("Residual{loss=SecondOrder(Cauchy(2)), X(0,0)}\nResidual{loss=Cauchy(2), X(0,0)}");
    let e = EnergyBuilder::new();
    let n = e.dim("N");
    let x = e.unknown("X", 3, &[n]);
    e.residual("a").second_order_loss(LossKind::Cauchy, 2.0).add(x.at([0]));
    e.residual("b").loss(LossKind::Cauchy, 2.0).add(x.at([0]));
    for energy in [file, e.finish().unwrap()] {
        assert!(energy.blocks.iter().all(|b| matches!(b.loss, Loss::Scaled(LossKind::Cauchy, _))));
        assert_eq!(energy.blocks.iter().map(|b| b.second_order).collect::<Vec<_>>(), [true, false]);
    }
}

#[test]
fn l_p_keeps_its_weight_in_a_computed_array() {
    let e = load(
        "ZV = Array('ZV', opt_float, {W,H}, 0)\nEnergy(L_p(Z(0,0) - Z(1,0), ZV(0,0) - ZV(1,0), 0.8, {W,H}))",
    );
    assert_eq!(e.computed.len(), 1);
    assert!(e.computed[0].unknown_reads.is_empty());
    assert_eq!(last(&e).unknown_reads.len(), 2);
    // The weight reads a neighbour too.
    assert_eq!(last(&e).guard, Some(([0, 0].into_iter().collect(), [1, 0].into_iter().collect())));
}

#[test]
fn printed_lines_go_to_the_caller() {
    let lines = Rc::new(RefCell::new(vec![]));
    let kept = Rc::clone(&lines);
    let text = "print(\"a\", 1)\nprint()\nnothing()";
    let built = Energy::from_text_within("e.t", text, Budgets::default(), move |line| {
        kept.borrow_mut().push(line.to_owned())
    });
    assert!(built.is_err());
    assert_eq!(*lines.borrow(), ["a\t1", ""]);
}

/// Names that files see, Lua's own aside, are all in the docs; vectors of a type by the type alone.
#[test]
fn every_name_is_in_the_docs() {
    let text = "local names = {} for name in pairs(_G) do names[#names + 1] = name end error('names: ' .. table.concat(names, ' '))";
    let error = Energy::from_text("e.t", text).expect_err("the file says so").to_string();
    let names = error.split_once("names: ").expect("the names").1;
    let page = include_str!("../../docs/language.md");
    let words: HashSet<&str> = page.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let of_lua = [
        "_G",
        "_VERSION",
        "assert",
        "error",
        "getmetatable",
        "ipairs",
        "math",
        "next",
        "opt",
        "pairs",
        "print",
        "rawequal",
        "rawget",
        "rawset",
        "select",
        "setmetatable",
        "string",
        "table",
        "tonumber",
        "tostring",
        "type",
    ];
    let is_vector = |name: &str| {
        ["opt_float", "float", "double"].iter().any(|ty| {
            name.strip_prefix(ty).is_some_and(|n| n.parse::<u8>().is_ok_and(|n| (1..=64).contains(&n)))
        })
    };
    let untold: Vec<&str> = names
        .split_whitespace()
        .filter(|n| !n.starts_with("__") && !of_lua.contains(n) && !is_vector(n) && !words.contains(n))
        .collect();
    assert_eq!(untold, [""; 0]);
    assert!(names.split_whitespace().count() > 200, "{names}");
}
