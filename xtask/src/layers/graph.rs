//! Imports among the modules of one crate.

use super::source::{Source, Token};
use std::collections::{BTreeMap, BTreeSet};

/// A module below the crate root: the folders and the name of its file.
pub type Module = Vec<String>;

/// The modules of a crate and their imports.
#[derive(Debug, Default)]
pub struct Graph {
    /// For each module those that it imports from, with one imported name.
    pub imports: BTreeMap<Module, BTreeMap<Module, String>>,
}

/// A path as it is written, and whether it stands in a `pub use`.
struct Written {
    path: Vec<String>,
    exported: bool,
}

impl Graph {
    /// Reads `use` declarations and inline paths that start with `crate`, `super`, `self` or a child module. A name that a module
    /// exports again counts for the module it comes from.
    pub fn of(modules: &BTreeMap<Module, Source>) -> Graph {
        let resolver = Resolver::new(modules);
        let mut graph = Graph::default();
        for (module, source) in modules {
            let found = graph.imports.entry(module.clone()).or_default();
            for w in written(&source.tokens) {
                let Some((to, rest)) = resolver.resolve(module, &w.path) else { continue };
                let own = w.exported && to.starts_with(module);
                if to != *module && !to.is_empty() && !own {
                    found.entry(to).or_insert_with(|| rest.first().cloned().unwrap_or_default());
                }
            }
        }
        graph
    }

    /// Imports from a higher layer: `(from, to, name)`.
    pub fn upward(&self, layer: impl Fn(&str) -> Option<usize>) -> Vec<(Module, Module, String)> {
        let mut out = vec![];
        for (from, to) in self.imports.iter().flat_map(|(m, all)| all.iter().map(move |t| (m, t))) {
            let (Some(a), Some(b)) = (from.first(), to.0.first()) else { continue };
            if layer(a) < layer(b) {
                out.push((from.clone(), to.0.clone(), to.1.clone()));
            }
        }
        out
    }

    /// Circles of modules, the largest first: sets in which every module reaches every other.
    pub fn circles(&self) -> Vec<Vec<Module>> {
        let reach: BTreeMap<&Module, BTreeSet<&Module>> =
            self.imports.keys().map(|m| (m, self.reachable(m))).collect();
        let mut out: Vec<Vec<Module>> = vec![];
        for (m, all) in &reach {
            let circle = all.iter().filter(|n| reach.get(*n).is_some_and(|r| r.contains(m)));
            let circle: Vec<Module> = circle.map(|n| (*n).clone()).collect();
            // Everything imports the root's re-exports, which belong to no layer.
            if circle.len() > 1 && circle[0] == **m {
                out.push(circle);
            }
        }
        out.sort_by_key(|c| std::cmp::Reverse(c.len()));
        out
    }

    fn reachable<'a>(&'a self, from: &'a Module) -> BTreeSet<&'a Module> {
        let mut seen = BTreeSet::new();
        let mut stack: Vec<&Module> = self.imports[from].keys().collect();
        while let Some(m) = stack.pop() {
            if seen.insert(m) {
                stack.extend(self.imports.get(m).into_iter().flat_map(|all| all.keys()));
            }
        }
        seen
    }
}

/// Modules, and what they export of others.
struct Resolver<'a> {
    modules: &'a BTreeMap<Module, Source>,
    exports: BTreeMap<(Module, String), Module>,
}

impl<'a> Resolver<'a> {
    fn new(modules: &'a BTreeMap<Module, Source>) -> Resolver<'a> {
        let mut r = Resolver { modules, exports: BTreeMap::new() };
        for (module, source) in modules {
            for w in written(&source.tokens).into_iter().filter(|w| w.exported) {
                if let (Some((from, _)), Some(name)) = (r.place(module, &w.path), w.path.last()) {
                    r.exports.insert((module.clone(), name.clone()), from);
                }
            }
        }
        r
    }

    /// The module that a path leads to and the rest of the path, none if it leads out of the crate.
    fn resolve(&self, here: &Module, path: &[String]) -> Option<(Module, Vec<String>)> {
        let (mut at, mut rest) = self.place(here, path)?;
        for _ in 0..8 {
            let Some(next) = rest.first().and_then(|name| self.exports.get(&(at.clone(), name.clone())))
            else {
                break;
            };
            at = next.clone();
            if at.last() == rest.first() {
                rest.remove(0);
            }
        }
        Some((at, rest))
    }

    /// As [`Resolver::resolve`], by folders and files alone.
    fn place(&self, here: &Module, path: &[String]) -> Option<(Module, Vec<String>)> {
        let mut at = here.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => at.clear(),
            "super" | "self" => {}
            child => {
                let mut to = here.clone();
                to.push(child.to_string());
                self.modules.get(&to)?;
            }
        }
        while let Some(word) = rest.first() {
            match word.as_str() {
                "crate" | "self" => {}
                "super" => {
                    at.pop();
                }
                name => {
                    at.push(name.to_string());
                    if !self.modules.contains_key(&at) {
                        at.pop();
                        break;
                    }
                }
            }
            rest = &rest[1..];
        }
        Some((at, rest.to_vec()))
    }
}

/// All paths in some tokens: those of `use` declarations, one for each name, and those inline.
fn written(tokens: &[Token]) -> Vec<Written> {
    let mut out = vec![];
    let mut at = 0;
    let mut exported = false;
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            "pub" => exported = true,
            "use" => {
                at = tree(tokens, at + 1, &[], &mut |path| out.push(Written { path, exported }));
                exported = false;
            }
            // `pub(crate)`
            "(" | ")" | "crate" | "super" | "in" if exported => {}
            word if is_name(word) && next(tokens, at) == "::" && (at == 0 || tokens[at - 1].text != "::") => {
                let mut path = vec![word.to_string()];
                while next(tokens, at) == "::" && is_name(&tokens[at + 2].text) {
                    at += 2;
                    path.push(tokens[at].text.clone());
                }
                out.push(Written { path, exported: false });
                exported = false;
            }
            _ => exported = false,
        }
        at += 1;
    }
    out
}

fn next(tokens: &[Token], at: usize) -> &str {
    if at + 2 < tokens.len() { &tokens[at + 1].text } else { "" }
}

fn is_name(word: &str) -> bool {
    word.bytes().next().is_some_and(|c| c.is_ascii_alphabetic() || c == b'_')
}

/// Reads one tree of a `use` declaration; returns where it ends.
fn tree(tokens: &[Token], mut at: usize, before: &[String], found: &mut impl FnMut(Vec<String>)) -> usize {
    let mut path = before.to_vec();
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            "{" => {
                while !matches!(tokens[at].text.as_str(), "}" | ";") {
                    at = tree(tokens, at + 1, &path, found);
                    if at >= tokens.len() {
                        return at;
                    }
                }
                path.clear();
            }
            "," | "}" | ";" => break,
            "as" => at += 1,
            "::" => {}
            name => path.push(name.to_string()),
        }
        at += 1;
    }
    if path.len() > before.len() {
        found(path);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Graph {
        let module = |name: &str| name.split("::").filter(|p| !p.is_empty()).map(str::to_string).collect();
        Graph::of(&files.iter().map(|(name, text)| (module(name), Source::read(text))).collect())
    }

    fn upward(files: &[(&str, &str)], layers: &[&str]) -> Vec<String> {
        let found = graph(files).upward(|m| layers.iter().position(|l| *l == m));
        found
            .into_iter()
            .map(|(a, b, name)| format!("{} -> {}: {name}", a.join("::"), b.join("::")))
            .collect()
    }

    #[test]
    fn an_import_from_above_is_found_however_it_is_written() {
        for text in [
            "use crate::top::{deep::{Thing as Other, x}, y};",
            "fn f() -> crate::top::deep::Thing {}",
            "use super::top::deep::*;",
            "macro_rules! m { () => { $crate::top::deep::Thing } }",
        ] {
            let files = [("low", text), ("top", ""), ("top::deep", ""), ("", "mod low; mod top;")];
            assert_eq!(upward(&files, &["low", "top"]).len().min(1), 1, "{text}");
            assert!(upward(&files, &["top", "low"]).is_empty(), "{text}");
        }
    }

    #[test]
    fn an_exported_name_counts_for_where_it_comes_from() {
        let files = [("", "pub use top::Thing;"), ("low", "use crate::Thing;"), ("top", "")];
        assert_eq!(upward(&files, &["low", "top"]), ["low -> top: Thing"]);
    }

    #[test]
    fn tests_comments_and_strings_import_nothing() {
        let text = "#[cfg(test)] mod tests { use crate::top::T; } // crate::top::T\nconst S: &str = \"crate::top::T\";";
        assert!(upward(&[("low", text), ("top", "")], &["low", "top"]).is_empty());
    }

    #[test]
    fn circles() {
        let files = [
            ("a", "use crate::b::B;"),
            ("b", "use crate::c::C;"),
            ("c", "use crate::a::A; use crate::d::D;"),
            ("d", "mod e; use e::E; pub use e::F;"),
            ("d::e", ""),
        ];
        let circles = graph(&files).circles();
        assert_eq!(circles, [["a", "b", "c"].map(|m| vec![m.to_string()])]);
    }
}
