//! Every instruction that computes, against values computed here, for all combinations of edge cases: on the interpreter in its tests, and on
//! whatever else takes PTX.

mod conversions;
mod floats;
mod halves;
mod values;
mod whole;

use std::cell::RefCell;
use values::{Result_, Value};

/// Something that loads a module and runs its kernel `k`.
pub trait Runner {
    /// Runs so many blocks of 64 threads with the addresses of two lists, the first of these bytes and the second of so many, whose bytes it
    /// returns; `None` where the instruction is none of this machine's.
    fn run(&mut self, text: &str, blocks: u32, input: &[u8], output: usize) -> Option<Vec<u8>>;
}

/// Groups of instructions, by name. Each panics where a value differs.
pub const GROUPS: [(&str, fn()); 10] = [
    ("whole numbers", whole::whole_numbers),
    ("bits", whole::bits),
    ("fields of bits", whole::fields_of_bits),
    ("sums of two words", whole::sums_of_two_words),
    ("singles and doubles", floats::singles_and_doubles),
    ("pairs of singles", floats::pairs_of_singles),
    ("halves", halves::halves),
    ("pairs of halves", halves::pairs_of_halves),
    ("conversions between whole numbers", conversions::conversions_between_whole_numbers),
    ("conversions from floats", conversions::conversions_from_floats),
];

thread_local! {
    static RUNNER: RefCell<Option<Box<dyn Runner>>> = const { RefCell::new(None) };
}

/// Has the groups that this thread runs from now on run there.
pub fn run_on(runner: impl Runner + 'static) {
    RUNNER.set(Some(Box::new(runner)));
}

fn run_text(text: &str, blocks: u32, input: &[u8], output: usize) -> Option<Vec<u64>> {
    let words = |bytes: Vec<u8>| {
        bytes.chunks_exact(8).map(|w| w.iter().rev().fold(0, |all, b| all << 8 | u64::from(*b))).collect()
    };
    RUNNER.with_borrow_mut(|r| {
        r.as_mut().expect("`run_on` was called").run(text, blocks, input, output).map(words)
    })
}

/// A module of one kernel `k` with pointers `%rd1` and `%rd2`, the thread in `%r1`, the block in `%r2`, and four times the thread's
/// number in the grid in `%rd3`; `%r10` and up, `%rd10` and up, `%f1` and up and predicates are free.
pub fn kernel(threads: u32, shared: &str, body: &str) -> String {
    format!(
        ".version 7.0
.target sm_80
.address_size 64
{shared}
.visible .entry k(.param .u64 a, .param .u64 b)
.reqntid {threads}, 1, 1
{{
.reg .pred %p<10>;
.reg .b16 %rs<10>;
.reg .b32 %r<40>;
.reg .b32 %f<10>;
.reg .b64 %rd<40>;
ld.param.b64 %rd1, [a];
ld.param.b64 %rd2, [b];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mad.lo.s32 %r3, %r2, {threads}, %r1;
mul.wide.u32 %rd3, %r3, 4;
{body}
ret;
}}
"
    )
}

/// The register of a number in a kernel, by its bits.
fn register(bits: u32, n: usize) -> String {
    match bits {
        1 => format!("%p{n}"),
        16 => format!("%rs{n}"),
        32 => format!("%r{n}"),
        _ => format!("%rd{n}"),
    }
}

/// A kernel whose thread loads a word per argument from `a`, executes an instruction and stores the result's word to `b`.
fn text(op: &str, arguments: &[u32], result: u32) -> String {
    let mut body = String::new();
    let count = arguments.len();
    body += &format!("mul.wide.u32 %rd20, %r3, {};\nadd.s64 %rd21, %rd1, %rd20;\n", 8 * count);
    for (k, bits) in arguments.iter().enumerate() {
        let to = register(*bits, k + 4);
        body += &match bits {
            1 => format!("ld.global.b8 %rs1, [%rd21+{}];\nsetp.ne.b16 {to}, %rs1, 0;\n", 8 * k),
            bits => format!("ld.global.b{bits} {to}, [%rd21+{}];\n", 8 * k),
        };
    }
    let names: Vec<String> = arguments.iter().enumerate().map(|(k, bits)| register(*bits, k + 4)).collect();
    body += &format!("{op} {}, {};\n", register(result, 8), names.join(", "));
    body += "mul.wide.u32 %rd20, %r3, 8;\nadd.s64 %rd21, %rd2, %rd20;\n";
    body += &match result {
        1 => "selp.b64 %rd22, 1, 0, %p8;\nst.global.b64 [%rd21], %rd22;\n".to_string(),
        bits => format!("st.global.b64 [%rd21], 0;\nst.global.b{bits} [%rd21], {};\n", register(result, 8)),
    };
    kernel(64, "", &body)
}

/// Runs an instruction for rows of words, one for each argument; no results where there is no such instruction.
fn run(op: &str, arguments: &[u32], result: u32, rows: &[Vec<u64>]) -> Vec<u64> {
    let blocks = rows.len().div_ceil(64);
    let mut words: Vec<u64> = rows.concat();
    words.resize(64 * blocks * arguments.len(), 0);
    // What is no row does not divide by zero.
    words[rows.len() * arguments.len()..].fill(1);
    let input: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let came = run_text(&text(op, arguments, result), blocks as u32, &input, 8 * 64 * blocks);
    came.map(|mut words| {
        words.truncate(rows.len());
        words
    })
    .unwrap_or_default()
}

pub(super) fn one<A: Value, R: Result_>(op: &str, f: impl Fn(A) -> R) {
    let edges = A::edges();
    let rows: Vec<Vec<u64>> = edges.iter().map(|a| vec![a.to_word()]).collect();
    for (a, came) in edges.iter().zip(run(op, &[A::REGISTER], R::REGISTER, &rows)) {
        assert_eq!(R::came(came), f(*a).expected(), "{op} {a:?}, came {:?}", R::of_word(came));
    }
}

pub(super) fn two<A: Value, B: Value, R: Result_>(op: &str, f: impl Fn(A, B) -> R) {
    two_where(op, |_, _| true, f);
}

pub(super) fn two_where<A: Value, B: Value, R: Result_>(
    op: &str,
    ok: impl Fn(A, B) -> bool,
    f: impl Fn(A, B) -> R,
) {
    let pairs: Vec<(A, B)> =
        A::edges().iter().flat_map(|a| B::edges().into_iter().map(move |b| (*a, b))).collect();
    let pairs: Vec<(A, B)> = pairs.into_iter().filter(|(a, b)| ok(*a, *b)).collect();
    let rows: Vec<Vec<u64>> = pairs.iter().map(|(a, b)| vec![a.to_word(), b.to_word()]).collect();
    for ((a, b), came) in pairs.iter().zip(run(op, &[A::REGISTER, B::REGISTER], R::REGISTER, &rows)) {
        assert_eq!(R::came(came), f(*a, *b).expected(), "{op} {a:?} {b:?}, came {:?}", R::of_word(came));
    }
}

pub(super) fn three<A: Value, B: Value, C: Value, R: Result_>(op: &str, f: impl Fn(A, B, C) -> R) {
    three_where(op, |_, _, _| true, f);
}

pub(super) fn three_where<A: Value, B: Value, C: Value, R: Result_>(
    op: &str,
    ok: impl Fn(A, B, C) -> bool,
    f: impl Fn(A, B, C) -> R,
) {
    let mut all = vec![];
    for a in A::edges() {
        for b in B::edges() {
            all.extend(C::edges().into_iter().filter(|c| ok(a, b, *c)).map(|c| (a, b, c)));
        }
    }
    let rows: Vec<Vec<u64>> =
        all.iter().map(|(a, b, c)| vec![a.to_word(), b.to_word(), c.to_word()]).collect();
    let registers = [A::REGISTER, B::REGISTER, C::REGISTER];
    for ((a, b, c), came) in all.iter().zip(run(op, &registers, R::REGISTER, &rows)) {
        assert_eq!(
            R::came(came),
            f(*a, *b, *c).expected(),
            "{op} {a:?} {b:?} {c:?}, came {:?}",
            R::of_word(came)
        );
    }
}
