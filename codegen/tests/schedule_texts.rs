//! Every schedule that the pages and comments of this project show is one: `docs/schedules.md` has an example of each directive, legal
//! for the pipeline described there; everything in a `schedule` code block is read by the parser.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use sumsq_codegen::func::extent_param;
use sumsq_codegen::{Directive, Expr, ForKind, Func, Input, Pipeline, RDom, ScalarType, Schedule, Var};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The pipeline of `docs/schedules.md`.
fn pipeline() -> Pipeline {
    let mut p = Pipeline::new("page");
    let [vx, vy, vb] = ["x", "y", "b"].map(Var::new);
    let (x, y) = (vx.expr(), vy.expr());
    let (plane, here) = ([vx, vy], [x.clone(), y.clone()]);
    let input = |p: &mut Pipeline, name: &str, dims| p.input(Input::new(name, &[ScalarType::I32], dims));
    let (picture, old) = (input(&mut p, "in", 2), input(&mut p, "old", 2));
    input(&mut p, "mask", 1);
    let wide = p.func(Func::new("wide", &plane, vec![picture.at(&here, 0) + 1]));
    let row = |dy: i64| wide.at(&[x.clone(), &y + dy], 0);
    let blur = p.func(Func::new("blur", &plane, vec![row(0) + row(1) + row(2)]));
    let edges = p.func(Func::new("edges", &plane, vec![row(0) - row(1)]));
    let domain = |size: [Expr; 2]| {
        let [width, height] = size;
        RDom::new([("rx", Expr::from(0), width), ("ry", Expr::from(0), height)])
    };
    let all = domain([0, 1].map(|d| picture.extent(d)));
    let pixel = picture.at(&[all.var(0), all.var(1)], 0);
    let bins = Func::new("bins", &[vb], vec![Expr::from(0)]);
    let bin = [pixel.clamp(0, 15)];
    let one_more = bins.at(&bin, 0) + 1;
    let bins = p.func(bins.update(bin.to_vec(), vec![one_more], all));
    let new = p.func(Func::new("new", &plane, vec![old.at(&here, 0) * 2]));
    let all = domain([0, 1].map(|d| extent_param("new", d)));
    let point = [all.var(0), all.var(1)];
    let total = p.func(Func::sum("total", &[], all, vec![new.at(&point, 0)]));
    for f in [&blur, &edges, &bins, &total, &new] {
        p.output(f);
    }
    p
}

/// The number of a directive, and how many there are.
fn number(d: &Directive) -> usize {
    use Directive::*;
    match d {
        Split { .. } => 0,
        Fuse { .. } => 1,
        Rename { .. } => 2,
        Reorder(_) => 3,
        Kind { kind: ForKind::Serial, .. } => 4,
        Kind { kind: ForKind::Parallel, .. } => 5,
        Kind { kind: ForKind::Vectorized, .. } => 6,
        Kind { kind: ForKind::Unrolled, .. } => 7,
        Kind { kind: ForKind::GpuBlock, .. } => 34,
        Kind { kind: ForKind::GpuThread, .. } => 35,
        Kind { kind: ForKind::GpuLane, .. } => 36,
        GpuSingle => 37,
        Reciprocals => 38,
        Rfactor { .. } => 8,
        SkipUnless { .. } => 9,
        Atomic => 10,
        Relaxed => 11,
        Specialize { .. } => 12,
        Partition { .. } => 13,
        ComputeWith(_) => 14,
        Prefetch { .. } => 15,
        In { .. } => 16,
        CloneIn { .. } => 17,
        Inline => 18,
        ComputeRoot => 19,
        ComputeAt(_) => 20,
        StoreAt(_) => 21,
        FoldStorage { .. } => 22,
        StoreWhole => 23,
        AlignBounds { .. } => 24,
        Bound { min: Some(_), .. } => 25,
        Bound { min: None, .. } => 26,
        Estimate { .. } => 27,
        AlignStorage { .. } => 28,
        ReorderStorage(_) => 29,
        StoreIn(_) => 30,
        Sink => 31,
        NonTemporal(_) => 32,
        InPlaceOf(_) => 33,
        HoistStorage(_) => 39,
        Gather(_) => 40,
    }
}
const DIRECTIVES: usize = 41;

#[test]
fn the_page_shows_every_directive_in_a_legal_schedule() {
    let page = std::fs::read_to_string(root().join("docs/schedules.md")).expect("the page");
    let p = pipeline();
    let mut shown = BTreeMap::new();
    let rows = page.lines().filter(|line| line.starts_with("| `") && line.matches(" | ").count() == 2);
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').splitn(2, " | ").collect();
        let (directive, rest) = (cells[0].trim().trim_matches('`'), cells[1]);
        let word = directive.split(['(', ' ']).next().expect("a word");
        let example = rest.rsplit_once(" | ").expect("three cells").1.trim().trim_matches('`');
        let schedule = Schedule::parse(example).unwrap_or_else(|e| panic!("{e}\n{example}"));
        p.print_loop_nest(&schedule).unwrap_or_else(|e| panic!("{e}\n{example}"));
        let used = schedule.stages.values().flatten().find(|d| d.to_string().split('(').next() == Some(word));
        let used = used.unwrap_or_else(|| panic!("no {word} in {example}"));
        assert!(shown.insert(number(used), word.to_string()).is_none(), "{word} has two rows");
    }
    let missing: Vec<usize> = (0..DIRECTIVES).filter(|n| !shown.contains_key(n)).collect();
    assert!(missing.is_empty(), "no row for directives {missing:?} of `number`; there are {shown:?}");
}

#[test]
fn every_schedule_block_is_read() {
    let mut blocks = 0;
    for folder in ["docs", "codegen", "energy", "solver", "examples", "."] {
        texts(&root().join(folder), folder != ".", &mut |path, text| {
            for block in schedule_blocks(text) {
                blocks += 1;
                let read = Schedule::parse(&block);
                let schedule = read.unwrap_or_else(|e| panic!("{}: {e}\n{block}", path.display()));
                assert_eq!(Schedule::parse(&schedule.to_string()).ok(), Some(schedule), "{block}");
            }
        });
    }
    assert!(blocks >= 7, "{blocks} found");
}

/// The text of code blocks tagged `schedule`, in Markdown and in doc comments.
fn schedule_blocks(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| {
        let line = line.trim_start();
        ["//! ", "/// ", "//!", "///"].iter().find_map(|c| line.strip_prefix(c)).unwrap_or(line)
    });
    let (mut blocks, mut open) = (vec![], None::<String>);
    for line in lines {
        match &mut open {
            None if line.trim() == "```schedule" => open = Some(String::new()),
            None => {}
            Some(_) if line.starts_with("```") => blocks.extend(open.take()),
            Some(block) => *block += &format!("{line}\n"),
        }
    }
    blocks
}

/// Hands out every Markdown and Rust file of a folder.
fn texts(folder: &Path, deep: bool, each: &mut impl FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            if deep && path.file_name().is_some_and(|name| name != "target") {
                texts(&path, deep, each);
            }
        } else if path.extension().is_some_and(|e| e == "md" || e == "rs")
            && path.file_name() != Some("schedule_texts.rs".as_ref())
        {
            each(&path, &std::fs::read_to_string(&path).expect("text"));
        }
    }
}
