//! Schedules from text: the inverse of their `Display` in `schedule/print.rs`.
//!
//! ```text
//! schedule  = { stage ":" { directive } }
//! stage     = NAME [ ".update(" INT ")" ]
//! directive = WORD [ "(" arguments ")" [ "{" { directive } "}" ] ]      the names and arguments that printing shows
//! level     = stage "," NAME
//!           | ( "parallel" | "vectorize" | "unroll" ) "(" NAME "," expr [ "," tail ] ")"      for the two directives that it is short for
//! whole     = expr | "{" { "%" INT "=" expr ";" } expr "}"
//! expr      = infix operators with their usual strengths | select, fma, likely, or an operator in call form "(" expr, ... ")"
//!           | TYPE "(" expr ")" | "bits_as_" TYPE "(" expr ")" | NAME "(" expr, ... ")" [ "." INT ]
//!           | NUMBER [ ":" TYPE ] | true | false | NAME | "%" INT
//! ```
//! Braces hold the directives of a special version, or an expression whose shared parts were named first. Line breaks are
//! white space; `//` starts a comment. A name in an expression is a parameter, but a loop variable in the condition of
//! `skip_unless` unless it holds a dot (`in.extent.0`); where that is applied, a name that is not there as the one is taken for
//! the other. Names and calls have the types that the pipeline declares; a whole number is of the type that it is combined with,
//! a fraction of the float type. Printing what was read gives the same text.

mod expr;
mod lexer;

use crate::error::Error;
use crate::expr::{Expr, Name};
use crate::schedule::text::expr::NamesAre;
use crate::schedule::text::lexer::{Lexer, Token};
use crate::schedule::{
    Directive, ForKind, LoopLevel, Memory, Partition, Schedule, StageId, Tail, shorthands,
};
use crate::types::ScalarType;

/// Special versions inside of each other that are read: bounds the recursion, here and in lowering.
const MAX_VERSIONS: usize = 16;

impl Schedule {
    /// Reads a schedule as printed. The error names the stage, the text of the directive and what is wrong with it.
    pub fn parse(text: &str) -> Result<Schedule, Error> {
        let mut lexer = Lexer::new(text);
        let mut schedule = Schedule::new();
        let mut stage: Option<StageId> = None;
        while lexer.peek() != &Token::End {
            let start = lexer.position();
            let outcome = item(&mut lexer, stage.as_ref());
            match (outcome, &mut stage) {
                (Ok(Item::Stage(id)), stage) => {
                    schedule.stages.entry(id.clone()).or_default();
                    *stage = Some(id);
                }
                (Ok(Item::Directives(d)), Some(id)) => {
                    schedule.stages.entry(id.clone()).or_default().extend(d)
                }
                (Ok(Item::Directives(_)), None) => {
                    return Err(located(&lexer, None, start, "a stage and a colon come first".into()));
                }
                (Err(message), stage) => return Err(located(&lexer, stage.as_ref(), start, message)),
            }
        }
        Ok(schedule)
    }
}

/// An error in the item that started at `start`.
fn located(lexer: &Lexer, stage: Option<&StageId>, start: usize, message: String) -> Error {
    let line = lexer.line_of(start);
    Error::Schedule {
        func: stage.map_or_else(|| format!("line {line}"), |s| s.to_string()),
        directive: lexer.text_from(start).to_string(),
        rule: format!("line {line}: {message}"),
    }
}

/// Parts of a schedule.
enum Item {
    Stage(StageId),
    Directives(Vec<Directive>),
}

/// A stage header, or a directive of the stage before.
fn item(lexer: &mut Lexer, stage: Option<&StageId>) -> Result<Item, String> {
    let word = lexer.name()?;
    if lexer.accept(":") {
        return Ok(Item::Stage(StageId { func: word, stage: 0 }));
    }
    if let Some(id) = update_suffix(lexer, &word)? {
        lexer.expect(":")?;
        return Ok(Item::Stage(id));
    }
    if stage.is_none() {
        return Err(format!("expected `:` after the stage `{word}`"));
    }
    directives(lexer, &word, 0).map(Item::Directives)
}

/// Reads `(k)` after a word that ends in `.update`.
fn update_suffix(lexer: &mut Lexer, word: &str) -> Result<Option<StageId>, String> {
    let Some(func) = word.strip_suffix(".update") else { return Ok(None) };
    lexer.expect("(")?;
    let k = lexer.unsigned()?;
    lexer.expect(")")?;
    Ok(Some(StageId { func: func.into(), stage: k as usize + 1 }))
}

/// The directive that starts with `word`, or those for which it is short, inside of `depth` special versions.
fn directives(lexer: &mut Lexer, word: &str, depth: usize) -> Result<Vec<Directive>, String> {
    let mut ahead = lexer.clone();
    let short: fn(&str, Expr, Tail) -> [Directive; 2] = match word {
        "parallel" => shorthands::parallel,
        "vectorize" => shorthands::vectorize,
        "unroll" => shorthands::unroll,
        _ => return Ok(vec![directive(lexer, word, depth)?]),
    };
    if !(ahead.accept("(") && ahead.name().is_ok() && ahead.accept(",")) {
        return Ok(vec![directive(lexer, word, depth)?]);
    }
    lexer.expect("(")?;
    let var = before_comma(lexer)?;
    let factor = expr::parse(lexer, NamesAre::Parameters, Some(ScalarType::I32))?;
    let tail = if lexer.accept(",") { tail(lexer)? } else { Tail::Auto };
    lexer.expect(")")?;
    Ok(short(&var, factor, tail).into())
}

/// A directive, inside of `depth` special versions.
fn directive(lexer: &mut Lexer, word: &str, depth: usize) -> Result<Directive, String> {
    match word {
        "atomic" => return Ok(Directive::Atomic),
        "gpu_single" => return Ok(Directive::GpuSingle),
        "relaxed" => return Ok(Directive::Relaxed),
        "reciprocals" => return Ok(Directive::Reciprocals),
        "inline" => return Ok(Directive::Inline),
        "compute_root" => return Ok(Directive::ComputeRoot),
        "sink" => return Ok(Directive::Sink),
        "store_whole" => return Ok(Directive::StoreWhole),
        _ => lexer.expect("(")?,
    }
    let directive = match word {
        "split" => split(lexer)?,
        "fuse" => {
            let (inner, outer) = (before_comma(lexer)?, before_comma(lexer)?);
            Directive::Fuse { inner, outer, fused: lexer.name()? }
        }
        "rename" => Directive::Rename { old: before_comma(lexer)?, new: lexer.name()? },
        "reorder" => Directive::Reorder(names(lexer)?),
        "serial" => Directive::Kind { var: lexer.name()?, kind: ForKind::Serial },
        "parallel" => Directive::Kind { var: lexer.name()?, kind: ForKind::Parallel },
        "vectorize" => Directive::Kind { var: lexer.name()?, kind: ForKind::Vectorized },
        "unroll" => Directive::Kind { var: lexer.name()?, kind: ForKind::Unrolled },
        "gpu_blocks" => Directive::Kind { var: lexer.name()?, kind: ForKind::GpuBlock },
        "gpu_threads" => Directive::Kind { var: lexer.name()?, kind: ForKind::GpuThread },
        "gpu_lanes" => Directive::Kind { var: lexer.name()?, kind: ForKind::GpuLane },
        "rfactor" => rfactor(lexer)?,
        "gather" => Directive::Gather(lexer.name()?),
        "skip_unless" => {
            let var = before_comma(lexer)?;
            let cond = expr::parse(lexer, NamesAre::Variables, None)?;
            Directive::SkipUnless { var, cond }
        }
        "specialize" => return specialize(lexer, depth),
        "partition" => {
            let var = before_comma(lexer)?;
            let policy = match &*lexer.name()? {
                "auto" => Partition::Auto,
                "never" => Partition::Never,
                "always" => Partition::Always,
                other => return Err(format!("`{other}` is not a policy: auto, never or always")),
            };
            Directive::Partition { var, policy }
        }
        "prefetch" => {
            let (name, var) = (before_comma(lexer)?, before_comma(lexer)?);
            Directive::Prefetch { name, var, ahead: lexer.unsigned()? }
        }
        "in_" => {
            let (consumers, wrapper) = consumers(lexer)?;
            Directive::In { consumers, wrapper }
        }
        "clone_in" => {
            let (consumers, clone) = consumers(lexer)?;
            Directive::CloneIn { consumers, clone }
        }
        "compute_at" => Directive::ComputeAt(level(lexer)?),
        "compute_with" => Directive::ComputeWith(level(lexer)?),
        "store_at" => Directive::StoreAt(level(lexer)?),
        "hoist_storage" => Directive::HoistStorage(level(lexer)?),
        "fold_storage" => Directive::FoldStorage { var: before_comma(lexer)?, factor: lexer.unsigned()? },
        "align_bounds" => Directive::AlignBounds { var: before_comma(lexer)?, modulus: lexer.unsigned()? },
        "bound" => {
            let var = before_comma(lexer)?;
            let min = expr::parse(lexer, NamesAre::Parameters, Some(ScalarType::I32))?;
            lexer.expect(",")?;
            let extent = expr::parse(lexer, NamesAre::Parameters, Some(ScalarType::I32))?;
            Directive::Bound { var, min: Some(min), extent }
        }
        "bound_extent" => {
            let var = before_comma(lexer)?;
            let extent = expr::parse(lexer, NamesAre::Parameters, Some(ScalarType::I32))?;
            Directive::Bound { var, min: None, extent }
        }
        "set_estimate" => {
            let (var, min) = (before_comma(lexer)?, lexer.signed()?);
            lexer.expect(",")?;
            Directive::Estimate { var, min, extent: lexer.signed()? }
        }
        "align_storage" => Directive::AlignStorage { var: before_comma(lexer)?, modulus: lexer.unsigned()? },
        "reorder_storage" => Directive::ReorderStorage(names(lexer)?),
        "store_in" => Directive::StoreIn(memory(lexer)?),
        "non_temporal" => Directive::NonTemporal(expr::parse(lexer, NamesAre::Parameters, None)?),
        "in_place_of" => Directive::InPlaceOf(lexer.name()?),
        _ => return Err(format!("there is no directive `{word}`")),
    };
    lexer.expect(")")?;
    Ok(directive)
}

/// `cond) { directives }`
fn specialize(lexer: &mut Lexer, depth: usize) -> Result<Directive, String> {
    if depth == MAX_VERSIONS {
        return Err(format!("special versions nested deeper than {MAX_VERSIONS}"));
    }
    let cond = expr::parse(lexer, NamesAre::Parameters, None)?;
    lexer.expect(")")?;
    lexer.expect("{")?;
    let mut directives = vec![];
    while !lexer.accept("}") {
        let word = lexer.name()?;
        directives.extend(self::directives(lexer, &word, depth + 1)?);
    }
    Ok(Directive::Specialize { cond, directives })
}

/// `f, g, as h`
fn consumers(lexer: &mut Lexer) -> Result<(Vec<Name>, Name), String> {
    let mut consumers = vec![];
    loop {
        let name = lexer.name()?;
        if &*name == "as" && matches!(lexer.peek(), Token::Name(_)) {
            return Ok((consumers, lexer.name()?));
        }
        consumers.push(name);
        lexer.expect(",")?;
    }
}

fn before_comma(lexer: &mut Lexer) -> Result<Name, String> {
    let name = lexer.name()?;
    lexer.expect(",")?;
    Ok(name)
}

fn names(lexer: &mut Lexer) -> Result<Vec<Name>, String> {
    let mut names = vec![];
    if lexer.peek() == &Token::Symbol(")") {
        return Ok(names);
    }
    loop {
        names.push(lexer.name()?);
        if !lexer.accept(",") {
            return Ok(names);
        }
    }
}

fn split(lexer: &mut Lexer) -> Result<Directive, String> {
    let (old, outer, inner) = (before_comma(lexer)?, before_comma(lexer)?, before_comma(lexer)?);
    let factor: Expr = expr::parse(lexer, NamesAre::Parameters, Some(ScalarType::I32))?;
    lexer.expect(",")?;
    Ok(Directive::Split { old, outer, inner, factor, tail: tail(lexer)? })
}

fn tail(lexer: &mut Lexer) -> Result<Tail, String> {
    match &*lexer.name()? {
        "auto" => Ok(Tail::Auto),
        "guard" => Ok(Tail::GuardWithIf),
        "predicate" => Ok(Tail::Predicate),
        "round_up" => Ok(Tail::RoundUp),
        "shift_inwards" => Ok(Tail::ShiftInwards),
        other => {
            let tails = "auto, guard, predicate, round_up or shift_inwards";
            Err(format!("`{other}` is not a tail: {tails}"))
        }
    }
}

/// `r as v, s as w, into f`
fn rfactor(lexer: &mut Lexer) -> Result<Directive, String> {
    let mut keep = vec![];
    loop {
        let name = lexer.name()?;
        if &*name == "into" && matches!(lexer.peek(), Token::Name(_)) {
            return Ok(Directive::Rfactor { keep, into: lexer.name()? });
        }
        if &*lexer.name()? != "as" {
            return Err(format!("expected `{name} as NAME`, or `into FUNC`"));
        }
        keep.push((name, lexer.name()?));
        lexer.expect(",")?;
    }
}

fn level(lexer: &mut Lexer) -> Result<LoopLevel, String> {
    let func = lexer.name()?;
    let stage = update_suffix(lexer, &func)?.unwrap_or(StageId { func, stage: 0 });
    lexer.expect(",")?;
    Ok(LoopLevel { stage, var: lexer.name()? })
}

fn memory(lexer: &mut Lexer) -> Result<Memory, String> {
    match &*lexer.name()? {
        "heap" => Ok(Memory::Heap),
        "stack" => Ok(Memory::Stack),
        "register" => Ok(Memory::Register),
        "shared" => Ok(Memory::Shared),
        other => Err(format!("`{other}` is not a memory: heap, stack, register or shared")),
    }
}

#[cfg(test)]
mod expression_tests;
#[cfg(test)]
mod tests;
