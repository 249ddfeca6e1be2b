//! Elements of up to 16 scalars, whose blocks of A are inverted by loops from 10 on.

use crate::{agrees, certified, options, steps_agree};
use sumsq::{CompileLimits, NamedArray, Options, Precision, Preconditioner, SolveOptions};
use sumsq_tests::{Random, assert_close, bind, doubles, indices, solve};

/// Affine maps of a graph's elements, rows beside offsets, some left out and some that nothing holds.
const MAPS: &str = r#"
    local N = Dim("N", 0)
    local M, T = Unknown("M", opt_float9, {N}, 0), Unknown("T", opt_float3, {N}, 1)
    local A = Array("A", opt_float3, {N}, 2)
    local G = Graph("G", 3, "a", {N}, 4, "b", {N}, 5)
    Exclude(greater(A(0, 0), 0.7))
    local m = M(G.a)
    local d = A(G.b) - A(G.a)
    local function row(i) return Vector(m(3 * i), m(3 * i + 1), m(3 * i + 2)) end
    Energy(Vector(row(0):dot(d), row(1):dot(d), row(2):dot(d)) + T(G.a) - T(G.b) - A(G.b))
    Energy(0.7 * (row(0):dot(row(1))), 0.7 * (row(1):dot(row(2))), 0.6 * (row(0):dot(row(0)) - 1))
    Energy(0.3 * (T(0) - A(0)))
    Energy(0.2 * (M(0, 4) - sin(A(0, 1)) * M(0, 8)))
"#;

fn maps(n: usize, edges: usize) -> Vec<NamedArray> {
    let mut random = Random::new((n * edges) as u64);
    vec![
        doubles("M", &[n, 9], random.numbers(9 * n)),
        doubles("T", &[n, 3], random.numbers(3 * n)),
        doubles("A", &[n, 3], random.numbers(3 * n)),
        indices("G.a", 1, random.below(n, edges)),
        indices("G.b", 1, random.below(n, edges)),
    ]
}

#[test]
fn of_twelve_scalars_on_a_graph() {
    agrees(MAPS, &maps(37, 120));
    certified(MAPS, &maps(3, 9), Preconditioner::BlockJacobi, CompileLimits::default());
}

/// With blocks of all that there is one iteration of PCG solves; and no block is that of another element.
#[test]
fn of_sixteen_scalars_over_an_image() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float16, {W,H}, 0)
        local A = Array("A", opt_float, {W,H}, 1)
        for i = 0, 15 do
            local sum = 0
            for j = 0, 15 do sum = sum + ((i * j) % 7 + 4 * eq(i, j)) * X(0, 0, j) end
            Energy(sum - (i + 1) * A(0, 0) * A(0, 0))
        end
    "#;
    for (w, h) in [(13, 5), (1, 1)] {
        let mut random = Random::new(w as u64);
        let arrays = [
            doubles("X", &[h, w, 16], random.numbers(16 * w * h)),
            doubles("A", &[h, w], random.numbers(w * h)),
        ];
        certified(text, &arrays, Preconditioner::BlockJacobi, CompileLimits::default());
        let once = |precision| {
            let options = options(precision, Preconditioner::BlockJacobi);
            let solve = SolveOptions { linear_tolerance: Some(1e-4), iterations: Some(1), ..options.solve };
            Options { solve, ..options }
        };
        let report = steps_agree(text, &arrays, &once(Precision::F64));
        assert_eq!(report.iterations[0].linear_iterations, 1, "{report:?}");
        let (energy, mut data) = bind(text, &arrays);
        let mixed = solve(&energy, &mut data, &once(Precision::Mixed));
        assert_eq!(mixed.iterations[0].linear_iterations, 1, "{mixed:?}");
        assert_close("energy in mixed precision", mixed.energy_final, report.energy_final, 1e-3);
    }
}
