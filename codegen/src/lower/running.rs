//! Elements that a loop of a thread updates again and again, in registers.
//!
//! Before: a kernel in whose thread nests a serial loop reads and stores an element of a buffer whose place it does not change, as sums do. After: the
//! loop has that element in a register, read before it and stored behind it. So its loads of other buffers need not wait for stores that
//! might change what they read. Values and their order stay.

use crate::expr::walk::{Memo, any, rewrite, visit};
use crate::expr::{Expr, ExprKind, Flat, Name};
use crate::ir::rewrite::{block, for_each_child, map_children, own_exprs};
use crate::ir::stmt::Stmt;
use crate::schedule::{ForKind, Memory};
use crate::types::{ScalarType, Type};
use rustc_hash::FxHashSet;

/// See the module's description. `aliases`: pairs of buffers that may be the same memory.
pub(super) fn running(s: &Stmt, aliases: &[(Flat, Flat)]) -> Stmt {
    Pass { aliases, made: 0 }.walk(s, false)
}

struct Pass<'a> {
    aliases: &'a [(Flat, Flat)],
    /// Registers so far.
    made: usize,
}

/// An element that a loop updates.
struct Element {
    buffer: Flat,
    index: Expr,
    ty: ScalarType,
}

impl Element {
    fn load(&self) -> Expr {
        Expr::load(self.buffer.clone(), self.index.clone(), Type::of(self.ty))
    }

    fn store(&self, value: Expr) -> Stmt {
        Stmt::store(self.buffer.clone(), self.index.clone(), value)
    }
}

impl Pass<'_> {
    /// `thread`: `s` is in a thread nest.
    fn walk(&mut self, s: &Stmt, thread: bool) -> Stmt {
        match s {
            Stmt::For { min, extent, kind: ForKind::Serial, .. } if thread => {
                let elements = Accesses::of(s).elements(self.aliases);
                let inner = map_children(s, &mut Expr::clone, &mut |s| self.walk(s, thread));
                let kept = elements.iter().fold(inner, |s, e| self.kept(&s, e));
                match elements.is_empty() || extent.as_int().is_some_and(|n| n > 0) {
                    true => kept,
                    // An element that no iteration touches may lie anywhere.
                    false => Stmt::If {
                        cond: Expr::int(min.ty(), 0).lt(extent.clone()),
                        then: Box::new(kept),
                        otherwise: None,
                    },
                }
            }
            Stmt::For { kind, .. } => {
                let thread = thread || *kind == ForKind::GpuThread;
                map_children(s, &mut Expr::clone, &mut |s| self.walk(s, thread))
            }
            s => map_children(s, &mut Expr::clone, &mut |s| self.walk(s, thread)),
        }
    }

    /// A loop with an element in a register.
    fn kept(&mut self, s: &Stmt, e: &Element) -> Stmt {
        let buffer = Flat { of: format!("running.{}", self.made).into(), ..e.buffer.clone() };
        self.made += 1;
        let register =
            Element { buffer: buffer.clone(), index: Expr::from(0).cast(e.index.ty().scalar), ty: e.ty };
        let inside = placed(s, e, &register, &mut Memo::default());
        let body = block(vec![register.store(e.load()), inside, e.store(register.load())]);
        Stmt::Allocate {
            buffer,
            ty: e.ty,
            extent: Expr::int(Type::I64, 1),
            memory: Memory::Register,
            zeroed: false,
            body: Box::new(body),
        }
    }
}

/// The statement with a register for every access of an element.
fn placed(s: &Stmt, e: &Element, register: &Element, memo: &mut Memo) -> Stmt {
    let mut of = |x: &Expr| {
        rewrite(x, memo, &mut |_, new| match new.kind() {
            ExprKind::Load { buffer, .. } if *buffer == e.buffer => register.load(),
            _ => new,
        })
    };
    let own = match s {
        Stmt::Store { buffer, value, .. } if *buffer == e.buffer => return register.store(of(value)),
        s => map_children(s, &mut of, &mut Stmt::clone),
    };
    map_children(&own, &mut Expr::clone, &mut |s| placed(s, e, register, memo))
}

/// The accesses of a loop.
struct Accesses<'a> {
    /// Names that change within it.
    names: FxHashSet<&'a Name>,
    /// Buffers that are stored to, in order, with what is stored, where that is one element in each iteration: of what some threads never touch,
    /// others might.
    stored: Vec<(&'a Flat, Option<(&'a Expr, ScalarType)>)>,
    /// Buffers that are loaded from, each with a place.
    loaded: Vec<(&'a Flat, &'a Expr, bool)>,
    /// Buffers that live within it.
    inside: FxHashSet<&'a Flat>,
}

impl<'a> Accesses<'a> {
    fn of(s: &'a Stmt) -> Accesses<'a> {
        let mut all = Accesses {
            names: FxHashSet::default(),
            stored: vec![],
            loaded: vec![],
            inside: FxHashSet::default(),
        };
        all.add(s, true, true);
        all
    }

    /// `always`: each iteration comes by.
    fn add(&mut self, s: &'a Stmt, outermost: bool, always: bool) {
        own_exprs(s, &mut |e| self.add_loads(e));
        match s {
            Stmt::For { var, extent, body, .. } => {
                self.names.insert(var);
                let always = always && (outermost || extent.as_int().is_some_and(|n| n > 0));
                self.add(body, false, always);
            }
            Stmt::Let { name, body, .. } => {
                self.names.insert(name);
                self.add(body, false, always);
            }
            Stmt::If { then, otherwise, .. } => {
                self.add(then, false, false);
                otherwise.iter().for_each(|o| self.add(o, false, false));
            }
            Stmt::Allocate { buffer, body, .. } => {
                self.inside.insert(buffer);
                self.add(body, false, always);
            }
            Stmt::Store { buffer, index, value, predicate, .. } => {
                let one = predicate.is_none() && index.ty().lanes == 1 && always;
                self.stored.push((buffer, one.then_some((index, value.ty().scalar))));
            }
            Stmt::Accumulate { buffer, .. } | Stmt::PrefetchByte { buffer, .. } => {
                self.stored.push((buffer, None))
            }
            s => for_each_child(s, &mut |s| self.add(s, false, always)),
        }
    }

    fn add_loads(&mut self, e: &'a Expr) {
        visit(e, &mut |n| {
            if let ExprKind::Load { buffer, index, predicate } = n.kind() {
                self.loaded.push((buffer, index, predicate.is_none() && n.ty().lanes == 1));
            }
            true
        });
    }

    /// The elements that it updates where they stay.
    fn elements(&self, aliases: &[(Flat, Flat)]) -> Vec<Element> {
        let mut seen = FxHashSet::default();
        let buffers = self.stored.iter().map(|s| s.0).filter(|b| seen.insert(*b));
        buffers.filter_map(|b| self.element(b, aliases)).collect()
    }

    fn element(&self, buffer: &Flat, aliases: &[(Flat, Flat)]) -> Option<Element> {
        let mut stores = self.stored.iter().filter(|s| s.0 == buffer);
        let (index, ty) = stores.next()?.1?;
        let touched = |b: &Flat| self.stored.iter().any(|s| s.0 == b) || self.loaded.iter().any(|l| l.0 == b);
        let shared = aliases.iter().any(|(a, b)| (a == buffer && touched(b)) || (b == buffer && touched(a)));
        let same = stores.all(|s| s.1.is_some_and(|s| s.0 == index && s.1 == ty));
        let mut loads = self.loaded.iter().filter(|l| l.0 == buffer).peekable();
        // What is stored and not read is no sum, and the last store may be none.
        let read = loads.peek().is_some();
        let same = same && loads.all(|l| l.2 && l.1 == index);
        let stays = !any(index, |n| match n.kind() {
            ExprKind::Var(v) => self.names.contains(v),
            ExprKind::Load { .. } => true,
            _ => false,
        });
        let fits =
            read && same && stays && !shared && ty != ScalarType::Bool && !self.inside.contains(buffer);
        fits.then(|| Element { buffer: buffer.clone(), index: index.clone(), ty })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(of: &str) -> Flat {
        Flat::plane(of, 0)
    }

    fn load(of: &str, index: &Expr) -> Expr {
        Expr::load(flat(of), index.clone(), Type::of(ScalarType::F32))
    }

    fn store(of: &str, index: &Expr, value: Expr) -> Stmt {
        Stmt::store(flat(of), index.clone(), value)
    }

    fn nest(var: &str, n: Expr, kind: ForKind, body: Stmt) -> Stmt {
        Stmt::For { var: var.into(), min: Expr::from(0), extent: n, kind, body: Box::new(body) }
    }

    /// Thread t adds up n elements of `a` in s(t).
    fn sum(body: &dyn Fn(Stmt) -> Stmt) -> Stmt {
        let (t, k) = (Expr::var("t"), Expr::var("k"));
        let add = store("s", &t, load("s", &t) + load("a", &(&t * 8 + &k)));
        let inner = nest("k", Expr::var("n"), ForKind::Serial, body(add));
        nest("t", Expr::from(32), ForKind::GpuThread, inner)
    }

    #[test]
    fn a_sum_is_read_once_and_stored_once() {
        let text = running(&sum(&|add| add), &[]).to_string();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let has = |part: &str| lines.iter().filter(|l| l.contains(part)).count();
        assert_eq!((has("s.0[t]"), has("if 0 < n")), (2, 1), "{text}");
        let at = |part: &str| lines.iter().position(|l| l.contains(part)).expect(part);
        assert!(at("= s.0[t]") < at("for k") && at("for k") < at("s.0[t] ="), "{text}");
    }

    #[test]
    fn what_moves_or_is_shared_stays_in_memory() {
        let same = |s: &Stmt, aliases: &[(Flat, Flat)]| running(s, aliases) == *s;
        let (t, k) = (Expr::var("t"), Expr::var("k"));
        let loops = |body| {
            let inner = nest("k", Expr::from(4), ForKind::Serial, body);
            nest("t", Expr::from(32), ForKind::GpuThread, inner)
        };
        assert!(same(&loops(store("s", &k, load("s", &k) + load("a", &k))), &[]), "it moves");
        assert!(same(&loops(store("s", &t, load("s", &t) + load("s", &k))), &[]), "another is read, too");
        assert!(same(&sum(&|add| add), &[(flat("a"), flat("s"))]), "the sum may lie in what is added");
        let only = |add| Stmt::If { cond: k.lt(t.clone()), then: Box::new(add), otherwise: None };
        assert!(same(&sum(&only), &[]), "perhaps no iteration touches it");
        assert!(
            same(&nest("k", Expr::from(4), ForKind::Serial, store("s", &t, load("s", &t))), &[]),
            "no thread"
        );
    }
}
