//! A case compiled ahead of time, linked into a C program and run.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use sumsq_codegen::compile::aot::{c_type, compile_to_object, write_runtime};
use sumsq_codegen::compile::{BufferSlot, Signature};
use sumsq_codegen::{Error, Layout, ScalarType, Schedule, Target};
use sumsq_codegen_testing::random::program::{Case, Domain};
use sumsq_codegen_testing::reference::{Realization, Value};

const HELPERS: &str = r#"
static int32_t next(const sumsq_buffer *b, int32_t *at) {
    for (int32_t d = 0; d < b->dims; d++) {
        if (++at[d] < b->min[d] + b->extent[d]) return 1;
        at[d] = b->min[d];
    }
    return 0;
}
static int empty(const sumsq_buffer *b) {
    for (int32_t d = 0; d < b->dims; d++) if (b->extent[d] == 0) return 1;
    return 0;
}
static void fill(const sumsq_buffer *b, size_t bytes, const uint64_t *bits) {
    int32_t at[SUMSQ_MAX_DIMS];
    memcpy(at, b->min, sizeof at);
    if (!empty(b)) do for (int32_t k = 0; k < b->channels; k++) memcpy(sumsq_at(b, at, k), bits++, bytes); while (next(b, at));
}
static void print(const sumsq_buffer *b, size_t bytes) {
    int32_t at[SUMSQ_MAX_DIMS];
    memcpy(at, b->min, sizeof at);
    if (!empty(b)) do for (int32_t k = 0; k < b->channels; k++) {
        uint64_t bits = 0;
        memcpy(&bits, sumsq_at(b, at, k), bytes);
        printf("%llx\n", (unsigned long long)bits);
    } while (next(b, at));
}
"#;

/// The outputs of a case, or none where its names are none of C's.
pub fn run(case: &Case, s: &Schedule) -> Result<Option<Vec<Realization>>, Error> {
    let p = &case.pipeline;
    let library = match compile_to_object(p, s, &Target::host()) {
        Err(e) if e.to_string().contains("in C") || e.to_string().contains("from C") => return Ok(None),
        made => made?,
    };
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ahead_{}", std::process::id()));
    let signature = Signature::of(p, s)?;
    let written = std::fs::create_dir_all(&dir)
        .and_then(|()| library.write(&dir))
        .and_then(|()| write_runtime(&dir))
        .and_then(|()| std::fs::write(dir.join("program.c"), program(case, &signature)));
    written.unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let object = format!("{}.o", p.name);
    let flags = ["-std=c11", "-o", "program", "program.c", &object, "sumsq_runtime.c", "-lm", "-lpthread"];
    output(Command::new(cc).args(flags).current_dir(&dir));
    let printed = output(&mut Command::new(dir.join("program")));
    std::fs::remove_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    Ok(Some(outputs(case, &signature, &printed)))
}

fn output(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    let printed = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{command:?}: {}\n{errors}{printed}", out.status);
    printed
}

/// The slots of an output, in order.
fn slots<'a>(signature: &'a Signature, of: &'a str) -> impl Iterator<Item = (usize, &'a BufferSlot)> {
    let own = move |(_, b): &(usize, &BufferSlot)| *b.of == *of && b.written;
    signature.buffers.iter().enumerate().filter(own)
}

fn domain<'a>(case: &'a Case, slot: &BufferSlot) -> (Domain, Option<&'a Realization>) {
    let outputs = &case.pipeline.outputs;
    match outputs.iter().position(|o| slot.written && o.func == slot.of) {
        Some(i) => (case.domains[i].clone(), None),
        None => {
            let r = &case.bindings.inputs[&slot.of];
            (r.min.iter().copied().zip(r.extents.iter().copied()).collect(), Some(r))
        }
    }
}

/// A C program that fills the inputs, calls the pipeline, and prints the outputs.
fn program(case: &Case, signature: &Signature) -> String {
    let p = &case.pipeline;
    let mut t = format!("#include <stdio.h>\n#include <stdlib.h>\n#include \"{}.h\"\n{HELPERS}", p.name);
    let mut body = String::new();
    let mut arguments = vec![];
    for (i, slot) in signature.buffers.iter().enumerate() {
        if let Some(other) = slot.in_place_of.as_ref().and_then(|n| signature.slot(n)) {
            arguments.push(format!("&b{other}"));
            continue;
        }
        arguments.push(format!("&b{i}"));
        let (domain, values) = domain(case, slot);
        let list = |v: &mut dyn Iterator<Item = i64>| {
            let all: Vec<String> = v.map(|n| n.to_string()).chain(["0".into()]).collect();
            all.join(", ")
        };
        let min = list(&mut domain.iter().map(|d| d.0.into()));
        let extent = list(&mut domain.iter().map(|d| d.1 as i64));
        let halo = list(&mut slot.halo.iter().map(|&h| h.into()));
        let (ty, dims) = (format!("SUMSQ_{}", slot.ty.name().to_uppercase()), slot.dims);
        let _ = writeln!(
            t,
            "static const int32_t min{i}[] = {{ {min} }}, extent{i}[] = {{ {extent} }}, halo{i}[] = {{ {halo} }};"
        );
        let _ = match slot.layout {
            Layout::Planar => {
                writeln!(
                    body,
                    "sumsq_buffer b{i} = sumsq_new({ty}, {}, {dims}, extent{i}, halo{i});",
                    slot.channels
                )
            }
            Layout::Record(n) => writeln!(
                body,
                "sumsq_buffer b{i} = sumsq_new_records({ty}, {}, {n}, {dims}, extent{i}, halo{i});",
                slot.channels
            ),
            Layout::Strided => {
                let n = 1 + domain.iter().map(|d| d.1).product::<usize>();
                let memory = format!("calloc({n}, {} * {})", slot.channels, slot.ty.bytes());
                writeln!(
                    body,
                    "sumsq_buffer b{i} = sumsq_view({ty}, {memory}, {dims}, min{i}, extent{i}, NULL);\n\
                     b{i}.channels = {}, b{i}.channel_stride = {n};",
                    slot.channels
                )
            }
        };
        let Some(r) = values else { continue };
        let channels = slot.element.map_or(0..slot.channels, |k| k..k + 1);
        let bits = r.points().into_iter().flat_map(|at| {
            let value = move |k| r.get(&at, k).expect("in the domain");
            channels.clone().map(move |k| format!("{:#x}u", bits(r.types[k], value(k)))).collect::<Vec<_>>()
        });
        let bits: Vec<String> = bits.chain(["0".into()]).collect();
        let _ = writeln!(t, "static const uint64_t bits{i}[] = {{ {} }};", bits.join(", "));
        let _ = writeln!(body, "fill(&b{i}, {}, bits{i});", slot.ty.bytes());
    }
    for (name, &ty) in &signature.params {
        let value = case.bindings.params[name];
        let _ = writeln!(body, "uint64_t param_{name} = {:#x}u;", bits(ty, value));
        arguments.push(format!("*({} *)&param_{name}", c_type(ty)));
    }
    let _ =
        writeln!(body, "if ({}({})) {{ puts(sumsq_message()); return 1; }}", p.name, arguments.join(", "));
    for o in &p.outputs {
        for (i, slot) in slots(signature, &o.func) {
            let _ = writeln!(body, "print({}, {});", arguments[i], slot.ty.bytes());
        }
    }
    format!("{t}int main(void) {{\nsumsq_set_threads(3);\n{body}return 0;\n}}\n")
}

/// The bits of a value in memory.
fn bits(ty: ScalarType, v: Value) -> u64 {
    match ty {
        ScalarType::F16 => sumsq_codegen::types::nearest_half(v.as_f64()).to_bits().into(),
        ScalarType::F32 => (v.as_f64() as f32).to_bits().into(),
        ScalarType::F64 => v.as_f64().to_bits(),
        _ => v.as_int().unwrap_or(0) as u64 & (u64::MAX >> (64 - 8 * ty.bytes())),
    }
}

fn value(ty: ScalarType, bits: u64) -> Value {
    match ty {
        ScalarType::F16 => Value::Float(sumsq_codegen::types::f16::from_bits(bits as u16).to_f64()),
        ScalarType::F32 => Value::Float(f32::from_bits(bits as u32).into()),
        ScalarType::F64 => Value::Float(f64::from_bits(bits)),
        _ => Value::Int(ty.wrap(bits as i64)),
    }
}

/// The numbers that the program printed, output by output.
fn outputs(case: &Case, signature: &Signature, printed: &str) -> Vec<Realization> {
    let mut lines = printed.lines();
    let mut all = vec![];
    for (o, domain) in case.pipeline.outputs.iter().zip(&case.domains) {
        let types = case.pipeline.funcs[&o.func].types();
        let extents: Vec<usize> = domain.iter().map(|d| d.1).collect();
        let mut r = Realization::zeros(&types, &extents);
        for (_, slot) in slots(signature, &o.func) {
            let channels = slot.element.map_or(0..slot.channels, |k| k..k + 1);
            for point in 0..r.planes[0].len() {
                for k in channels.clone() {
                    let line = lines.next().expect("a line for every value");
                    let bits = u64::from_str_radix(line, 16).expect("a number");
                    r.planes[k][point] = value(types[k], bits);
                }
            }
        }
        all.push(r.moved_to(&domain.iter().map(|d| d.0).collect::<Vec<_>>()));
    }
    assert_eq!(lines.next(), None);
    all
}
