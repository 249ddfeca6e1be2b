//! Pose graphs: chains of measurements whose errors add up, closed here and there. The smoothest part of a step decides them, which
//! PCG finds last and sparse Cholesky at once.

use sumsq::assembled::{LinearSolver, solve};
use sumsq::{CompileOptions, NamedArray, SolveOptions};
use sumsq_tests::{Random, assert_close, bind, doubles, indices};

/// The pose of b in the frame of a, less the measured one.
const PLANE: &str = r#"
    local N, E = Dim("N", 0), Dim("E", 1)
    local X = Unknown("X", opt_float3, {N}, 0)
    local Z = Array("Z", opt_float3, {E}, 1)
    local F = Array("F", opt_float, {N}, 2)
    local G = Graph("G", 3, "a", {N}, 4, "b", {N}, 5, "e", {E}, 6)
    Exclude(greater(F(0), 0.5))
    local a, b, z = X(G.a), X(G.b), Z(G.e)
    local d = Rotate2D(-a(2), Vector(b(0) - a(0), b(1) - a(1)))
    local turn = b(2) - a(2) - z(2)
    Energy(d(0) - z(0), d(1) - z(1), atan2(sin(turn), cos(turn)))
"#;

type Pose = [f64; 3];

/// b in the frame of a.
fn between(a: Pose, b: Pose) -> Pose {
    let (s, c) = a[2].sin_cos();
    let (x, y) = (b[0] - a[0], b[1] - a[1]);
    [c * x + s * y, c * y - s * x, b[2] - a[2]]
}

fn beyond(a: Pose, z: Pose) -> Pose {
    let (s, c) = a[2].sin_cos();
    [a[0] + c * z[0] - s * z[1], a[1] + s * z[0] + c * z[1], a[2] + z[2]]
}

/// A walk to and fro over `rows` rows of `columns`, measured from step to step and across every `every`th neighbour of the next row. It
/// starts where the steps alone lead, or at the truth.
fn walk(rows: usize, columns: usize, every: usize, noise: f64, at_truth: bool) -> Vec<NamedArray> {
    let mut random = Random::new(71);
    let (mut truth, at) = (vec![], |i: usize| {
        let (row, k) = (i / columns, i % columns);
        let (column, turned) = if row % 2 == 0 { (k, 0.0) } else { (columns - 1 - k, std::f64::consts::PI) };
        [column as f64, row as f64, turned]
    });
    (0..rows * columns).for_each(|i| truth.push(at(i)));
    let mut edges: Vec<(usize, usize)> = (1..truth.len()).map(|i| (i - 1, i)).collect();
    let steps = edges.len();
    for i in (0..(rows - 1) * columns).step_by(every) {
        let (row, k) = (i / columns, i % columns);
        edges.push((i, (row + 1) * columns + columns - 1 - k));
    }
    let mut measure =
        |&(a, b): &(usize, usize)| between(truth[a], truth[b]).map(|z| z + noise * random.number());
    let measured: Vec<Pose> = edges.iter().map(&mut measure).collect();
    let mut start: Vec<Pose> = vec![truth[0]];
    measured[..steps].iter().for_each(|&z| start.push(beyond(start[start.len() - 1], z)));
    let start = if at_truth { &truth } else { &start };
    let index = |of: fn(&(usize, usize)) -> usize| edges.iter().map(|e| of(e) as i64).collect::<Vec<i64>>();
    let held = (0..truth.len()).map(|i| f64::from(u8::from(i == 0))).collect();
    vec![
        doubles("X", &[truth.len(), 3], start.concat()),
        doubles("Z", &[edges.len(), 3], measured.concat()),
        doubles("F", &[truth.len()], held),
        indices("G.a", 1, index(|e| e.0)),
        indices("G.b", 1, index(|e| e.1)),
        indices("G.e", 1, (0..edges.len() as i64).collect()),
    ]
}

/// From where dead reckoning ends, Cholesky under a large radius comes to the minimum that the truth lies beside.
#[test]
fn cholesky_closes_long_loops() {
    let minimum = |at_truth, iterations| {
        let (energy, mut data) = bind(PLANE, &walk(40, 40, 8, 0.05, at_truth));
        let options = SolveOptions {
            radius: Some(1e8),
            iterations: Some(iterations),
            function_tolerance: Some(1e-12),
            ..SolveOptions::default()
        };
        solve(&energy, &mut data, &CompileOptions::default(), &options, LinearSolver::Cholesky).unwrap()
    };
    let (near, far) = (minimum(true, 50), minimum(false, 50));
    assert!(far.energy_initial > 100.0 * near.energy_initial, "{far}");
    assert_close("E", far.energy_final, near.energy_final, 1e-9);
}
