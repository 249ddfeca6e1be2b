//! Indices of 32 bits times the size of an element as one instruction.
//!
//! LLVM selects a widening and a shift for these, of which the driver's assembler makes two or three instructions for every address;
//! of `mul.wide`, and the addition of a plane's address behind it, it makes one.

use rustc_hash::FxHashMap;

/// Replaces, in PTX of LLVM's form, shifts of numbers that were widened from i32: both registers are written in one place, so the one that is read there
/// has the other's value.
pub(in crate::backend) fn widened(ptx: &str) -> String {
    let mut writes = FxHashMap::<&str, usize>::default();
    let (mut narrow, mut out) = (FxHashMap::<&str, &str>::default(), String::with_capacity(ptx.len()));
    // Registers are those of a function.
    for function in ptx.split_inclusive("\n}") {
        writes.clear();
        narrow.clear();
        for to in function.lines().filter_map(written) {
            *writes.entry(to).or_default() += 1;
        }
        for line in function.split_inclusive('\n') {
            let once = |r: &str| writes.get(r) == Some(&1);
            if let Some((to, from, _)) = operands(line, "cvt.s64.s32")
                && once(to)
                && once(from)
                // The low half of a register of 64 bits is no operand of a multiplication.
                && !from.starts_with("%rd")
            {
                narrow.insert(to, from);
            }
            match operands(line, "shl.b64").and_then(|(to, from, by)| Some((to, narrow.get(from)?, by))) {
                Some((to, from, by)) if by < 31 => {
                    out += &format!("\tmul.wide.s32 \t{to}, {from}, {};\n", 1 << by);
                }
                _ => out += line,
            }
        }
    }
    out
}

/// The register that an instruction writes.
fn written(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(" \t")?;
    rest.split([',', ';']).next().filter(|r| r.starts_with('%'))
}

/// Destination, source and number, 0 if there is none, of an instruction without a predicate.
fn operands<'a>(line: &'a str, name: &str) -> Option<(&'a str, &'a str, u32)> {
    let rest =
        line.strip_prefix('\t')?.strip_prefix(name)?.strip_prefix(" \t")?.trim_end().strip_suffix(';')?;
    let mut all = rest.split(", ");
    let (to, from) = (all.next()?, all.next()?);
    let number = all.next().map_or(Some(0), |n| n.parse().ok())?;
    Some((to, from, number))
}

#[cfg(test)]
mod tests {
    use super::widened;

    #[test]
    fn only_registers_with_one_value_are_read_past() {
        let text = |shift: &str, more: &str| {
            format!("\tcvt.s64.s32 \t%rd1, %r1;\n{more}{shift}\n\tadd.s64 \t%rd3, %rd9, %rd2;\n}}\n")
        };
        let (first, shift) = ("\tadd.s32 \t%r1, %r2, 1;\n", "\tshl.b64 \t%rd2, %rd1, 2;");
        let wide = "\tmul.wide.s32 \t%rd2, %r1, 4;";
        let is = |more: &str| widened(&(first.to_string() + &text(shift, more)));
        assert_eq!(is(""), first.to_string() + &text(wide, ""));
        for more in ["\tmov.b32 \t%r1, %r7;\n", "@%p1 mov.b64 \t%rd1, %rd7;\n"] {
            assert_eq!(is(more), first.to_string() + &text(shift, more));
        }
        let halves = "\tadd.s64 \t%rd4, %rd5, 1;\n\tcvt.s64.s32 \t%rd1, %rd4;\n\tshl.b64 \t%rd2, %rd1, 2;\n";
        assert_eq!(widened(halves), halves);
        // Another function's register is another one.
        let other = format!("{}\n{shift}\n", text(wide, ""));
        assert_eq!(widened(&(first.to_string() + &other)), first.to_string() + &other);
    }
}
