//! Inputs and outputs, of every layout.

use super::{BINS, Builder, Callee, SIBLING};
use crate::check::with_halo;
use crate::reference::Realization;
use sumsq_codegen::{Constraint, Func, Input, Layout, ScalarType};

/// Records hold so many values at most.
const SLOTS: [u8; 3] = [4, 8, 16];

impl Builder<'_> {
    /// Adds input `i`, with values: strided from anywhere on, or planes or records with a halo of zeros.
    pub(super) fn input(&mut self, i: usize) {
        let name = self.name(&format!("in{i}"));
        let ty = self.ty();
        let input = if self.rng.percent(25) {
            let mut types = vec![ty];
            if self.rng.percent(20) {
                types.push(self.ty());
            }
            let input = Input::strided(name, &types, self.size.len());
            if self.rng.percent(30) { input.constrain(0, Constraint::new()) } else { input }
        } else {
            let values = if self.rng.percent(30) { self.rng.range(2, 3) } else { 1 };
            let mut input = Input::new(name, &vec![ty; values as usize], self.size.len());
            if self.rng.percent(25) {
                input.layout = Layout::Record(self.rng.pick(&SLOTS));
            }
            if self.rng.percent(30) {
                input.halo = self.size.iter().map(|_| self.rng.below(4) as u32).collect();
            }
            input
        };
        self.bind(&input);
        self.callees.push(Callee::Input(input));
    }

    /// Adds an input with random values.
    pub(super) fn bind(&mut self, input: &Input) {
        let mut r = Realization::zeros(&input.types, &self.size);
        for (plane, &ty) in r.planes.iter_mut().zip(&input.types) {
            plane.fill_with(|| self.number(ty));
        }
        let r = match input.layout {
            Layout::Strided => {
                let min: Vec<i32> = self.size.iter().map(|_| self.rng.range(-9, 9) as i32).collect();
                r.moved_to(&min)
            }
            _ => with_halo(&r, &input.halo.iter().map(|&h| h as usize).collect::<Vec<_>>()),
        };
        self.case.pipeline.input(input.clone());
        self.case.bindings.inputs.insert(input.name.clone(), r);
    }

    /// The last Func, sometimes others, and those that nothing else may read, over their domains. Sinks and what takes the
    /// place of an input are there already. Tuples of several types lie in strided buffers.
    pub(super) fn outputs(&mut self) {
        let funcs: Vec<Func> = self.case.pipeline.funcs.values().cloned().collect();
        for (i, f) in funcs.iter().enumerate() {
            let sibling = f.name.starts_with(SIBLING);
            let needed = sibling || i + 1 == funcs.len() || self.case.free_sums.contains_key(&f.name);
            let there = self.case.pipeline.outputs.iter().any(|o| o.func == f.name);
            if there || !needed && !self.rng.percent(20) {
                continue;
            }
            let types = f.types();
            if types.iter().any(|t| *t != types[0]) || self.rng.percent(25) {
                self.strided_output(f);
            } else {
                let layout = self.layout(&types);
                let halo = if self.rng.percent(10) { 2 } else { 0 };
                self.output(f, layout, vec![halo; f.vars.len()]);
            }
        }
    }

    /// Planes, or records that hold these types.
    pub(super) fn layout(&mut self, types: &[ScalarType]) -> Layout {
        match self.rng.percent(25) && types.len() <= SLOTS[0] as usize {
            true => Layout::Record(self.rng.pick(&SLOTS)),
            false => Layout::Planar,
        }
    }

    /// Adds an output from 0 on.
    pub(super) fn output(&mut self, f: &Func, layout: Layout, halo: Vec<u32>) {
        self.case.pipeline.output_with(f, layout, halo);
        let domain = self.extents(f).into_iter().map(|n| (0, n)).collect();
        self.case.domains.push(domain);
    }

    fn strided_output(&mut self, f: &Func) {
        let extents = self.extents(f);
        let mut constraints = Constraint::defaults(extents.len());
        if self.rng.percent(30) {
            constraints.fill(Constraint::new());
        }
        self.case.pipeline.output_strided(f, constraints);
        let domain = extents.into_iter().map(|n| (self.rng.range(-9, 9) as i32, n)).collect();
        self.case.domains.push(domain);
    }

    /// Those of the inputs, or, for nests that run together, smaller ones.
    fn extents(&mut self, f: &Func) -> Vec<usize> {
        match f.vars.len() {
            0 => vec![],
            1 => vec![BINS as usize],
            _ if f.name.starts_with(SIBLING) && self.rng.percent(50) => {
                let sizes = self.size[..f.vars.len()].iter();
                sizes.map(|&n| self.rng.range(1, n.max(1) as i64) as usize).collect()
            }
            // A sum that is no output of its own may have fewer dimensions than all others.
            dims => self.size[..dims].to_vec(),
        }
    }
}

/// A layout as text.
pub fn layout_text(layout: Layout) -> String {
    match layout {
        Layout::Planar => String::new(),
        Layout::Strided => " strided".into(),
        Layout::Record(slots) => format!(" in records of {slots}"),
    }
}
