//! A loop of kernels as one kernel, all of whose blocks run at once: as text, of PTX that LLVM has printed.
//!
//! Block b of so many runs, kernel by kernel, the blocks b, b + blocks, .. of that kernel's launch, and behind each kernel waits for all others. So
//! - a block of a launch does what it would do by itself; threads wait behind it before they reuse shared memory;
//! - a kernel finds what those before it wrote, since arrivals release and waits acquire all memory of the device. Nothing is read by
//!   `ld.global.nc`, for which that would not hold;
//! - all threads read the same end of the loop, since between that and the next kernel that writes it lies a wait.
//!
//! Parameters: the address of three i32 (iterations, one that is not used, arrivals, which begin as zeros), the address of the i32 that ends the
//! loop where it is not 0, and the most iterations; then for each kernel the blocks along two dimensions, those in all, and its arguments. An argument
//! that changes is followed by what it is in every second iteration.

use crate::lower::join::SHARED_BYTES;
use std::fmt::Write;

/// The name of the kernel.
pub const GRID_LOOP: &str = "grid_loop";

/// A kernel of a loop.
#[derive(Clone, Debug)]
pub struct Phase<'a> {
    /// The text of its module.
    pub ptx: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Does an argument change from iteration to iteration?
    pub changes: Vec<bool>,
}

/// The loop of kernels whose blocks have so many threads; `None` where a block has another number, modules have variables or functions, or shared
/// memory is not enough for all kernels.
pub fn grid_loop(phases: &[Phase], threads: u32) -> Option<String> {
    let first = phases.first()?.ptx;
    let mut text = about(first);
    let mut params = vec![".u64 turns".to_string(), ".u64 until".into(), ".u32 most".into()];
    let (mut kernels, mut shared) = (String::new(), 0);
    for (k, phase) in phases.iter().enumerate() {
        params.extend(["x", "y", "n"].map(|name| format!(".u32 {name}{k}")));
        for (i, changes) in phase.changes.iter().enumerate() {
            params.push(format!(".u64 p{k}_{i}"));
            params.extend(changes.then(|| format!(".u64 p{k}_{i}_odd")));
        }
        let (body, bytes) = body(k, phase, threads)?;
        shared += bytes;
        let wait = wait(&k.to_string());
        let _ = write!(
            kernels,
            "\tld.param.b32 \t%g5, [x{k}];\n\tld.param.b32 \t%g6, [y{k}];\n\tld.param.b32 \t%g4, [n{k}];\n\
             \tmov.u32 \t%g3, %ctaid.x;\n$Lblock{k}:\n\tsetp.ge.u32 \t%gp0, %g3, %g4;\n\t@%gp0 bra \t$Lend{k};\n\
             \trem.u32 \t%g7, %g3, %g5;\n\tdiv.u32 \t%g10, %g3, %g5;\n\trem.u32 \t%g8, %g10, %g6;\n\tdiv.u32 \t%g9, %g10, %g6;\n\
             \t{{\n{body}\t}}\n$Lnext{k}:\n\tbar.sync \t0;\n\tadd.s32 \t%g3, %g3, %g0;\n\tbra.uni \t$Lblock{k};\n\
             $Lend{k}:\n{wait}"
        );
    }
    // One block of a multiprocessor is enough: for the sake of more `ptxas` 12.9 spills.
    // Of one kernel the next iteration would write what others still read.
    let again = if phases.len() == 1 { wait("_turn") } else { String::new() };
    let params: Vec<String> = params.iter().map(|p| format!("\t.param {p}")).collect();
    let _ = write!(
        text,
        ".visible .entry {GRID_LOOP}(\n{}\n)\n.reqntid {threads}, 1, 1\n.minnctapersm 1\n{{\n\
         \t.reg .pred \t%gp<3>;\n\t.reg .b32 \t%g<12>;\n\t.reg .b64 \t%gd<2>;\n\
         \tld.param.b64 \t%gd0, [turns];\n\tcvta.to.global.u64 \t%gd0, %gd0;\n\
         \tld.param.b64 \t%gd1, [until];\n\tcvta.to.global.u64 \t%gd1, %gd1;\n\
         \tmov.u32 \t%g0, %nctaid.x;\n\tmov.u32 \t%g11, %tid.x;\n\tsetp.ne.s32 \t%gp2, %g11, 0;\n\
         \tmov.b32 \t%g1, 0;\n\tmov.b32 \t%g2, 0;\n\
         $Lturn:\n\tand.b32 \t%g10, %g1, 1;\n\tsetp.ne.s32 \t%gp1, %g10, 0;\n{kernels}\
         \tadd.s32 \t%g1, %g1, 1;\n\tld.global.b32 \t%g10, [%gd1];\n{again}\
         \tsetp.ne.s32 \t%gp0, %g10, 0;\n\t@%gp0 bra \t$Ldone;\n\
         \tld.param.b32 \t%g10, [most];\n\tsetp.lt.s32 \t%gp0, %g1, %g10;\n\t@%gp0 bra \t$Lturn;\n\
         $Ldone:\n\tmov.u32 \t%g10, %ctaid.x;\n\tor.b32 \t%g10, %g10, %g11;\n\tsetp.ne.s32 \t%gp0, %g10, 0;\n\t@%gp0 ret;\n\
         \tst.global.b32 \t[%gd0], %g1;\n\tret;\n}}\n",
        params.join(",\n")
    );
    (shared <= SHARED_BYTES as usize).then_some(text)
}

/// The name of the kernel of [`ended`].
pub const ENDED: &str = "ended";

/// A kernel of one block with another one of one thread behind it, as one kernel: the first one's parameters, then the second one's. `None` where the
/// first has another number of threads, or its module variables or functions; the second one's module may name a function of the driver.
pub fn ended(first: &Phase, threads: u32, second: &Phase) -> Option<String> {
    const EXTERN: &str = ".extern .func ";
    let (before, named) = second.ptx.split_once(EXTERN).unwrap_or((second.ptx, ";"));
    let (named, behind) = named.split_once(';')?;
    let rest = format!("{before}{behind}");
    let second = Phase { ptx: &rest, ..second.clone() };
    let ((one, _), (two, _)) = (body(0, first, threads)?, body(1, &second, 1)?);
    let params = |k: usize, n: usize| (0..n).map(move |i| format!("\t.param .u64 p{k}_{i}"));
    let params: Vec<String> = params(0, first.changes.len()).chain(params(1, second.changes.len())).collect();
    let named = if named.is_empty() { String::new() } else { format!("{EXTERN}{named};\n") };
    Some(format!(
        "{}{named}.visible .entry {ENDED}(\n{}\n)\n.reqntid {threads}, 1, 1\n{{\n\t.reg .pred \t%gp0;\n\t.reg .b32 \t%g<12>;\n\
         \tmov.b32 \t%g7, 0;\n\tmov.b32 \t%g8, 0;\n\tmov.b32 \t%g9, 0;\n\t{{\n{one}\t}}\n$Lnext0:\n\tbar.sync \t0;\n\
         \tmov.u32 \t%g11, %tid.x;\n\tsetp.ne.s32 \t%gp0, %g11, 0;\n\t@%gp0 bra \t$Lnext1;\n\t{{\n{two}\t}}\n$Lnext1:\n\tret;\n}}\n",
        about(first.ptx),
        params.join(",\n")
    ))
}

/// The lines of a module about all of it.
fn about(ptx: &str) -> String {
    let about = |line: &&str| [".version ", ".target ", ".address_size "].iter().any(|d| line.starts_with(d));
    ptx.lines().filter(about).flat_map(|line| [line, "\n"]).collect()
}

/// Waits for all blocks.
fn wait(label: &str) -> String {
    format!(
        "\tbar.sync \t0;\n\tadd.s32 \t%g2, %g2, %g0;\n\t@%gp2 bra \t$Lwaited{label};\n\
         \tfence.acq_rel.gpu;\n\tred.relaxed.gpu.global.add.u32 \t[%gd0+8], 1;\n\
         $Lwait{label}:\n\tld.acquire.gpu.global.b32 \t%g4, [%gd0+8];\n\tsub.s32 \t%g4, %g4, %g2;\n\
         \tsetp.lt.s32 \t%gp0, %g4, 0;\n\t@%gp0 bra \t$Lwait{label};\n\tfence.acq_rel.gpu;\n\
         $Lwaited{label}:\n\tbar.sync \t0;\n"
    )
}

/// The body of the k-th kernel, at whose end it goes on with the next block, and its bytes of shared memory.
fn body(k: usize, phase: &Phase, threads: u32) -> Option<(String, usize)> {
    let Phase { ptx, name, changes } = phase;
    let is_more = |line: &str| [".global ", ".const ", ".shared ", ".func "].iter().any(|s| line.contains(s));
    if ptx.lines().any(|line| line.starts_with('.') && is_more(line)) {
        return None;
    }
    let text = &ptx[ptx.find(&format!(".entry {name}("))?..];
    let (head, body) = text[..text.find("\n}")?].split_once("\n{\n")?;
    if !head.contains(&format!(".reqntid {threads}, 1, 1")) {
        return None;
    }
    let (mut out, mut shared) = (String::with_capacity(body.len() + 1024), 0);
    let param = format!("[{name}_param_");
    for line in body.lines().filter(|line| !line.trim_start().starts_with("//")) {
        if let Some((load, number)) = line.split_once(&param) {
            let i: usize = number.split(']').next()?.parse().ok()?;
            let _ = match changes.get(i)? {
                false => writeln!(out, "{load}[p{k}_{i}];"),
                true => writeln!(out, "\t@%gp1{load}[p{k}_{i}_odd];\n\t@!%gp1{load}[p{k}_{i}];"),
            };
            continue;
        }
        if line.trim_start().starts_with(".shared ") {
            let bytes: usize = line.rsplit_once('[')?.1.trim_end_matches("];").parse().ok()?;
            shared += bytes.next_multiple_of(16);
        }
        let mut line = line.replace("ld.global.nc.", "ld.global.");
        for (from, to) in [("%ctaid.x", "%g7"), ("%ctaid.y", "%g8"), ("%ctaid.z", "%g9")] {
            line = line.replace(from, to);
        }
        line = line.replace("$L__", &format!("$L{k}__")).replace("shared_$", &format!("shared{k}_$"));
        if line.ends_with("ret;") {
            line = line.replace("ret;", &format!("bra \t$Lnext{k};"));
        }
        out += &line;
        out.push('\n');
    }
    Some((out, shared))
}
