use super::*;
use crate::compile::{BufferSlot, Signature};
use crate::expr::Expr;
use crate::func::Layout;
use crate::ir::args::Arg;
use crate::ir::stmt::{LoweredFunction, Stmt};
use crate::runtime::{Buffer, Scalar};
use crate::target::Target;
use crate::types::{ScalarType, Type};

fn zero() -> Expr {
    Expr::int(Type::I64, 0)
}

fn load(buffer: &str) -> Expr {
    Expr::load(buffer, zero(), Type::F64)
}

/// A pipeline over f64 scalars: `out = value`.
fn pipeline(name: &str, inputs: &[&str], params: &[&str], value: Expr) -> Compiled {
    let slot = |name: &str, written| BufferSlot {
        name: name.into(),
        of: name.into(),
        element: None,
        ty: ScalarType::F64,
        channels: 1,
        dims: 0,
        layout: Layout::Planar,
        constraints: vec![],
        halo: vec![],
        written,
        in_place_of: None,
        value_range: None,
    };
    let buffer = |name: &str, written| Arg::Buffer { flat: name.into(), ty: ScalarType::F64, written };
    let mut args: Vec<Arg> = inputs.iter().map(|n| buffer(n, false)).collect();
    args.push(buffer("out", true));
    args.extend(params.iter().map(|&n| Arg::Scalar { param: n.into(), ty: ScalarType::F64 }));
    let mut buffers: Vec<BufferSlot> = inputs.iter().map(|n| slot(n, false)).collect();
    buffers.push(slot("out", true));
    let params = params.iter().map(|&n| (n.into(), ScalarType::F64)).collect();
    let (predicate, aligned, non_temporal) = (None, false, false);
    let body = Stmt::Store { buffer: "out".into(), index: zero(), value, predicate, aligned, non_temporal };
    let f = LoweredFunction {
        name: name.into(),
        args,
        body,
        relaxed: false,
        aliases: vec![],
        records: vec![],
        required: Default::default(),
    };
    Compiled::from_lowered(&f, Signature { buffers, params, ..Signature::default() }, &Target::host())
        .unwrap()
}

fn run(pipeline: usize, bindings: &[(&str, BufferId)], params: &[(&str, Value)]) -> Step {
    Step::Run {
        pipeline: PipelineId(pipeline),
        bindings: bindings.iter().map(|&(n, id)| (n.into(), id)).collect(),
        params: params.iter().map(|&(n, v)| (n.into(), v)).collect(),
    }
}

struct Newton {
    pipelines: Vec<Compiled>,
    table: Table,
    x: BufferId,
    next: BufferId,
    done: BufferId,
    a: ParamId,
}

/// Newton's iteration for sqrt(a): next = (x + a / x) / 2, done = |next^2 - a| <= 1e-12.
fn newton() -> Newton {
    let half = |e: Expr| e * Expr::from(0.5);
    let a = Expr::param("a", Type::F64);
    let step = half(load("x") + a.clone() / load("x"));
    let close = (load("x") * load("x") - a).abs().le(Expr::from(1e-12));
    let done = Expr::select(close, Expr::from(1.0), Expr::from(0.0));
    let pipelines = vec![pipeline("step", &["x"], &["a"], step), pipeline("done", &["x"], &["a"], done)];
    let mut table = Table::new();
    let x = table.add("x", Buffer::scalar(1.0f64).unwrap(), true);
    let next = table.add("next", Buffer::scalar(0.0f64).unwrap(), false);
    let done = table.add("done", Buffer::scalar(0.0f64).unwrap(), false);
    let a = table.add_param("a", Scalar::F64(2.0));
    Newton { pipelines, table, x, next, done, a }
}

impl Newton {
    fn steps(&self) -> Vec<Step> {
        let a = Value::Param(self.a);
        vec![
            Step::Repeat {
                max: 50,
                until: self.done,
                body: vec![
                    run(0, &[("x", self.x), ("out", self.next)], &[("a", a)]),
                    Step::Swap(self.x, self.next),
                    run(1, &[("x", self.x), ("out", self.done)], &[("a", a)]),
                    Step::Host("seen".into()),
                ],
            },
            Step::Host("end".into()),
        ]
    }
    fn refused(self, steps: &[Step]) -> String {
        Program::new(&self.pipelines, &self.table, steps).err().unwrap().to_string()
    }
}

#[test]
fn repeats_swaps_and_parameters() {
    let mut n = newton();
    let (x, a, steps) = (n.x, n.a, n.steps());
    let mut program = Program::new(&n.pipelines, &n.table, &steps).unwrap();
    let pool = Pool::new(1);
    for value in [2.0f64, 9.0, 1e-4] {
        n.table.set_param(a, Scalar::F64(value)).unwrap();
        let (mut iterations, mut ended) = (0, false);
        program
            .run(&mut n.table, &pool, &mut |name, _| {
                if name == "seen" {
                    iterations += 1
                } else {
                    ended = true
                }
                Ok(Flow::Continue)
            })
            .unwrap();
        assert!((n.table.scalar(x).unwrap() - value.sqrt()).abs() < 1e-8);
        assert!(ended && iterations > 2 && iterations < 50, "{iterations}");
    }
}

#[test]
fn the_host_can_break_and_stop() {
    for (flow, reaches_end) in [(Flow::Break, true), (Flow::Stop, false)] {
        let mut n = newton();
        let steps = n.steps();
        let mut program = Program::new(&n.pipelines, &n.table, &steps).unwrap();
        let mut calls = vec![];
        program
            .run(&mut n.table, &Pool::new(1), &mut |name, _| {
                calls.push(name.to_string());
                Ok(if calls.len() == 3 { flow } else { Flow::Continue })
            })
            .unwrap();
        let mut want = vec!["seen"; 3];
        want.extend(reaches_end.then_some("end"));
        assert_eq!(calls, want);
    }
}

#[test]
fn wrong_programs_are_refused() {
    let two = Value::Const(Scalar::F64(2.0));
    type Case = (Box<dyn Fn(&Newton) -> Step>, &'static str);
    let cases: Vec<Case> = vec![
        (
            Box::new(move |n| run(0, &[("x", n.next), ("out", n.x)], &[("a", two)])),
            "program: next: read by input x of step before anything was written to it",
        ),
        (
            Box::new(move |n| run(0, &[("x", n.x), ("out", n.x)], &[("a", two)])),
            "step: out: shares its buffer with x, but is not in place of it",
        ),
        (Box::new(move |n| run(0, &[("x", n.x)], &[("a", two)])), "step: out: no buffer is bound to it"),
        (
            Box::new(|n| run(0, &[("x", n.x), ("out", n.next)], &[])),
            "step: a: no value is given for this parameter",
        ),
        (
            Box::new(|n| run(0, &[("x", n.x), ("out", n.next)], &[("a", Value::Const(Scalar::F32(2.0)))])),
            "step: a: expected a f64, got a f32",
        ),
        (Box::new(|_| run(7, &[], &[])), "program: pipeline 7: there is no such pipeline"),
        (Box::new(|n| Step::Swap(n.x, BufferId(9))), "program: buffer 9: there is no such buffer"),
        (
            Box::new(|n| Step::Repeat { max: 3, until: n.done, body: vec![] }),
            "program: done: read by the condition of a repetition before anything was written to it",
        ),
    ];
    for (step, message) in cases {
        let n = newton();
        let step = step(&n);
        assert_eq!(n.refused(&[step]), message);
    }
    let mut n = newton();
    let wide = n.table.add(
        "wide",
        Buffer::new(crate::runtime::BufferSpec::new(ScalarType::F64, &[3])).unwrap(),
        true,
    );
    let swap = Step::Swap(n.x, wide);
    assert_eq!(n.refused(&[swap]), "program: x: cannot be swapped with wide: they do not look alike");
}

#[test]
fn a_swap_may_leave_nothing_to_read_in_the_second_iteration() {
    // The body reads x and swaps in a buffer that nobody wrote.
    let mut n = newton();
    let other = n.table.add("other", Buffer::scalar(0.0f64).unwrap(), false);
    let body =
        vec![run(1, &[("x", n.x), ("out", n.done)], &[("a", Value::Param(n.a))]), Step::Swap(n.x, other)];
    let step = Step::Repeat { max: 2, until: n.done, body };
    assert!(n.refused(&[step]).starts_with("program: x: read by input x of done"));
}
