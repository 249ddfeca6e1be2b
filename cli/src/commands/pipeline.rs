//! `sumsq pipeline`.

use crate::args::{PipelineArgs, Shown};
use crate::failure::{Failure, warn};
use crate::output::{say, tell};
use crate::{engine, report};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use sumsq::codegen::backend::llvm::listing;
use sumsq::codegen::compile::aot::{Library, compile_to_object, write_runtime};
use sumsq::codegen::compile::ptx;
use sumsq::codegen::lower::{LowerOptions, lower};
use sumsq::codegen::runtime::{Buffer, Pool, profile};
use sumsq::codegen::{Pipeline, Schedule, Target};
use sumsq::{Backend, Machine, NamedArray, Work};
use sumsq_examples::io::{Outputs, check_target, npz, picture};
use sumsq_examples::pipelines::{ALL, Algorithm, Application, OF_DEMOS, Picture, Planar, Planes, Prepared};

/// Runs an image pipeline on pictures and arrays, or shows what it is compiled to; without a name lists all.
pub fn run(args: &PipelineArgs) -> Result<ExitCode, Failure> {
    let Some(application) = args.name.as_deref().and_then(Application::find) else {
        say(&list())?;
        return Ok(ExitCode::SUCCESS);
    };
    if let Some(path) = &args.output {
        check_target(path).map_err(Failure::output)?;
        picture::check_name(path).map_err(Failure::input)?;
    }
    let inputs = Inputs::read(application, args)?;
    let setup = application.setup(&args.param, inputs.bits()).map_err(Failure::input)?;
    let algorithm = match args.gradient {
        true => Algorithm::with_gradient(application, setup).map_err(Failure::input)?,
        false => Algorithm::new(application, setup),
    };
    if args.show.is_some() || args.emit_c.is_some() {
        // Sizes matter to a schedule that is made from them, and to nothing else that is shown.
        let given = if inputs.are_none() { vec![] } else { inputs.taken(&algorithm)? };
        let gpu = args.machine.options().backend == Backend::Cuda || args.show == Some(Shown::Ptx);
        return shown(&algorithm, &schedule(&algorithm, &given, args, gpu)?, args);
    }
    if args.output.is_none() && !args.bench {
        return Err(Failure::message("give --output FILE for the result, or --bench".to_string()));
    }
    let mut given = inputs.taken(&algorithm)?;
    let (machine, schedule) = chosen(&algorithm, &given, args)?;
    let target = &machine.target;
    given.extend(algorithm.weights(&inputs.arrays, &given).map_err(Failure::input)?);
    let started = Instant::now();
    let mut prepared = Prepared::new(algorithm, &schedule, target).map_err(Failure::input)?;
    if args.profile {
        prepared = prepared.profiled(&schedule, target).map_err(Failure::input)?;
    }
    let compiled = started.elapsed();
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let pool = Pool::new(args.threads.map_or(cores, usize::from));
    let mut text = String::new();
    if args.bench {
        text = bench(&prepared, &given, &pool, compiled)?;
    }
    let mut outputs = Outputs::default();
    if let Some(path) = &args.output {
        let results = prepared.run(&pool, &given).map_err(Failure::input)?;
        let bytes = if is_archive(path) {
            let array = |(name, v): (String, Planar)| {
                let is_picture = prepared.algorithm.is_picture(&name);
                v.into_array(&name, is_picture)
            };
            let arrays: Vec<NamedArray> = results.into_iter().map(array).collect();
            npz::encode(&arrays).map_err(Failure::output)?
        } else {
            let shown =
                prepared.algorithm.shown(&results, inputs.pictures.first()).map_err(Failure::input)?;
            shown.encode_png().map_err(Failure::input)?
        };
        outputs.add(path, bytes).map_err(Failure::output)?;
        let _ = writeln!(text, "wrote {}", path.display());
    }
    if machine.why.is_some() {
        let _ = writeln!(text, "{machine}");
    }
    report::finish(outputs, &text)?;
    tell(&profile::report().to_string());
    Ok(ExitCode::SUCCESS)
}

/// A line for each application, and one for each of its parameters.
fn list() -> String {
    let all = || ALL.into_iter().chain(OF_DEMOS);
    let width = all().map(|application| application.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for application in all() {
        let _ = writeln!(text, "{:width$}  {}", application.name, application.about);
        for p in application.parameters {
            let _ = writeln!(text, "{:width$}    {}={}: {}", "", p.name, p.default(), p.about);
        }
    }
    text
}

fn is_archive(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("npz"))
}

/// Files as they were given.
struct Inputs {
    pictures: Vec<Picture>,
    arrays: Vec<NamedArray>,
    application: &'static Application,
}

impl Inputs {
    fn read(application: &'static Application, args: &PipelineArgs) -> Result<Inputs, Failure> {
        let picture = |path: &std::path::PathBuf| Picture::read(path).map_err(Failure::input);
        let pictures = args.input.iter().map(picture).collect::<Result<_, _>>()?;
        let arrays = match &args.inputs {
            Some(path) => {
                npz::Archive::open(path).and_then(|file| file.read_all()).map_err(Failure::input)?
            }
            None => vec![],
        };
        let known: Vec<&str> = application.slots.iter().map(|slot| slot.name).collect();
        for array in arrays.iter().filter(|array| !known.contains(&&*array.name)) {
            match array.name.strip_prefix("w.") {
                Some(_) if args.gradient => {}
                // The same archive may serve both: without slopes nothing is weighted.
                Some(_) => warn(&format!("`{}` is of --gradient and is not used", array.name)),
                None => {
                    let (name, known) = (application.name, known.join(", "));
                    let text = format!("`{}` is no input of {name}, which has {known}", array.name);
                    return Err(Failure::message(text));
                }
            }
        }
        Ok(Inputs { pictures, arrays, application })
    }

    /// Bits of the samples: of the pictures, else of the arrays; 8 if there are none.
    fn bits(&self) -> u32 {
        let of_arrays =
            self.arrays.iter().filter(|a| self.application.slots.iter().any(|s| s.name == a.name));
        let wide = |a: &NamedArray| if matches!(a.data, sumsq::ArrayData::Bytes(_)) { 8 } else { 16 };
        let pictures = self.pictures.iter().map(|p| p.bits).max();
        pictures.or_else(|| of_arrays.map(wide).max()).unwrap_or(8)
    }

    fn are_none(&self) -> bool {
        self.pictures.is_empty() && self.arrays.is_empty()
    }

    /// One input per slot: the array of its name, else the next picture.
    fn taken(&self, algorithm: &Algorithm) -> Result<Vec<Planar>, Failure> {
        let mut pictures = self.pictures.iter();
        let application = self.application;
        let mut all = vec![];
        for slot in application.slots {
            let input = if let Some(array) = self.arrays.iter().find(|array| array.name == slot.name) {
                Planar::of_array(array, slot.planes != Planes::Array)
            } else if let Some(default) = slot.default {
                Ok(default(&algorithm.setup))
            } else if let Some(picture) = pictures.as_slice().first() {
                pictures.next();
                algorithm.taken(slot, picture)
            } else {
                let text = format!("{} needs `{}`, {}", application.name, slot.name, slot.about);
                let how = if slot.planes == Planes::Array { "--inputs F.npz" } else { "--input IMG" };
                return Err(Failure::message(format!("{text}: give it with {how}")));
            };
            all.push(input.map_err(Failure::input)?);
        }
        if pictures.next().is_some() {
            let (name, n) = (application.name, self.pictures.len());
            return Err(Failure::message(format!(
                "{name} takes fewer pictures than the {n} that were given"
            )));
        }
        Ok(all)
    }
}

/// Operations of a processor in the second that the start of a GPU takes. Two threads with AVX-512 do 6 to 160 thousand million of the applications', most
/// of them 20 to 80 thousand million; a machine with a GPU has more of them.
const SECOND: u64 = 200_000_000_000;
/// Operations of a processor in the time that a byte takes on its way to a GPU or from it, at 10 GB a second.
const MOVED: u64 = 20;

/// The machine that a run takes, and its schedule. Where the machine is left open it is a GPU if there is a schedule for one, the one that is named or
/// the application's, and if a run pays for starting it and for moving inputs and outputs.
fn chosen(
    algorithm: &Algorithm,
    given: &[Planar],
    args: &PipelineArgs,
) -> Result<(Machine, Schedule), Failure> {
    let application = algorithm.application;
    let of = |gpu: bool| schedule(algorithm, given, args, gpu);
    let named = args.schedule.as_deref().filter(|name| *name != "first");
    let named = named.map(|name| Ok::<_, Failure>((name, of(false)?))).transpose()?;
    let counted = || {
        match &named {
            Some((name, own)) if !own.has_kernels() => {
                return Err(format!("the schedule {name} is one of a CPU"));
            }
            None if !is_made(algorithm) && application.schedule("gpu").is_none() => {
                return Err(format!("{} has no schedule for a GPU", application.name));
            }
            _ => {}
        }
        let (operations, bytes) = algorithm.work(given).map_err(|error| error.to_string())?;
        let pays = SECOND.saturating_add(bytes.saturating_mul(MOVED));
        Ok(Work { operations, pays, of: format!("of a run on {:.1} MB", bytes as f64 / 1e6) })
    };
    let machine = args.machine.options().machine_for(counted).map_err(engine::failure)?;
    let schedule = match named {
        Some((_, named)) => named,
        None => of(machine.target.gpu.is_some())?,
    };
    Ok((machine, schedule))
}

/// Are schedules made from sizes?
fn is_made(algorithm: &Algorithm) -> bool {
    algorithm.gradient.is_some() || algorithm.application.schedules.is_empty()
}

/// The schedule that was asked for by name, else the file of this name; by default that of the machine, `gpu` or not. Of a gradient it is the application's
/// own or one made from the sizes of the inputs, on a GPU the latter: `first`, and with atomics `gpu_atomics`. So it is where the application has
/// none.
fn schedule(
    algorithm: &Algorithm,
    given: &[Planar],
    args: &PipelineArgs,
    gpu: bool,
) -> Result<Schedule, Failure> {
    let application = algorithm.application;
    let is_made = is_made(algorithm);
    if is_made {
        let has_own = !gpu && application.schedule("gradient").is_some();
        let of_sizes = match args.schedule.as_deref() {
            Some("gpu_atomics") => Some(algorithm.first_gpu_schedule(given, true)),
            None if has_own => None,
            None | Some("first") if gpu => Some(algorithm.first_gpu_schedule(given, false)),
            None | Some("first") => Some(algorithm.first_schedule(given)),
            Some(_) => None,
        };
        if let Some(of_sizes) = of_sizes {
            return of_sizes.map_err(Failure::input);
        }
    }
    let own = if args.gradient {
        "gradient"
    } else {
        application.by_hand(&args.machine.options().target.anywhere(), &algorithm.setup)
    };
    let name = args.schedule.as_deref().unwrap_or(if gpu { "gpu" } else { own });
    if let Some(known) = application.schedule(name) {
        return known.map_err(Failure::input);
    }
    let text = std::fs::read_to_string(name).map_err(|error| {
        let known = application.schedule_names();
        let of_sizes = match (is_made, gpu) {
            (false, _) => "",
            (true, false) => "first, ",
            (true, true) => "first, gpu_atomics, ",
        };
        Failure::message(format!(
            "--schedule {name}: no schedule of {} ({of_sizes}{known}), and no file: {error}",
            application.name
        ))
    })?;
    Schedule::parse(&text).map_err(|error| Failure::message(format!("{name}: {error}")))
}

/// Prints or writes what the pipeline is compiled to.
fn shown(algorithm: &Algorithm, schedule: &Schedule, args: &PipelineArgs) -> Result<ExitCode, Failure> {
    let pipeline = &algorithm.pipeline;
    let options = args.machine.options();
    let target = options.shown_machine();
    let lowered = || lower(pipeline, schedule, &LowerOptions::default()).map_err(Failure::input);
    let text = match args.show {
        None => String::new(),
        Some(Shown::Schedule) => schedule.to_string(),
        Some(Shown::Loops) => pipeline.print_loop_nest(schedule).map_err(Failure::input)?,
        Some(Shown::Llvm) => listing(&lowered()?, &target).map_err(Failure::input)?.optimized,
        Some(Shown::Asm) => listing(&lowered()?, &target).map_err(Failure::input)?.asm,
        Some(Shown::Ptx) => {
            let least = || Target::cuda(sumsq::codegen::target::Gpu::LEAST);
            let target = if target.gpu.is_some() { target.clone() } else { least() };
            ptx(pipeline, schedule, &target).map_err(Failure::input)?
        }
    };
    if let Some(folder) = &args.emit_c {
        let target = match options.backend {
            Backend::Cuda => options.machine().map_err(engine::failure)?,
            _ => target,
        };
        let parts = match &algorithm.gradient {
            Some(gradient) => gradient.halves(pipeline, schedule).map_err(Failure::input)?.to_vec(),
            None => vec![(pipeline.clone(), schedule.clone())],
        };
        let compiled =
            |(p, s): &(Pipeline, Schedule)| compile_to_object(p, s, &target).map_err(Failure::input);
        let libraries = parts.iter().map(compiled).collect::<Result<Vec<Library>, Failure>>()?;
        let made = std::fs::create_dir_all(folder);
        let written = made.and_then(|()| libraries.iter().try_for_each(|library| library.write(folder)));
        written.and_then(|()| write_runtime(folder)).map_err(|error| {
            Failure::Output(miette::miette!("cannot write to {}: {error}", folder.display()))
        })?;
    }
    say(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Least time that runs are measured for.
const LONG_ENOUGH: Duration = Duration::from_secs(1);

/// The median time of runs that are as many as take a second, at least five, behind one that is not counted.
fn bench(prepared: &Prepared, given: &[Planar], pool: &Pool, compiled: Duration) -> Result<String, Failure> {
    let runs = prepared.runs(given);
    let buffers = runs.iter().map(|inputs| prepared.buffers(inputs)).collect::<Result<Vec<_>, _>>();
    let buffers = buffers.map_err(Failure::input)?;
    let mut bound = vec![];
    for buffers in &buffers {
        let named: Vec<(&str, &Buffer)> = buffers.iter().map(|(name, b)| (name.as_str(), b)).collect();
        bound.push(prepared.compiled().bind(&named, &prepared.params()).map_err(Failure::input)?);
    }
    let mut run = || bound.iter_mut().try_for_each(|bound| bound.run(pool).map_err(Failure::input));
    run()?;
    let (started, mut times) = (Instant::now(), vec![]);
    while times.len() < 5 || started.elapsed() < LONG_ENOUGH {
        let one = Instant::now();
        run()?;
        times.push(one.elapsed());
    }
    times.sort_unstable();
    let median = times[times.len() / 2].as_secs_f64();
    let pixels: f64 = buffers.iter().filter_map(|of| of.last()).map(|(_, b)| b.spec().len() as f64).sum();
    Ok(format!(
        "{}: {:.3} ms, {:.0} million values of the output a second, median of {} runs by {} threads; compiled in {:.0} ms\n",
        prepared.algorithm.application.name,
        median * 1e3,
        pixels / median / 1e6,
        times.len(),
        pool.threads(),
        compiled.as_secs_f64() * 1e3
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use sumsq_examples::pipelines::Values;

    /// The machine that a run on a picture of so many pixels takes, in words, and true if its schedule is one of a GPU.
    fn taken(name: &str, width: i32, height: i32, more: &[&str]) -> (String, bool) {
        let line = [&["sumsq", "pipeline", name], more].concat();
        let Command::Pipeline(args) = Cli::try_parse_from(line).unwrap().command else { panic!("{more:?}") };
        let application = Application::find(name).unwrap();
        let setup = application.setup(&args.param, 8).unwrap();
        let algorithm = match args.gradient {
            true => Algorithm::with_gradient(application, setup).unwrap(),
            false => Algorithm::new(application, setup),
        };
        let values = Values::F32(vec![0.5; (3 * width * height) as usize]);
        let picture = Planar { extents: vec![width, height, 3], values };
        let (machine, schedule) = chosen(&algorithm, &[picture], &args).unwrap();
        assert_eq!(machine.target.gpu.is_some(), machine.to_string().starts_with("on the GPU"));
        (machine.to_string(), schedule.has_kernels())
    }

    #[test]
    fn a_gpu_is_taken_where_it_pays() {
        let control = sumsq_libcuda::preload().unwrap();
        let large = ["--param", "patch=31", "--param", "search=31"];
        let of_large = |more: &[&str]| taken("nl_means", 1800, 1400, &[&large, more].concat());
        control.set("DEVICES", "0");
        let (said, of_gpu) = of_large(&[]);
        assert!(said.starts_with("on the CPU: GPU not used: the CUDA driver finds no device"), "{said}");
        assert!(!of_gpu);
        control.set("DEVICES", "1");
        let (said, of_gpu) = of_large(&[]);
        assert!(said.starts_with("on the GPU: ") && said.ends_with(" MB pay for starting it"), "{said}");
        assert!(of_gpu);
        // The same picture with few operations for each pixel, and one of few pixels.
        let small = |said: &str| {
            said.starts_with("on the CPU: ") && said.ends_with("would not pay for starting a GPU")
        };
        for (said, of_gpu) in [taken("nl_means", 1800, 1400, &[]), taken("nl_means", 90, 70, &large)] {
            assert!(small(&said) && !of_gpu, "{said}");
        }
        // A schedule that is named is taken wherever the run is.
        assert!(of_large(&["--schedule", "gpu"]).0.starts_with("on the GPU: "));
        let (said, of_gpu) = taken("nl_means", 90, 70, &["--schedule", "gpu"]);
        assert!(small(&said) && of_gpu, "{said}");
        let hand = of_large(&["--schedule", "hand"]);
        assert_eq!(hand, ("on the CPU: the schedule hand is one of a CPU".into(), false));
        // What is asked for needs no reason, and what is an option of a CPU is one.
        assert_eq!(of_large(&["--backend", "cpu"]), ("on the CPU".into(), false));
        assert_eq!(taken("nl_means", 90, 70, &["--backend", "cuda"]), ("on the GPU".into(), true));
        let level = of_large(&["--target", "x86-64-v3"]);
        assert_eq!(level, ("on the CPU: options of a CPU are given".into(), false));
        // Schedules of gradients are made for either.
        assert!(small(&taken("unsharp", 90, 70, &["--gradient"]).0));
    }
}
