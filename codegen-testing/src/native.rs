//! Runs pipelines as machine code.

use crate::reference::{Bindings, Realization, Value, evaluate_over};
use std::ops::Range;
use sumsq_codegen::compile::{Compiled, Signature};
use sumsq_codegen::func::{Layout, Pipeline};
use sumsq_codegen::ir::stmt::LoweredFunction;
use sumsq_codegen::limits::{Effort, Limits};
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::runtime::{Buffer, BufferSpec, Dimension, Pool, Scalar, View};
use sumsq_codegen::schedule::Schedule;
use sumsq_codegen::types::{f16, nearest_half};
use sumsq_codegen::{Constraint, Target};
use sumsq_codegen::{Error, ScalarType};

/// Lowers, with the verifier on, and compiles.
pub fn compile(p: &Pipeline, s: &Schedule) -> Result<Compiled, Error> {
    compile_for(p, s, &Target::host())
}

/// As [`compile`], for a GPU, which the stand-in for the driver then is: a sound one, whatever a case before has done to it.
pub fn compile_for_gpu(p: &Pipeline, s: &Schedule) -> Result<Compiled, Error> {
    sumsq_libcuda::preload().unwrap_or_else(|e| panic!("{e}")).mend();
    compile_for(p, s, &Target::cuda(90))
}

/// As [`compile`], for any machine.
pub fn compile_for(p: &Pipeline, s: &Schedule, target: &Target) -> Result<Compiled, Error> {
    let options = LowerOptions { verify: true, ..LowerOptions::default() };
    Compiled::from_lowered(&lower(p, s, &options)?, Signature::of(p, s)?, target)
}

/// Compiles what was lowered of `p` under `s`, with the least that LLVM can do, or all.
pub fn compile_lowered(
    f: &LoweredFunction,
    p: &Pipeline,
    s: &Schedule,
    effort: Effort,
) -> Result<Compiled, Error> {
    let limits = Limits { effort, ..Limits::default() };
    Compiled::from_lowered_within(f, Signature::of(p, s)?, &Target::host(), &limits)
}

/// Runs on so many threads; one result per output. An output in place of an input has that input's buffers. Strided buffers of which nothing
/// special is said have gaps, and some of their dimensions run backwards.
pub fn execute(
    p: &Pipeline,
    compiled: &Compiled,
    b: &Bindings,
    domains: &[Vec<(i32, usize)>],
    threads: usize,
) -> Result<Vec<Realization>, Error> {
    let mut all: Vec<Part> = vec![];
    // Names of what is bound, and the part that each is.
    let mut names: Vec<(String, usize)> = vec![];
    let mut inputs: Vec<(Range<usize>, &Realization)> = vec![];
    for (name, i) in &p.inputs {
        let r = &b.inputs[name];
        let look = Look { types: &i.types, layout: i.layout, halo: &i.halo, constraints: &i.constraints };
        let range = add(&mut all, &mut names, parts(name, look, &r.min, &r.extents));
        inputs.push((range, r));
    }
    let mut outputs: Vec<Range<usize>> = vec![];
    for (o, d) in p.outputs.iter().zip(domains) {
        let slot = compiled.signature().slot(&o.func).map(|i| &compiled.signature().buffers[i]);
        let shared = slot.and_then(|s| names.iter().find(|a| Some(&*a.0) == s.in_place_of.as_deref()));
        if let Some(&(_, part)) = shared {
            names.push((o.func.to_string(), part));
            outputs.push(part..part + 1);
            continue;
        }
        let extents: Vec<usize> = d.iter().map(|d| d.1).collect();
        let types = p.funcs[&o.func].types();
        let look = Look { types: &types, layout: o.layout, halo: &o.halo, constraints: &o.constraints };
        outputs.push(add(&mut all, &mut names, parts(&o.func, look, &first(d), &extents)));
    }
    let params: Vec<(&str, Scalar)> =
        p.params.iter().map(|(n, ty)| (&**n, scalar(*ty, b.params[n]))).collect();
    let mut results = Ok(vec![]);
    with_buffers(&all, &[], &mut |made| {
        inputs.iter().for_each(|(range, r)| fill_parts(&made[range.clone()], r));
        let buffers: Vec<(&str, &Buffer)> = names.iter().map(|(n, part)| (&**n, made[*part])).collect();
        let read = |(i, range): (usize, &Range<usize>)| {
            read_parts(&made[range.clone()], &p.funcs[&p.outputs[i].func].types(), &domains[i])
        };
        let ran = compiled.run(&Pool::new(threads), &buffers, &params);
        results = ran.map(|()| outputs.iter().enumerate().map(read).collect());
    });
    results
}

fn first(domain: &[(i32, usize)]) -> Vec<i32> {
    domain.iter().map(|d| d.0).collect()
}

/// Compiles and runs on 1 and 3 threads; every output must be the reference's, to the bit.
pub fn agree(p: &Pipeline, s: &Schedule, b: &Bindings, extents: &[Vec<usize>]) -> Vec<Realization> {
    let domain = |extents: &Vec<usize>| extents.iter().map(|&n| (0, n)).collect();
    agree_over(p, s, b, &extents.iter().map(domain).collect::<Vec<_>>())
}

/// As [`agree`], on a processor that this machine is one of.
pub fn agree_for(target: &Target, p: &Pipeline, s: &Schedule, b: &Bindings, extents: &[Vec<usize>]) {
    let domains: Vec<Vec<(i32, usize)>> =
        extents.iter().map(|e| e.iter().map(|&n| (0, n)).collect()).collect();
    let compiled = compile_for(p, s, target).unwrap_or_else(|e| panic!("{e}\n{s}"));
    agrees(p, s, b, &domains, &compiled, &[1]);
}

/// As [`agree`] over domains, `(min, extent)` per dimension.
pub fn agree_over(
    p: &Pipeline,
    s: &Schedule,
    b: &Bindings,
    domains: &[Vec<(i32, usize)>],
) -> Vec<Realization> {
    let compiled = compile(p, s).unwrap_or_else(|e| panic!("{e}\n{s}"));
    agrees(p, s, b, domains, &compiled, &[1, 3])
}

/// As [`agree`], on a GPU.
pub fn agree_on_gpu(p: &Pipeline, s: &Schedule, b: &Bindings, extents: &[Vec<usize>]) -> Vec<Realization> {
    let domain = |extents: &Vec<usize>| extents.iter().map(|&n| (0, n)).collect();
    let domains: Vec<Vec<(i32, usize)>> = extents.iter().map(domain).collect();
    let compiled = compile_for_gpu(p, s).unwrap_or_else(|e| panic!("{e}\n{s}"));
    agrees(p, s, b, &domains, &compiled, &[1])
}

fn agrees(
    p: &Pipeline,
    s: &Schedule,
    b: &Bindings,
    domains: &[Vec<(i32, usize)>],
    compiled: &Compiled,
    threads: &[usize],
) -> Vec<Realization> {
    let expected = evaluate_over(p, b, domains).unwrap_or_else(|e| panic!("{e}"));
    for &threads in threads {
        let got = execute(p, compiled, b, domains, threads).unwrap_or_else(|e| panic!("{e}\n{s}"));
        for ((o, want), got) in p.outputs.iter().zip(&expected).zip(&got) {
            for (k, at) in
                (0..want.types.len()).flat_map(|k| want.points().into_iter().map(move |at| (k, at)))
            {
                let (g, w) = (got.get(&at, k), want.get(&at, k));
                let same = g.zip(w).is_some_and(|(g, w)| g.same(w));
                assert!(same, "{}.{k}{at:?} is {g:?}, not {w:?} ({threads} threads)\n{s}", o.func);
            }
        }
    }
    expected
}

/// Declaration of an input or output.
struct Look<'a> {
    types: &'a [ScalarType],
    layout: Layout,
    halo: &'a [u32],
    constraints: &'a [Constraint],
}

/// A named buffer to be made.
struct Part {
    name: String,
    spec: BufferSpec,
    /// Distance of neighbours in the first dimension, where the strides are anybody's choice.
    step: Option<i64>,
}

/// The named buffers of a tuple: one, or if the types differ one for each.
fn parts(name: &str, look: Look, min: &[i32], extents: &[usize]) -> Vec<Part> {
    let sizes: Vec<i32> = extents.iter().map(|&n| n as i32).collect();
    // A view has one channel and no bools, and the elements of a tuple lie alike.
    let dense = look.types.contains(&ScalarType::Bool)
        || look.types.len() > 1 && look.types.iter().all(|t| *t == look.types[0]);
    let step = match (look.layout, look.constraints) {
        _ if dense => None,
        (Layout::Strided, given) if given.iter().all(|c| *c == Constraint::new()) => Some(2),
        (Layout::Strided, given) if given == Constraint::defaults(extents.len()) => Some(1),
        _ => None,
    };
    let make = |name: String, ty: ScalarType, channels: usize| {
        let spec = BufferSpec::new(ty, &sizes).starting_at(min).channels(channels);
        Part { name, spec: spec.layout(look.layout).halo(look.halo), step }
    };
    if look.types.iter().all(|t| *t == look.types[0]) {
        return vec![make(name.to_string(), look.types[0], look.types.len())];
    }
    look.types.iter().enumerate().map(|(k, ty)| make(format!("{name}.{k}"), *ty, 1)).collect()
}

/// Adds parts of one input or output; their numbers.
fn add(all: &mut Vec<Part>, names: &mut Vec<(String, usize)>, parts: Vec<Part>) -> Range<usize> {
    let start = all.len();
    names.extend(parts.iter().enumerate().map(|(k, p)| (p.name.clone(), start + k)));
    all.extend(parts);
    start..all.len()
}

impl Part {
    /// Dimensions with gaps between them, every second one backwards, and the elements that they span.
    fn dimensions(&self, step: i64) -> (Vec<Dimension>, usize) {
        let (mut stride, mut span) = (step, 1);
        let mut dims = vec![];
        for (d, (&min, &extent)) in self.spec.min.iter().zip(&self.spec.extents).enumerate() {
            let backwards = (d > 0 || step > 1) && (d + self.name.len()) % 2 == 1;
            dims.push(Dimension::new(min, extent, if backwards { -stride } else { stride }));
            span += stride * i64::from(extent - 1).max(0);
            stride = stride * i64::from(extent).max(1) + 3;
        }
        (dims, span as usize)
    }
}

/// Makes a buffer for each part, all of which are there at once for `then`.
fn with_buffers(parts: &[Part], made: &[&Buffer], then: &mut dyn FnMut(&[&Buffer])) {
    let Some((part, rest)) = parts.split_first() else { return then(made) };
    let mut with = |b: &Buffer| with_buffers(rest, &[made, &[b]].concat(), then);
    let Some(step) = part.step else {
        return with(&Buffer::new(part.spec.clone()).expect("memory for a small buffer"));
    };
    let (dims, span) = part.dimensions(step);
    macro_rules! view {
        ($($ty:ident: $t:ty)*) => {
            match part.spec.ty {
                $(ScalarType::$ty => {
                    with(&View::new(&mut vec![<$t>::default(); span], &dims).expect("no dims that overlap"))
                })*
                ScalarType::Bool => unreachable!("there are no views of bools"),
            }
        };
    }
    view! {
        I8: i8 I16: i16 I32: i32 I64: i64 U8: u8 U16: u16 U32: u32 U64: u64 F16: f16 F32: f32 F64: f64
    }
}

fn fill_parts(parts: &[&Buffer], r: &Realization) {
    if let [one] = parts {
        return fill(one, r);
    }
    for (k, b) in parts.iter().enumerate() {
        fill(b, &Realization { types: vec![r.types[k]], planes: vec![r.planes[k].clone()], ..r.clone() });
    }
}

fn read_parts(parts: &[&Buffer], types: &[ScalarType], domain: &[(i32, usize)]) -> Realization {
    if let [one] = parts {
        return read(one, types, domain);
    }
    let each: Vec<Realization> = parts.iter().zip(types).map(|(b, ty)| read(b, &[*ty], domain)).collect();
    let planes = each.iter().flat_map(|r| r.planes.clone()).collect();
    Realization { types: types.to_vec(), planes, ..each[0].clone() }
}

/// A parameter's value, typed.
pub fn scalar(ty: ScalarType, v: Value) -> Scalar {
    let (i, f) = (v.as_int().unwrap_or(0), v.as_f64());
    match ty {
        ScalarType::Bool => Scalar::Bool(i != 0),
        ScalarType::I8 => Scalar::I8(i as i8),
        ScalarType::I16 => Scalar::I16(i as i16),
        ScalarType::I32 => Scalar::I32(i as i32),
        ScalarType::I64 => Scalar::I64(i),
        ScalarType::U8 => Scalar::U8(i as u8),
        ScalarType::U16 => Scalar::U16(i as u16),
        ScalarType::U32 => Scalar::U32(i as u32),
        ScalarType::U64 => Scalar::U64(i as u64),
        ScalarType::F16 => Scalar::F16(nearest_half(f)),
        ScalarType::F32 => Scalar::F32(f as f32),
        ScalarType::F64 => Scalar::F64(f),
    }
}

/// Copies values into a buffer's domain.
pub fn fill(buffer: &Buffer, r: &Realization) {
    for at in r.points() {
        for k in 0..r.types.len() {
            match r.get(&at, k) {
                Some(Value::Int(v)) => buffer.set(&at, k, v),
                Some(Value::Float(v)) => buffer.set(&at, k, v),
                None => false,
            };
        }
    }
}

/// The values of a buffer's domain.
pub fn read(buffer: &Buffer, types: &[ScalarType], domain: &[(i32, usize)]) -> Realization {
    let extents: Vec<usize> = domain.iter().map(|d| d.1).collect();
    let mut r = Realization::zeros(types, &extents).moved_to(&first(domain));
    for (i, at) in r.points().into_iter().enumerate() {
        for (k, ty) in types.iter().enumerate() {
            r.planes[k][i] = match ty.is_float() {
                true => Value::Float(buffer.get::<f64>(&at, k).unwrap_or(f64::NAN)),
                false => Value::Int(buffer.get::<i64>(&at, k).unwrap_or(i64::MIN)),
            };
        }
    }
    r
}
