//! Machine code as text: instructions of loops, for processors that need not be this one.

use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::target::Processor;
use sumsq_codegen::{Level, Pipeline, Schedule, Target, backend::llvm::listing};

/// A processor with AVX2 and no more.
pub fn avx2() -> Target {
    level("x86-64-v3", 8, "")
}

/// A processor with AVX-512, whose vectors of 512 bits are used.
pub fn avx512() -> Target {
    level("x86-64-v4", 16, "")
}

/// One that permutes bytes besides.
pub fn avx512_vbmi() -> Target {
    level("x86-64-v4", 16, "+avx512vbmi")
}

/// One with AVX2 that adds products of bytes besides.
pub fn avx2_vnni() -> Target {
    level("x86-64-v3", 8, "+avxvnni")
}

/// One with AVX-512 that adds products of bytes besides.
pub fn avx512_vnni() -> Target {
    level("x86-64-v4", 16, "+avx512vnni")
}

/// AArch64 with NEON.
pub fn neon() -> Target {
    Level::Aarch64.anywhere()
}

fn level(name: &str, lanes: i32, features: &str) -> Target {
    let host = Target::host();
    let (triple, name, features) = (host.processor.triple.clone(), name.into(), features.into());
    let processor = Processor { triple, name, features };
    Target { processor, ..host.with_lanes(lanes) }
}

/// Instructions of one loop, in order.
pub struct Loop(Vec<String>);

impl Loop {
    /// The longest of the innermost loops of `p` under `s`, on `target`: a block that jumps to its own start.
    pub fn innermost(p: &Pipeline, s: &Schedule, target: &Target) -> Loop {
        Loop::all(p, s, target)
            .into_iter()
            .max_by_key(|l| l.0.len())
            .unwrap_or_else(|| panic!("no loop\n{s}"))
    }

    /// All innermost loops, in order.
    pub fn all(p: &Pipeline, s: &Schedule, target: &Target) -> Vec<Loop> {
        let lowered = lower(p, s, &LowerOptions::default()).unwrap_or_else(|e| panic!("{e}\n{s}"));
        let text = listing(&lowered, target).unwrap_or_else(|e| panic!("{e}")).asm;
        loops(&text).into_iter().map(Loop).collect()
    }

    /// Is no lane loaded by itself, nor stored?
    pub fn is_dense(&self) -> bool {
        ["vgather", "vpgather", "vscatter", "vpscatter", "vinsertps", "vpinsr"]
            .iter()
            .all(|name| self.count(name) == 0)
    }

    /// Instructions whose name starts with `name`.
    pub fn count(&self, name: &str) -> usize {
        self.names().filter(|n| n.starts_with(name)).count()
    }

    /// Instructions that read or write the stack: what found no register.
    pub fn spills(&self) -> usize {
        self.0.iter().filter(|line| line.contains("(%rsp") || line.contains("(%rbp")).count()
    }

    /// Vector instructions besides plain loads and stores.
    pub fn work(&self) -> usize {
        let moves = |line: &str| line.starts_with("vmov") && line.contains('(') && !line.contains('{');
        self.0.iter().filter(|line| line.starts_with('v') && !moves(line)).count()
    }

    /// Does it compute with vectors of more than 128 bits?
    pub fn is_wide(&self) -> bool {
        self.0.iter().any(|line| line.contains("%ymm") || line.contains("%zmm"))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|line| line.split_whitespace().next())
    }
}

impl std::fmt::Display for Loop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

/// Blocks that end in a jump to their own label.
fn loops(text: &str) -> Vec<Vec<String>> {
    let (mut found, mut label, mut block) = (vec![], "", vec![]);
    for line in text.lines() {
        let code = line.split("# ").next().unwrap_or("").split("//").next().unwrap_or("").trim();
        if let Some(name) = code.strip_suffix(':') {
            (label, block) = (name, vec![]);
            continue;
        }
        // An encoding is no name.
        let code = code.strip_prefix("{vex}").map_or(code, str::trim_start);
        if code.is_empty() || code.starts_with('.') && !code.ends_with(':') {
            continue;
        }
        block.push(code.to_string());
        // x86 and AArch64.
        let jump = code.starts_with('j')
            || code.starts_with("b.")
            || code.starts_with("cb")
            || code.starts_with("b\t");
        if jump && code.split_whitespace().last() == Some(label) {
            found.push(std::mem::take(&mut block));
        } else if jump {
            label = "";
        }
    }
    found
}
