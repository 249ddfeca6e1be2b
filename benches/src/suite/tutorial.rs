//! The steps of the blur in `docs/tutorial.md`, each against the first, by two threads and by one. Writes the page's table, too.

use super::photograph::photograph;
use super::pipeline_arrays::{Argument, Elements, agree};
use super::pipeline_cases::{Case, case};
use super::pipeline_ours::{Ours, ours};
use super::{THREADS, root};
use crate::harness::{MIN_PAIRS, Ratio, compare_timed, time};
use crate::report::Report;
use std::cell::RefCell;
use std::error::Error;
use std::path::Path;
use sumsq::codegen::Schedule;

type Failed = Box<dyn Error>;

/// Lines of the page between which the table lies.
const MARKS: [&str; 2] = [
    "<!-- results of `cargo xtask bench tutorial`, which writes this table -->\n",
    "<!-- end of the results -->\n",
];

/// A step: its name, and the blur under its schedule, by two threads and by one.
struct Step {
    name: String,
    sides: [Ours; 2],
}

pub fn run() -> Result<Report, Failed> {
    let mut case = case("blur", photograph()?).ok_or("blur has no arguments")?;
    let steps = steps(&case)?;
    for step in &steps {
        step.sides[0].grow(&mut case.arguments)?;
    }
    check(&steps, &mut case)?;
    let setting = format!(
        "6400 x 4800 pixels of 16 bits: time of a step / time of the first, {THREADS} threads and one"
    );
    let mut report = Report::new("tutorial", setting);
    let arguments = RefCell::new(case.arguments);
    // It ran above: what it returns is known.
    let timed = |side: &Ours| time(&mut || drop(side.run(&mut arguments.borrow_mut())));
    let mut rows = vec![];
    for step in &steps {
        let against = |k: usize, threads: &str| {
            let name = format!("{} / {}, {threads}", step.name, steps[0].name);
            compare_timed(&name, &mut || timed(&step.sides[k]), &mut || timed(&steps[0].sides[k]), MIN_PAIRS)
        };
        let ratios = [against(0, "two threads"), against(1, "one thread")];
        rows.push(row(&step.name, &ratios));
        ratios.into_iter().for_each(|ratio| report.ratio(ratio));
    }
    let page = root().join("docs/tutorial.md");
    let text = std::fs::read_to_string(&page).map_err(|e| format!("{}: {e}", page.display()))?;
    std::fs::write(&page, with_table(&text, &rows)?)?;
    Ok(report)
}

/// The steps, as their files say, in the order of their names.
fn steps(case: &Case) -> Result<Vec<Step>, Failed> {
    let folder = root().join("docs/tutorial");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut paths = entries.map(|e| Ok(e?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    paths.retain(|path| path.extension().is_some_and(|e| e == "txt"));
    paths.sort();
    paths.iter().map(|path| step(case, path)).collect()
}

fn step(case: &Case, path: &Path) -> Result<Step, Failed> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let schedule = Schedule::parse(&std::fs::read_to_string(path)?).map_err(|e| format!("{name}: {e}"))?;
    let side = |threads| ours(case, Some(&schedule), threads)?.ok_or("there is no blur".into());
    let both: Result<[Ours; 2], Failed> = match (side(THREADS), side(1)) {
        (Ok(many), Ok(one)) => Ok([many, one]),
        (Err(e), _) | (_, Err(e)) => Err(e),
    };
    let sides = both.map_err(|e| format!("{name}: {e}"))?;
    Ok(Step { name, sides })
}

/// Refuses steps that do not write the values of the first.
fn check(steps: &[Step], case: &mut Case) -> Result<(), Failed> {
    let mut first = None;
    for step in steps {
        for side in &step.sides {
            let found = outputs(side, &mut case.arguments)?;
            let wanted = first.get_or_insert_with(|| found.clone());
            agree(wanted, &found, case.tolerance).map_err(|e| format!("{}: {e}", step.name))?;
        }
    }
    Ok(())
}

/// The outputs of a run, which finds others in their place.
fn outputs(side: &Ours, arguments: &mut [Argument]) -> Result<Vec<Elements>, String> {
    for argument in arguments.iter_mut() {
        if let Argument::Output(array) = argument {
            array.spoil();
        }
    }
    side.run(arguments)?;
    let written = arguments.iter().filter_map(|a| match a {
        Argument::Output(array) => Some(array.elements.clone()),
        _ => None,
    });
    Ok(written.collect())
}

/// A row of the page's table.
fn row(name: &str, [many, one]: &[Ratio; 2]) -> String {
    let cells = |r: &Ratio| format!("{:.1} | {:.2}", r.seconds.0 * 1e3, r.median);
    format!("| `{name}` | {} | {} |\n", cells(many), cells(one))
}

/// The page with these rows in place of those that it has.
fn with_table(page: &str, rows: &[String]) -> Result<String, String> {
    let [start, end] = MARKS;
    let parts = page.split_once(start).and_then(|(before, rest)| Some((before, rest.split_once(end)?.1)));
    let (before, after) = parts.ok_or("docs/tutorial.md has no place for the results")?;
    let head = format!(
        "| step | ms, {THREADS} threads | over step 1 | ms, one thread | over step 1 |\n|---|--:|--:|--:|--:|\n"
    );
    Ok(format!("{before}{start}{head}{}{end}{after}", rows.concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_alone_is_replaced() {
        let [start, end] = MARKS;
        let page = format!("a\n{start}old\n{end}b\n");
        let new = with_table(&page, &["| row |\n".into()]).expect("marks are there");
        assert!(
            new.starts_with(&format!("a\n{start}| step |")) && new.ends_with(&format!("| row |\n{end}b\n"))
        );
        assert_eq!(with_table(&new, &["| row |\n".into()]), Ok(new));
        assert!(with_table("a", &[]).is_err());
    }
}
