//! The checked machine.

use std::collections::HashMap;
use sumsq_codegen::expr::{BinaryOp, Expr, ExprKind, Name};
use sumsq_codegen::func::Layout;
use sumsq_codegen::reference::{Realization, Value, value};
use sumsq_codegen::stmt::{Stmt, Target};
use sumsq_codegen::{ScalarType, Type};

/// Values per lane.
type Lanes = Vec<Value>;

/// Elements around the origin; `None` was never written.
#[derive(Clone, Default)]
pub struct Memory {
    elements: Vec<Option<Value>>,
    origin: i64,
}

/// An input or output.
pub struct Buffer {
    types: Vec<ScalarType>,
    extents: Vec<usize>,
    halo: Vec<usize>,
    /// One per tuple element (for records: one, interleaved).
    flat: Vec<Memory>,
    strides: Vec<i64>,
    layout: Layout,
}

impl Buffer {
    /// Filled from a realization, halo included.
    pub fn input(r: &Realization, layout: Layout) -> Buffer {
        let mut b = Buffer::new(&r.types, &r.extents, &r.halo, layout);
        let sizes: Vec<usize> = r.extents.iter().zip(&r.halo).map(|(n, h)| n + 2 * h).collect();
        for at in Realization::zeros(&[], &sizes).points() {
            let at: Vec<i32> = at.iter().zip(&r.halo).map(|(c, h)| c - *h as i32).collect();
            for k in 0..r.types.len() {
                *b.element(k, &at).expect("allocated") = r.get(&at, k);
            }
        }
        b
    }

    /// Nothing written yet.
    pub fn output(types: &[ScalarType], extents: &[usize], layout: Layout) -> Buffer {
        Buffer::new(types, extents, &vec![0; extents.len()], layout)
    }

    fn new(types: &[ScalarType], extents: &[usize], halo: &[usize], layout: Layout) -> Buffer {
        let slots = if let Layout::Record(n) = layout { n as i64 } else { 1 };
        // Pitches are multiples of 16 elements (see `lower::flatten`); the gap is never legally touched.
        let mut strides = vec![];
        let mut stride = slots;
        for (d, (n, h)) in extents.iter().zip(halo).enumerate() {
            strides.push(stride);
            stride *= (n + 2 * h) as i64;
            if d == 0 {
                stride = (stride + 15) / 16 * 16 + 16;
            }
        }
        let origin: i64 = strides.iter().zip(halo).map(|(s, h)| s * *h as i64).sum();
        let memory = Memory { elements: vec![None; stride as usize], origin };
        let flat = vec![memory; if slots > 1 { 1 } else { types.len() }];
        Buffer {
            types: types.to_vec(),
            extents: extents.to_vec(),
            halo: halo.to_vec(),
            flat,
            strides,
            layout,
        }
    }

    fn element(&mut self, k: usize, at: &[i32]) -> Option<&mut Option<Value>> {
        let inside = |((&c, &n), &h): ((&i32, &usize), &usize)| c >= -(h as i32) && c < (n + h) as i32;
        if !at.iter().zip(&self.extents).zip(&self.halo).all(inside) {
            return None;
        }
        let index: i64 = at.iter().zip(&self.strides).map(|(&c, s)| c as i64 * s).sum();
        let (plane, extra) = if let Layout::Record(_) = self.layout { (0, k as i64) } else { (k, 0) };
        let m = &mut self.flat[plane];
        m.elements.get_mut((index + extra + m.origin) as usize)
    }
}

/// Storage of a realised Func: `(min, extent)`, fold factors, planes.
struct Realized {
    region: Vec<(i64, i64)>,
    planes: Vec<HashMap<Vec<i64>, Value>>,
}

/// Memory and names.
#[derive(Default)]
pub struct Machine {
    /// Variables and parameters.
    pub names: HashMap<Name, Lanes>,
    /// Fold factors of the Funcs, for nests.
    pub folds: HashMap<Name, Vec<Option<u32>>>,
    /// Stores to intermediate storage per Func.
    pub stores: HashMap<Name, usize>,
    /// Prefetches so far.
    pub prefetched: usize,
    buffers: HashMap<Name, Buffer>,
    realized: HashMap<Name, Realized>,
    /// Flat buffers allocated by the code.
    allocated: HashMap<Name, Memory>,
    /// Flat name to buffer and plane.
    flat: HashMap<Name, (Name, usize)>,
    /// Variables of vectorised loops around.
    steps: usize,
}

type Fallible<T> = Result<T, String>;

impl Machine {
    /// Binds an input or output and its extents and strides.
    pub fn bind(&mut self, name: &Name, b: Buffer, layout: Layout) {
        for (d, n) in b.extents.iter().enumerate() {
            self.names.insert(format!("{name}.extent.{d}").into(), vec![Value::Int(*n as i64)]);
            self.names.insert(format!("{name}.stride.{d}").into(), vec![Value::Int(b.strides[d])]);
        }
        for prefix in [name.to_string(), format!("{name}.out")] {
            match layout {
                Layout::Record(_) => {
                    self.flat.insert(prefix.into(), (name.clone(), 0));
                }
                Layout::Planar => {
                    for k in 0..b.types.len() {
                        self.flat.insert(format!("{prefix}.{k}").into(), (name.clone(), k));
                    }
                }
            }
        }
        self.buffers.insert(name.clone(), b);
    }

    /// An element of an output.
    pub fn output(&self, name: &Name, k: usize, at: &[i32]) -> Option<Value> {
        let b = &self.buffers[name];
        let index: i64 = at.iter().zip(&b.strides).map(|(&c, s)| c as i64 * s).sum();
        let (plane, extra) = if let Layout::Record(_) = b.layout { (0, k as i64) } else { (k, 0) };
        b.flat[plane].elements[(index + extra + b.flat[plane].origin) as usize]
    }

    fn scalar(&mut self, e: &Expr) -> Fallible<i64> {
        self.eval(e)?[0].as_int().ok_or_else(|| format!("{e} is no integer"))
    }

    /// Runs a statement; every loop is serial.
    pub fn run(&mut self, s: &Stmt) -> Fallible<()> {
        self.steps += 1;
        match s {
            Stmt::Block(v) => v.iter().try_for_each(|s| self.run(s)),
            Stmt::Let { name, value, body } => {
                let v = self.eval(value)?;
                self.scoped(name, v, body)
            }
            Stmt::For { var, min, extent, body, .. } => {
                let (min, extent) = (self.scalar(min)?, self.scalar(extent)?);
                (min..min + extent).try_for_each(|i| self.scoped(var, vec![Value::Int(i)], body))
            }
            Stmt::If { cond, then, otherwise } => match (self.scalar(cond)?, otherwise) {
                (0, None) => Ok(()),
                (0, Some(o)) => self.run(o),
                _ => self.run(then),
            },
            Stmt::Assert { cond, message, args } => {
                if self.scalar(cond)? != 0 {
                    return Ok(());
                }
                let args: Vec<String> =
                    args.iter().map(|a| self.scalar(a).map(|v| v.to_string())).collect::<Result<_, _>>()?;
                Err(format!("assertion: {message} {}", args.join(" ")))
            }
            Stmt::Realize { func, region, body } => {
                let region = region
                    .iter()
                    .map(|(a, b)| Ok((self.scalar(a)?, self.scalar(b)?)))
                    .collect::<Fallible<_>>()?;
                let outer = self.realized.insert(func.clone(), Realized { region, planes: vec![] });
                self.run(body)?;
                self.realized.remove(func);
                self.realized.extend(outer.map(|o| (func.clone(), o)));
                Ok(())
            }
            Stmt::Produce { body, .. } => self.run(body),
            Stmt::Provide { func, args, values, to } => self.provide(func, args, values, to),
            Stmt::Allocate { buffer, extent, body, zeroed, ty, .. } => {
                let n = self.scalar(extent)?.max(0) as usize;
                let fill = zeroed.then(|| Value::of(*ty, 0.0));
                let memory = Memory { elements: vec![fill; n], origin: 0 };
                let outer = self.allocated.insert(buffer.clone(), memory);
                self.run(body)?;
                self.allocated.remove(buffer);
                self.allocated.extend(outer.map(|o| (buffer.clone(), o)));
                Ok(())
            }
            Stmt::Prefetch { name, args } => {
                let at: Vec<i64> = args.iter().map(|a| self.scalar(a)).collect::<Fallible<_>>()?;
                self.prefetched += 1;
                if self.flat.contains_key(name) || self.allocated.contains_key(name) {
                    return Ok(());
                }
                if self.realized.contains_key(name) {
                    return self.slot(name, &at).map(|_| ());
                }
                let at: Vec<i32> = at.iter().map(|&c| c as i32).collect();
                let b = self.buffers.get_mut(name).ok_or_else(|| format!("{name} has no storage"))?;
                b.element(0, &at).map(|_| ()).ok_or_else(|| format!("prefetch of {name}{at:?} is outside"))
            }
            Stmt::Accumulate { buffer, op, index, value, predicate } => {
                let (index, ty) = (self.eval(index)?, value.ty().scalar);
                let value = self.eval(value)?;
                let on = predicate.as_ref().map(|p| self.eval(p)).transpose()?;
                for l in (0..index.len()).filter(|&l| on.as_ref().is_none_or(|p| p[l] != Value::Int(0))) {
                    let element = self.flat_element(buffer, index[l].as_int().unwrap_or(0))?;
                    let old = element.ok_or_else(|| format!("{buffer} is read before it is written"))?;
                    *element = Some(value::binary(*op, ty, old, lane(&value, l)).map_err(|e| e.0)?);
                }
                Ok(())
            }
            Stmt::Store { buffer, index, value, predicate, .. } => {
                let (index, value) = (self.eval(index)?, self.eval(value)?);
                let on = predicate.as_ref().map(|p| self.eval(p)).transpose()?;
                for l in 0..index.len() {
                    if on.as_ref().is_some_and(|p| p[l] == Value::Int(0)) {
                        continue;
                    }
                    let i = index[l].as_int().unwrap_or(0);
                    *self.flat_element(buffer, i)? = Some(value[l.min(value.len() - 1)]);
                }
                Ok(())
            }
        }
    }

    fn scoped(&mut self, name: &Name, value: Lanes, body: &Stmt) -> Fallible<()> {
        let outer = self.names.insert(name.clone(), value);
        self.run(body)?;
        self.names.remove(name);
        self.names.extend(outer.map(|o| (name.clone(), o)));
        Ok(())
    }

    fn flat_element(&mut self, buffer: &Name, index: i64) -> Fallible<&mut Option<Value>> {
        let memory = match self.allocated.get_mut(buffer) {
            Some(m) => m,
            None => {
                let (b, k) = self.flat.get(buffer).ok_or_else(|| format!("no buffer {buffer}"))?;
                let b = self.buffers.get_mut(b).ok_or_else(|| format!("no buffer {buffer}"))?;
                &mut b.flat[*k]
            }
        };
        let at = usize::try_from(index + memory.origin).ok();
        let n = memory.elements.len();
        at.and_then(|i| memory.elements.get_mut(i))
            .ok_or_else(|| format!("{buffer}[{index}] of {n} is outside"))
    }

    /// The slot of a point in intermediate storage.
    fn slot(&self, func: &Name, at: &[i64]) -> Fallible<Vec<i64>> {
        let folds = self.folds.get(func).cloned().unwrap_or_default();
        let region = &self.realized[func].region;
        let mut slot = vec![];
        for (d, (&c, &(min, extent))) in at.iter().zip(region).enumerate() {
            match folds.get(d).copied().flatten() {
                Some(n) => slot.push(c.rem_euclid(n as i64)),
                None if c < min || c >= min + extent => {
                    return Err(format!("{func}{at:?} is outside of its storage {region:?}"));
                }
                None => slot.push(c),
            }
        }
        Ok(slot)
    }

    fn provide(&mut self, func: &Name, args: &[Expr], values: &[Expr], to: &Target) -> Fallible<()> {
        let at: Vec<i64> = args.iter().map(|a| self.scalar(a)).collect::<Fallible<_>>()?;
        if let Target::Atomic(ops) = to {
            let here = |k: usize, ty: ScalarType| Expr::call(func.clone(), ty, args.to_vec(), k);
            let values: Vec<Expr> = values
                .iter()
                .zip(ops)
                .enumerate()
                .map(|(k, (e, op))| Expr::binary(*op, here(k, e.ty().scalar), e))
                .collect();
            let to = if self.realized.contains_key(func) { Target::Intermediate } else { Target::Output };
            return self.provide(func, args, &values, &to);
        }
        let values: Vec<Value> = values.iter().map(|v| Ok(self.eval(v)?[0])).collect::<Fallible<_>>()?;
        if *to == Target::Intermediate && self.realized.contains_key(func) {
            let slot = self.slot(func, &at)?;
            *self.stores.entry(func.clone()).or_default() += 1;
            let planes = &mut self.realized.get_mut(func).ok_or("unreachable")?.planes;
            planes.resize(values.len(), HashMap::new());
            for (k, v) in values.into_iter().enumerate() {
                planes[k].insert(slot.clone(), v);
            }
            return Ok(());
        }
        let at: Vec<i32> = at.iter().map(|&c| c as i32).collect();
        let b = self.buffers.get_mut(func).ok_or_else(|| format!("{func} has no storage"))?;
        for (k, v) in values.into_iter().enumerate() {
            *b.element(k, &at).ok_or_else(|| format!("output {func}{at:?} is outside"))? = Some(v);
        }
        Ok(())
    }

    fn call(&mut self, name: &Name, args: &[Expr], k: usize) -> Fallible<Value> {
        let at: Vec<i64> = args.iter().map(|a| self.scalar(a)).collect::<Fallible<_>>()?;
        if self.realized.contains_key(name) {
            let slot = self.slot(name, &at)?;
            let plane = self.realized[name].planes.get(k);
            let v = plane.and_then(|p| p.get(&slot)).copied();
            return v.ok_or_else(|| format!("{name}{at:?} is read before it is computed"));
        }
        let at: Vec<i32> = at.iter().map(|&c| c as i32).collect();
        let b = self.buffers.get_mut(name).ok_or_else(|| format!("{name} has no storage"))?;
        let e = b.element(k, &at).ok_or_else(|| format!("{name}{at:?} is outside"))?;
        (*e).ok_or_else(|| format!("{name}{at:?} is read before it is written"))
    }

    fn eval(&mut self, e: &Expr) -> Fallible<Lanes> {
        let ty = e.ty().scalar;
        let ill = |e: value::IllTyped| e.0;
        Ok(match e.kind() {
            ExprKind::Int(v) => vec![Value::Int(*v); e.ty().lanes as usize],
            ExprKind::Float(v) => vec![Value::Float(*v); e.ty().lanes as usize],
            ExprKind::Var(n) | ExprKind::Param(n) => {
                self.names.get(n).cloned().ok_or_else(|| format!("{n} is not bound"))?
            }
            ExprKind::Cast(a) => {
                let from = a.ty().scalar;
                self.eval(a)?.into_iter().map(|v| value::cast(from, ty, v)).collect()
            }
            ExprKind::Reinterpret(a) => {
                let from = a.ty().scalar;
                self.eval(a)?
                    .into_iter()
                    .map(|v| value::reinterpret(from, ty, v).map_err(ill))
                    .collect::<Fallible<_>>()?
            }
            ExprKind::Likely(a) => self.eval(a)?,
            ExprKind::Unary(op, a) => {
                let from = a.ty().scalar;
                self.eval(a)?
                    .into_iter()
                    .map(|v| value::unary(*op, from, v).map_err(ill))
                    .collect::<Fallible<_>>()?
            }
            ExprKind::Binary(op, a, b) => {
                let from = a.ty().scalar;
                let (x, y) = (self.eval(a)?, self.eval(b)?);
                zip(&x, &y)
                    .map(|(x, y)| value::binary(*op, from, x, y).map_err(ill))
                    .collect::<Fallible<_>>()?
            }
            ExprKind::Fma(a, b, c) => {
                let (x, y, z) = (self.eval(a)?, self.eval(b)?, self.eval(c)?);
                let n = x.len().max(y.len()).max(z.len());
                (0..n)
                    .map(|l| value::fma(ty, lane(&x, l), lane(&y, l), lane(&z, l)).map_err(ill))
                    .collect::<Fallible<_>>()?
            }
            ExprKind::Select(c, a, b) => {
                let (c, x, y) = (self.eval(c)?, self.eval(a)?, self.eval(b)?);
                let n = c.len().max(x.len()).max(y.len());
                (0..n).map(|l| value::select(lane(&c, l), lane(&x, l), lane(&y, l))).collect()
            }
            ExprKind::Call { name, args, value } => vec![self.call(name, args, *value)?],
            ExprKind::Ramp(base, step) => {
                let (b, s) = (self.scalar(base)?, self.scalar(step)?);
                (0..e.ty().lanes as i64).map(|l| Value::Int(b + l * s)).collect()
            }
            ExprKind::Broadcast(a) => vec![self.eval(a)?[0]; e.ty().lanes as usize],
            ExprKind::VectorReduce(op, a) => vec![self.reduce(*op, a)?],
            ExprKind::Load { buffer, index, predicate } => {
                let index = self.eval(index)?;
                let on = predicate.as_ref().map(|p| self.eval(p)).transpose()?;
                let mut out = vec![];
                for (l, i) in index.iter().enumerate() {
                    if on.as_ref().is_some_and(|p| lane(p, l) == Value::Int(0)) {
                        out.push(Value::of(ty, 0.0));
                        continue;
                    }
                    let i = i.as_int().unwrap_or(0);
                    let v = *self.flat_element(buffer, i)?;
                    out.push(v.ok_or_else(|| format!("{buffer}[{i}] is read before it is written"))?);
                }
                out
            }
        })
    }

    fn reduce(&mut self, op: BinaryOp, a: &Expr) -> Fallible<Value> {
        let ty: Type = a.ty();
        let mut v = self.eval(a)?;
        while v.len() > 1 {
            // The upper half of the lanes onto the lower, whose last is left over if they are odd.
            let half = v.len().div_ceil(2);
            for l in half..v.len() {
                v[l - half] = value::binary(op, ty.scalar, v[l - half], v[l]).map_err(|e| e.0)?;
            }
            v.truncate(half);
        }
        Ok(v[0])
    }
}

fn lane(v: &Lanes, l: usize) -> Value {
    v[l.min(v.len() - 1)]
}

fn zip<'a>(x: &'a Lanes, y: &'a Lanes) -> impl Iterator<Item = (Value, Value)> + 'a {
    (0..x.len().max(y.len())).map(|l| (lane(x, l), lane(y, l)))
}
