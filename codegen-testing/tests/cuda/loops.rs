//! Loops of programs that the device runs by itself, as while nodes, in chunks and as one kernel: the bits of the host's loop, whatever the number of
//! iterations, how often the host waits, and every failure. Defects that are planted show.

use crate::machine::Machine;
use std::slice;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::program::{BufferId, Flow, ParamId, PipelineId, Program, Step, Table, Value};
use sumsq_codegen::runtime::cuda::Device;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool, Scalar};
use sumsq_codegen::{Error, Expr, Func, Input, Pipeline, ScalarType, Schedule, Tail, Target, Var};

const N: i32 = 40;

/// next(i) = 3 x(i) / 4 + x(i + 1) / 8 + 1, later = k + 1, done = later >= n.
fn step(sm: u32) -> Result<Compiled, Error> {
    let (i, mut p) = (Var::new("i"), Pipeline::new("step"));
    let (vars, float) = (slice::from_ref(&i), ScalarType::F64);
    let n = p.param("n", float);
    let mut x = Input::new("x", &[float], 1);
    x.halo = vec![1];
    let (x, k) = (p.input(x), p.input(Input::new("k", &[float], 0)));
    let number = |v| Expr::float(float, v);
    let [here, right] = [0, 1].map(|d| x.at(&[i.expr() + d], 0));
    let next = here * number(0.75) + right * number(0.125) + number(1.0);
    let next = p.func(Func::new("next", vars, vec![next]));
    let later = p.func(Func::new("later", &[], vec![k.at(&[], 0) + number(1.0)]));
    let done = Expr::select(later.at(&[], 0).ge(n), Expr::from(1), Expr::from(0));
    let done = p.func(Func::new("done", &[], vec![done]));
    p.output_with(&next, sumsq_codegen::Layout::Planar, vec![1]);
    p.output(&later);
    p.output(&done);
    let mut schedule = Schedule::new();
    let stage = schedule.func("next").compute_root();
    stage.split("i", "b", "t", 32, Tail::Predicate).gpu_blocks(&["b"]).gpu_threads(&["t"]);
    for f in ["later", "done"] {
        schedule.func(f).compute_root().gpu_single();
    }
    Compiled::new(&p, &schedule, &Target::cuda(sm))
}

/// The one that runs the loop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum By {
    /// A while node of at most so many iterations.
    While(usize),
    Chunks,
    /// One kernel of at most so many iterations.
    Kernel(usize),
    Host,
}

pub const ALL: [By; 7] = [
    By::Host,
    By::While(usize::MAX),
    By::While(2),
    By::While(8),
    By::Chunks,
    By::Kernel(usize::MAX),
    By::Kernel(2),
];

pub struct World {
    device: Device,
    program: Program,
    table: Table,
    n: ParamId,
    x: BufferId,
    next: BufferId,
    k: BufferId,
    done: BufferId,
}

impl World {
    pub fn new(by: By, max: usize) -> Result<World, Error> {
        let device = Device::shared(0).map_err(|error| Error::Device { pipeline: "step".into(), error })?;
        device.set_loops_in_chunks(by == By::Chunks);
        device.set_loops_together(matches!(by, By::Kernel(_)));
        device.set_loop_turns(match by {
            By::While(most) | By::Kernel(most) => most,
            By::Chunks => usize::MAX,
            By::Host => 0,
        });
        let mut table = Table::new();
        let n = table.add_param("n", Scalar::F64(0.0));
        let list = || Buffer::new(BufferSpec::new(ScalarType::F64, &[N]).halo(&[1])).unwrap();
        let scalar = || Buffer::scalar(0.0f64).unwrap();
        let [x, next] = ["x", "next"].map(|name| table.add(name, list(), true));
        let [k, later] = ["k", "later"].map(|name| table.add(name, scalar(), true));
        let done = table.add("done", Buffer::scalar(0i32).unwrap(), true);
        let bindings = [("x", x), ("k", k), ("next", next), ("later", later), ("done", done)];
        let bindings = bindings.into_iter().map(|(name, id)| (name.into(), id)).collect();
        let run =
            Step::Run { pipeline: PipelineId(0), bindings, params: vec![("n".into(), Value::Param(n))] };
        let body = vec![run, Step::Swap(x, next), Step::Swap(k, later)];
        let steps = [Step::Repeat { max, until: done, body }];
        let code = step(90)?;
        table
            .gather(&device, &[k, later])
            .map_err(|e| Error::Run { pipeline: "table".into(), message: e.to_string() })?;
        let program = Program::new(&[code], &table, &steps)?;
        Ok(World { device, program, table, n, x, next, k, done })
    }

    /// x, what it was exchanged with, and the number of iterations behind a loop that is to make `n`.
    fn run(&mut self, n: usize, open: bool) -> Result<[Vec<f64>; 2], Error> {
        let (found, k) = self.outcome(n, open)?;
        assert_eq!(k, Some(n as f64));
        Ok(found)
    }

    /// The same of a loop that may have made another number, which comes with it.
    pub fn outcome(&mut self, n: usize, open: bool) -> Result<([Vec<f64>; 2], Option<f64>), Error> {
        self.table.set_param(self.n, Scalar::F64(n as f64))?;
        for id in [self.x, self.next] {
            let values: Vec<f64> = (0..N).map(|i| f64::from(i * i % 7 + id.0 as i32)).collect();
            self.table.buffer(id).copy_from(&values).unwrap();
        }
        assert!(self.table.buffer(self.k).set(&[], 0, 0.0f64));
        let host = &mut |_: &str, _: &mut Table| Ok(Flow::Continue);
        match open {
            true => self.program.start(&mut self.table, &Pool::new(1), host)?,
            false => self.program.run(&mut self.table, &Pool::new(1), host)?,
        }
        self.table
            .fetch([self.k].into_iter())
            .map_err(|error| Error::Device { pipeline: "k".into(), error })?;
        let there = |id: BufferId| {
            let b = self.table.buffer(id);
            b.sync_host().map_err(|error| Error::Device { pipeline: "x".into(), error })?;
            Ok(b.to_vec::<f64>())
        };
        let found = [there(self.x)?, there(self.next)?];
        Ok((found, self.table.scalar(self.k)))
    }
}

/// As the loop is described: x and the x before.
fn expected(n: usize) -> [Vec<f64>; 2] {
    let start = |id: i32| (0..N).map(|i| f64::from(i * i % 7 + id)).collect::<Vec<f64>>();
    let (mut x, mut other) = (start(0), start(1));
    for _ in 0..n {
        let right = |i: usize| x.get(i + 1).copied().unwrap_or(0.0);
        let next: Vec<f64> = (0..x.len()).map(|i| right(i).mul_add(0.125, x[i] * 0.75) + 1.0).collect();
        other = std::mem::replace(&mut x, next);
    }
    [x, other]
}

#[test]
fn buffers_are_in_their_places_behind_any_number_of_iterations() {
    let machine = Machine::new();
    for by in ALL {
        let mut world = World::new(by, usize::MAX).unwrap();
        for n in [1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 30, 33] {
            let found = world.run(n, false).unwrap();
            let wanted = expected(n);
            for (found, wanted) in found.iter().zip(&wanted) {
                let apart = found.iter().zip(wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(apart < 1e-12, "{by:?}, {n} iterations: {apart}");
            }
            // So a swap too many, or one too few, would have been seen.
            assert!(found[0] != found[1], "{n}");
        }
        drop(world);
        assert!(machine.is_clean(), "{by:?}");
    }
}

#[test]
fn a_loop_has_the_same_bits_whoever_runs_it() {
    let machine = Machine::new();
    let of = |by: By, open: bool| -> Vec<[Vec<f64>; 2]> {
        let mut world = World::new(by, usize::MAX).unwrap();
        [1, 5, 8, 14, 21].into_iter().map(|n| world.run(n, open).unwrap()).collect()
    };
    let host = of(By::Host, false);
    for by in ALL {
        assert!(of(by, false) == host, "{by:?}");
    }
    for by in [By::Host, By::While(usize::MAX), By::Chunks, By::Kernel(usize::MAX)] {
        assert!(of(by, true) == host, "{by:?}, left open");
    }
    assert!(machine.is_clean());
}

#[test]
fn the_most_iterations_end_a_loop() {
    let _machine = Machine::new();
    for by in ALL {
        for max in [1, 7, 8, 12] {
            let mut world = World::new(by, max).unwrap();
            world.table.set_param(world.n, Scalar::F64(1e9)).unwrap();
            let host = &mut |_: &str, _: &mut Table| Ok(Flow::Continue);
            world.program.run(&mut world.table, &Pool::new(1), host).unwrap();
            assert_eq!(world.table.scalar(world.k), Some(max as f64), "{by:?}");
            assert_eq!(world.table.scalar(world.done), Some(0.0));
        }
    }
}

#[test]
fn the_host_waits_once() {
    let _machine = Machine::new();
    for (by, n, waits) in [
        (By::While(usize::MAX), 13, 1),
        (By::While(usize::MAX), 40, 1),
        (By::Chunks, 40, 7),
        (By::Kernel(usize::MAX), 40, 1),
    ] {
        let mut world = World::new(by, usize::MAX).unwrap();
        world.run(n, true).unwrap();
        // All is on the device.
        world.table.set_param(world.n, Scalar::F64(2.0 * n as f64)).unwrap();
        let before = world.device.counts().waits;
        let host = &mut |_: &str, _: &mut Table| Ok(Flow::Continue);
        world.program.start(&mut world.table, &Pool::new(1), host).unwrap();
        world.table.fetch([world.k].into_iter()).unwrap();
        assert_eq!(world.table.scalar(world.k), Some(2.0 * n as f64));
        assert_eq!(world.device.counts().waits - before, waits, "{by:?}, {n} iterations");
    }
}

#[test]
fn any_call_of_a_loop_may_fail() {
    let machine = Machine::new();
    for by in [By::While(usize::MAX), By::Chunks, By::Kernel(usize::MAX)] {
        let solve = || -> Result<_, Error> { World::new(by, usize::MAX)?.run(11, true) };
        let good = solve().unwrap();
        let mut n = 0;
        loop {
            n += 1;
            let code = [2, 46, 214, 700, 702][n as usize % 5];
            let (found, calls) = machine.failing(n, code, solve);
            assert!(machine.is_clean(), "{by:?}: call {n} with {code}");
            match found {
                Ok(found) => assert!(found == good, "{by:?}: call {n} with {code}"),
                Err(error) => assert!(matches!(error, Error::Device { .. } | Error::Run { .. }), "{error}"),
            }
            if calls < n {
                break;
            }
        }
        assert!(n > 50, "{by:?}: {n}");
        assert!(solve().unwrap() == good);
    }
}

/// The numbers of iterations, of some, after which buffers hold what they should.
fn right(by: By) -> Vec<usize> {
    let is_right = |n: &usize| {
        // Behind a defect the loop may not come to its end by itself.
        let mut world = World::new(by, 12).unwrap();
        let Ok((found, k)) = world.outcome(*n, false) else { return false };
        let apart = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
        let wanted = expected(*n);
        k == Some(*n as f64) && found.iter().flatten().zip(wanted.iter().flatten()).all(apart)
    };
    [1, 2, 3, 8, 9].into_iter().filter(is_right).collect()
}

#[test]
fn planted_swaps_and_missing_waits_show() {
    let machine = Machine::new();
    let [all, one, even] = [&[1, 2, 3, 8, 9][..], &[1], &[2, 8]];
    let (node, kernel) = (By::While(usize::MAX), By::Kernel(usize::MAX));
    // The second iteration of a turn works on the buffers of the first.
    machine.set("STALE_ARGUMENTS", "on");
    for by in [node, By::Chunks] {
        assert_eq!(right(by), one, "{by:?}");
    }
    machine.set("STALE_ARGUMENTS", "off");
    machine.set("EDIT", "and.b32 \t%g10, %g1, 1; => mov.b32 \t%g10, 0;");
    assert_eq!(right(kernel), one);
    // The count of iterations is even, so that buffers are thought to be in their places.
    machine.set("EDIT", "st.global.b32 \t[%gd0], %g1; => st.global.b32 \t[%gd0], 0;");
    assert_eq!(right(kernel), even);
    // Blocks wait for nobody.
    machine.set("EDIT", "setp.lt.s32 \t%gp0, %g4, 0; => setp.lt.s32 \t%gp0, 0, 0;");
    assert_eq!(right(kernel), one);
    // All threads of the last kernel but the one that is to count the iteration.
    machine.set("EDIT", "setp.ne.s32 \t%gp0, %g11, 0; => setp.eq.s32 \t%gp0, %g11, 0;");
    assert!(right(node).is_empty());
    machine.set("EDIT", "");
    for by in ALL {
        assert_eq!(right(by), all, "{by:?}");
    }
}

#[test]
fn a_wait_that_is_missing_is_a_race_in_every_order() {
    let machine = Machine::new();
    let [all, one, none]: [&[usize]; 3] = [&[1, 2, 3, 8, 9], &[1], &[]];
    let wait = |k: usize| {
        let label = format!("$Lwait{k}:\n\t");
        format!("{label}ld.acquire.gpu.global.b32 \t%g4, [%gd0+8]; => {label}mov.b32 \t%g4, %g2;")
    };
    let [released, acquired] = ["red.relaxed", "ld.acquire"];
    let edits = [
        // The first iteration reads nothing that another block has written.
        (wait(0), one),
        (wait(1), none),
        // Nothing is released; nothing is acquired but by the fence behind the wait, which does.
        (format!("fence.acq_rel.gpu;\n\t{released} => {released}"), none),
        (format!("{acquired} => ld.relaxed"), all),
        // The block does not wait for the thread that does.
        ("$Lwaited1:\n\tbar.sync \t0; => $Lwaited1:".into(), none),
    ];
    let mut found = vec![];
    for order in ["0", "1", "2", "77"] {
        machine.set("ORDER", order);
        for (edit, expected) in &edits {
            machine.set("EDIT", edit);
            found.push((order, edit, expected, right(By::Kernel(usize::MAX))));
        }
    }
    machine.set("EDIT", "");
    machine.set("ORDER", "0");
    for (order, edit, expected, found) in found {
        assert_eq!(&found, expected, "order {order}: {edit}");
    }
}

#[test]
fn one_kernel_runs_the_loop() {
    let _machine = Machine::new();
    let mut world = World::new(By::Kernel(usize::MAX), usize::MAX).unwrap();
    let before = world.device.counts();
    world.run(9, false).unwrap();
    let after = world.device.counts();
    assert_eq!((after.launches - before.launches, after.graphs - before.graphs), (1, 0));
}
