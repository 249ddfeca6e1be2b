//! Expressions as text. Small ones print as one line; in large ones shared and long parts get a line `t3 = ...` each, in
//! the order they are needed, and the last line is the expression itself.

use super::{Access, At, Compare, Dag, ExprId, Node, Offset, Source};
use crate::ids::{Domain, GraphId, ParamId, SpaceId};
use rustc_hash::FxHashMap;
use std::fmt::Write;

/// Names of what an expression reads.
pub trait Names {
    /// Name of an unknown, array, direction or hoisted value.
    fn source(&self, source: Source) -> String;
    /// Its channels per element: with one, the channel is not printed. `None` if not known.
    fn channels(&self, source: Source) -> Option<u16>;
    /// Name of a parameter and its number of entries.
    fn param(&self, param: ParamId) -> (String, Option<u16>);
    /// `G.v0`.
    fn vertex(&self, graph: GraphId, slot: u16) -> String;
    /// Name of an index space.
    fn space(&self, space: SpaceId) -> String;
}

/// Names by number, for expressions without a model.
pub struct Ids;

impl Names for Ids {
    fn source(&self, source: Source) -> String {
        match source {
            Source::Unknown(u) => format!("X{}", u.0),
            Source::Array(a) => format!("A{}", a.0),
            Source::Direction(u) => format!("p_X{}", u.0),
            Source::Computed(c) => format!("C{}", c.0),
            Source::Partial(c) => format!("dC{}", c.0),
            Source::Hoisted(Domain::Space(s)) => format!("inv{}", s.0),
            Source::Hoisted(Domain::Graph(g)) => format!("invG{}", g.0),
            Source::Residual(Domain::Space(s)) => format!("r{}", s.0),
            Source::Residual(Domain::Graph(g)) => format!("rG{}", g.0),
            Source::Product(Domain::Space(s)) => format!("Jp{}", s.0),
            Source::Product(Domain::Graph(g)) => format!("JpG{}", g.0),
            Source::Squared => "q".into(),
        }
    }
    fn channels(&self, _: Source) -> Option<u16> {
        None
    }
    fn param(&self, param: ParamId) -> (String, Option<u16>) {
        (format!("P{}", param.0), None)
    }
    fn vertex(&self, graph: GraphId, slot: u16) -> String {
        format!("G{}.v{slot}", graph.0)
    }
    fn space(&self, space: SpaceId) -> String {
        format!("space{}", space.0)
    }
}

/// Expressions of at most this many nodes, counted as a tree, print as one line.
const INLINE_SIZE: u64 = 160;
/// Longer parts get a line of their own.
const LINE_LENGTH: usize = 160;

/// Binding strength of a printed form.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Level {
    Sum,
    Product,
    Power,
    Atom,
}

impl Dag {
    /// Readable text with names by number.
    pub fn display(&self, id: ExprId) -> String {
        self.display_with(id, &Ids)
    }

    /// Readable text.
    pub fn display_with(&self, id: ExprId, names: &dyn Names) -> String {
        let order = self.reachable(&[id]);
        let mut uses: FxHashMap<ExprId, u32> = FxHashMap::default();
        let mut size: FxHashMap<ExprId, u64> = FxHashMap::default();
        for &n in &order {
            let children = self.children(n);
            let total = children.iter().fold(1u64, |s, c| s.saturating_add(size[c]));
            size.insert(n, total);
            for c in children {
                *uses.entry(c).or_default() += 1;
            }
        }
        let inline = size[&id] <= INLINE_SIZE;
        let mut printer = Printer { dag: self, names, text: FxHashMap::default() };
        let mut lines = String::new();
        let mut lets = 0;
        for &n in &order {
            let (text, level) = printer.print(n);
            let shared = uses.get(&n).is_some_and(|&u| u > 1) && size[&n] > 3;
            if n != id && !inline && (shared || text.len() > LINE_LENGTH) {
                writeln!(lines, "t{lets} = {text}").expect("writing to a string");
                printer.text.insert(n, (format!("t{lets}"), Level::Atom));
                lets += 1;
            } else {
                printer.text.insert(n, (text, level));
            }
        }
        lines + &printer.text[&id].0
    }
}

struct Printer<'a> {
    dag: &'a Dag,
    names: &'a dyn Names,
    text: FxHashMap<ExprId, (String, Level)>,
}

impl Printer<'_> {
    /// The text of an operand, in brackets unless it binds at least as tightly as `level`.
    fn operand(&self, id: ExprId, level: Level) -> String {
        let (text, own) = &self.text[&id];
        if *own >= level { text.clone() } else { format!("({text})") }
    }

    fn list(&self, ids: &[ExprId]) -> String {
        let parts: Vec<&str> = ids.iter().map(|i| self.text[i].0.as_str()).collect();
        parts.join(", ")
    }

    fn print(&self, id: ExprId) -> (String, Level) {
        match self.dag.node(id) {
            Node::Const(c) => number(c.get()),
            Node::Access(a) => (self.access(a), Level::Atom),
            Node::Param(p, c) => match self.names.param(*p) {
                (name, Some(1)) => (name, Level::Atom),
                (name, _) => (format!("{name}({c})"), Level::Atom),
            },
            Node::Index(d) => (format!("Index({d})"), Level::Atom),
            Node::InBounds { lo, hi } => (in_bounds(lo, hi), Level::Atom),
            Node::Free(s, at) => (format!("Free({}, {})", self.names.space(*s), self.place(at)), Level::Atom),
            Node::SameVertex(g, a, b) => {
                (format!("Same({}, {})", self.names.vertex(*g, *a), self.names.vertex(*g, *b)), Level::Atom)
            }
            Node::InBoundsAt { graph, slot, lo, hi } => {
                (format!("{}@{}", in_bounds(lo, hi), self.names.vertex(*graph, *slot)), Level::Atom)
            }
            Node::IndexAt(g, slot, d) => {
                (format!("Index({d})@{}", self.names.vertex(*g, *slot)), Level::Atom)
            }
            Node::Sum { constant, terms } => self.sum(constant.get(), terms),
            Node::Prod(factors) => self.product(factors),
            Node::Call(f, arguments) => (format!("{}({})", f.name(), self.list(arguments)), Level::Atom),
            Node::Sample { image: (array, channel), at, .. } => {
                let name = self.names.source(Source::Array(*array));
                (format!("Sample({name},{channel}; {})", self.list(at)), Level::Atom)
            }
            Node::Compare(op, a, b) => {
                let op = match op {
                    Compare::Eq => "eq",
                    Compare::Less => "less",
                    Compare::LessEq => "lesseq",
                };
                (format!("{op}({})", self.list(&[*a, *b])), Level::Atom)
            }
            Node::NonZero(a) => (format!("NonZero({})", self.list(&[*a])), Level::Atom),
            Node::And(ops) => (format!("And({})", self.list(ops)), Level::Atom),
            Node::Or(ops) => (format!("Or({})", self.list(ops)), Level::Atom),
            Node::Not(a) => (format!("Not({})", self.list(&[*a])), Level::Atom),
            Node::Select(c, a, b) => (format!("Select({})", self.list(&[*c, *a, *b])), Level::Atom),
        }
    }

    fn place(&self, at: &At) -> String {
        match at {
            At::Offset(o) => numbers(o),
            At::Vertex(g, slot) => self.names.vertex(*g, *slot),
            At::Edge(_) | At::Global => String::new(),
        }
    }

    fn access(&self, a: &Access) -> String {
        let (name, place) = (self.names.source(a.source), self.place(&a.at));
        match self.names.channels(a.source) {
            Some(1) => format!("{name}({place})"),
            _ if place.is_empty() => format!("{name}({})", a.channel),
            _ => format!("{name}({place},{})", a.channel),
        }
    }

    fn sum(&self, constant: f64, terms: &[(super::Const, ExprId)]) -> (String, Level) {
        let mut text = String::new();
        for &(c, t) in terms {
            let c = c.get();
            let sign = match (c < 0.0, text.is_empty()) {
                (true, true) => "-",
                (true, false) => " - ",
                (false, true) => "",
                (false, false) => " + ",
            };
            text += sign;
            if c.abs() != 1.0 {
                write!(text, "{}*", c.abs()).expect("writing to a string");
            }
            text += &self.operand(t, Level::Product);
        }
        if constant != 0.0 {
            let sign = if constant < 0.0 { "-" } else { "+" };
            write!(text, " {sign} {}", constant.abs()).expect("writing to a string");
        }
        let lone = constant == 0.0 && terms.len() == 1 && terms[0].0.get() > 0.0;
        (text, if lone { Level::Product } else { Level::Sum })
    }

    fn product(&self, factors: &[(ExprId, i32)]) -> (String, Level) {
        let power = |&(f, e): &(ExprId, i32)| match e.abs() {
            1 => self.operand(f, Level::Power),
            n => format!("{}^{n}", self.operand(f, Level::Atom)),
        };
        let above: Vec<String> = factors.iter().filter(|f| f.1 > 0).map(power).collect();
        let below: Vec<String> = factors.iter().filter(|f| f.1 < 0).map(power).collect();
        let mut text = if above.is_empty() { "1".to_string() } else { above.join("*") };
        for b in &below {
            write!(text, "/{b}").expect("writing to a string");
        }
        let power_only = factors.len() == 1 && below.is_empty();
        (text, if power_only { Level::Power } else { Level::Product })
    }
}

fn number(v: f64) -> (String, Level) {
    (v.to_string(), if v < 0.0 { Level::Sum } else { Level::Atom })
}

fn numbers(o: &Offset) -> String {
    let parts: Vec<String> = o.iter().map(i32::to_string).collect();
    parts.join(",")
}

/// `InBounds(1,0)` for the box between the element and one offset, else both corners.
fn in_bounds(lo: &Offset, hi: &Offset) -> String {
    let one_sided = lo.iter().zip(hi).all(|(&l, &h)| l == 0 || h == 0);
    if one_sided {
        let corner: Offset = lo.iter().zip(hi).map(|(l, h)| l + h).collect();
        return format!("InBounds({})", numbers(&corner));
    }
    format!("InBounds({}..{})", numbers(lo), numbers(hi))
}
