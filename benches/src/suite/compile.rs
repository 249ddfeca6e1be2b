//! From energy text to ready plan for image_warping: the whole as a user waits for it, and where the time goes.

use super::THREADS;
use crate::harness::{noise, processor_time, time};
use crate::report::Report;
use std::collections::BTreeMap;
use std::time::Duration;
use sumsq::codegen::backend::llvm::Relocatable;
use sumsq::codegen::lower::{LowerOptions, lower_timed};
use sumsq::codegen::{Limits, Target};
use sumsq::energy::derive::Passes;
use sumsq::energy::model::Energy;
use sumsq::matrix_free::Wanted;
use sumsq::matrix_free::choices::derive;
use sumsq::matrix_free::plan::compile::Settings;
use sumsq::{CompileOptions, Overrides, ProblemData, Solver};
use sumsq_examples::demos::image_warping::Scene;

/// Runs of which the fastest counts.
const RUNS: usize = 5;

pub fn run() -> Report {
    let setting = format!("image_warping, mixed precision, {THREADS} threads; target: 0.5 s");
    let mut report = Report::new("compile", setting);
    let problem = Scene::tulips().expect("the demo's own data").problem();
    let options = CompileOptions { threads: Some(THREADS), ..problem.options.compile.clone() };
    let read = || Energy::from_text("image_warping.t", problem.text).expect("the energy is well formed");
    let data = ProblemData::bind(&read(), &problem.inputs).expect("the inputs fit the energy");
    let mut whole = || {
        let solver = Solver::compile(read(), &options).expect("the energy compiles");
        solver.plan(&data).expect("the plan fits into memory");
    };
    let best = (0..RUNS).map(|_| time(&mut whole)).min().unwrap_or_default();
    report.fact("text to plan", best.as_secs_f64(), &format!("s, best of {RUNS}"));
    let busy = (0..RUNS).map(|_| processor_time(&mut whole)).min().unwrap_or_default();
    report.fact(
        "text to plan, processor time of all threads",
        busy.as_secs_f64(),
        &format!("s, least of {RUNS}"),
    );
    report.ratio(noise("text to plan, against itself", &mut whole, 15));
    for (name, seconds) in with_deep_stack(|| breakdown(problem.text)) {
        report.fact(&name, seconds.as_secs_f64(), "s on one thread");
    }
    report
}

/// Each part once, one after the other on one thread.
fn breakdown(text: &str) -> Vec<(String, Duration)> {
    let mut parts = vec![];
    let mut timed = |name: &str, f: &mut dyn FnMut()| parts.push((name.to_string(), time(f)));
    let mut energy = None;
    timed("read the text", &mut || energy = Energy::from_text("image_warping.t", text).ok());
    let energy = energy.expect("the energy is well formed");
    let (given, mut derived) = (Overrides::default(), None);
    timed("derive", &mut || derived = derive(&energy, Passes::ALL, &given).ok());
    let derived = derived.expect("nothing is given that could not be");
    let settings = Settings::new(&energy, &CompileOptions::default()).expect("the default options fit");
    let mut all = vec![];
    timed("emit", &mut || {
        let wanted = Wanted { given: &given, sizes: None };
        let k = settings.skeleton(derived.clone(), Target::host(), wanted);
        all = settings.pipelines(&k.expect("nothing is given that could not be"));
    });
    let (mut lowered, mut passes) = (vec![], BTreeMap::<&str, Duration>::new());
    timed("lower", &mut || {
        for (_, s) in &all {
            let done = lower_timed(&s.pipeline, &s.schedule, &LowerOptions::default());
            let (f, times) = done.expect("the schedules are legal");
            times.into_iter().for_each(|(pass, t)| *passes.entry(pass).or_default() += t);
            lowered.push(f);
        }
    });
    let target = Target::host();
    let mut kernels = vec![];
    for f in &lowered {
        let mut compile = || {
            let code = Relocatable::compile(f, None, &target, &Limits::default());
            drop(code.and_then(Relocatable::load).expect("the code is valid"));
        };
        kernels.push((format!("  LLVM {}", f.name), time(&mut compile)));
    }
    parts.extend(passes.into_iter().map(|(pass, t)| (format!("  {pass}"), t)));
    parts.push(("LLVM".into(), kernels.iter().map(|k| k.1).sum()));
    parts.extend(kernels);
    parts
}

/// Passes recurse over expressions: the compiler's own threads have such stacks, too.
fn with_deep_stack<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|s| {
        let thread = std::thread::Builder::new().stack_size(256 << 20).spawn_scoped(s, f);
        thread.expect("a thread starts").join().expect("no part panics")
    })
}
