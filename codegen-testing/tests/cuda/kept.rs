//! Kernels that a cache has: PTX and the host's part are made once, and launched by later starts as they are.

use crate::machine::Machine;
use std::fs;
use sumsq_codegen::cache::{Cache, Key};
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool, Scalar};
use sumsq_codegen::{Expr, Func, Limits, Pipeline, RDom, ScalarType, Schedule, Tail, Target, Var};

const N: i32 = 300;

/// twice(x) = s x + `more` by a kernel, sum(x) = twice(0) + .. + twice(x) by the host, half(x) = sum(x) / 2 by a kernel.
fn job(more: f32) -> (Pipeline, Schedule) {
    let (x, mut p) = (Var::new("x"), Pipeline::new("sums"));
    let vars = std::slice::from_ref(&x);
    let s = p.param("s", ScalarType::F32);
    let twice = x.expr().cast(ScalarType::F32) * s + Expr::float(ScalarType::F32, more.into());
    let twice = p.func(Func::new("twice", vars, vec![twice]));
    let r = RDom::new([("r", Expr::from(1), Expr::from(N - 1))]);
    let sum = Func::new("sum", vars, vec![twice.at(&[x.expr()], 0)]);
    let before = sum.at(&[r.var(0) - 1], 0) + twice.at(&[r.var(0)], 0);
    let sum = p.func(sum.update(vec![r.var(0)], vec![before], r));
    let half = sum.at(&[x.expr()], 0) * Expr::float(ScalarType::F32, 0.5);
    let half = p.func(Func::new("half", vars, vec![half]));
    p.output(&half);
    let mut schedule = Schedule::new();
    schedule.func("sum").compute_root();
    for f in ["twice", "half"] {
        let stage = schedule.func(f).compute_root();
        stage.split("x", "b", "t", 64, Tail::Predicate).gpu_blocks(&["b"]).gpu_threads(&["t"]);
    }
    (p, schedule)
}

fn compiled(more: f32, target: &Target, cache: Option<&Cache>) -> Compiled {
    let all = Compiled::all_kept(vec![job(more)], target, Limits::default(), cache);
    all.unwrap().pop().unwrap()
}

fn run(code: &Compiled, s: f32) -> Vec<f32> {
    let out = Buffer::new(BufferSpec::new(ScalarType::F32, &[N])).unwrap();
    code.run(&Pool::new(1), &[("half", &out)], &[("s", Scalar::F32(s))]).unwrap();
    out.sync_host().unwrap();
    out.to_vec()
}

fn expected(more: f32, s: f32) -> Vec<f32> {
    let terms = (0..N).map(|x| x as f32 * s + more);
    terms
        .scan(0.0, |sum, t| {
            *sum += t;
            Some(*sum)
        })
        .map(|sum: f32| sum * 0.5)
        .collect()
}

#[test]
fn kernels_that_are_kept_compute_the_same() {
    let machine = Machine::new();
    machine.set("DEVICES", "2");
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path().join("c")).unwrap();
    let files = || folder.path().join("c").read_dir().unwrap().count();
    let target = Target::cuda(90);
    let first = compiled(1.0, &target, Some(&cache));
    let (key, ptx) = (first.key().unwrap(), first.ptx().unwrap().to_owned());
    assert_eq!((run(&first, 2.0), files()), (expected(1.0, 2.0), 1));
    // While the first is alive, and when it is gone; whoever knows the key needs no pipeline.
    let second = compiled(1.0, &target, Some(&cache));
    assert_eq!((run(&second, 3.0), second.ptx().unwrap()), (expected(1.0, 3.0), ptx.as_str()));
    drop((first, second));
    let kept = Compiled::kept(&[key], &cache).unwrap().remove(0);
    for s in [2.0, 0.25, 2.0] {
        assert_eq!(run(&kept, s), expected(1.0, s));
    }
    assert_eq!(
        (kept.signature(), kept.ptx().unwrap()),
        (compiled(1.0, &target, None).signature(), ptx.as_str())
    );
    drop(kept);
    // Other constants, devices and capabilities are compiled for themselves.
    let others = [(2.0, target.clone()), (1.0, target.clone().on(1)), (1.0, Target::cuda(80))];
    for (n, (more, target)) in others.iter().enumerate() {
        assert_eq!(
            (run(&compiled(*more, target, Some(&cache)), 2.0), files()),
            (expected(*more, 2.0), n + 2)
        );
    }
    damaged(&folder.path().join("c").join(key.name()), &cache, key);
}

/// A block that is cut, or sealed and no block, costs a compilation; so does a driver that refuses what was kept.
fn damaged(path: &std::path::Path, cache: &Cache, key: Key) {
    let whole = fs::read(path).unwrap();
    let again = || {
        assert!(Compiled::kept(&[key], cache).is_none());
        assert_eq!(run(&compiled(1.0, &Target::cuda(90), Some(cache)), 2.0), expected(1.0, 2.0));
        assert_eq!(fs::read(path).unwrap(), whole);
    };
    fs::write(path, &whole[..whole.len() / 2]).unwrap();
    again();
    for wrong in [&b"{}"[..], &[0; 16], &[255; 40]] {
        cache.put(&key, wrong);
        again();
    }
}
