//! Lines of six algorithms here and as Halide's peer has them, as `docs/pipelines.md` states them.

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

/// The counts of texts of a few lines.
#[test]
fn comments_blank_lines_and_schedules_do_not_count() {
    assert_eq!(count("// a\n\n  /// b\nlet c;\n}".lines()), 2);
    assert_eq!(part("fn a(\nfn ab(x) {\n  y\n}\nz", "fn ab(", "}"), ["fn ab(x) {", "  y", "}"]);
}
