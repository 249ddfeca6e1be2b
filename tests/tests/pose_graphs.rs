//! Pose graphs: chains of measurements whose errors add up, closed here and there. The smoothest part of a step decides them, which
//! PCG finds last and sparse Cholesky at once.

use sumsq::assembled::{LinearSolver, solve};
use sumsq::{CompileOptions, NamedArray, Report, SolveOptions, Solver};
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

/// A solve by defaults.
fn by_defaults(text: &str, arrays: &[NamedArray]) -> Report {
    let (energy, mut data) = bind(text, arrays);
    let solver = Solver::compile(energy, &CompileOptions::default()).unwrap();
    solver.plan(&data).unwrap().solve(&mut data, &SolveOptions::default()).unwrap()
}

/// PCG that is cut short straightens joints in place of loops; a second descent by exact steps comes to the minimum.
#[test]
fn defaults_close_long_loops() {
    for (rows, columns, every) in [(20, 80, 40), (20, 100, 50)] {
        let near = by_defaults(PLANE, &walk(rows, columns, every, 0.1, true));
        let far = by_defaults(PLANE, &walk(rows, columns, every, 0.1, false));
        assert_eq!(near.second_descent, None, "{near}");
        let second = far.second_descent.expect("50 steps do not do");
        assert!(far.iterations[second - 2].energy > 100.0 * near.energy_final, "{far}");
        assert_close("E", far.energy_final, near.energy_final, 2e-2);
        assert!(far.to_string().contains("are a second descent from the start: its end counts"), "{far}");
    }
}

/// Whoever says how many steps there are to be gets as many.
#[test]
fn a_number_of_steps_is_one_descent() {
    let (energy, mut data) = bind(PLANE, &walk(20, 80, 40, 0.1, false));
    let solver = Solver::compile(energy, &CompileOptions::default()).unwrap();
    let options = SolveOptions { iterations: Some(50), ..SolveOptions::default() };
    let report = solver.plan(&data).unwrap().solve(&mut data, &options).unwrap();
    assert_eq!((report.iterations.len(), report.second_descent), (50, None));
}

/// Positions and quaternions, which are normalised where they are used.
const SPACE: &str = r#"
    local N, E = Dim("N", 0), Dim("E", 1)
    local T = Unknown("T", opt_float3, {N}, 0)
    local Q = Unknown("Q", opt_float4, {N}, 1)
    local Z = Array("Z", opt_float3, {E}, 2)
    local W = Array("W", opt_float4, {E}, 3)
    local F = Array("F", opt_float, {N}, 4)
    local G = Graph("G", 5, "a", {N}, 6, "b", {N}, 7, "e", {E}, 8)
    Exclude(greater(F(0), 0.5))
    local function cross(u, v)
        return Vector(u(1)*v(2) - u(2)*v(1), u(2)*v(0) - u(0)*v(2), u(0)*v(1) - u(1)*v(0))
    end
    local function unit(q) local n = sqrt(q:dot(q)) return q(0)/n, Vector(q(1)/n, q(2)/n, q(3)/n) end
    -- The product of the conjugate of the first with the second.
    local function from(w, u, x, v)
        return w*x + u:dot(v), Vector(w*v(0), w*v(1), w*v(2)) - Vector(x*u(0), x*u(1), x*u(2)) - cross(u, v)
    end
    local w, u = unit(Q(G.a))
    local x, v = unit(Q(G.b))
    local d = T(G.b) - T(G.a)
    local c = cross(u, d)
    local t = d - 2*w*c + 2*cross(u, c)
    local y, r = from(w, u, x, v)
    local m = W(G.e)
    local _, e = from(m(0), Vector(m(1), m(2), m(3)), y, r)
    Energy(3*(t - Z(G.e)), 20*e)
"#;

type Quaternion = nalgebra::UnitQuaternion<f64>;
type Vector = nalgebra::Vector3<f64>;

/// A spiral over a sphere, measured along itself and to the next turn, as `sphere2500` is. It starts where the steps alone lead, or at the truth.
fn sphere(turns: usize, poses: usize, noise: f64, at_truth: bool) -> Vec<NamedArray> {
    let mut random = Random::new(72);
    let at = |i: usize| {
        let polar = std::f64::consts::PI * (i as f64 + 0.5) / (turns * poses) as f64;
        let around = std::f64::consts::TAU * i as f64 / poses as f64;
        let place = Vector::new(polar.sin() * around.cos(), polar.sin() * around.sin(), polar.cos());
        (50.0 * place, Quaternion::from_euler_angles(0.0, polar, around))
    };
    let truth: Vec<(Vector, Quaternion)> = (0..turns * poses).map(at).collect();
    let steps = (1..truth.len()).map(|i| (i - 1, i));
    let edges: Vec<(usize, usize)> = steps.chain((poses..truth.len()).map(|i| (i - poses, i))).collect();
    let mut number = || Vector::from_fn(|_, _| noise * random.number());
    let mut measure = |&(a, b): &(usize, usize)| {
        let ((t, q), (s, r)) = (truth[a], truth[b]);
        (q.inverse() * (s - t) + number(), q.inverse() * r * Quaternion::new(number()))
    };
    let measured: Vec<(Vector, Quaternion)> = edges.iter().map(&mut measure).collect();
    let mut start = vec![truth[0]];
    for (z, w) in &measured[..truth.len() - 1] {
        let (t, q) = start[start.len() - 1];
        start.push((t + q * z, q * w));
    }
    let start = if at_truth { &truth } else { &start };
    let places = |of: &[(Vector, Quaternion)]| of.iter().flat_map(|(t, _)| [t.x, t.y, t.z]).collect();
    let turns = |of: &[(Vector, Quaternion)]| of.iter().flat_map(|(_, q)| [q.w, q.i, q.j, q.k]).collect();
    let held = (0..truth.len()).map(|i| f64::from(u8::from(i == 0))).collect();
    let index = |of: fn(&(usize, usize)) -> usize| edges.iter().map(|e| of(e) as i64).collect::<Vec<i64>>();
    vec![
        doubles("T", &[truth.len(), 3], places(start)),
        doubles("Q", &[truth.len(), 4], turns(start)),
        doubles("Z", &[edges.len(), 3], places(&measured)),
        doubles("W", &[edges.len(), 4], turns(&measured)),
        doubles("F", &[truth.len()], held),
        indices("G.a", 1, index(|e| e.0)),
        indices("G.b", 1, index(|e| e.1)),
        indices("G.e", 1, (0..edges.len() as i64).collect()),
    ]
}

#[test]
fn defaults_close_a_sphere() {
    let near = by_defaults(SPACE, &sphere(30, 30, 0.05, true));
    let far = by_defaults(SPACE, &sphere(30, 30, 0.05, false));
    assert!(far.energy_initial > 100.0 * near.energy_initial, "{far}");
    assert_close("E", far.energy_final, near.energy_final, 1e-2);
}
