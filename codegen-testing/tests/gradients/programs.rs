//! Programs backwards: their adjoints beside differences, whatever is kept of their repetitions.

use sumsq_codegen::compile::Compiled;
use sumsq_codegen::program::{BufferId, Flow, PipelineId, Program, ReverseProgram, Step, Table, Value};
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool, Scalar};
use sumsq_codegen::{
    Error, Expr, Func, Input, Limits, Pipeline, RDom, ScalarType, Schedule, Source, Target, Var, boundary,
};

const N: i32 = 19;
/// Iterations of the outer and of the inner repetition.
const COUNT: usize = 11;
const INNER: usize = 3;

/// A start, a step of `x` towards roots of x^3 = a and to its neighbours, another in place, and a sum.
fn pipelines() -> Vec<(Pipeline, Schedule)> {
    let i = Var::new("i");
    let start = {
        let mut p = Pipeline::new("start");
        let given = p.input(Input::new("given", &[ScalarType::F64], 1));
        let f = p.define("first", [i], given.of(i).sin() * 1.5);
        p.output(&f);
        (p, Schedule::new())
    };
    let step = {
        let mut p = Pipeline::new("step");
        let x = p.input(Input::new("x", &[ScalarType::F64], 1));
        let a = p.input(Input::new("a", &[ScalarType::F64], 1));
        let rate = p.param("rate", ScalarType::F64);
        let near = p.func(boundary::repeat_edge("near", &x, &x.domain()));
        let own = x.of(i);
        let slope = a.of(i) - &own * &own * &own + (near.of(i - 1) - near.of(i + 1)) * 0.3;
        let f = p.define("next", [i], own + rate * slope);
        p.output(&f);
        (p, Schedule::new())
    };
    let faded = {
        let mut p = Pipeline::new("fade");
        let old = p.input(Input::new("old", &[ScalarType::F64], 1));
        let f = p.define("faded", [i], old.of(i) * old.of(i) * 0.1 + old.of(i));
        p.output(&f);
        (p, Schedule::parse("faded: in_place_of(old)").unwrap())
    };
    let total = {
        let mut p = Pipeline::new("total");
        let x = p.input(Input::new("x", &[ScalarType::F64], 1));
        let given = p.input(Input::new("given", &[ScalarType::F64], 1));
        let r = RDom::new([("r", Expr::from(0), x.extent(0))]);
        let at = r.var(0);
        let f = p.func(Func::sum("sum", &[], r, vec![x.of(&at) * x.of(&at) * given.of(&at)]));
        p.output(&f);
        (p, Schedule::new())
    };
    vec![start, step, faded, total]
}

struct World {
    table: Table,
    steps: Vec<Step>,
    given: BufferId,
    a: BufferId,
    sum: BufferId,
}

fn world(given: &[f64], a: &[f64]) -> World {
    let mut table = Table::new();
    let list = || Buffer::new(BufferSpec::new(ScalarType::F64, &[N])).unwrap();
    let [given_id, a_id] = [("given", given), ("a", a)].map(|(name, values)| {
        let b = list();
        b.copy_from(values).unwrap();
        table.add(name, b, true)
    });
    let (x, next) = (table.add("x", list(), false), table.add("next", list(), false));
    let never = table.add("never", Buffer::scalar(0i32).unwrap(), true);
    let sum = table.add("sum", Buffer::scalar(0.0f64).unwrap(), false);
    let rate = table.add_param("rate", Scalar::F64(0.07));
    let run = |k: usize, bindings: &[(&str, BufferId)], rated: bool| Step::Run {
        pipeline: PipelineId(k),
        bindings: bindings.iter().map(|(n, id)| ((*n).into(), *id)).collect(),
        params: rated.then(|| ("rate".into(), Value::Param(rate))).into_iter().collect(),
    };
    let step = || run(1, &[("x", x), ("a", a_id), ("next", next)], true);
    let inner = Step::Repeat { max: INNER, until: never, body: vec![step(), Step::Swap(x, next)] };
    let steps = vec![
        run(0, &[("given", given_id), ("first", x)], false),
        Step::Repeat {
            max: COUNT,
            until: never,
            body: vec![inner, run(2, &[("old", x), ("faded", x)], false)],
        },
        run(3, &[("x", x), ("given", given_id), ("sum", sum)], false),
    ];
    World { table, steps, given: given_id, a: a_id, sum }
}

fn numbers() -> (Vec<f64>, Vec<f64>) {
    let wave = |f: f64, k: i32| (f * f64::from(k)).sin();
    ((0..N).map(|k| wave(0.9, k)).collect(), (0..N).map(|k| 0.5 + 0.4 * wave(1.7, k)).collect())
}

/// The sum that the program ends with.
fn value(given: &[f64], a: &[f64]) -> f64 {
    let mut w = world(given, a);
    let compiled: Vec<Compiled> =
        pipelines().iter().map(|(p, s)| Compiled::new(p, s, &Target::host()).unwrap()).collect();
    let mut program = Program::new(&compiled, &w.table, &w.steps).unwrap();
    program.run(&mut w.table, &Pool::new(1), &mut |_, _| Ok(Flow::Continue)).unwrap();
    w.table.scalar(w.sum).unwrap()
}

#[test]
fn repetitions_go_backwards_whatever_is_kept_of_them() {
    let (given, a) = numbers();
    let expected = value(&given, &a);
    let mut found: Vec<(Vec<f64>, Vec<f64>)> = vec![];
    let mut held = vec![];
    for (every, threads) in
        [(None, 1), (None, 3), (Some(1), 1), (Some(2), 2), (Some(COUNT), 1), (Some(99), 1)]
    {
        let mut w = world(&given, &a);
        let mut r = ReverseProgram::new(
            &pipelines(),
            &mut w.table,
            &w.steps,
            &[w.given, w.a],
            every,
            Limits::default(),
        )
        .unwrap();
        let pool = Pool::new(threads);
        // Twice: what is left of a first run does not show.
        for _ in 0..2 {
            r.forward(&mut w.table, &pool).unwrap();
            assert_eq!(w.table.scalar(w.sum), Some(expected), "the values of the program itself");
            held.push(r.held());
            let [d_given, d_a, d_sum] = [w.given, w.a, w.sum].map(|id| r.adjoint(id).unwrap());
            [d_given, d_a].iter().for_each(|d| w.table.buffer(*d).clear());
            w.table.buffer(d_sum).copy_from(&[1.0]).unwrap();
            r.backward(&mut w.table, &pool).unwrap();
            assert_eq!(w.table.buffer(w.given).to_vec::<f64>(), given);
            assert_eq!(w.table.scalar(w.sum), Some(0.0), "as it was before the program");
            found.push((w.table.buffer(d_given).to_vec(), w.table.buffer(d_a).to_vec()));
        }
    }
    assert!(found.iter().all(|f| *f == found[0]), "the bits depend on nothing");
    // Ahead of iterations 0, 4 and 8: the inner loop's buffers; less than before each.
    assert!(held[0] < held[4] / 2, "{held:?}");
    for (k, direction) in [(0, &found[0].0), (1, &found[0].1)] {
        for j in [0, 7, N as usize - 1] {
            let at = |h: f64| {
                let (mut given, mut a) = (given.clone(), a.clone());
                [&mut given, &mut a][k][j] += h;
                value(&given, &a)
            };
            let h = 1e-4;
            let (wide, narrow) = ((at(h) - at(-h)) / (2.0 * h), (at(h / 2.0) - at(-h / 2.0)) / h);
            let difference = (4.0 * narrow - wide) / 3.0;
            assert!(
                (direction[j] - difference).abs() < 1e-8 * (1.0 + difference.abs()),
                "{k} {j}: {} {difference}",
                direction[j]
            );
        }
    }
}

/// The way back of the program with a change.
fn reverse(change: impl Fn(&mut World)) -> Result<ReverseProgram, Error> {
    let (given, a) = numbers();
    let mut w = world(&given, &a);
    change(&mut w);
    let wrt = [w.given, w.a];
    ReverseProgram::new(&pipelines(), &mut w.table, &w.steps, &wrt, None, Limits::default())
}

/// Runs that have the same adjoint share its code; one whose arrays are of another size has its own.
#[test]
fn equal_adjoints_are_compiled_once() {
    let compiled = |change: &dyn Fn(&mut World)| reverse(change).unwrap().pipelines();
    let plain = compiled(&|_| {});
    assert_eq!(plain, 2 * pipelines().len());
    // The repetition once more: all its pipelines again.
    assert_eq!(compiled(&|w| w.steps.insert(1, w.steps[1].clone())), plain);
    let short = |w: &mut World| {
        let first =
            w.table.add("short", Buffer::new(BufferSpec::new(ScalarType::F64, &[N - 1])).unwrap(), false);
        let bindings = vec![("given".into(), w.given), ("first".into(), first)];
        w.steps.push(Step::Run { pipeline: PipelineId(0), bindings, params: vec![] });
    };
    assert_eq!(compiled(&short), plain + 1);
}

#[test]
fn programs_without_an_adjoint_are_refused() {
    let error = |change: &dyn Fn(&mut World)| reverse(change).err().unwrap().to_string();
    assert_eq!(
        error(&|w| w.steps.push(Step::Host("look".into()))),
        "program: look: a step of the host has no adjoint"
    );
    let ends = error(&|w| {
        let run = Step::Run {
            pipeline: PipelineId(3),
            bindings: vec![("x".into(), w.a), ("given".into(), w.given), ("sum".into(), w.sum)],
            params: vec![],
        };
        w.steps.push(Step::Repeat { max: 3, until: w.sum, body: vec![run] });
    });
    assert_eq!(
        ends,
        "program: sum: ends a repetition that its body writes: only repetitions of fixed count have an adjoint"
    );
    assert_eq!(
        error(&|w| w.given = w.table.add("n", Buffer::scalar(1i32).unwrap(), true)),
        "program: n: is of integers, which have no derivative"
    );
}
