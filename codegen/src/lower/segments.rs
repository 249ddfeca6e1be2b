//! Cuts a lowered pipeline at root, into what the host of a GPU does and the kernels that it launches.
//!
//! Before: a [`LoweredFunction`] whose kernels are nests of `gpu_blocks` loops ([`super::kernels`]). After: a [`Segmented`] one; kernels are ready for the
//! back end ([`super::words`], [`super::warps`], [`super::unguarded`], [`super::contract`], [`super::offsets`]), consecutive stores and loops of the host are one function, and consecutive kernels are one where
//! [`super::join`] says so. Neither values nor their order change.

use super::begun::begun;
use super::contract::contract;
use super::join::{Grid, SHARED_BYTES, joined, shared};
use super::offsets::offsets;
use super::running::running;
use super::unguarded::unguarded;
use super::uniform::uniform;
use super::unshared::unshared;
use super::warps::{WARP_LANE, warps};
use super::words::words;
use crate::error::Error;
use crate::expr::walk::{Memo, loads, rewrite, visit};
use crate::expr::{Expr, ExprKind, Flat, Name, Param, Part};
use crate::ir::args::Arg;
use crate::ir::rewrite::{map_children, own_exprs, visit_stmts};
use crate::ir::segments::{Kernel, Segment, Segmented, outer, parameters};
use crate::ir::stmt::{LoweredFunction, Required, Stmt};
use crate::lower::kernels::{WARP, has_kernel};
use crate::schedule::{Directive, ForKind, Memory};
use crate::types::{ScalarType, Type};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;

/// See the module's description.
///
/// # Errors
/// A grid whose size differs from block to block; more shared memory than a block has.
pub(crate) fn segments(f: &LoweredFunction) -> Result<Segmented, Error> {
    let mut cut = Cut { f, kernels: vec![], hosts: vec![], types: FxHashMap::default(), buffers: buffers(f) };
    let root = cut.segment(&f.body)?;
    Ok(Segmented { root, kernels: cut.kernels, hosts: cut.hosts })
}

struct Cut<'a> {
    f: &'a LoweredFunction,
    kernels: Vec<Kernel>,
    hosts: Vec<LoweredFunction>,
    /// Types of the names bound around the present place.
    types: FxHashMap<Name, ScalarType>,
    /// Element types of all buffers.
    buffers: FxHashMap<Flat, ScalarType>,
}

/// Fails with the largest of the buffers that a block shares, where it cannot have them all.
fn fits_in_shared(kernel: &Stmt) -> Result<(), Error> {
    let mut all = shared(kernel);
    all.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let sum = all.iter().fold(0i64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    match all.first() {
        Some((buffer, _)) if sum > SHARED_BYTES => Err(Error::Schedule {
            func: buffer.of.to_string(),
            directive: Directive::StoreIn(Memory::Shared).to_string(),
            rule: format!("its kernel needs {sum} bytes of shared memory, and a block has {SHARED_BYTES}"),
        }),
        _ => Ok(()),
    }
}

/// Element types of arguments and allocations.
fn buffers(f: &LoweredFunction) -> FxHashMap<Flat, ScalarType> {
    let mut all = FxHashMap::default();
    for a in &f.args {
        if let Arg::Buffer { flat, ty, .. } = a {
            all.insert(flat.clone(), *ty);
        }
    }
    visit_stmts(&f.body, &mut |s| {
        if let Stmt::Allocate { buffer, ty, .. } = s {
            all.insert(buffer.clone(), *ty);
        }
    });
    all.extend([ScalarType::F32, ScalarType::F64].map(|ty| (parameters(ty), ty)));
    all
}

impl Cut<'_> {
    fn segment(&mut self, s: &Stmt) -> Result<Segment, Error> {
        Ok(match s {
            Stmt::Block(list) => Segment::Block(self.sequence(list)?),
            // What is hoisted of a loop of the host stays with that: it may be a vector or a library function, which the walk does not compute.
            Stmt::Let { name, value, body } if !loads(value) && !computes(body) => {
                self.types.insert(name.clone(), value.ty().scalar);
                let body = Box::new(self.segment(body)?);
                Segment::Let { name: name.clone(), value: value.clone(), body }
            }
            Stmt::For { kind: ForKind::GpuBlock, .. } => self.launch(s)?,
            Stmt::For { var, min, extent, kind: ForKind::Serial, body } if has_kernel(body) => {
                self.types.insert(var.clone(), min.ty().scalar);
                let body = Box::new(self.segment(body)?);
                Segment::For { var: var.clone(), min: min.clone(), extent: extent.clone(), body }
            }
            Stmt::If { cond, then, otherwise } if has_kernel(s) => {
                let otherwise = otherwise.as_ref().map(|o| self.segment(o)).transpose()?.map(Box::new);
                Segment::If { cond: cond.clone(), then: Box::new(self.segment(then)?), otherwise }
            }
            Stmt::Assert { cond, message, args } if !loads(cond) && !args.iter().any(loads) => {
                Segment::Assert { cond: cond.clone(), message: message.clone(), args: args.clone() }
            }
            // What kernels reach is no frame of the host's, however small.
            Stmt::Allocate { buffer, ty, extent, memory, zeroed, body }
                if *memory == Memory::Heap || has_kernel(body) =>
            {
                Segment::Allocate {
                    buffer: buffer.clone(),
                    ty: *ty,
                    extent: extent.clone(),
                    zeroed: *zeroed,
                    body: Box::new(self.segment(body)?),
                }
            }
            Stmt::Produce { body, .. } => self.segment(body)?,
            s => self.host(s),
        })
    }

    /// Statements in order; those of the host that follow each other are one function.
    fn sequence(&mut self, list: &[Stmt]) -> Result<Vec<Segment>, Error> {
        let list = joined(list);
        let mut out = vec![];
        let mut rest = &list[..];
        while let Some(first) = rest.first() {
            let plain = rest.iter().take_while(|s| computes(s)).count();
            if plain > 1 {
                out.push(self.host(&Stmt::Block(rest[..plain].to_vec())));
                rest = &rest[plain..];
            } else {
                out.push(self.segment(first)?);
                rest = &rest[1..];
            }
        }
        Ok(out)
    }

    /// A function of the host.
    fn host(&mut self, s: &Stmt) -> Segment {
        let function = self.hosts.len();
        let name = format!("{}.host.{function}", self.f.name);
        let made = self.function(name, s.clone(), self.f.relaxed);
        self.hosts.push(made);
        Segment::Host { function }
    }

    /// The launch of a nest of block loops.
    fn launch(&mut self, s: &Stmt) -> Result<Segment, Error> {
        fits_in_shared(s)?;
        let grid = Grid::of(s)?.sizes;
        let kernel = self.kernels.len();
        let mut inner = FxHashSet::default();
        visit_stmts(s, &mut |s| {
            if let Stmt::Allocate { buffer, .. } = s {
                inner.insert(buffer);
            }
        });
        let is_argument = |flat: &Flat| self.f.args.iter().any(|a| a.flat() == Some(flat));
        let own = |flat: &Flat| !inner.contains(flat) && !is_argument(flat);
        let body = unguarded(&unshared(&begun(&warps(&words(s), &self.f.aliases)?)), &own);
        let body = running(&body, &self.f.aliases);
        let threads = threads(&body);
        let body = offsets(&if self.f.relaxed { contract(&body) } else { body });
        let body = uniform(&self.with_parameters_in_memory(&body, &RefCell::default()), &self.f.aliases);
        let function = self.function(format!("{}_{kernel}", symbol(&self.f.name)), body, false);
        self.kernels.push(Kernel { function, threads });
        Ok(Segment::Launch { kernel, grid })
    }

    /// The body of a kernel where it reads parameters that are floats from memory.
    fn with_parameters_in_memory(&self, s: &Stmt, done: &RefCell<Memo>) -> Stmt {
        let place = |e: &Expr| {
            let (ExprKind::Param(p), ty) = (e.kind(), e.ty().scalar) else { return None };
            let mut scalars = self.f.args.iter().filter(|a| a.flat().is_none());
            let is = |a: &Arg| matches!(a, Arg::Scalar { param, .. } if param == p);
            let at = scalars.position(is).filter(|_| matches!(ty, ScalarType::F32 | ScalarType::F64))?;
            let index = Expr::int(Type::I64, at as i64);
            Some(Expr::load(parameters(ty), index, e.ty()))
        };
        let mut of = |e: &Expr| rewrite(e, &mut done.borrow_mut(), &mut |_, e| place(&e).unwrap_or(e));
        map_children(s, &mut of, &mut |s| self.with_parameters_in_memory(s, done))
    }

    /// `body` as a function of its own, whose arguments are what it mentions.
    fn function(&self, name: String, body: Stmt, relaxed: bool) -> LoweredFunction {
        let free = Free::of(&body);
        let mut args: Vec<Arg> = vec![];
        let mut buffers: Vec<&Flat> = free.read.iter().chain(&free.written).copied().collect();
        buffers.dedup();
        let mut seen = FxHashSet::default();
        for flat in buffers.into_iter().filter(|b| seen.insert(*b)) {
            let written = free.written.contains(&flat);
            args.push(Arg::Buffer { flat: flat.clone(), ty: self.buffers[flat], written });
        }
        for (param, ty) in &free.params {
            args.push(Arg::Scalar { param: (*param).clone(), ty: *ty });
        }
        let mut lets = vec![];
        for (name, ty) in &free.vars {
            args.push(Arg::Scalar { param: outer(name), ty: *ty });
            lets.push(((*name).clone(), Expr::new(ExprKind::Param(outer(name)), (*ty).into())));
        }
        let known = |flat: &Flat| args.iter().any(|a| a.flat() == Some(flat));
        let aliases = self.f.aliases.iter().filter(|(a, b)| known(a) && known(b)).cloned().collect();
        let records = self.f.records.iter().filter(|(a, _)| known(a)).cloned().collect();
        let bind = |body, (name, value)| Stmt::Let { name, value, body: Box::new(body) };
        let body = lets.into_iter().rev().fold(body, bind);
        LoweredFunction { name, args, body, relaxed, aliases, records, required: Required::default() }
    }
}

/// A name that PTX takes.
fn symbol(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    format!("k_{name}")
}

/// True for what only computes: no kernel, nothing that the walk of segments does itself.
fn computes(s: &Stmt) -> bool {
    match s {
        Stmt::Assert { .. } | Stmt::Allocate { .. } => false,
        Stmt::Let { body, .. } | Stmt::Produce { body, .. } => computes(body),
        s => !has_kernel(s),
    }
}

/// Threads that the largest thread nest of a kernel needs, in whole warps.
fn threads(s: &Stmt) -> u32 {
    let mut most = 1;
    visit_stmts(s, &mut |s| {
        if matches!(s, Stmt::For { kind: ForKind::GpuThread, .. }) {
            let warp = if is_warps(s) { WARP } else { 1 };
            most = most.max(extents(s).iter().product::<i64>() * warp);
        }
    });
    (most as u32).next_multiple_of(WARP as u32)
}

/// The extents of the thread loops of a nest, outermost first.
pub(crate) fn extents(s: &Stmt) -> Vec<i64> {
    let mut all = vec![];
    visit_stmts(s, &mut |s| {
        if let Stmt::For { extent, kind: ForKind::GpuThread, .. } = s {
            all.push(extent.as_int().unwrap_or(1).max(0));
        }
    });
    all
}

/// Does each iteration of a thread nest run as a warp?
pub(crate) fn is_warps(s: &Stmt) -> bool {
    let mut found = false;
    visit_stmts(s, &mut |s| {
        own_exprs(s, &mut |e| {
            visit(e, &mut |n| {
                found |= matches!(n.kind(), ExprKind::Var(v) if &**v == WARP_LANE)
                    || matches!(n.kind(), ExprKind::VectorReduce(_, a) if a.ty().lanes == 1);
                !found
            });
        })
    });
    found
}

/// Names that a statement mentions and does not bind itself, each in order of first mention.
#[derive(Default)]
struct Free<'a> {
    read: Vec<&'a Flat>,
    written: Vec<&'a Flat>,
    params: Vec<(&'a Param, ScalarType)>,
    vars: Vec<(&'a Name, ScalarType)>,
}

impl<'a> Free<'a> {
    fn of(s: &'a Stmt) -> Free<'a> {
        let (mut free, mut names, mut own) = (Free::default(), FxHashSet::default(), FxHashSet::default());
        names.insert(WARP_LANE);
        visit_stmts(s, &mut |s| match s {
            Stmt::Let { name, .. } | Stmt::For { var: name, .. } => {
                names.insert(name);
            }
            Stmt::Allocate { buffer, .. } => {
                own.insert(buffer);
            }
            _ => {}
        });
        let mut seen = FxHashSet::default();
        visit_stmts(s, &mut |s| {
            if let Stmt::Store { buffer, .. } | Stmt::Accumulate { buffer, .. } = s
                && !own.contains(buffer)
                && !free.written.contains(&buffer)
            {
                free.written.push(buffer);
            }
            if let Stmt::PrefetchByte { buffer, .. } = s
                && !own.contains(buffer)
                && !free.read.contains(&buffer)
            {
                free.read.push(buffer);
            }
            own_exprs(s, &mut |e| {
                visit(e, &mut |n| {
                    if !seen.insert(n.id()) {
                        return false;
                    }
                    let ty = n.ty().scalar;
                    match n.kind() {
                        ExprKind::Load { buffer, .. }
                            if !own.contains(buffer) && !free.read.contains(&buffer) =>
                        {
                            free.read.push(buffer);
                        }
                        // Each function finds it in its own pointers.
                        ExprKind::Param(Param::Of(_, Part::Phase)) => {}
                        ExprKind::Param(p) if !free.params.iter().any(|x| x.0 == p) => {
                            free.params.push((p, ty))
                        }
                        ExprKind::Var(v) if !names.contains(&**v) && !free.vars.iter().any(|x| x.0 == v) => {
                            free.vars.push((v, ty));
                        }
                        _ => {}
                    }
                    true
                });
            });
        });
        free
    }
}
