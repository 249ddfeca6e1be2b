//! Hyperedges that add to their vertices in any order, by choice and on a GPU alone, which is a stand-in.

use std::sync::{Mutex, MutexGuard, PoisonError};
use sumsq::{
    Backend, ChoiceError, CompileOptions, NamedArray, OptionError, Overrides, Precision, Report, SolveError,
    SolveOptions, Solver, Value, choices,
};
use sumsq_libcuda::{Control, preload};
use sumsq_tests::{Random, bind, doubles, indices};

/// Two unknowns per element, a global, parts that are stored over hyperedges.
const MESH: &str = r#"
    local N = Dim("N", 0)
    local X = Unknown("X", opt_float2, {N}, 0)
    local T = Unknown("T", opt_float, {}, 1)
    local A = Array("A", opt_float, {N}, 2)
    local G = Graph("G", 3, "a", {N}, 4, "b", {N}, 5)
    Exclude(greater(A(0), 0.95))
    Energy(0.5 * (X(0, 0) - A(0)), 0.5 * X(0, 1))
    Residual{name="edge", sin(X(G.a, 0)) * X(G.b) - T(0) * A(G.b), 0.3 * X(G.a) - 0.2 * X(G.b)}
"#;

/// Hyperedges whose residuals reach beside their vertices, over the border of an image, too.
const AROUND: &str = r#"
    local W, H = Dim("W", 0), Dim("H", 1)
    local X = Unknown("X", opt_float, {W,H}, 0)
    local S = ComputedArray("S", {W,H}, X(0,0) * X(0,0) - 0.5 * X(1,0) + 0.2 * X(0,-1))
    local G = Graph("G", 1, "a", {W,H}, 2, "b", {W,H}, 3)
    Energy(0.7 * X(0,0) - 0.3)
    Residual{name="edge", S(G.a) - 0.4 * S(G.b)}
"#;

/// The machine, for one test.
fn machine() -> (Control, MutexGuard<'static, ()>) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    (preload().unwrap(), turn)
}

fn mesh() -> Vec<NamedArray> {
    let (n, edges) = (301, 1200);
    let mut random = Random::new(31);
    let mut a = random.below(n, edges);
    a[..500].fill(9);
    vec![
        doubles("X", &[n, 2], random.numbers(2 * n)),
        doubles("T", &[1], vec![0.4]),
        doubles("A", &[n], random.numbers(n)),
        indices("G.a", 1, a),
        indices("G.b", 1, random.below(n, edges)),
    ]
}

fn around() -> Vec<NamedArray> {
    let (w, h, edges) = (13, 9, 300);
    let mut random = Random::new(32);
    let mut ends = || {
        let [x, y] = [random.below(w, edges), random.below(h, edges)];
        x.into_iter().zip(y).flat_map(|(x, y)| [x, y]).collect::<Vec<i64>>()
    };
    let (a, b) = (indices("G.a", 2, ends()), indices("G.b", 2, ends()));
    vec![doubles("X", &[h, w], random.numbers(w * h)), a, b]
}

fn options(backend: Backend, precision: Precision, given: &str) -> CompileOptions {
    let choices: Overrides = given.parse().unwrap();
    CompileOptions { backend, precision, choices, threads: Some(1), ..CompileOptions::default() }
}

fn solved(text: &str, arrays: &[NamedArray], compile: &CompileOptions) -> (Report, Vec<f64>) {
    let (energy, mut data) = bind(text, arrays);
    let options =
        SolveOptions { iterations: Some(3), linear_iterations: Some(12), ..SolveOptions::default() };
    let mut problem = Solver::compile(energy, compile).unwrap().plan(&data).unwrap();
    let report = problem.solve(&mut data, &options).unwrap();
    (report, data.x())
}

/// As the gather has it, to rounding, in whatever order threads add; the report says that this order has a say, in words and as JSON.
#[test]
fn a_scatter_agrees_with_the_gather() {
    let (machine, _turn) = machine();
    for (text, arrays, space) in [(MESH, mesh(), "{N}"), (AROUND, around(), "{W,H}")] {
        for (precision, bound) in [(Precision::F64, 1e-10), (Precision::Mixed, 1e-4)] {
            let of = |parts: &str| options(Backend::Cuda, precision, &format!("parts {space}: {parts}"));
            let (report, gathered) = solved(text, &arrays, &of("inline"));
            assert!(report.repeatable && !report.to_string().contains("repeatable"), "{report}");
            for order in ["0", "1", "7"] {
                machine.set("ORDER", order);
                let (report, scattered) = solved(text, &arrays, &of("atomic"));
                machine.set("ORDER", "0");
                let far = scattered.iter().zip(&gathered).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(far <= bound, "{space}, {precision:?}, order {order}: {far}");
                assert!(!report.repeatable);
                assert!(report.to_string().contains("\nnot repeatable: hyperedges add up in any order"));
                let json = serde_json::to_value(&report).unwrap();
                assert_eq!(json["repeatable"], serde_json::Value::Bool(false));
            }
        }
    }
}

/// The routines at random x and in a random direction, against the assembled path.
#[test]
fn scattered_routines_are_those_of_the_assembled_path() {
    let (_machine, _turn) = machine();
    for (text, arrays, more) in [(MESH, mesh(), "J edge: root\n"), (MESH, mesh(), ""), (AROUND, around(), "")]
    {
        let (energy, data) = bind(text, &arrays);
        let given = format!("{more}parts *: atomic");
        let compile = options(Backend::Cuda, Precision::F64, &given);
        let mut problem = Solver::compile(energy, &compile).unwrap().plan(&data).unwrap();
        let mut random = Random::new(33);
        let x: Vec<f64> = data.x().iter().map(|x| x + 0.1 * random.number()).collect();
        let v = random.numbers(x.len());
        let certificate = problem.certify(&data, &x, &v).unwrap();
        assert!(certificate.passed(), "{given}: {:?}", certificate.failures());
    }
}

/// Nothing takes it by itself, and on a CPU nobody can.
#[test]
fn a_scatter_is_never_a_default_and_nothing_for_a_cpu() {
    let (_machine, _turn) = machine();
    let parts = |backend, given: &str| {
        let list = choices(&bind(MESH, &mesh()).0, &options(backend, Precision::Mixed, given));
        let list = list.map(|list| list.all().to_vec())?;
        Ok::<_, SolveError>(list.into_iter().find(|c| c.subject() == "parts {N}").unwrap())
    };
    let there = parts(Backend::Cuda, "").unwrap();
    assert_eq!((there.value, there.possible.contains(&Value::Atomic)), (Value::Inline, true));
    assert_eq!(parts(Backend::Cuda, "parts *: atomic").unwrap().value, Value::Atomic);
    // `*` is for those that can.
    let here = parts(Backend::Cpu, "parts *: atomic").unwrap();
    assert_eq!((here.value, here.possible), (Value::Root, vec![Value::Root]));
    let error = parts(Backend::Cpu, "parts {N}: atomic").unwrap_err();
    let SolveError::Option(OptionError::Choice(ChoiceError::Impossible { value, possible, .. })) = &error
    else {
        panic!("{error:?}")
    };
    assert_eq!((*value, possible.as_str()), (Value::Atomic, "root"));
}
