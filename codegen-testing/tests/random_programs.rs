//! Random programs (runs, swaps, repetitions, hosts) against the same steps as a loop over vectors.
//!
//! Every buffer must end with the same numbers, and the host must be asked as often. A program may be refused, where it reads what was never
//! written. `SUMSQ_FUZZ_CASES` sets how many cases run, `SUMSQ_FUZZ_SEED` the first seed (to repeat one case: its seed, and 1 case, which is
//! then also printed). `cargo xtask fuzz` runs many.

use std::slice::from_ref;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::program::{BufferId, Flow, ParamId, PipelineId, Program, Step, Table, Value};
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool, Scalar};
use sumsq_codegen::{Expr, Func, Input, Pipeline, RDom, ScalarType, Schedule, Tail, Target, Var};
use sumsq_codegen_testing::rng::{Rng, setting};

const CASES: u64 = 200;
const I32: ScalarType = ScalarType::I32;
/// Numbers of an array.
const LEN: usize = 37;
/// Buffers of a program: arrays, then scalars.
const ARRAYS: usize = 4;
const SCALARS: usize = 3;

/// A pipeline: its inputs, whether they and the output are scalars, whether it has the parameter k.
struct Kind {
    inputs: &'static [&'static str],
    from_scalars: bool,
    to_scalar: bool,
    k: bool,
    make: fn(&mut Pipeline) -> Func,
    /// The same of vectors.
    host: fn(&[&[i32]], i32) -> Vec<i32>,
}

fn x() -> Var {
    Var::new("x")
}

fn input(p: &mut Pipeline, name: &str, dims: usize) -> Input {
    p.input(Input::new(name, &[I32], dims))
}

const KINDS: [Kind; 5] = [
    Kind {
        inputs: &["a"],
        from_scalars: false,
        to_scalar: false,
        k: true,
        make: |p| {
            let (a, k) = (input(p, "a", 1), p.param("k", I32));
            Func::new("out", from_ref(&x()), vec![a.at(&[x().expr()], 0) * k + x().expr()])
        },
        host: |v, k| (0..).zip(v[0]).map(|(x, a)| a.wrapping_mul(k).wrapping_add(x)).collect(),
    },
    Kind {
        inputs: &["a", "b"],
        from_scalars: false,
        to_scalar: false,
        k: false,
        make: |p| {
            let (a, b) = (input(p, "a", 1), input(p, "b", 1));
            Func::new("out", from_ref(&x()), vec![a.at(&[x().expr()], 0) - b.at(&[x().expr()], 0)])
        },
        host: |v, _| v[0].iter().zip(v[1]).map(|(a, b)| a.wrapping_sub(*b)).collect(),
    },
    Kind {
        inputs: &["a"],
        from_scalars: false,
        to_scalar: false,
        k: false,
        make: |p| {
            let a = input(p, "a", 1);
            let before = a.at(&[(x().expr() - 1).max(0)], 0);
            Func::new("out", from_ref(&x()), vec![a.at(&[x().expr()], 0) + before])
        },
        host: |v, _| (0..LEN).map(|x| v[0][x].wrapping_add(v[0][x.saturating_sub(1)])).collect(),
    },
    Kind {
        inputs: &["a"],
        from_scalars: true,
        to_scalar: true,
        k: false,
        make: |p| Func::new("out", &[], vec![input(p, "a", 0).at(&[], 0) + 1]),
        host: |v, _| vec![v[0][0].wrapping_add(1)],
    },
    Kind {
        inputs: &["a"],
        from_scalars: false,
        to_scalar: true,
        k: true,
        make: |p| {
            let (a, k) = (input(p, "a", 1), p.param("k", I32));
            let r = RDom::new([("r", Expr::from(0), a.extent(0))]);
            let term = a.at(&[r.var(0)], 0);
            let sum = p.func(Func::sum("sum", &[], r, vec![term]));
            Func::new("out", &[], vec![(sum.at(&[], 0) * k).and(3)])
        },
        host: |v, k| vec![v[0].iter().fold(0i32, |s, &a| s.wrapping_add(a)).wrapping_mul(k) & 3],
    },
];

fn compiled(kind: &Kind) -> Compiled {
    let mut p = Pipeline::new("step");
    let out = (kind.make)(&mut p);
    let out = p.func(out);
    p.output(&out);
    let mut s = Schedule::new();
    if !kind.to_scalar {
        s.func("out").vectorize("x", 8, Tail::Predicate);
    }
    Compiled::new(&p, &s, &Target::host()).expect("compiles")
}

/// Steps, and what the host answers and sets k to each time it is asked.
struct Case {
    steps: Vec<Step>,
    answers: Vec<(Flow, i32)>,
    initialised: Vec<bool>,
}

fn case(rng: &mut Rng) -> Case {
    let steps = (0..rng.range(1, 8)).map(|_| step(rng, 3)).collect();
    let flow = |rng: &mut Rng| match rng.below(12) {
        0 => Flow::Break,
        1 => Flow::Stop,
        _ => Flow::Continue,
    };
    let answers = (0..16).map(|_| (flow(rng), rng.range(-3, 3) as i32)).collect();
    let initialised = (0..ARRAYS + SCALARS).map(|_| rng.percent(90)).collect();
    Case { steps, answers, initialised }
}

fn array(rng: &mut Rng) -> BufferId {
    BufferId(rng.below(ARRAYS))
}

fn scalar(rng: &mut Rng) -> BufferId {
    BufferId(ARRAYS + rng.below(SCALARS))
}

fn step(rng: &mut Rng, depth: usize) -> Step {
    match rng.below(10) {
        0 | 1 => Step::Swap(array(rng), array(rng)),
        2 => Step::Swap(scalar(rng), scalar(rng)),
        3 => Step::Host("host".into()),
        4 | 5 if depth > 0 => {
            let body = (0..rng.range(0, 5)).map(|_| step(rng, depth - 1)).collect();
            Step::Repeat { max: rng.below(5), until: scalar(rng), body }
        }
        _ => run(rng),
    }
}

fn run(rng: &mut Rng) -> Step {
    let pipeline = rng.below(KINDS.len());
    let kind = &KINDS[pipeline];
    let out = if kind.to_scalar { scalar(rng) } else { array(rng) };
    let mut bindings = vec![("out".into(), out)];
    for &name in kind.inputs {
        // What is written may not be read.
        let from = loop {
            let from = if kind.from_scalars { scalar(rng) } else { array(rng) };
            if from != out {
                break from;
            }
        };
        bindings.push((name.into(), from));
    }
    rng.shuffle(&mut bindings);
    let k = match rng.percent(50) {
        true => Value::Param(ParamId(0)),
        false => Value::Const(Scalar::I32(rng.range(-3, 3) as i32)),
    };
    let params = if kind.k { vec![("k".into(), k)] } else { vec![] };
    Step::Run { pipeline: PipelineId(pipeline), bindings, params }
}

/// The loop on the host.
struct Host<'a> {
    buffers: Vec<Vec<i32>>,
    k: i32,
    answers: &'a [(Flow, i32)],
    asked: usize,
}

impl Host<'_> {
    fn run(&mut self, steps: &[Step]) -> Flow {
        for step in steps {
            match step {
                Step::Run { pipeline, bindings, params } => {
                    let kind = &KINDS[pipeline.0];
                    let bound =
                        |name: &str| bindings.iter().find(|b| *b.0 == *name).expect("it is bound").1.0;
                    let inputs: Vec<&[i32]> =
                        kind.inputs.iter().map(|n| &self.buffers[bound(n)][..]).collect();
                    let k = match params.first() {
                        Some((_, Value::Const(Scalar::I32(k)))) => *k,
                        _ => self.k,
                    };
                    let out = (kind.host)(&inputs, k);
                    self.buffers[bound("out")] = out;
                }
                Step::Swap(a, b) => self.buffers.swap(a.0, b.0),
                Step::Repeat { max, until, body } => {
                    for _ in 0..*max {
                        match self.run(body) {
                            Flow::Continue => {}
                            Flow::Break => break,
                            Flow::Stop => return Flow::Stop,
                        }
                        if self.buffers[until.0][0] != 0 {
                            break;
                        }
                    }
                }
                Step::Host(_) => {
                    let (flow, k) = self.answers[self.asked % self.answers.len()];
                    (self.asked, self.k) = (self.asked + 1, k);
                    if flow != Flow::Continue {
                        return flow;
                    }
                }
            }
        }
        Flow::Continue
    }
}

/// True if it is the same; false if it was refused.
fn compare(case: &Case, pipelines: &[Compiled], seed: u64) -> bool {
    let mut rng = Rng::new(!seed);
    let numbers: Vec<Vec<i32>> = (0..ARRAYS + SCALARS)
        .map(|b| (0..if b < ARRAYS { LEN } else { 1 }).map(|_| rng.range(-9, 9) as i32).collect())
        .collect();
    let mut table = Table::new();
    let mut ids = Vec::new();
    for (b, numbers) in numbers.iter().enumerate() {
        let extents: &[i32] = if b < ARRAYS { &[LEN as i32] } else { &[] };
        let buffer = Buffer::new(BufferSpec::new(I32, extents)).expect("memory");
        for (x, v) in numbers.iter().enumerate() {
            assert!(buffer.set(&[x as i32][..extents.len()], 0, *v));
        }
        ids.push(table.add(format!("b{b}"), buffer, case.initialised[b]));
    }
    let k = table.add_param("k", Scalar::I32(2));
    let mut program = match Program::new(pipelines, &table, &case.steps) {
        Ok(program) => program,
        Err(e) => {
            assert!(e.to_string().contains("before anything was written to it"), "seed {seed}: {e}");
            return false;
        }
    };
    let mut host = Host { buffers: numbers, k: 2, answers: &case.answers, asked: 0 };
    host.run(&case.steps);
    let mut asked = 0;
    let pool = Pool::new(1 + rng.below(3));
    let mut answer = |_: &str, table: &mut Table| {
        let (flow, value) = case.answers[asked % case.answers.len()];
        asked += 1;
        table.set_param(k, Scalar::I32(value)).map(|()| flow)
    };
    program
        .run(&mut table, &pool, &mut answer)
        .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{:#?}", case.steps));
    assert_eq!(asked, host.asked, "seed {seed}: the host is asked\n{:#?}", case.steps);
    for (id, want) in ids.into_iter().zip(&host.buffers) {
        let came: Vec<i32> = table.buffer(id).to_vec();
        assert_eq!(came, *want, "seed {seed}: {id:?}\n{:#?}", case.steps);
    }
    true
}

#[test]
fn programs_do_what_their_steps_say() {
    let (first, cases) = (setting("SUMSQ_FUZZ_SEED", 1), setting("SUMSQ_FUZZ_CASES", CASES));
    let pipelines: Vec<Compiled> = KINDS.iter().map(compiled).collect();
    let mut same = 0;
    for seed in first..first + cases {
        let case = case(&mut Rng::new(seed));
        if cases == 1 {
            println!("{:#?}", case.steps);
        }
        same += u64::from(compare(&case, &pipelines, seed));
    }
    println!("{same} programs the same, {} refused", cases - same);
    assert!(cases < 20 || same * 2 > cases, "{same} of {cases} programs run");
}
