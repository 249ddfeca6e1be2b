//! Copies between the sides of buffers that are not made although the driver says so: each shows, by a fault or another result.

use crate::loops::{ALL, By, World};
use crate::machine::Machine;
use std::fmt::Debug;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool};
use sumsq_codegen::{Error, Expr, Func, Input, Pipeline, RDom, ScalarType, Schedule, Tail, Target, Var};

const N: i32 = 70;

/// Copies to the device, to the host and within the device that something makes; and those of them which nobody misses.
fn missed<R: PartialEq + Debug>(
    machine: &Machine,
    f: impl Fn() -> Result<R, Error>,
) -> ([u64; 3], Vec<(&'static str, u64)>) {
    let before = machine.counters();
    let good = f().unwrap();
    let after = machine.counters();
    let made = [
        after.copies_to_device - before.copies_to_device,
        after.copies_to_host - before.copies_to_host,
        after.copies_within_device - before.copies_within_device,
    ];
    let mut unseen = vec![];
    for (direction, count) in ["to_device", "to_host", "within_device"].into_iter().zip(made) {
        for n in 1..=count {
            let missed = machine.counters().missed_bytes;
            machine.set("MISSED_COPY", &format!("{direction}:{n}"));
            let done = f();
            machine.set("MISSED_COPY", "");
            // What would have changed nothing is missed by nobody.
            if done.is_ok_and(|found| found == good) && machine.counters().missed_bytes > missed {
                unseen.push((direction, n));
            }
        }
    }
    (made, unseen)
}

/// scaled(x) = (a(x) + x) table(x mod 4) by a kernel, sum(x) = scaled(0) + .. + scaled(x) by the host, half(x) = sum(x) / 2 by a kernel.
fn job() -> Compiled {
    let (x, mut p) = (Var::new("x"), Pipeline::new("sums"));
    let (vars, float) = (std::slice::from_ref(&x), ScalarType::F32);
    let [a, table] = ["a", "table"].map(|name| p.input(Input::new(name, &[float], 1)));
    let scaled = (a.at(&[x.expr()], 0) + x.expr().cast(float)) * table.at(&[x.expr() % 4], 0);
    let scaled = p.func(Func::new("scaled", vars, vec![scaled]));
    let r = RDom::new([("r", Expr::from(1), Expr::from(N - 1))]);
    let sum = Func::new("sum", vars, vec![scaled.at(&[x.expr()], 0)]);
    let before = sum.at(&[r.var(0) - 1], 0) + scaled.at(&[r.var(0)], 0);
    let sum = p.func(sum.update(vec![r.var(0)], vec![before], r));
    let half = sum.at(&[x.expr()], 0) * Expr::float(float, 0.5);
    let half = p.func(Func::new("half", vars, vec![half]));
    p.output(&half);
    let mut schedule = Schedule::new();
    schedule.func("sum").compute_root();
    for f in ["scaled", "half"] {
        let stage = schedule.func(f).compute_root();
        stage.split("x", "b", "t", 64, Tail::Predicate).gpu_blocks(&["b"]).gpu_threads(&["t"]);
    }
    Compiled::new(&p, &schedule, &Target::cuda(90)).unwrap()
}

/// Runs it, feeds half of the values back by the host, runs it again.
fn twice() -> Result<Vec<f32>, Error> {
    let (code, pool) = (job(), Pool::new(1));
    let list = |n: i32| Buffer::new(BufferSpec::new(ScalarType::F32, &[n])).unwrap();
    let (a, table, half) = (list(N), list(4), list(N));
    a.copy_from(&(0..N).map(|i| (i * i % 11) as f32).collect::<Vec<f32>>()).unwrap();
    table.copy_from(&[1.0f32, 0.5, 0.25, 2.0]).unwrap();
    let run = || code.run(&pool, &[("a", &a), ("table", &table), ("half", &half)], &[]);
    run()?;
    let found = |b: &Buffer| {
        b.sync_host().map_err(|error| Error::Device { pipeline: "half".into(), error })?;
        Ok::<_, Error>(b.to_vec::<f32>())
    };
    let mut all = found(&half)?;
    a.copy_from(&all.iter().map(|v| v * 0.5).collect::<Vec<f32>>()).unwrap();
    run()?;
    all.extend(found(&half)?);
    Ok(all)
}

#[test]
fn a_missed_copy_of_a_pipeline_shows() {
    let machine = Machine::new();
    let (made, unseen) = missed(&machine, twice);
    assert_eq!(unseen, []);
    // a and the table, then a again, and the sums of each run; what the host sums and the result of each run.
    assert_eq!(made, [5, 4, 0]);
    assert!(machine.is_clean());
}

#[test]
fn a_missed_copy_of_a_loop_shows() {
    let machine = Machine::new();
    for by in ALL {
        let two = || {
            let mut world = World::new(by, 12)?;
            Ok([world.outcome(3, false)?, world.outcome(6, true)?])
        };
        let (made, unseen) = missed(&machine, two);
        // The first values of what kernels overwrite go up all the same, for the sake of their pads.
        let [up, down]: [Vec<u64>; 2] = ["to_device", "to_host"]
            .map(|of| unseen.iter().filter(|(direction, _)| *direction == of).map(|(_, n)| *n).collect());
        assert!(up.iter().all(|n| [5, 6, 8, 10].contains(n)), "{by:?}: {up:?}");
        // Where the host looks between chunks if the loop has ended, and it has not, the look brings nothing new.
        assert!(down.len() <= if by == By::Chunks { 4 } else { 0 }, "{by:?}: {down:?}");
        assert!(made[0] > 4 && made[1] > 4, "{by:?}: {made:?}");
    }
    assert!(machine.is_clean());
}
