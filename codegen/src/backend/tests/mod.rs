//! Lowered functions built by hand, compiled and run.

mod operators;
mod statements;

use crate::compile::{BufferSlot, Compiled, Signature};
use crate::error::Error;
use crate::expr::{Expr, ExprKind, Flat, Param, Part};
use crate::func::Layout;
use crate::ir::args::Arg;
use crate::ir::stmt::{LoweredFunction, Stmt};
use crate::runtime::{Buffer, BufferSpec, Element, Pool, Scalar};
use crate::schedule::{ForKind, Memory};
use crate::target::{Level, Target};
use crate::types::{ScalarType, Type};

/// Builds a function over one-dimensional buffers of one channel.
struct Build {
    args: Vec<Arg>,
    signature: Signature,
    aliases: Vec<(Flat, Flat)>,
    relaxed: bool,
}

fn build() -> Build {
    Build { args: vec![], signature: Signature::default(), aliases: vec![], relaxed: false }
}

impl Build {
    fn buffer(mut self, name: &str, ty: ScalarType, written: bool) -> Build {
        self.args.push(Arg::Buffer { flat: name.into(), ty, written });
        let param = Param::Of(name.into(), Part::Extent(0));
        self.args.push(Arg::Scalar { param, ty: ScalarType::I32 });
        self.signature.buffers.push(BufferSlot {
            name: name.into(),
            of: name.into(),
            element: None,
            ty,
            channels: 1,
            dims: 1,
            layout: Layout::Planar,
            constraints: vec![],
            halo: vec![0],
            written,
            in_place_of: None,
            value_range: None,
        });
        self
    }
    fn input(self, name: &str, ty: ScalarType) -> Build {
        self.buffer(name, ty, false)
    }
    fn output(self, name: &str, ty: ScalarType) -> Build {
        self.buffer(name, ty, true)
    }
    fn param(mut self, name: &str, ty: ScalarType) -> Build {
        self.args.push(Arg::Scalar { param: name.into(), ty });
        self.signature.params.insert(name.into(), ty);
        self
    }
    fn lowered(&self, body: Stmt) -> LoweredFunction {
        LoweredFunction {
            name: "t".into(),
            args: self.args.clone(),
            body,
            relaxed: self.relaxed,
            aliases: self.aliases.clone(),
            records: vec![],
            required: Default::default(),
        }
    }
    fn compile(self, body: Stmt) -> Compiled {
        let f = self.lowered(body);
        Compiled::from_lowered(&f, self.signature, &Target::host()).unwrap()
    }
    fn refused(self, body: Stmt) -> Error {
        let f = self.lowered(body);
        Compiled::from_lowered(&f, self.signature, &Target::host()).err().unwrap()
    }
}

fn filled<T: Element>(values: &[T]) -> Buffer {
    let b = Buffer::new(BufferSpec::new(T::TYPE, &[values.len() as i32])).unwrap();
    b.copy_from(values).unwrap();
    b
}

fn empty(ty: ScalarType, n: i32) -> Buffer {
    Buffer::new(BufferSpec::new(ty, &[n])).unwrap()
}

fn run(c: &Compiled, buffers: &[(&str, &Buffer)], params: &[(&str, Scalar)]) {
    c.run(&Pool::new(1), buffers, params).unwrap();
}

// ---- expressions and statements

fn i32(v: i64) -> Expr {
    Expr::int(Type::I32, v)
}
fn index(e: Expr) -> Expr {
    e.cast(ScalarType::I64)
}
fn extent(name: &str) -> Expr {
    Expr::part(name, Part::Extent(0))
}
fn broadcast(e: Expr, lanes: u16) -> Expr {
    let ty = e.ty().with_lanes(lanes);
    Expr::new(ExprKind::Broadcast(e), ty)
}
fn ramp(base: Expr, stride: i64, lanes: u16) -> Expr {
    let ty = base.ty().with_lanes(lanes);
    let stride = Expr::int(base.ty(), stride);
    Expr::new(ExprKind::Ramp(base, stride), ty)
}
fn load_if(buffer: &str, ty: ScalarType, index: Expr, predicate: Option<Expr>) -> Expr {
    let lanes = index.ty().lanes;
    let kind = ExprKind::Load { buffer: buffer.into(), index, predicate };
    Expr::new(kind, Type { scalar: ty, lanes })
}
fn load(buffer: &str, ty: ScalarType, index: Expr) -> Expr {
    load_if(buffer, ty, index, None)
}
fn store(buffer: &str, index: Expr, value: Expr) -> Stmt {
    store_if(buffer, index, value, None)
}
fn store_if(buffer: &str, index: Expr, value: Expr, predicate: Option<Expr>) -> Stmt {
    Stmt::Store { buffer: buffer.into(), index, value, predicate, aligned: false, non_temporal: false }
}
fn for_loop(kind: ForKind, var: &str, min: Expr, extent: Expr, body: Stmt) -> Stmt {
    Stmt::For { var: var.into(), min, extent, kind, body: Box::new(body) }
}
fn serial(var: &str, extent: Expr, body: Stmt) -> Stmt {
    for_loop(ForKind::Serial, var, i32(0), extent, body)
}
fn allocate(buffer: &str, ty: ScalarType, extent: Expr, memory: Memory, body: Vec<Stmt>) -> Stmt {
    let body = Box::new(Stmt::Block(body));
    Stmt::Allocate { buffer: buffer.into(), ty, extent, memory, zeroed: true, body }
}

/// `out[i] = f(i)` for every element of `out`, in vectors of `lanes` with a masked last one (or one by one).
fn map(out: &str, lanes: u16, f: impl Fn(&dyn Fn(&str, ScalarType) -> Expr) -> Expr) -> Stmt {
    let v = Expr::var("v");
    if lanes == 1 {
        let at = index(v);
        return serial("v", extent(out), store(out, at.clone(), f(&|b, ty| load(b, ty, at.clone()))));
    }
    let n = lanes as i64;
    let base = &v * n;
    let inside = ramp(base.clone(), 1, lanes).lt(broadcast(extent(out), lanes));
    let at = ramp(index(base), 1, lanes);
    let value = f(&|b, ty| load_if(b, ty, at.clone(), Some(inside.clone())));
    serial("v", (extent(out) + (n - 1)) / n, store_if(out, at, value, Some(inside)))
}
