//! Makes a failing case smaller: fewer Funcs and updates, simpler definitions, less to derive for, smaller sizes.

use crate::check::{Case, text_of};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use sumsq_codegen::Func;
use sumsq_codegen_testing::random::differentiable::Differentiable;
use sumsq_codegen_testing::random::simpler::{cut, is_read, simpler};

/// Runs before the search gives up.
const MOST_RUNS: usize = 1000;

/// Something that holds of all cases, by a panic where it does not.
pub type Check<'a> = &'a dyn Fn(&Case);

/// The message with which a case fails a check.
pub fn failure(case: &Case, check: Check) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(|| check(case))).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string())).or_else(|| Some(String::new()))
}

/// The smallest case found that fails a check in the same way, and how.
pub fn shrink(case: &Case, message: String, check: Check) -> (Case, String) {
    // A thousand panics are looked for; nobody wants to read them.
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let kind = kind(&message);
    let (mut smallest, mut message, mut runs) = (case.clone(), message, 0);
    loop {
        let mut tried = candidates(&smallest.0).into_iter().map(Case).take_while(|_| {
            runs += 1;
            runs < MOST_RUNS
        });
        let found = tried.find_map(|c| failure(&c, check).filter(|m| self::kind(m) == kind).map(|m| (c, m)));
        match found {
            Some((c, m)) => (smallest, message) = (c, m),
            None => break,
        }
    }
    set_hook(hook);
    (smallest, message)
}

/// The first line of a message without its numbers: how a case fails. What is refused, or reads what is not there, fails in another way.
fn kind(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    // Numbers of names stay.
    let words = first.split_inclusive([' ', ',', '\n']);
    words.filter(|w| !w.starts_with(|c: char| c.is_ascii_digit() || c == '-')).collect()
}

/// Cases that are smaller by one step, the larger steps first.
fn candidates(case: &Differentiable) -> Vec<Differentiable> {
    let mut out = vec![];
    let mut with = |change: &dyn Fn(&mut Differentiable)| {
        let mut c = case.clone();
        change(&mut c);
        out.push(c);
    };
    let output = &case.pipeline.outputs[0].func;
    for i in 0..case.wrt.len() {
        if case.wrt.len() > 1 {
            with(&|c| c.wrt.retain(|name| *name != case.wrt[i]));
        }
    }
    for (name, f) in &case.pipeline.funcs {
        if name != output && !is_read(&case.pipeline, name) {
            with(&|c| drop(c.pipeline.funcs.shift_remove(name)));
        }
        for simpler in simpler(f) {
            with(&|c| c.pipeline.funcs[name] = simpler.clone());
        }
    }
    for (d, &(min, extent)) in case.domain.iter().enumerate() {
        if min != 0 {
            with(&|c| c.domain[d].0 = 0);
        }
        for smaller in [extent / 2, extent - 1] {
            if (1..extent).contains(&smaller) {
                with(&|c| c.domain[d].1 = smaller);
            }
        }
    }
    for (name, r) in &case.bindings.inputs {
        for d in (0..r.extents.len()).filter(|d| r.extents[*d] > 1) {
            with(&|c| c.bindings.inputs[name] = cut(r, d));
        }
    }
    out
}

/// Definitions of Funcs that are read, or put out, as text.
fn text_that_counts(case: &Case) -> String {
    let p = &case.pipeline;
    let counts = |f: &&Func| f.name == p.outputs[0].func || is_read(p, &f.name);
    p.funcs.values().filter(counts).map(text_of).collect::<Vec<_>>().join("\n")
}

/// A case that fails wherever there is a sine comes down to little more than that.
#[test]
fn a_failing_case_gets_smaller() {
    let has_a_sine = |case: &Case| {
        case.check_values();
        let text = text_that_counts(case);
        assert!(!text.contains("sin("), "a sine in {} definitions", text.len());
    };
    let case =
        (1..).map(Case::drawn).find(|case| text_that_counts(case).matches("sin(").count() > 2).unwrap();
    let message = failure(&case, &has_a_sine).expect("there is one");
    let (small, message) = shrink(&case, message, &has_a_sine);
    assert!(message.starts_with("a sine in "), "{message}");
    let text = small.text();
    assert_eq!(text.matches("sin(").count(), 1, "{text}");
    // Something must be derived for. An update stays only if it has the sine.
    let (updates, funcs): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with(' '));
    assert!(funcs.len() <= 4 && updates.iter().all(|line| line.contains("sin(")), "{text}");
    assert_eq!(small.wrt.len(), 1, "{:?}", small.wrt);
    assert!(small.domain.iter().all(|d| *d == (0, 1)), "{:?}", small.domain);
}
