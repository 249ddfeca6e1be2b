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
    computed_arrays_at_vertices_beside("")
}

/// The same, and more residuals of X and A.
pub fn computed_arrays_at_vertices_beside(more: &str) -> Small {
    let (w, h, edges) = (9, 6, 70);
    let mut random = Random::new(5);
    let text = format!(
        r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {{W,H}}, 0)
        local A = Array("A", opt_float, {{W,H}}, 1)
        local B = ComputedArray("B", {{W,H}}, cos(X(0,0)) * X(1,0))
        local C = ComputedArray("C", {{W,H}}, Vector(B(0,0) * A(0,1), exp(B(-1,1)) + 0.1 * Index(0)))
        local G = Graph("G", 2, "a", {{W,H}}, 3, "b", {{W,H}}, 4)
        Residual{{name="edge", C(G.a, 0) - C(G.b, 1), B(G.a) * X(G.b)}}
        Energy(0.3 * X(0,0))
        {more}
    "#
    );
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
    bind(&text, &arrays)
}

/// Elements of more scalars than a block has, in unknowns that residuals couple within each and with one another.
pub fn wide_elements() -> Small {
    let n = 21;
    let mut random = Random::new(6);
    let text = r#"
        local N = Dim("N", 0)
        local A = Unknown("A", opt_float3, {N}, 0)
        local B = Unknown("B", opt_float5, {N}, 1)
        local C = Unknown("C", opt_float9, {N}, 2)
        local M = Array("M", opt_float, {N}, 3)
        Exclude(greater(M(0), 0.8))
        Energy(A(0):sum() - 1, 0.3 * A(0), A(0) - A(1))
        Energy(2 * B(0):sum() - A(0,0), 0.2 * B(0), sin(B(0)) - B(1))
        Energy(C(0):sum() - B(0):sum(), 0.1 * C(0))
    "#;
    let of = |name: &str, width: usize, random: &mut Random| {
        let shape = [n, width];
        doubles(name, if width == 1 { &shape[..1] } else { &shape }, random.numbers(n * width))
    };
    let arrays = [("A", 3), ("B", 5), ("C", 9), ("M", 1)].map(|(name, width)| of(name, width, &mut random));
    bind(text, &arrays)
}

/// Bundle adjustment: cameras of nine parameters (a rotation as axis times angle, a translation, a focal length, two of a lens) see points,
/// each camera most of them, and all start near the truth.
pub fn bundle_adjustment() -> Small {
    let (cameras, points, mut random) = (8, 60, Random::new(7));
    let text = r#"
        local C, P, O = Dim("C", 0), Dim("P", 1), Dim("O", 2)
        local cam = Unknown("cam", opt_float9, {C}, 0)
        local X = Unknown("X", opt_float3, {P}, 1)
        local seen = Array("seen", opt_float2, {O}, 2)
        local G = Graph("G", 3, "c", {C}, 4, "p", {P}, 5, "o", {O}, 6)
        local w = Vector(cam(G.c,0), cam(G.c,1), cam(G.c,2))
        local x = X(G.p)
        local q = w:dot(w)
        local angle = sqrt(q)
        local cross = Vector(w(1)*x(2) - w(2)*x(1), w(2)*x(0) - w(0)*x(2), w(0)*x(1) - w(1)*x(0))
        local turned = cos(angle) * x + sin(angle) / angle * cross + (1 - cos(angle)) / q * w:dot(x) * w
        local y = turned + Vector(cam(G.c,3), cam(G.c,4), cam(G.c,5))
        local u = Vector(-y(0) / y(2), -y(1) / y(2))
        local r = u:dot(u)
        Energy(cam(G.c,6) * (1 + cam(G.c,7) * r + cam(G.c,8) * r * r) * u - seen(G.o))
    "#;
    let mut numbers = |scales: &[f64]| -> Vec<f64> {
        random.numbers(scales.len()).iter().zip(scales).map(|(v, scale)| v * scale).collect()
    };
    let (spread, off) = (
        [0.3, 0.3, 0.3, 1.0, 1.0, 1.0, 20.0, 0.1, 0.01],
        [0.01, 0.01, 0.01, 0.05, 0.05, 0.05, 5.0, 0.02, 0.0],
    );
    let center = [0.1, 0.1, 0.1, 0.0, 0.0, -8.0, 500.0, 0.0, 0.0];
    let plus = |a: &[f64], b: Vec<f64>| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a + b).collect() };
    let cams: Vec<Vec<f64>> = (0..cameras).map(|_| plus(&center, numbers(&spread))).collect();
    let at: Vec<Vec<f64>> = (0..points).map(|_| numbers(&[2.0; 3])).collect();
    let all = (0..cameras).flat_map(|c| (0..points).map(move |p| (c, p)));
    let pairs: Vec<(usize, usize)> = all.filter(|(c, p)| (c + p) % 3 > 0).collect();
    let seen =
        pairs.iter().flat_map(|&(c, p)| plus(&projected(&cams[c], &at[p]), numbers(&[0.5; 2]))).collect();
    let column = |of: fn(&(usize, usize)) -> usize| pairs.iter().map(|pair| of(pair) as i64).collect();
    let arrays = [
        doubles("cam", &[cameras, 9], cams.iter().flat_map(|cam| plus(cam, numbers(&off))).collect()),
        doubles("X", &[points, 3], at.iter().flat_map(|x| plus(x, numbers(&[0.1; 3]))).collect()),
        doubles("seen", &[pairs.len(), 2], seen),
        indices("G.c", 1, column(|pair| pair.0)),
        indices("G.p", 1, column(|pair| pair.1)),
        indices("G.o", 1, (0..pairs.len() as i64).collect()),
    ];
    bind(text, &arrays)
}

/// The place where a camera of [`bundle_adjustment`] sees a point.
fn projected(cam: &[f64], x: &[f64]) -> [f64; 2] {
    let w = &cam[..3];
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let (q, along) = (dot(w, w), dot(w, x));
    let (sin, cos) = q.sqrt().sin_cos();
    let turned = |i: usize| {
        let (j, k) = ((i + 1) % 3, (i + 2) % 3);
        cos * x[i] + sin / q.sqrt() * (w[j] * x[k] - w[k] * x[j]) + (1.0 - cos) / q * along * w[i]
    };
    let y = [0, 1, 2].map(|i| turned(i) + cam[3 + i]);
    let u = [-y[0] / y[2], -y[1] / y[2]];
    let r = dot(&u, &u);
    u.map(|u| cam[6] * (1.0 + cam[7] * r + cam[8] * r * r) * u)
}
