//! Kernels that follow each other as one kernel: a launch less, and no more than a barrier in its place.
//!
//! Before and after: the statements of a sequence at root. Two kernels become one where
//! - both are one block, or
//! - their grids are equal, the second goes on with what the first wrote, and whatever one of them writes and the other touches is touched by both
//!   at one index, the same for all threads of a block. (It differs from block to block, since those of the kernel that writes there run in any
//!   order.) So a sum begins at 0 in the kernel that adds to it.
//!
//! Thread nests of the second kernel follow those of the first, with a barrier between. What both share of memory is within what every device has.
//!
//! An allocation opens as early as kernels have to stand in it for that, and stays open as long: partial sums, which are small.

use super::segments::loads;
use crate::error::Error;
use crate::expr::walk::{any, substitute, visit};
use crate::expr::{Expr, ExprKind, Flat, Name};
use crate::ir::rewrite::{block, map_children, own_exprs, visit_stmts};
use crate::ir::stmt::Stmt;
use crate::lower::simplify::simplify_index;
use crate::schedule::{ForKind, Memory};
use rustc_hash::{FxHashMap, FxHashSet};

/// Bytes of shared memory that a block may have on every device.
const SHARED_BYTES: i64 = 48 << 10;

/// The block loops of a kernel.
pub(super) struct Grid {
    /// Numbers of blocks, innermost first, in terms of what is bound outside.
    pub(super) sizes: Vec<Expr>,
    /// Variables of the loops and lets between them, in terms of the numbers of blocks and of what is bound outside.
    names: FxHashMap<Name, Expr>,
}

impl Grid {
    /// That of a kernel.
    ///
    /// # Errors
    /// A size that differs from block to block.
    pub(super) fn of(s: &Stmt) -> Result<Grid, Error> {
        let (mut sizes, mut names, mut numbers) = (vec![], FxHashMap::default(), vec![]);
        let mut at = s;
        loop {
            match at {
                Stmt::For { var, min, extent, kind: ForKind::GpuBlock, body } => {
                    let size = simplify_index(&substitute(extent, &names));
                    let varies = |n: &Expr| match n.kind() {
                        ExprKind::Var(v) => numbers.contains(v),
                        ExprKind::Load { .. } => true,
                        _ => false,
                    };
                    if any(&size, varies) {
                        let rule = "its extent differs from block to block of the loop around it".to_string();
                        let directive = format!("gpu_blocks({var})");
                        return Err(Error::Schedule { func: var.to_string(), directive, rule });
                    }
                    let number = number(sizes.len());
                    let value = substitute(min, &names) + Expr::var(number.clone());
                    names.insert(var.clone(), simplify_index(&value));
                    sizes.push(size);
                    numbers.push(number);
                    at = body;
                }
                Stmt::Let { name, value, body } => {
                    let value = substitute(value, &names);
                    names.insert(name.clone(), value);
                    at = body;
                }
                Stmt::If { then, otherwise: None, .. } => at = then,
                Stmt::Produce { body, .. } | Stmt::Allocate { body, .. } => at = body,
                _ => break,
            }
        }
        sizes.reverse();
        Ok(Grid { sizes, names })
    }

    /// Is it one block, whatever the sizes?
    fn is_one_block(&self) -> bool {
        self.sizes.iter().all(|n| n.as_int() == Some(1))
    }
}

/// The number of a block along the loop inside of `depth` others.
fn number(depth: usize) -> Name {
    format!("gpu.block.{depth}").into()
}

/// See the module's description.
pub(super) fn joined(list: &[Stmt]) -> Vec<Stmt> {
    let mut out: Vec<Stmt> = vec![];
    for s in list {
        push(&mut out, s.clone());
    }
    out
}

/// Appends `s`, as one with what is there where that can be.
fn push(out: &mut Vec<Stmt>, s: Stmt) {
    match (out.last_mut(), s) {
        (None, s) => out.push(s),
        // Behind what is allocated, but as one with the last kernel that stands in there.
        (Some(Stmt::Allocate { memory: Memory::Heap, body, .. }), s)
            if is_kernel(&s) && joins(last(body), &s) =>
        {
            let mut inner = statements(std::mem::replace(&mut **body, Stmt::Block(vec![])));
            push(&mut inner, s);
            **body = block(inner);
        }
        // Before what is allocated, but as one with the first kernel that stands in there.
        (Some(before), Stmt::Allocate { buffer, ty, extent, memory: Memory::Heap, zeroed, body })
            if is_kernel(before) && joins(before, first(&body)) =>
        {
            let mut inner = vec![before.clone()];
            statements(*body).into_iter().for_each(|s| push(&mut inner, s));
            let body = Box::new(block(inner));
            *before = Stmt::Allocate { buffer, ty, extent, memory: Memory::Heap, zeroed, body };
        }
        (Some(before), s) if joins(before, &s) => *before = one(before, &s),
        (_, s) => out.push(s),
    }
}

/// The statements of a sequence.
fn statements(s: Stmt) -> Vec<Stmt> {
    match s {
        Stmt::Block(list) => list,
        s => vec![s],
    }
}

fn first(s: &Stmt) -> &Stmt {
    match s {
        Stmt::Block(list) => list.first().map_or(s, first),
        Stmt::Allocate { memory: Memory::Heap, body, .. } => first(body),
        s => s,
    }
}

fn last(s: &Stmt) -> &Stmt {
    match s {
        Stmt::Block(list) => list.last().map_or(s, last),
        Stmt::Allocate { memory: Memory::Heap, body, .. } => last(body),
        s => s,
    }
}

/// A kernel, with nothing around it but lets that load nothing.
fn is_kernel(s: &Stmt) -> bool {
    match s {
        Stmt::Produce { body, .. } => is_kernel(body),
        Stmt::Let { value, body, .. } => !loads(value) && is_kernel(body),
        Stmt::For { kind: ForKind::GpuBlock, .. } => true,
        _ => false,
    }
}

/// Can two statements be one kernel?
fn joins(a: &Stmt, b: &Stmt) -> bool {
    if !is_kernel(a) || !is_kernel(b) {
        return false;
    }
    let (Ok(of_a), Ok(of_b)) = (Grid::of(a), Grid::of(b)) else { return false };
    if shared_bytes(a).saturating_add(shared_bytes(b)) > SHARED_BYTES {
        return false;
    }
    of_a.is_one_block() && of_b.is_one_block()
        || of_a.sizes == of_b.sizes && goes_on(&Touched::of(a, &of_a), &Touched::of(b, &of_b))
}

/// Bytes of shared memory of a kernel.
fn shared_bytes(s: &Stmt) -> i64 {
    let mut bytes = 0i64;
    visit_stmts(s, &mut |s| {
        if let Stmt::Allocate { ty, extent, memory: Memory::Shared, .. } = s {
            let elements = extent.as_int().unwrap_or(i64::MAX);
            bytes = bytes.saturating_add(elements.saturating_mul(ty.bytes() as i64));
        }
    });
    bytes
}

/// One kernel of two. The first may be one that was made so.
fn one(a: &Stmt, b: &Stmt) -> Stmt {
    let Ok(grid) = Grid::of(a) else { unreachable!("one: kernels that join have grids") };
    let depth = grid.sizes.len();
    let body = block(vec![without_blocks(a, &mut 0, depth), without_blocks(b, &mut 0, depth)]);
    let sizes = grid.sizes.into_iter().enumerate();
    sizes.fold(body, |body, (i, extent)| {
        let (var, kind) = (format!("gpu.joined.{}", depth - 1 - i).into(), ForKind::GpuBlock);
        Stmt::For { var, min: Expr::from(0), extent, kind, body: Box::new(body) }
    })
}

/// A kernel without its block loops, in terms of those of [`one`], which are `all`. `depth` counts loops.
fn without_blocks(s: &Stmt, depth: &mut usize, all: usize) -> Stmt {
    match s {
        Stmt::For { var, min, kind: ForKind::GpuBlock, body, .. } => {
            let joined: Name = format!("gpu.joined.{depth}").into();
            // More loops than those are of one block.
            let number = if *depth < all { Expr::var(joined.clone()) } else { Expr::from(0) };
            *depth += 1;
            let body = without_blocks(body, depth, all);
            if *var == joined {
                return body;
            }
            let value = simplify_index(&(min.clone() + number));
            Stmt::Let { name: var.clone(), value, body: Box::new(body) }
        }
        Stmt::For { .. } => s.clone(),
        s => map_children(s, &mut Expr::clone, &mut |s| without_blocks(s, depth, all)),
    }
}

/// Elements of memory outside of a kernel that it touches, by buffer: indices in terms of numbers of blocks; `None` where they are more than one, or
/// hang on more than that.
struct Touched<'a> {
    at: FxHashMap<&'a Flat, Option<Expr>>,
    written: FxHashSet<&'a Flat>,
}

impl<'a> Touched<'a> {
    fn of(s: &'a Stmt, grid: &Grid) -> Touched<'a> {
        let mut touched = Touched { at: FxHashMap::default(), written: FxHashSet::default() };
        let (mut inner, mut own) = (FxHashSet::default(), FxHashSet::default());
        visit_stmts(s, &mut |s| match s {
            Stmt::Let { name, .. } | Stmt::For { var: name, .. } if !grid.names.contains_key(name) => {
                inner.insert(name);
            }
            Stmt::Allocate { buffer, .. } => {
                own.insert(buffer);
            }
            _ => {}
        });
        let mut note = |buffer: &'a Flat, index: &Expr| {
            let index = simplify_index(&substitute(index, &grid.names));
            let varies = |n: &Expr| match n.kind() {
                ExprKind::Var(v) => inner.contains(v),
                ExprKind::Load { .. } => true,
                _ => n.ty().lanes > 1,
            };
            let index = (!any(&index, varies)).then_some(index);
            let known = touched.at.entry(buffer).or_insert_with(|| index.clone());
            if *known != index {
                *known = None;
            }
        };
        visit_stmts(s, &mut |s| {
            match s {
                Stmt::Store { buffer, index, .. } | Stmt::Accumulate { buffer, index, .. } => {
                    touched.written.insert(buffer);
                    note(buffer, index);
                }
                Stmt::PrefetchByte { buffer, byte } => note(buffer, byte),
                _ => {}
            }
            own_exprs(s, &mut |e| {
                visit(e, &mut |n| {
                    if let ExprKind::Load { buffer, index, .. } = n.kind() {
                        note(buffer, index);
                    }
                    true
                });
            });
        });
        touched.at.retain(|buffer, _| !own.contains(buffer));
        touched
    }
}

/// Does every block of `b` go on with what that block of `a` wrote, and need nothing of other blocks?
fn goes_on(a: &Touched, b: &Touched) -> bool {
    let shared = a.at.iter().filter(|(flat, _)| a.written.contains(*flat) || b.written.contains(*flat));
    let mut both = shared.filter_map(|(flat, of_a)| Some((of_a, b.at.get(flat)?)));
    let needs = a.written.iter().any(|flat| b.at.contains_key(flat));
    needs && both.all(|(of_a, of_b)| of_a.is_some() && of_a == of_b)
}
