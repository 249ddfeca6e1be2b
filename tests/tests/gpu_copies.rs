//! Copies between host and GPU, which is a stand-in, that are not made although the driver says so: each of a solve shows, by an error or another
//! result, but for a few that are listed.

use std::path::Path;
use sumsq::codegen::cache::Cache;
use sumsq::energy::Energy;
use sumsq::{Backend, CompileOptions, ProblemData, Report, SolveError, SolveOptions, Solver};
use sumsq_libcuda::{Control, Counters, preload};
use sumsq_tests::{bits, small};

/// A small problem, whose code is kept: a device that has failed is opened again, with a solver of its own.
struct Bench<'a> {
    control: Control,
    energy: &'a Energy,
    data: &'a ProblemData<'static>,
    cache: Cache,
}

/// All that a solve tells, but for times.
type Told = (Vec<u64>, Vec<Vec<u64>>, String);

fn told(report: &Report, data: &ProblemData) -> Told {
    let steps = report.iterations.iter();
    let steps = steps.map(|i| i.energy_by_group.iter().map(|e| e.to_bits()).collect());
    let ends = [report.energy_initial, report.energy_final].map(f64::to_bits);
    let sizes = (report.unknowns, report.residuals, report.unconstrained);
    let counts = (ends, report.termination, report.linear_iterations_total, sizes);
    (bits(data), steps.collect(), format!("{counts:?}"))
}

impl Bench<'_> {
    fn solve(&self) -> Result<Told, SolveError> {
        let options =
            CompileOptions { backend: Backend::Cuda, threads: Some(1), ..CompileOptions::default() };
        let steps =
            SolveOptions { iterations: Some(2), linear_iterations: Some(5), ..SolveOptions::default() };
        let mut data = self.data.clone();
        let solver = Solver::compile_kept(self.energy.clone(), &options, Some(&self.cache))?;
        let report = solver.plan(&data)?.solve(&mut data, &steps)?;
        Ok(told(&report, &data))
    }

    /// Those of so many copies of a direction that nobody missed although they would have changed something, with the bytes; and the number of those that
    /// would have changed nothing.
    fn unseen(&self, direction: &str, count: u64) -> (Vec<(u64, u64)>, usize) {
        let good = self.solve().unwrap();
        let (mut unseen, mut idle) = (vec![], 0);
        for n in 1..=count {
            self.control.reset_counters();
            self.control.set("MISSED_COPY", &format!("{direction}:{n}"));
            let done = self.solve();
            self.control.set("MISSED_COPY", "");
            let missed = self.control.counters().missed_bytes;
            match done {
                Ok(told) if told == good && missed == 0 => idle += 1,
                Ok(told) if told == good => unseen.push((n, missed)),
                _ => {}
            }
        }
        (unseen, idle)
    }
}

/// Copies that nobody misses, by problem and direction: so many numbers of the host that go up for what reads others of their tuple, or for a step that
/// is made ready and not taken; and of those to the host, sums that are not asked for.
const UNSEEN: [(&str, usize, usize); 5] = [
    ("grid", 2, 0),
    ("volume_under_losses", 3, 0),
    ("graph", 3, 0),
    ("computed_arrays", 2, 0),
    ("computed_arrays_at_vertices", 1, 1),
];

/// Misses each copy of the small problems that are named.
fn miss(names: &[&str]) {
    let control = preload().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let cache = |name: &str| Cache::at(Path::new(folder.path()).join(name)).unwrap();
    for (name, (energy, data)) in small::all().iter().filter(|(name, _)| names.contains(name)) {
        let bench = Bench { control, energy, data, cache: cache(name) };
        bench.solve().unwrap();
        control.reset_counters();
        bench.solve().unwrap();
        let Counters { copies_to_device: up, copies_to_host: down, copies_within_device: within, .. } =
            control.counters();
        assert!(up > 8 && down > 4 && within == 0, "{name}: {up} up, {down} down, {within} within");
        let &(_, up_unseen, down_unseen) = UNSEEN.iter().find(|(of, ..)| of == name).unwrap();
        let (unseen, idle) = bench.unseen("to_device", up);
        // The numbers are the last that go up.
        let late = |&&(n, bytes): &&(u64, u64)| n + 6 > up && bytes < 64;
        assert_eq!((unseen.len(), idle), (up_unseen, 0), "{name}: {unseen:?} of {up}");
        assert_eq!(unseen.iter().filter(late).count(), up_unseen, "{name}: {unseen:?} of {up}");
        let (unseen, idle) = bench.unseen("to_host", down);
        assert!(unseen.len() == down_unseen && idle <= 1, "{name}: {unseen:?} of {down}, {idle}");
    }
}

#[test]
fn a_missed_copy_of_a_solve_shows() {
    miss(&["computed_arrays", "grid"]);
}

#[test]
#[ignore = "two minutes: more problems"]
fn a_missed_copy_of_any_solve_shows() {
    miss(&["volume_under_losses", "graph", "computed_arrays_at_vertices"]);
}
