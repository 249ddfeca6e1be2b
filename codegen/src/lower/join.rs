//! Kernels that follow each other as one kernel: a launch less, and no more than a barrier in its place.
//!
//! Before and after: the statements of a sequence at root. Two kernels become one where
//! - both are one block, or
//! - their grids are equal, the second goes on with what the first wrote, and whatever one of them writes and the other touches is touched by both
//!   at one index, the same for all threads of a block. (It differs from block to block, since those of the kernel that writes there run in any
//!   order.) So a sum begins at 0 in the kernel that adds to it.
//!
//! Thread nests of the second kernel follow those of the first, with a barrier between. What both share of memory is within what every device has.
//! The first may stand further up: it moves down past kernels that have nothing to do with it.
//!
//! What one kernel of one block alone touches of memory at root is in the memory that the block shares, if it is small.
//!
//! Lets and allocations among the statements come to stand around all of them: their names are unique, and what a device has been given stays
//! for the next run.

use super::kernels::has_kernel;
use crate::error::Error;
use crate::expr::walk::{any, loads, substitute, visit};
use crate::expr::{Expr, ExprKind, Flat, Name};
use crate::ir::rewrite::{block, map_children, mentions, own_exprs, visit_stmts};
use crate::ir::stmt::Stmt;
use crate::lower::simplify::simplify_index;
use crate::schedule::{ForKind, Memory};
use rustc_hash::{FxHashMap, FxHashSet};

/// Bytes of shared memory that a block may have on every device.
pub(crate) const SHARED_BYTES: i64 = 48 << 10;

/// Most bytes of an allocation that becomes shared memory by itself: sums of some warps.
const MOST_SHARED: i64 = 8 << 10;

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
    let mut flat = Flattened::default();
    list.iter().for_each(|s| flat.add(s));
    let mut out: Vec<Item> = vec![];
    for s in flat.list {
        match Kernel::of(&s) {
            Some(kernel) => push(&mut out, Item::Kernel(Box::new(kernel))),
            None => out.push(Item::Other(s)),
        }
    }
    let around: Vec<Stmt> = flat.around.into_iter().filter(|s| !becomes_shared(s, &mut out)).collect();
    let list: Vec<Stmt> = out.into_iter().map(Item::into_stmt).collect();
    if around.is_empty() {
        return list;
    }
    let around = around.into_iter().rev();
    vec![around.fold(block(list), |s, outer| map_children(&outer, &mut Expr::clone, &mut |_| s.clone()))]
}

/// Makes a small allocation part of the shared memory of a kernel of one block, if that alone touches it.
fn becomes_shared(s: &Stmt, list: &mut [Item]) -> bool {
    let Stmt::Allocate { buffer, ty, extent, zeroed: false, .. } = s else { return false };
    let bytes = extent.as_int().map_or(i64::MAX, |n| n.saturating_mul(ty.bytes() as i64));
    let mut users = list.iter_mut().filter(|item| match item {
        Item::Kernel(kernel) => kernel.touched.at.contains_key(buffer),
        Item::Other(s) => mentions(s, buffer),
    });
    let (Some(Item::Kernel(kernel)), None) = (users.next(), users.next()) else { return false };
    let fits = shared_bytes(&kernel.stmt).saturating_add(bytes) <= SHARED_BYTES;
    if !fits || bytes > MOST_SHARED || !kernel.grid.is_one_block() {
        return false;
    }
    let (buffer, ty, extent) = (buffer.clone(), *ty, extent.clone());
    kernel.stmt = inside_blocks(&kernel.stmt, &mut |body| Stmt::Allocate {
        buffer: buffer.clone(),
        ty,
        extent: extent.clone(),
        memory: Memory::Shared,
        zeroed: false,
        body: Box::new(body),
    });
    true
}

/// A kernel with something around what its block loops hold.
fn inside_blocks(s: &Stmt, around: &mut dyn FnMut(Stmt) -> Stmt) -> Stmt {
    match s {
        Stmt::For { kind: ForKind::GpuBlock, .. } | Stmt::Let { .. } | Stmt::Produce { .. }
            if has_kernel(s) =>
        {
            map_children(s, &mut Expr::clone, &mut |s| inside_blocks(s, around))
        }
        s => around(s.clone()),
    }
}

/// Statements without the lets and allocations around some of them.
#[derive(Default)]
struct Flattened {
    list: Vec<Stmt>,
    /// These, without what was in them, the outermost first.
    around: Vec<Stmt>,
    names: FxHashSet<String>,
}

impl Flattened {
    fn add(&mut self, s: &Stmt) {
        let (name, body) = match s {
            Stmt::Block(list) => return list.iter().for_each(|s| self.add(s)),
            s if is_kernel(s) => return self.list.push(s.clone()),
            Stmt::Let { name, value, body } if !loads(value) => (name.to_string(), body),
            Stmt::Allocate { buffer, memory: Memory::Heap, zeroed: false, body, .. } => {
                (buffer.to_string(), body)
            }
            s => return self.list.push(s.clone()),
        };
        if !has_kernel(body) || !self.names.insert(name) {
            return self.list.push(s.clone());
        }
        self.around.push(map_children(s, &mut Expr::clone, &mut |_| Stmt::Block(vec![])));
        self.add(body);
    }
}

/// A statement of a sequence.
enum Item {
    Kernel(Box<Kernel>),
    Other(Stmt),
}

impl Item {
    fn into_stmt(self) -> Stmt {
        match self {
            Item::Kernel(kernel) => kernel.stmt,
            Item::Other(s) => s,
        }
    }
}

/// A kernel with what it takes to compare it.
struct Kernel {
    stmt: Stmt,
    grid: Grid,
    touched: Touched,
}

impl Kernel {
    fn of(s: &Stmt) -> Option<Kernel> {
        let grid = Grid::of(s).ok().filter(|_| is_kernel(s))?;
        let touched = Touched::of(s, &grid);
        Some(Kernel { stmt: s.clone(), grid, touched })
    }
}

/// Appends a kernel, as one with the last one that it can be one with.
fn push(out: &mut Vec<Item>, item: Item) {
    let Item::Kernel(kernel) = &item else { return out.push(item) };
    for i in (0..out.len()).rev() {
        let Item::Kernel(before) = &out[i] else { break };
        let apart = |other: &Item| matches!(other, Item::Kernel(k) if k.touched.is_apart(&before.touched));
        if joins(before, kernel) && out[i + 1..].iter().all(apart) {
            let both = one(before, kernel);
            out.remove(i);
            return match Kernel::of(&both) {
                Some(kernel) => out.push(Item::Kernel(Box::new(kernel))),
                None => out.push(Item::Other(both)),
            };
        }
    }
    out.push(item);
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

/// Can two kernels be one?
fn joins(a: &Kernel, b: &Kernel) -> bool {
    if shared_bytes(&a.stmt).saturating_add(shared_bytes(&b.stmt)) > SHARED_BYTES {
        return false;
    }
    a.grid.is_one_block() && b.grid.is_one_block()
        || a.grid.sizes == b.grid.sizes && b.touched.goes_on_with(&a.touched)
}

/// Bytes of shared memory of a kernel.
fn shared_bytes(s: &Stmt) -> i64 {
    shared(s).iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
}

/// Buffers in the shared memory of a kernel, with their bytes.
pub(crate) fn shared(s: &Stmt) -> Vec<(Flat, i64)> {
    let mut all = vec![];
    visit_stmts(s, &mut |s| {
        if let Stmt::Allocate { buffer, ty, extent, memory: Memory::Shared, .. } = s {
            let elements = extent.as_int().unwrap_or(i64::MAX);
            all.push((buffer.clone(), elements.saturating_mul(ty.bytes() as i64)));
        }
    });
    all
}

/// One kernel of two. The first may be one that was made so.
fn one(a: &Kernel, b: &Kernel) -> Stmt {
    let sizes = &a.grid.sizes;
    let parts = [&a.stmt, &b.stmt].map(|s| without_blocks(s, &mut 0, sizes.len()));
    sizes.iter().rev().enumerate().rev().fold(block(parts.into()), |body, (i, extent)| {
        let (var, kind) = (format!("gpu.joined.{i}").into(), ForKind::GpuBlock);
        Stmt::For { var, min: Expr::from(0), extent: extent.clone(), kind, body: Box::new(body) }
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
            // Both parts then name an element alike.
            replaced(&body, &FxHashMap::from_iter([(var.clone(), value)]))
        }
        Stmt::For { .. } => s.clone(),
        s => map_children(s, &mut Expr::clone, &mut |s| without_blocks(s, depth, all)),
    }
}

/// A statement with values for names.
fn replaced(s: &Stmt, values: &FxHashMap<Name, Expr>) -> Stmt {
    map_children(s, &mut |e| substitute(e, values), &mut |s| replaced(s, values))
}

/// Elements of memory outside of a kernel that it touches, by buffer: indices in terms of numbers of blocks; `None` where they are more than one, or
/// hang on more than that. (An output in place of an input is no other memory than its own here: one kernel alone reads that input.)
struct Touched {
    at: FxHashMap<Flat, Option<Expr>>,
    written: FxHashSet<Flat>,
}

impl Touched {
    fn of(s: &Stmt, grid: &Grid) -> Touched {
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
        let mut note = |buffer: &Flat, index: &Expr| {
            if own.contains(buffer) {
                return;
            }
            let index = simplify_index(&substitute(index, &grid.names));
            let varies = |n: &Expr| match n.kind() {
                ExprKind::Var(v) => inner.contains(v),
                ExprKind::Load { .. } => true,
                _ => n.ty().lanes > 1,
            };
            let index = (!any(&index, varies)).then_some(index);
            let known = touched.at.entry(buffer.clone()).or_insert_with(|| index.clone());
            if *known != index {
                *known = None;
            }
        };
        visit_stmts(s, &mut |s| {
            match s {
                Stmt::Store { buffer, index, .. } | Stmt::Accumulate { buffer, index, .. } => {
                    if !own.contains(buffer) {
                        touched.written.insert(buffer.clone());
                    }
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
        touched
    }

    /// Does neither write what the other touches?
    fn is_apart(&self, other: &Touched) -> bool {
        let touches = |flat: &Flat| other.at.contains_key(flat);
        !self.written.iter().any(touches) && !other.written.iter().any(|flat| self.at.contains_key(flat))
    }

    /// Does every block go on with what that block of `first` wrote, and need nothing of other blocks?
    fn goes_on_with(&self, first: &Touched) -> bool {
        let changed = |flat: &Flat| first.written.contains(flat) || self.written.contains(flat);
        let mut both = first.at.iter().filter(|(flat, _)| changed(flat));
        let needs = first.written.iter().any(|flat| self.at.contains_key(flat));
        let alike = |(flat, at): (&Flat, &Option<Expr>)| match self.at.get(flat) {
            Some(own) => at.is_some() && own == at,
            None => true,
        };
        needs && both.all(alike)
    }
}
