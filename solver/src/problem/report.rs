//! The report of a solve.

use crate::problem::memory::Memory;
use crate::problem::options::{Method, Precision};
use serde::Serialize;
use std::fmt;

/// Reason why a solve ended. The unknowns are always those of the last good iterate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Termination {
    /// Every |g_i| <= gradient_tolerance |column i of J| sqrt(E), or max|g| <= gradient_rtol times that at the start. GN: g = 0.
    GradientTolerance,
    /// An accepted step with |E - E_new| <= function_tolerance * E.
    FunctionTolerance,
    /// |s| <= step_tolerance times both |x| and the longest step, or beyond the resolution of x.
    StepTolerance,
    /// Predicted and actual decrease both below the noise of E.
    NoiseFloor,
    /// As many steps as allowed.
    MaxIterations,
    /// The time was up.
    MaxSeconds,
    /// The callback said stop.
    UserAbort,
    /// The trust region shrank below its least radius.
    MinRadius,
    /// Everything is excluded: nothing to solve, E = 0.
    NoFreeUnknown,
    /// Gauss-Newton: E after the step is not finite.
    Diverged,
    /// LM: no valid model or no finite energy at any radius down to the least one.
    InvalidSteps,
    /// It was cancelled.
    Interrupted,
    /// The engine failed in mid-solve; a warning says how.
    Failed,
}

impl Termination {
    /// The name in reports: `gradient_tolerance`.
    pub fn name(self) -> &'static str {
        use Termination::*;
        match self {
            GradientTolerance => "gradient_tolerance",
            FunctionTolerance => "function_tolerance",
            StepTolerance => "step_tolerance",
            NoiseFloor => "noise_floor",
            MaxIterations => "max_iterations",
            MaxSeconds => "max_seconds",
            UserAbort => "user_abort",
            MinRadius => "min_radius",
            NoFreeUnknown => "no_free_unknown",
            Diverged => "diverged",
            InvalidSteps => "invalid_steps",
            Interrupted => "interrupted",
            Failed => "failed",
        }
    }
}

/// Reason why PCG ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LinearStop {
    /// |r| <= tau |b|.
    Tolerance,
    /// k (Q_k - Q_{k-1}) <= zeta Q_k.
    Model,
    /// sqrt(r.z) <= eta sqrt(r0.z0).
    PreconditionedNorm,
    /// The iteration limit.
    Limit,
    /// p.Ap <= 0.
    Indefinite,
    /// A scalar became NaN or infinite.
    NotFinite,
    /// The solve was to end, or the engine failed: there is no step.
    Interrupted,
}

impl LinearStop {
    /// The name in reports: `preconditioned_norm`.
    pub fn name(self) -> &'static str {
        match self {
            LinearStop::Tolerance => "tolerance",
            LinearStop::Model => "model",
            LinearStop::PreconditionedNorm => "preconditioned_norm",
            LinearStop::Limit => "limit",
            LinearStop::Indefinite => "indefinite",
            LinearStop::NotFinite => "not_finite",
            LinearStop::Interrupted => "interrupted",
        }
    }
}

/// One step and the state after it; a rejected step keeps the old energy.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Iteration {
    /// 1 for the first step.
    pub iteration: usize,
    /// E = sum r^2.
    pub energy: f64,
    /// E per residual group, in order of declaration.
    pub energy_by_group: Vec<f64>,
    /// max|g|, g = J^T r, over free unknowns.
    pub gradient_max_norm: f64,
    /// |s|_2.
    pub step_norm: f64,
    /// Actual over predicted decrease.
    pub gain_ratio: f64,
    /// Trust-region radius after the step; infinite for Gauss-Newton.
    pub radius: f64,
    /// True if the step was taken.
    pub accepted: bool,
    /// PCG iterations.
    pub linear_iterations: usize,
    /// Reason why PCG ended.
    pub linear_stop: LinearStop,
    /// |r|/|b| of the recurred residual.
    pub linear_residual: f64,
    /// The name of the preconditioner; of two in one solve, of the one that ended it.
    pub preconditioner: &'static str,
    /// The bound of sqrt(r.z), relative to that at the start, where PCG goes by it.
    pub eta: Option<f64>,
    /// Wall-clock seconds of D and the set-up of the preconditioner, some of which may have passed in the step before.
    pub setup_seconds: f64,
    /// Wall-clock seconds of the step.
    pub seconds: f64,
}

/// Wall-clock seconds per phase.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Seconds {
    /// Energy to machine code.
    pub compile: f64,
    /// Buffers and incidence lists.
    pub plan: f64,
    /// The iterations.
    pub solve: f64,
    /// Of these: D and the set-up of the preconditioner.
    pub setup: f64,
    /// Of these, too: code of a preconditioner that `auto` went on with, where no earlier solve had it compiled.
    pub growth: f64,
}

/// The hierarchy of grids, or of aggregates, over an index space.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Grids {
    /// The space.
    pub space: String,
    /// Extents of every level, that of the problem first; of levels of aggregates their number.
    pub levels: Vec<Vec<i32>>,
    /// Entries of A per element of every level, both sides of the diagonal counted; of aggregates their mean.
    pub stencils: Vec<usize>,
    /// Bytes that are stored of every level; of aggregates without those that no level has alone.
    pub level_bytes: Vec<u64>,
    /// Bytes of all that is stored of it.
    pub bytes: u64,
    /// Entries of A on all levels, over those on the first.
    pub operator_complexity: f64,
}

/// Values of a Func of a pipeline energy that are computed once per linearisation, for all products with J^T J.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct KeptValues {
    /// The Func.
    pub func: String,
    /// Bytes of its values.
    pub bytes: u64,
}

/// Uses of the caller's arrays and unknowns in the memory of a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Lent {
    /// Buffers that are memory of the caller: arrays that are read where they lie.
    pub in_place: usize,
    /// Copies between memory of the caller and buffers, none of them through the host, since the problem was planned.
    pub copies: u64,
}

/// The report of a solve. Serialised as JSON, non-finite numbers become null.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// E at the start.
    pub energy_initial: f64,
    /// E at the end.
    pub energy_final: f64,
    /// Reason for its end.
    pub termination: Termination,
    /// Names of the residual groups, in order of declaration: those of [`Iteration::energy_by_group`].
    pub groups: Vec<String>,
    /// One entry per step.
    pub iterations: Vec<Iteration>,
    /// The step that a second descent from the start begins with, if there was one: the lower of the two ends counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_descent: Option<usize>,
    /// Free scalars.
    pub unknowns: usize,
    /// Residual instances that count.
    pub residuals: usize,
    /// Residuals that read excluded unknowns alone, where somebody asked for them ([`Problem::held`](crate::Problem::held)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// Free scalars whose column of J is zero.
    pub unconstrained: usize,
    /// PCG iterations of all steps.
    pub linear_iterations_total: usize,
    /// `lm` or `gn`.
    pub method: &'static str,
    /// `none`, `jacobi`, `block_jacobi`, `multigrid` or `aggregation`.
    pub preconditioner: &'static str,
    /// The hierarchies of grids or aggregates of the preconditioner, one per index space that has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grids: Vec<Grids>,
    /// The index spaces that have no such hierarchy and keep block Jacobi, where others have one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_levels: Vec<String>,
    /// Of an energy over a pipeline, the values that are kept between products.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptValues>,
    /// `cpu` or `cuda`.
    pub backend: &'static str,
    /// True if the same solve again gives the same bits: false where sums come in any order, by a choice.
    pub repeatable: bool,
    /// The reason for the CPU, where that was left open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_cpu: Option<String>,
    /// Name of the processor.
    pub device: String,
    /// Uses of the caller's memory on a GPU.
    pub lent: Lent,
    /// Times that the host has waited for the GPU since the solve began, whoever of this process it was.
    pub waits: u64,
    /// `mixed`, `f32` or `f64`.
    pub precision: &'static str,
    /// Worker threads.
    pub threads: usize,
    /// Of the plan; 0 for the assembled path.
    pub memory: Memory,
    /// Times.
    pub seconds: Seconds,
    /// Things the user should know.
    pub warnings: Vec<String>,
}

/// Facts about a solve that are no part of its course.
pub(crate) struct Setting {
    /// Names of the residual groups.
    pub groups: Vec<String>,
    /// Free scalars.
    pub unknowns: usize,
    /// Residual instances that count.
    pub residuals: usize,
    /// Free scalars whose column of J is zero.
    pub unconstrained: usize,
    pub method: Method,
    /// The name of the one that was taken.
    pub preconditioner: &'static str,
    /// Its hierarchies.
    pub grids: Vec<Grids>,
    /// Spaces that have none, where others have one.
    pub without_levels: Vec<String>,
    /// Name of the processor, or of what stands for it.
    pub device: String,
    /// `cpu` or `cuda`.
    pub backend: &'static str,
    pub repeatable: bool,
    pub why_cpu: Option<String>,
    pub lent: Lent,
    pub waits: u64,
    pub precision: Precision,
    pub threads: usize,
    pub memory: Memory,
}

/// Outcome of a solve.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// E at the start.
    pub energy_initial: f64,
    /// E at the end.
    pub energy_final: f64,
    /// Reason for its end.
    pub termination: Termination,
    /// One entry per step.
    pub iterations: Vec<Iteration>,
    /// See [`Report::second_descent`].
    pub second_descent: Option<usize>,
}

impl Report {
    /// The reason why the solve failed, in a sentence; `None` if it ended well or by a limit. The unknowns are the last good ones either way.
    pub fn failure(&self) -> Option<&'static str> {
        match self.termination {
            Termination::Diverged => {
                Some("the energy or its gradient is not finite after a Gauss-Newton step")
            }
            Termination::InvalidSteps => {
                Some("no step at any radius has a finite energy and a model that falls")
            }
            Termination::Failed => Some("the engine stopped in mid-solve"),
            _ => None,
        }
    }

    /// The report of a solve on the CPU.
    pub(crate) fn new(
        outcome: Outcome,
        setting: Setting,
        seconds: Seconds,
        mut warnings: Vec<String>,
    ) -> Report {
        if outcome.termination == Termination::NoFreeUnknown {
            warnings.push("every unknown is excluded: there is nothing to solve".into());
        }
        let mut iterations = outcome.iterations;
        for step in iterations.iter_mut().filter(|step| step.preconditioner.is_empty()) {
            step.preconditioner = setting.preconditioner;
        }
        Report {
            energy_initial: outcome.energy_initial,
            energy_final: outcome.energy_final,
            termination: outcome.termination,
            linear_iterations_total: iterations.iter().map(|i| i.linear_iterations).sum(),
            groups: setting.groups,
            iterations,
            second_descent: outcome.second_descent,
            unknowns: setting.unknowns,
            residuals: setting.residuals,
            held: None,
            unconstrained: setting.unconstrained,
            method: setting.method.name(),
            preconditioner: setting.preconditioner,
            grids: setting.grids,
            without_levels: setting.without_levels,
            kept: vec![],
            backend: setting.backend,
            repeatable: setting.repeatable,
            why_cpu: setting.why_cpu,
            device: setting.device,
            lent: setting.lent,
            waits: setting.waits,
            precision: setting.precision.name(),
            threads: setting.threads,
            memory: setting.memory,
            seconds,
            warnings,
        }
    }
}

/// Residuals that read no unknown but excluded ones.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Held {
    /// Their number.
    pub residuals: usize,
    /// Their E, to the rounding of E over all residuals; not finite where one of them is not.
    pub energy: f64,
}

impl Report {
    /// Steps whose linear solve was left at its limit, or ended by the model rule and gained little: an exact one may do better.
    fn starved(&self) -> usize {
        let starves = |step: &&Iteration| match step.linear_stop {
            LinearStop::Limit => true,
            LinearStop::Model => !step.accepted || step.gain_ratio < 0.25,
            _ => false,
        };
        self.iterations.iter().filter(starves).count()
    }

    fn advice(&self) -> String {
        format!(
            "{} steps were left unsolved, or gained little behind a PCG that was cut short: over graphs try --linear-solver cholesky, else \
             --forcing 1e-4 with more --linear-iterations",
            self.starved()
        )
    }

    /// A sentence where the solve did not end by convergence.
    fn remark(&self) -> Option<String> {
        use Termination::*;
        let by = |what: &str| Some(format!("ended {what}, not by convergence: E may fall further"));
        match self.termination {
            GradientTolerance | FunctionTolerance | StepTolerance | NoiseFloor | NoFreeUnknown => None,
            MaxIterations => {
                let remark = by(&format!("by the limit of {} steps", self.iterations.len()))?;
                let starved = 4 * self.starved() > self.iterations.len();
                Some(if starved { format!("{remark}\n{}", self.advice()) } else { remark })
            }
            MaxSeconds => by("by the limit of time"),
            MinRadius => by("by the least radius"),
            UserAbort | Interrupted => by("by request"),
            Diverged | InvalidSteps | Failed => {
                let why = self.failure()?;
                Some(format!("failed: {why}; the unknowns are those of the last good step"))
            }
        }
    }
}

const NOT_REPEATABLE: &str =
    "not repeatable: hyperedges add up in any order (`parts`: atomic), so that every solve rounds otherwise";

/// The table for people: one line a step, and what is true of the whole.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} unknowns, {} residuals; {} with {} on {} ({}), {}, {} threads\n\n{HEADER}",
            self.unknowns,
            self.residuals,
            self.method,
            self.preconditioner,
            self.backend,
            self.device,
            self.precision,
            self.threads,
        )?;
        writeln!(f, "{:>4}  {:>13.6e}", 0, self.energy_initial)?;
        self.iterations.iter().try_for_each(|step| writeln!(f, "{step}"))?;
        writeln!(
            f,
            "\n{}: E = {:.9e} after {} steps, {} PCG iterations; compile {:.2} s, plan {:.2} s, solve {:.2} s",
            self.termination.name(),
            self.energy_final,
            self.iterations.len(),
            self.linear_iterations_total,
            self.seconds.compile,
            self.seconds.plan,
            self.seconds.solve
        )?;
        if self.seconds.growth > 0.0 {
            writeln!(
                f,
                "{:.2} s of the solve went into compiling what `auto` went on with",
                self.seconds.growth
            )?;
        }
        if !self.repeatable {
            writeln!(f, "{NOT_REPEATABLE}")?;
        }
        if self.waits > 0 {
            writeln!(f, "the host waited {} times for the GPU", self.waits)?;
        }
        let end = self.iterations.iter().rfind(|step| step.energy == self.energy_final);
        if let Some(first) = self.second_descent {
            let whose = if end.is_some_and(|step| step.iteration >= first) {
                "its end counts"
            } else {
                "the first one ended lower and counts"
            };
            writeln!(f, "steps from {first} on are a second descent from the start: {whose}")?;
        }
        if let Some(last) = end.filter(|_| self.groups.len() > 1) {
            let of_groups = self.groups.iter().zip(&last.energy_by_group);
            let parts: Vec<String> = of_groups.map(|(name, e)| format!("{name} {e:.6e}")).collect();
            writeln!(f, "E by group: {}", parts.join(", "))?;
        }
        if let Some(Held { residuals, energy }) = self.held.filter(|held| held.residuals > 0) {
            writeln!(
                f,
                "beside E: {residuals} residuals read excluded unknowns alone; their sum is {energy:.6e}"
            )?;
        }
        if let Some(why) = &self.why_cpu {
            writeln!(f, "on the CPU: {why}")?;
        }
        if self.memory.buffers > 0 {
            writeln!(f, "{}", self.memory)?;
        }
        if self.unconstrained > 0 {
            writeln!(
                f,
                "{} unknowns are in no residual's reach and stayed where they were",
                self.unconstrained
            )?;
        }
        let limited = self.iterations.iter().filter(|step| step.linear_stop == LinearStop::Limit).count();
        if limited > 0 {
            writeln!(
                f,
                "PCG ended by its limit of iterations in {limited} of {} steps",
                self.iterations.len()
            )?;
        }
        self.remark().map_or(Ok(()), |remark| writeln!(f, "{remark}"))
    }
}

const HEADER: &str = "iter         energy     max|g|       |s|      gain     radius  ok    pcg  stop                  |r|/|b|  seconds";

/// A line for the whole, and a table with one for each level.
impl fmt::Display for Grids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Grids { space, bytes, operator_complexity, .. } = self;
        writeln!(f, "{space}: {bytes} bytes, operator complexity {operator_complexity:.2}")?;
        writeln!(f, "level  {:<20} {:>8} {:>12}", "extents", "entries", "bytes")?;
        let levels = self.levels.iter().zip(&self.stencils).zip(&self.level_bytes).enumerate();
        for (level, ((extents, entries), bytes)) in levels {
            let extents: Vec<String> = extents.iter().map(i32::to_string).collect();
            writeln!(f, "{level:>5}  {:<20} {entries:>8} {bytes:>12}", extents.join(" x "))?;
        }
        Ok(())
    }
}

/// A line of the table.
impl fmt::Display for Iteration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>4}  {:>13.6e}  {:>9.2e} {:>9.2e} {:>9.2e} {:>10.2e} {:>3} {:>6}  {:<19} {:>9.1e} {:>8.3}",
            self.iteration,
            self.energy,
            self.gradient_max_norm,
            self.step_norm,
            self.gain_ratio,
            self.radius,
            if self.accepted { "yes" } else { "no" },
            self.linear_iterations,
            self.linear_stop.name(),
            self.linear_residual,
            self.seconds
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let step = Iteration {
            iteration: 1,
            energy: 2.0,
            energy_by_group: vec![1.5, 0.5],
            gradient_max_norm: 0.25,
            step_norm: f64::NAN,
            gain_ratio: 0.9,
            radius: f64::INFINITY,
            accepted: true,
            linear_iterations: 12,
            linear_stop: LinearStop::PreconditionedNorm,
            linear_residual: 1e-3,
            preconditioner: "jacobi",
            eta: None,
            setup_seconds: 0.0,
            seconds: 0.5,
        };
        Report {
            energy_initial: 8.0,
            energy_final: 2.0,
            termination: Termination::FunctionTolerance,
            groups: vec!["fit".into(), "smooth".into()],
            iterations: vec![step],
            second_descent: None,
            unknowns: 3,
            residuals: 4,
            held: Some(Held { residuals: 2, energy: 0.5 }),
            unconstrained: 0,
            linear_iterations_total: 12,
            method: "lm",
            preconditioner: "jacobi",
            grids: vec![],
            without_levels: vec![],
            kept: vec![],
            backend: "cpu",
            repeatable: true,
            why_cpu: None,
            device: "some processor".to_string(),
            lent: Lent::default(),
            waits: 0,
            precision: "mixed",
            threads: 2,
            memory: Memory::default(),
            seconds: Seconds::default(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn steps_that_starve_are_told_of() {
        let mut report = report();
        report.termination = Termination::MaxIterations;
        let step = report.iterations[0].clone();
        let poor = Iteration { gain_ratio: 0.1, linear_stop: LinearStop::Model, ..step.clone() };
        report.iterations = vec![step.clone(), step.clone(), step, poor.clone()];
        assert!(!report.to_string().contains("cholesky"), "a quarter of the steps");
        report.iterations.push(Iteration { accepted: false, ..poor });
        assert!(report.to_string().contains("2 steps were left unsolved, or gained little"), "{report}");
        report.iterations.iter_mut().for_each(|i| i.linear_stop = LinearStop::Limit);
        assert!(report.to_string().contains("5 steps were left unsolved"), "{report}");
        report.iterations.iter_mut().for_each(|i| i.linear_stop = LinearStop::Tolerance);
        assert!(!report.to_string().contains("cholesky"));
    }

    #[test]
    fn json_has_the_agreed_keys_and_null_for_what_is_not_finite() {
        let json: serde_json::Value =
            serde_json::from_str(&serde_json::to_string(&report()).unwrap()).unwrap();
        for key in [
            "energy_initial",
            "energy_final",
            "termination",
            "groups",
            "iterations",
            "unknowns",
            "residuals",
            "unconstrained",
            "linear_iterations_total",
            "method",
            "preconditioner",
            "backend",
            "device",
            "precision",
            "threads",
        ] {
            assert!(!json[key].is_null(), "{key}");
        }
        assert_eq!(json["termination"], "function_tolerance");
        assert_eq!(json["groups"], serde_json::json!(["fit", "smooth"]));
        let text = report().to_string();
        assert!(text.contains("\nE by group: fit 1.500000e0, smooth 5.000000e-1\n"), "{text}");
        assert!(
            text.contains("\nbeside E: 2 residuals read excluded unknowns alone; their sum is 5.000000e-1\n")
        );
        assert_eq!(json["held"], serde_json::json!({ "residuals": 2, "energy": 0.5 }));
        for key in ["compile", "plan", "solve"] {
            assert!(json["seconds"][key].is_number(), "{key}");
        }
        let step = &json["iterations"][0];
        assert_eq!((&step["linear_stop"], &step["accepted"]), (&"preconditioned_norm".into(), &true.into()));
        assert!(step["radius"].is_null() && step["step_norm"].is_null());
        for key in [
            "iteration",
            "energy",
            "energy_by_group",
            "gradient_max_norm",
            "gain_ratio",
            "linear_iterations",
            "linear_residual",
            "preconditioner",
            "setup_seconds",
            "seconds",
        ] {
            assert!(!step[key].is_null(), "{key}");
        }
    }

    #[test]
    fn the_table_shows_start_steps_and_end() {
        let text = report().to_string();
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[2], HEADER);
        assert!(rows[3].contains("8.000000e0") && rows[4].contains("preconditioned_norm"), "{text}");
        assert!(rows[4].len() <= HEADER.len(), "columns line up\n{text}");
        assert!(text.contains("function_tolerance: E = 2.000000000e0 after 1 steps"), "{text}");
    }
}
