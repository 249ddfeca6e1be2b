//! Elements that a block of a GPU begins with a constant and then updates once.
//!
//! Before: a kernel in which one thread stores a constant and the block next touches that element in an update that is always made.
//! After: the update has the constant, and the store is gone: memory is written once and not waited for. Values stay.

use crate::expr::walk::{Memo, any, rewrite};
use crate::expr::{Expr, ExprKind, Flat};
use crate::ir::rewrite::{block, map_children, mentions};
use crate::ir::stmt::Stmt;
use crate::lower::warps::first_lane;
use crate::schedule::ForKind;

/// See the module's description.
pub(super) fn begun(s: &Stmt) -> Stmt {
    let Stmt::Block(list) = s else {
        return match s {
            Stmt::For { kind: ForKind::GpuThread, .. } => s.clone(),
            s => map_children(s, &mut Expr::clone, &mut begun),
        };
    };
    let (mut behind, mut out): (Vec<Stmt>, _) = (list.iter().map(begun).collect(), vec![]);
    while !behind.is_empty() {
        let s = behind.remove(0);
        out.extend(begun_by(&s, &mut behind));
    }
    block(out)
}

/// A statement without the stores of constants with which those behind it begin now; none if nothing is left.
fn begun_by(s: &Stmt, behind: &mut Vec<Stmt>) -> Option<Stmt> {
    match s {
        Stmt::For { extent, kind: ForKind::GpuThread, body, .. } if extent.as_int() == Some(1) => {
            let body = begun_by(body, behind)?;
            Some(map_children(s, &mut Expr::clone, &mut |_| body.clone()))
        }
        Stmt::Block(list) => {
            let of = |s: &Stmt| Begin::of(s).map(|begin| begin.buffer);
            let apart = |buffer: &Flat| list.iter().filter(|s| mentions(s, buffer)).count() == 1;
            if !list.iter().all(|s| of(s).is_some_and(|buffer| apart(&buffer))) {
                return Some(s.clone());
            }
            let left: Vec<Stmt> = list.iter().filter_map(|s| begun_by(s, behind)).collect();
            (!left.is_empty()).then(|| block(left))
        }
        s => match Begin::of(s).and_then(|begin| begin.in_block(behind)) {
            Some(list) => {
                *behind = list;
                None
            }
            None => Some(s.clone()),
        },
    }
}

/// A store of a constant.
struct Begin {
    buffer: Flat,
    index: Expr,
    value: Expr,
}

impl Begin {
    fn of(s: &Stmt) -> Option<Begin> {
        let Stmt::Store { buffer, index, value, predicate: None, .. } = s else { return None };
        let is = matches!(value.kind(), ExprKind::Float(_) | ExprKind::Int(_)) && value.ty().lanes == 1;
        is.then(|| Begin { buffer: buffer.clone(), index: index.clone(), value: value.clone() })
    }

    /// The statements behind it, of which the first to touch the element has the constant.
    fn in_block(&self, list: &[Stmt]) -> Option<Vec<Stmt>> {
        let first = list.iter().position(|s| mentions(s, &self.buffer))?;
        let mut list = list.to_vec();
        list[first] = self.within(&list[first])?;
        Some(list)
    }

    /// A statement that touches the element, with the constant; `None` where that might not be the update of this one alone.
    fn within(&self, s: &Stmt) -> Option<Stmt> {
        match s {
            Stmt::Block(list) => self.in_block(list).map(Stmt::Block),
            // The sum of a warp, which its first lane stores.
            Stmt::Let { name, value, body } if self.reads(value) => {
                let always = |predicate: &Option<Expr>| predicate.as_ref().is_none_or(|p| *p == first_lane());
                let stores = matches!(&**body, Stmt::Store { buffer, index, value, predicate, .. }
                    if *buffer == self.buffer && *index == self.index && !self.reads(value) && always(predicate));
                let value = self.with_constant(value).filter(|_| stores)?;
                Some(Stmt::Let { name: name.clone(), value, body: body.clone() })
            }
            Stmt::Let { body, .. } | Stmt::Allocate { body, .. } | Stmt::Produce { body, .. } => {
                self.around(s, self.within(body)?)
            }
            Stmt::For { extent, kind: ForKind::GpuThread, body, .. } if extent.as_int() == Some(1) => {
                self.around(s, self.within(body)?)
            }
            Stmt::Store { buffer, index, value, predicate: None, aligned, non_temporal }
                if *buffer == self.buffer && *index == self.index =>
            {
                let value = self.with_constant(value)?;
                let (buffer, index, predicate) = (buffer.clone(), index.clone(), None);
                let (aligned, non_temporal) = (*aligned, *non_temporal);
                Some(Stmt::Store { buffer, index, value, predicate, aligned, non_temporal })
            }
            _ => None,
        }
    }

    fn around(&self, s: &Stmt, body: Stmt) -> Option<Stmt> {
        Some(map_children(s, &mut Expr::clone, &mut |_| body.clone()))
    }

    /// A value with the constant for the element; `None` where it reads others of the buffer.
    fn with_constant(&self, e: &Expr) -> Option<Expr> {
        let is_own = |e: &Expr| {
            matches!(e.kind(), ExprKind::Load { buffer, index, predicate: None }
            if *buffer == self.buffer && *index == self.index)
        };
        let own = |e: Expr| if is_own(&e) { self.value.clone() } else { e };
        let e = rewrite(e, &mut Memo::default(), &mut |_, e| own(e));
        (!self.reads(&e)).then_some(e)
    }

    fn reads(&self, e: &Expr) -> bool {
        any(e, |n| matches!(n.kind(), ExprKind::Load { buffer, .. } if *buffer == self.buffer))
    }
}
