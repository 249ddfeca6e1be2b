//! `sumsq show`.

use crate::args::{ShowArgs, Stage};
use crate::engine;
use crate::failure::Failure;
use crate::output::say;
use std::fmt::Write;
use std::process::ExitCode;
use sumsq::Precision;
use sumsq::energy::dag::{Dag, ExprId, Source};
use sumsq::energy::derive::{OpCount, Routines, count_ops};
use sumsq::energy::model::{Domain, Energy, Field};
use sumsq::matrix_free::choices::Derived;
use sumsq::matrix_free::domain::counts::{operation_counts, table};

/// Prints one stage of what an energy is compiled to, behind the sizes of the inputs if there are any.
pub fn run(args: &ShowArgs) -> Result<ExitCode, Failure> {
    let mut options = args.code.options(Precision::Mixed);
    let declared = engine::load(&args.energy, args.code.budgets())?;
    let mut sizes = String::new();
    if let Some(file) = &args.inputs {
        (sizes, options) = engine::sizes(&declared, file, &options)?;
    }
    // Options that the energy cannot honour are refused at every stage, also where nothing depends on them.
    sumsq::choices(&declared, &options).map_err(engine::failure)?;
    let derive = || options.derive(declared.clone()).map_err(engine::failure);
    let text = match args.stage {
        Stage::Declarations => declarations(&derive()?, args.stats),
        Stage::Dag => residuals(&derive()?.energy, args.stats),
        Stage::Derivatives => derivatives(&derive()?.energy, args.stats),
        Stage::Routines => {
            let Derived { energy, groups, .. } = derive()?;
            let built =
                Routines::build_with(&energy, options.passes, &groups).map_err(Failure::diagnostic)?;
            routines(&built, &energy, args.stats)
        }
        Stage::Hierarchy => match &args.inputs {
            Some(file) => engine::hierarchies(&declared, file, &options)?,
            None => {
                let why = "the levels of a hierarchy follow from sizes: name the arrays by --inputs";
                return Err(Failure::message(why.into()));
            }
        },
        late => engine::compiled_text(&declared, late, &options)?,
    };
    if !sizes.is_empty() {
        sizes.push('\n');
    }
    say(&(sizes + &text))?;
    Ok(ExitCode::SUCCESS)
}

fn declarations(derived: &Derived, stats: bool) -> String {
    let energy = &derived.energy;
    let mut text = String::new();
    let mut line = |what: &str, rest: String| {
        let _ = writeln!(text, "{what:<9} {rest}");
    };
    let field = |f: &Field| {
        format!("{} over {}, {:?} x {}", f.name, energy.space_name(f.space), f.element, f.channels)
    };
    energy.dims.iter().for_each(|d| line("dim", d.name.clone()));
    energy.unknowns.iter().for_each(|f| line("unknown", field(f)));
    energy.arrays.iter().for_each(|f| line("array", field(f)));
    energy.params.iter().for_each(|p| line("param", format!("{} x {}", p.name, p.channels)));
    for graph in &energy.graphs {
        let vertex =
            |v: &sumsq::energy::model::Vertex| format!("{} in {}", v.name, energy.space_name(v.space));
        let vertices: Vec<String> = graph.vertices.iter().map(vertex).collect();
        line("graph", format!("{}: {}", graph.name, vertices.join(", ")));
    }
    for (space, condition) in &energy.excludes {
        line(
            "exclude",
            format!("{} where {}", energy.space_name(*space), print(&energy.dag, *condition, energy)),
        );
    }
    for (number, group) in energy.groups.iter().enumerate() {
        let residuals = energy.residuals.iter().filter(|r| r.group.index() == number).count();
        line("group", format!("{group}: {residuals} residuals"));
    }
    if let Some(use_it) = energy.use_preconditioner {
        line("option", format!("UsePreconditioner({use_it})"));
    }
    if stats {
        text.push('\n');
        text.push_str(&table(&operation_counts(energy, &derived.routines)));
    }
    text
}

/// An expression; where it takes several lines, on lines of its own.
fn print(dag: &Dag, expr: ExprId, energy: &Energy) -> String {
    let text = dag.display_with(expr, energy);
    if text.contains('\n') { format!("\n{}", indent(&text)) } else { text }
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn domain(energy: &Energy, domain: Domain) -> String {
    match domain {
        Domain::Space(space) => energy.space_name(space),
        Domain::Graph(graph) => energy.graphs[graph.index()].name.clone(),
    }
}

fn residuals(energy: &Energy, stats: bool) -> String {
    let mut text = String::new();
    for (number, residual) in energy.residuals.iter().enumerate() {
        let _ = write!(
            text,
            "r{number} ({}, over {}",
            energy.groups[residual.group.index()],
            domain(energy, residual.domain)
        );
        if let Some((lo, hi)) = &residual.guard {
            let _ = write!(text, ", where {lo:?}..{hi:?} is in the domain");
        }
        if let Some(at) = residual.line {
            let _ = write!(text, ", line {at}");
        }
        let _ = writeln!(text, ") = {}", print(&energy.dag, residual.value, energy));
        if stats {
            let _ = writeln!(text, "    {}", count_ops(&energy.dag, &[residual.value]));
        }
    }
    text
}

fn derivatives(energy: &Energy, stats: bool) -> String {
    let mut dag = energy.dag.clone();
    let mut text = String::new();
    for (number, residual) in energy.residuals.iter().enumerate() {
        for access in dag.accesses(residual.value) {
            if !matches!(access.source, Source::Unknown(_)) {
                continue;
            }
            let partial = dag.derivative(residual.value, &access);
            let read = dag.access(access);
            let _ = writeln!(
                text,
                "dr{number} / d{} = {}",
                dag.display_with(read, energy),
                print(&dag, partial, energy)
            );
            if stats {
                let _ = writeln!(text, "    {}", count_ops(&dag, &[partial]));
            }
        }
    }
    text
}

fn routines(routines: &Routines, energy: &Energy, stats: bool) -> String {
    let mut text = String::new();
    let mut put = |name: &str, parts: &[ExprId]| {
        for (number, &part) in parts.iter().enumerate() {
            let _ = writeln!(text, "{name}[{number}] = {}", print(&routines.dag, part, energy));
        }
    };
    for routine in &routines.table {
        put(&format!("{} {}", routine.kind, routine.site.name(energy)), &routine.roots);
    }
    if stats {
        text.push_str(&passes(routines));
    }
    text
}

/// Operation counts of each routine, pass by pass.
fn passes(routines: &Routines) -> String {
    let mut text = String::new();
    for report in &routines.passes {
        let _ = writeln!(text, "{}", report.routine);
        for (stage, count) in &report.stages {
            let _ = writeln!(text, "    {stage:<10} weight {:>6}: {count}", OpCount::weight(count));
        }
    }
    text
}
