//! Lines of six algorithms here and as Halide's peer has them, and of three layers, as `docs/pipelines.md` states them.

use std::fs::read_to_string;
use std::path::Path;

/// Applications, with the functions of `mod.rs` that stand for what the peer writes out in its own file.
const COMPARED: [(&str, &[&str]); 6] = [
    ("blur", &[]),
    ("unsharp", &[]),
    ("harris", &[]),
    ("hist", &[]),
    ("bilateral_grid", &[]),
    ("local_laplacian", &["edge", "halved"]),
];

fn text(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The lines from the first that begins like `first` to the next that is `last`, both included.
fn part<'t>(text: &'t str, first: &str, last: &'t str) -> Vec<&'t str> {
    let mut from = text.lines().skip_while(|l| !l.starts_with(first)).peekable();
    assert!(from.peek().is_some(), "nothing begins with {first}");
    let whole: Vec<&str> = from.by_ref().take_while(|l| *l != last).collect();
    [whole, vec![last]].concat()
}

/// Lines that say something: neither blank nor a comment.
fn count<'t>(lines: impl IntoIterator<Item = &'t str>) -> usize {
    lines.into_iter().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with("//")).count()
}

/// Everything behind imports and the description of the application.
fn ours(name: &str, shared: &[&str]) -> usize {
    let (file, common) =
        (text(&format!("examples/src/pipelines/{name}.rs")), text("examples/src/pipelines/mod.rs"));
    let described = file.lines().skip_while(|l| *l != "};").skip(1);
    count(described) + shared.iter().map(|f| count(part(&common, &format!("fn {f}("), "}"))).sum::<usize>()
}

/// Everything behind imports but schedules and the brackets of a namespace.
fn halides(name: &str) -> usize {
    let file = text(&format!("benches/peers/halide/pipelines/{name}.cc"));
    let mut schedule = false;
    let algorithm = file.lines().skip_while(|l| *l != "using namespace Halide;").skip(1).filter(|l| {
        schedule = (schedule || l.contains("recipe.hand") || l.starts_with("void Schedule(")) && *l != "}";
        !schedule && !l.contains("namespace") && !l.contains("set_estimate")
    });
    count(algorithm) - usize::from(file.contains("void Schedule("))
}

#[test]
fn algorithms_are_as_long_as_the_page_says() {
    let page = text("docs/pipelines.md");
    let rows =
        COMPARED.map(|(name, shared)| format!("| `{name}` | {} | {} |\n", ours(name, shared), halides(name)));
    let table = rows.concat();
    assert!(page.contains(&table), "docs/pipelines.md has not\n{table}");
}

/// Layers, with the lines that their algorithms may have.
const LAYERS: [(&str, usize); 3] = [("bilateral_slice", 24), ("spatial_transformer", 31), ("flow_warp", 18)];

/// Lines inside of the function that builds a layer, from its variables to its output. Statements that say how a buffer lies in memory are no
/// algorithm, nor is the pipeline that is returned.
fn algorithm(file: &str) -> usize {
    let body = part(file, "fn build(", "}");
    let mut statements: Vec<Vec<&str>> = vec![];
    for line in &body[1..body.len() - 1] {
        let begins = line.strip_prefix("    ").is_some_and(|l| l.starts_with(char::is_alphabetic));
        match statements.last_mut().filter(|_| !begins) {
            Some(statement) => statement.push(line),
            None => statements.push(vec![line]),
        }
    }
    let is_layout = |s: &[&str]| s.iter().any(|l| l.contains("Constraint") || l.contains("output_strided"));
    let own = statements.into_iter().filter(|s| !is_layout(s) && s[..] != ["    p"]);
    own.map(count).sum()
}

#[test]
fn layers_are_short() {
    let lengths = LAYERS.map(|(name, most)| {
        let lines = algorithm(&text(&format!("examples/src/pipelines/{name}.rs")));
        assert!(lines <= most, "{name} has {lines} lines, may have {most}");
        lines
    });
    let page = text("docs/pipelines.md");
    let [slice, transformer, warp] = lengths;
    let sentence = format!("have {slice}, {transformer} and {warp} lines");
    assert!(page.contains(&sentence), "docs/pipelines.md has not: {sentence}");
}

#[test]
fn layouts_of_buffers_are_no_algorithm() {
    let file = "fn build() -> P {\n    let a = [\n        1, // one\n    ];\n    // Why.\n    p.output(\n        Constraint::new(),\n    );\n    p\n}\n";
    assert_eq!(algorithm(file), 3);
}

/// The counts of texts of a few lines.
#[test]
fn comments_blank_lines_and_schedules_do_not_count() {
    assert_eq!(count("// a\n\n  /// b\nlet c;\n}".lines()), 2);
    assert_eq!(part("fn a(\nfn ab(x) {\n  y\n}\nz", "fn ab(", "}"), ["fn ab(x) {", "  y", "}"]);
}
