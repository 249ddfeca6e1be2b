//! Search for the place where an energy or a derivative is not finite, for a message that a user can act on.

use crate::assembled::eval::{Sampled, Workspace};
use crate::assembled::tape::{Place, Read, Tape};
use crate::assembled::template::Template;
use crate::assembled::{Explicit, eval};
use std::fmt;
use sumsq_energy::dag::{Source, interpolate};
use sumsq_energy::model::Domain;

/// A read of a residual instance.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueRead {
    /// Name of the unknown or array.
    pub name: String,
    /// Coordinates there, fastest-varying first.
    pub element: Vec<i32>,
    /// The channel.
    pub channel: u16,
    /// Its value.
    pub value: f64,
}

/// A residual instance whose value is not finite, or a partial of it.
#[derive(Clone, Debug, PartialEq)]
pub struct NonFinite {
    /// Number of the template, from 0.
    pub residual: usize,
    /// Name of its group.
    pub group: String,
    /// Its source line.
    pub line: Option<u32>,
    /// `element (x, y) of {W,H}`, fastest-varying first, or `hyperedge 7 of G`.
    pub instance: String,
    /// Its value (NaN or infinite; or finite, with a square that overflows).
    pub value: f64,
    /// If the value is finite: its partial by one of the unknowns it reads, which is not.
    pub partial: Option<Partial>,
    /// True if it is the scale of its loss that is no positive number.
    pub unscaled: bool,
    /// The reads to blame: those of non-finite numbers, or all of them if there are none.
    pub reads: Vec<ValueRead>,
}

/// The derivative of a residual by an unknown that it reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Partial {
    /// The unknown there.
    pub by: ValueRead,
    /// NaN or infinite.
    pub value: f64,
}

impl fmt::Display for ValueRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`{:?} channel {}", self.name, self.element, self.channel)
    }
}

impl fmt::Display for NonFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "residual {} of group `{}`", self.residual + 1, self.group)?;
        if let Some(line) = self.line {
            write!(f, " (line {line})")?;
        }
        match &self.partial {
            _ if self.unscaled => {
                write!(f, " is under a loss whose scale is no positive number at {}", self.instance)?
            }
            None => write!(f, " is {} at {}", self.value, self.instance)?,
            Some(Partial { by, value }) => {
                write!(f, " is {} at {}, its derivative by {by} is {value}", self.value, self.instance)?
            }
        }
        write!(f, "; it reads there")?;
        for (k, read) in self.reads.iter().enumerate() {
            let comma = if k > 0 { "," } else { "" };
            write!(f, "{comma} {read} = {}", read.value)?;
        }
        Ok(())
    }
}

impl Explicit<'_> {
    /// The first residual instance whose square is not finite at x, if there is one.
    pub fn locate_non_finite(&self, x: &[f64]) -> Option<NonFinite> {
        let point = self.point(x);
        let mut work = Workspace::default();
        self.templates.iter().enumerate().find_map(|(residual, template)| {
            let value_at = |&n: &u32, work: &mut Workspace| {
                let at = self.layout.instance(template.domain, n as usize);
                template.value(&at, &point, work)
            };
            let number = template.counted.iter().find(|n| !value_at(n, &mut work).powi(2).is_finite());
            let Some(&number) = number else { return self.unscaled(residual, template, x) };
            let value = value_at(&number, &mut work);
            Some(self.describe(residual, template, &template.tape, number as usize, value, x))
        })
    }

    /// The first instance of a template whose loss has no scale there.
    fn unscaled(&self, residual: usize, template: &Template, x: &[f64]) -> Option<NonFinite> {
        let (_, tape) = self.scales.iter().find(|(block, _)| template.block == Some(*block))?;
        let point = self.point(x);
        let mut work = Workspace::default();
        let number = *template.counted.iter().find(|&&n| {
            let at = self.layout.instance(template.domain, n as usize);
            !template.is_cut(&at) && eval::value(tape, &at, &point, &mut work).is_nan()
        })?;
        let value =
            template.value(&self.layout.instance(template.domain, number as usize), &point, &mut work);
        Some(NonFinite {
            unscaled: true,
            ..self.describe(residual, template, tape, number as usize, value, x)
        })
    }

    /// The first residual instance with a partial that is not finite at x, if there is one.
    pub(crate) fn locate_non_finite_partial(&self, x: &[f64]) -> Option<NonFinite> {
        let point = self.point(x);
        let mut work = Workspace::default();
        self.templates.iter().enumerate().find_map(|(residual, template)| {
            let tape = &template.tape;
            let mut of_instance = |&number: &u32| {
                let at = self.layout.instance(template.domain, number as usize);
                if template.is_cut(&at) {
                    return None;
                }
                let value = eval::value_and_partials(tape, &at, &point, &mut work);
                let mut partials = tape.result_slots().iter().zip(work.result_partials(tape));
                let (slot, &partial) = partials.find(|(_, partial)| !partial.is_finite())?;
                Some((number as usize, value, tape.slot_read(*slot), partial))
            };
            let (number, value, read, partial) = template.counted.iter().find_map(&mut of_instance)?;
            let by = self.value_read(template, number, read, x)?;
            let described = self.describe(residual, template, tape, number, value, x);
            Some(NonFinite { partial: Some(Partial { by, value: partial }), ..described })
        })
    }

    fn describe(
        &self,
        residual: usize,
        template: &Template,
        tape: &Tape,
        number: usize,
        value: f64,
        x: &[f64],
    ) -> NonFinite {
        let energy = &*self.energy;
        let instance = match template.domain {
            Domain::Space(s) => {
                let at: Vec<String> =
                    self.layout.coordinates(s, number).iter().map(ToString::to_string).collect();
                format!("element ({}) of {}", at.join(", "), energy.space_name(s))
            }
            Domain::Graph(g) => format!("hyperedge {number} of `{}`", energy.graphs[g.index()].name),
        };
        let reads = tape.reads.iter().filter_map(|r| self.value_read(template, number, r, x));
        let mut reads: Vec<ValueRead> = reads.collect();
        reads.extend(self.taps(template, tape, number, x));
        if reads.iter().any(|r| !r.value.is_finite()) {
            reads.retain(|r| !r.value.is_finite());
        }
        NonFinite {
            residual,
            group: energy.groups[template.group].clone(),
            line: energy.residuals[residual].line,
            instance,
            value,
            partial: None,
            unscaled: false,
            reads,
        }
    }

    /// Returns what the sampled images of a tape hold around the coordinates where they are read.
    fn taps(&self, template: &Template, tape: &Tape, number: usize, x: &[f64]) -> Vec<ValueRead> {
        let (at, point) = (self.layout.instance(template.domain, number), self.point(x));
        let mut taps = Vec::new();
        for Sampled { image, place, .. } in eval::samples(tape, &at, &point, &mut Workspace::default()) {
            interpolate(&place, &mut |tap| {
                let value = at.tap(image, tap, &point);
                let name = self.energy.arrays[image.0.index()].name.clone();
                let element = tap.iter().map(|&c| c as i32).collect();
                taps.push(ValueRead { name, element, channel: image.1, value });
                value
            });
        }
        taps
    }

    /// Returns what a read finds; `None` out of the domain.
    fn value_read(&self, template: &Template, number: usize, read: &Read, x: &[f64]) -> Option<ValueRead> {
        let field = match read.source {
            Source::Unknown(u) => &self.energy.unknowns[u.index()],
            Source::Array(a) => &self.energy.arrays[a.index()],
            _ => return None,
        };
        let at = self.layout.instance(template.domain, number);
        let element = at.element(&read.place)?;
        let coordinates: Vec<i32> = match read.place {
            Place::Global => Vec::new(),
            _ => self.layout.coordinates(field.space, element).to_vec(),
        };
        let value = at.read(read, &self.point(x));
        Some(ValueRead { name: field.name.clone(), element: coordinates, channel: read.channel, value })
    }
}
