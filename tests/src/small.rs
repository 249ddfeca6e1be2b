//! Small problems that hold every construct between them, for tests that try many settings on each.

use crate::{Random, bind, doubles, indices};
use sumsq::ProblemData;
use sumsq::energy::Energy;

/// A small problem.
pub type Small = (Energy, ProblemData<'static>);

/// All of them, by name.
pub fn all() -> [(&'static str, Small); 5] {
    [
        ("grid", grid()),
        ("volume_under_losses", volume_under_losses()),
        ("graph", graph()),
        ("computed_arrays", computed_arrays()),
        ("computed_arrays_at_vertices", computed_arrays_at_vertices()),
    ]
}

/// Two channels, guards, a mask that holds inf where it excludes, sizes that no vector divides.
pub fn grid() -> Small {
    let (w, h) = (37, 21);
    let mut random = Random::new(1);
    let mut mask: Vec<f64> = random.numbers(w * h);
    mask.iter_mut().for_each(|m| *m = if *m > 0.6 { f64::INFINITY } else { *m });
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float2, {W,H}, 0)
        local A = Array("A", opt_float, {W,H}, 1)
        Exclude(greater(A(0,0), 0.6))
        Residual{name="fit", sin(X(0,0,0)) * X(0,0,1) - 0.5}
        Residual{name="reg", Select(lesseq(A(0,0), 0.6), A(0,0) * (X(0,0,0) - cos(X(1,0,1)) * X(-1,0,0)), 0)}
        Residual{name="plain", X(0,0) - X(0,1)}
        Residual{name="box", Select(InBounds(2,0), X(2,0,0) * X(0,0,1) - 1, 0)}
    "#;
    let arrays = [doubles("X", &[h, w, 2], random.numbers(2 * w * h)), doubles("A", &[h, w], mask)];
    bind(text, &arrays)
}

/// Three dims and channels, robust losses of both orders.
pub fn volume_under_losses() -> Small {
    let (w, h, d) = (9, 6, 5);
    let mut random = Random::new(2);
    let text = r#"
        local W, H, D = Dim("W", 0), Dim("H", 1), Dim("D", 2)
        local X = Unknown("X", opt_float3, {W,H,D}, 0)
        local s = Param("s", opt_float, 1)
        Residual{name="turn", loss=Cauchy(s), Rotate3D(X(0,0,0), X(1,0,0)) - X(0,0,1)}
        Residual{name="rest", loss=Tukey(s), X(0,1,0) - 2 * X(0,0,0)}
        Residual{name="second", loss=SecondOrder(Cauchy(s)), X(0,0,0) - 2 * X(0,1,1)}
        Energy(0.1 * X(0,0,0))
    "#;
    let arrays = [doubles("X", &[d, h, w, 3], random.numbers(3 * w * h * d)), doubles("s", &[], vec![1.5])];
    bind(text, &arrays)
}

/// Vertices that coincide within an edge, elements in no edge, two index spaces, a global.
pub fn graph() -> Small {
    let (n, m, edges) = (23, 9, 150);
    let mut random = Random::new(3);
    let text = r#"
        local N, M = Dim("N", 0), Dim("M", 1)
        local X = Unknown("X", opt_float3, {N}, 0)
        local Y = Unknown("Y", opt_float2, {M}, 1)
        local T = Unknown("T", opt_float2, {}, 2)
        local A = Array("A", opt_float, {N}, 3)
        local G = Graph("G", 4, "a", {N}, 5, "b", {N}, 6, "c", {M}, 7)
        Energy(0.3 * (X(0) - A(0)))
        Energy(0.2 * Y(0), T(0) - 1)
        Residual{name="edge", X(G.a) * sin(X(G.b, 1)) - A(G.a) * X(G.b)}
        Residual{name="second", loss=SecondOrder(GemanMcClure(0.5)), X(G.b) - X(G.a) * Y(G.c, 1)}
        Residual{name="mixed", loss=Huber(0.5), Y(G.c, 0) * T(0) - X(G.b, 0) * Y(G.c, 1) + T(1)}
    "#;
    let arrays = [
        doubles("X", &[n, 3], random.numbers(3 * n)),
        doubles("Y", &[m, 2], random.numbers(2 * m)),
        doubles("T", &[2], vec![0.4, -0.2]),
        doubles("A", &[n], random.numbers(n)),
        indices("G.a", 1, random.below(n - 2, edges)),
        indices("G.b", 1, random.below(4, edges)),
        indices("G.c", 1, random.below(m, edges)),
    ];
    bind(text, &arrays)
}

/// A vertex in most hyperedges, others in a few or in none.
pub fn hub() -> Small {
    let (n, edges) = (70, 400);
    let mut random = Random::new(6);
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float2, {N}, 0)
        local A = Array("A", opt_float, {N}, 1)
        local G = Graph("G", 2, "a", {N}, 3, "b", {N}, 4)
        Energy(0.3 * (X(0) - A(0)))
        Residual{name="edge", X(G.a, 0) * sin(X(G.b, 1)) - A(G.a), X(G.b) - 0.5 * X(G.a)}
    "#;
    let b = random.below(n, edges).into_iter().map(|v| if v > 9 { 3 } else { v }).collect();
    let arrays = [
        doubles("X", &[n, 2], random.numbers(2 * n)),
        doubles("A", &[n], random.numbers(n)),
        indices("G.a", 1, random.below(n - 2, edges)),
        indices("G.b", 1, b),
    ];
    bind(text, &arrays)
}

/// Computed arrays over a grid, one of which reads the other.
pub fn computed_arrays() -> Small {
    let (w, h) = (19, 14);
    let mut random = Random::new(4);
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local A = Array("A", opt_float, {W,H}, 1)
        local B = ComputedArray("B", {W,H}, sin(X(0,0)) * X(1,0))
        local C = ComputedArray("C", {W,H}, Vector(B(0,0) * A(0,0), B(0,1)))
        Residual{name="one", C(0,0,0) - C(1,0,1), B(0,0) - 0.2}
        Energy(0.1 * X(0,0))
    "#;
    let arrays = [doubles("X", &[h, w], random.numbers(w * h)), doubles("A", &[h, w], random.numbers(w * h))];
    bind(text, &arrays)
}

/// Computed arrays that read neighbours, at the vertices of hyperedges: some of them neighbours, some the same.
pub fn computed_arrays_at_vertices() -> Small {
    let (w, h, edges) = (9, 6, 70);
    let mut random = Random::new(5);
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local A = Array("A", opt_float, {W,H}, 1)
        local B = ComputedArray("B", {W,H}, cos(X(0,0)) * X(1,0))
        local C = ComputedArray("C", {W,H}, Vector(B(0,0) * A(0,1), exp(B(-1,1)) + 0.1 * Index(0)))
        local G = Graph("G", 2, "a", {W,H}, 3, "b", {W,H}, 4)
        Residual{name="edge", C(G.a, 0) - C(G.b, 1), B(G.a) * X(G.b)}
        Energy(0.3 * X(0,0))
    "#;
    let place = |random: &mut Random| [random.below(w, 1)[0], random.below(h, 1)[0]];
    let a: Vec<i64> = (0..edges).flat_map(|_| place(&mut random)).collect();
    let b: Vec<i64> = (0..edges).flat_map(|_| place(&mut random)).collect();
    let near = a.iter().zip(&b).enumerate().map(|(i, (a, b))| match i / 2 % 3 {
        0 => *b,
        1 => *a,
        _ => (a - (i as i64 % 2)).max(0),
    });
    let arrays = [
        doubles("X", &[h, w], random.numbers(w * h)),
        doubles("A", &[h, w], random.numbers(w * h)),
        indices("G.b", 2, near.collect()),
        indices("G.a", 2, a),
    ];
    bind(text, &arrays)
}
