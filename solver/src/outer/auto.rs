//! The course of `auto` in a solve: which preconditioner a linear system begins with, after how many iterations PCG goes on with another, and
//! which one. Everything is counted in iterations of the cheap kind, by what an energy's residuals and matrices cost on paper: no clock has a
//! say, so that a solve takes the same steps on any machine.
//!
//! A solve begins with the cheap kind. Nobody knows how many iterations a linear system needs before they are done. Once the cheap kind has cost
//! as much in all systems since the last trial as levels would have, PCG goes on with levels: at the worst both together cost twice what the
//! better one alone would have (the rule of who rents skis until buying them would have cost as much). It is the sum over systems that counts:
//! a hard one among many easy ones is no reason for levels. Systems that the cheap kind has left unsolved at the limit of iterations are, once
//! their iterations alone have cost as much as one system with levels: nobody knows what their solutions would have cost. The code of such kinds
//! is loaded when it is first needed: until all systems have cost as much as that, levels wait, too.
//!
//! Where PCG is seen to have a long way before it ([`crate::outer::course`]), levels do not wait for any of that: what is left of one system would pay for them.
//!
//! Behind a trial it is known where PCG was led, and so how far the cheap kind was from there, how fast it came nearer, and when its own rule
//! would have ended it. Levels pay if they cost less.

use crate::outer::course::LONGEST;
use crate::problem::options::Preconditioner;

/// A kind with levels, in iterations of the cheap one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Candidate {
    /// The kind.
    pub kind: Preconditioner,
    /// Its set-up for a linear system.
    pub setup: f64,
    /// An iteration.
    pub iteration: f64,
    /// A whole linear system: a guess, then what the last one has cost.
    system: f64,
    /// Loading its code, 0 once that is there.
    compilation: f64,
}

impl Candidate {
    /// One that was not tried yet.
    pub fn new(kind: Preconditioner, setup: f64, iteration: f64, compilation: f64) -> Candidate {
        let typical = if kind == Preconditioner::Multigrid { TYPICAL_LOOSE } else { TYPICAL };
        Candidate { kind, setup, iteration, system: setup + typical * iteration, compilation }
    }
}

/// The distance of PCG from the solution of a linear system, at points of its course: squares of a norm of the error, in the units of the decrease
/// of the model or of |r|^2.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Errors {
    /// At d = 0.
    pub start: f64,
    /// At the point from which on the rate of the cheap kind counts: the first decades are its easiest ones.
    pub measured: f64,
    /// At the first iteration with levels.
    pub switched: f64,
    /// Behind the last one.
    pub end: f64,
}

/// A linear system in which PCG has gone on with levels.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Trial {
    /// Iterations of the cheap kind up to where its rate is measured.
    pub measured: usize,
    /// All of them.
    pub cheap: usize,
    /// Iterations with levels.
    pub levels: usize,
    /// Errors there.
    pub errors: Errors,
    /// True if they came to their end before their limit.
    pub ended: bool,
    /// True if levels took over before [`Auto::patience`]: as a long way was seen.
    pub early: bool,
    /// zeta, where the cheap kind goes by the model rule: it ends at k (Q_k - Q_{k-1}) <= zeta Q_k.
    pub zeta: Option<f64>,
}

impl Trial {
    /// Iterations that the cheap kind would have taken, if there were no limit: to the end by its rule; or where that compares errors, or levels
    /// have not come to their end, to the error that these have left.
    fn cheap_alone(&self) -> f64 {
        let Errors { start, measured, switched, end } = self.errors;
        let rate = (measured / switched).ln() / (self.cheap - self.measured) as f64;
        let longest = LONGEST * self.cheap;
        if rate.is_nan() || rate <= 0.0 {
            return longest as f64;
        }
        let ends = |k: usize| {
            let error = switched * (-rate * (k - self.cheap) as f64).exp();
            match self.zeta.filter(|_| self.ended) {
                Some(zeta) => k as f64 * rate * error <= zeta * start,
                None => error <= end,
            }
        };
        (self.cheap..longest).find(|&k| ends(k)).unwrap_or(longest) as f64
    }

    /// Iterations with levels if they had begun; infinite where they lead nowhere.
    fn levels_alone(&self) -> f64 {
        let Errors { start, switched, end, .. } = self.errors;
        let end = end.max(f64::MIN_POSITIVE);
        let iterations = self.levels as f64 * (start / end).ln() / (switched / end).ln();
        if end < switched && iterations >= 0.0 { iterations } else { f64::INFINITY }
    }
}

/// A linear system as it was solved.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Solved {
    /// With so many iterations of the cheap kind.
    Cheap(usize),
    /// Not at all: the cheap kind came to the limit of so many iterations.
    Unsolved(usize),
    /// With that for a while, then with levels.
    Both(Trial),
    /// With so many iterations with levels.
    Levels(usize),
}

/// The kinds of a solve, as far as it has come.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Auto {
    /// Kinds with levels that can be had, the next one to be tried first.
    candidates: Vec<Candidate>,
    /// Iterations of the cheap kind in all systems.
    total: usize,
    /// The same since the last system with levels.
    since: usize,
    /// Of these, those in systems that were left unsolved.
    unsolved: usize,
    /// The number of these systems.
    systems: usize,
    /// Iterations of the cheap kind in a system, where levels pay: then the next step begins with the first candidate.
    replaced: Option<f64>,
    /// False where the next system begins with the cheap kind all the same.
    ahead: bool,
    /// Systems in turn that have begun with levels, and as many as there may be before one begins with the cheap kind again.
    in_turn: usize,
    turns: usize,
    /// Every system is solved with levels, whatever they cost.
    insists: bool,
}

/// Iterations with levels that a linear system takes until something is known of them.
const TYPICAL: f64 = 16.0;

/// The same with multigrid, whose eta is loose ([`Range`](crate::outer::forcing::Range)).
const TYPICAL_LOOSE: f64 = 4.0;

/// The least number of iterations behind which levels take over.
const SWITCH: usize = 2;

/// Iterations with aggregation from which on the next step begins so. With multigrid few are no sign: its eta is loose.
const WORTH: usize = 3;

/// Systems in turn that begin with levels, behind which one begins with the cheap kind: the cheap kind may serve by now. Twice as many every time
/// that levels have paid again.
const TURNS: usize = 4;

/// Systems that the cheap kind has solved in turn, behind which a long one is an exception.
const MANY: usize = 4;

/// Share that levels cost at most of the iterations that are seen to follow: both are guesses, that of levels a low one.
const SEEN: f64 = 0.5;

/// Share that levels cost at most of what they take the place of, as the rate of the cheap kind tells it.
const GAIN: f64 = 0.8;

impl Auto {
    /// As a solve begins.
    pub fn new(candidates: Vec<Candidate>) -> Auto {
        let mut auto = Auto { candidates, ..Auto::default() };
        auto.choose();
        auto
    }

    /// The same where the code is there already.
    #[must_use]
    pub fn with_free_compilation(mut self) -> Auto {
        self.candidates.iter_mut().for_each(|c| c.compilation = 0.0);
        self
    }

    /// From now on every system is solved with levels, whatever they cost; they take over from the cheap kind at once. Returns false where there
    /// are none.
    pub fn insist(&mut self) -> bool {
        self.insists = !self.candidates.is_empty();
        self.insists
    }

    /// The kind that the next step begins with; `None`: the cheap one.
    pub fn first(&self) -> Option<Preconditioner> {
        if self.ahead || self.insists { self.next() } else { None }
    }

    /// The kind to go on with behind [`Auto::patience`].
    pub fn next(&self) -> Option<Preconditioner> {
        self.candidates.first().map(|c| c.kind)
    }

    /// Iterations of the cheap kind in a linear system behind which PCG goes on with another, under this limit; `None` if it never does.
    pub fn patience(&self, limit: usize) -> Option<usize> {
        let of = self.candidates.first()?;
        if self.insists {
            return (limit > SWITCH).then_some(SWITCH);
        }
        let uncompiled = of.compilation - self.total as f64;
        let in_all = (self.systems + 1) as f64 * of.system - self.since as f64;
        let in_one = if self.unsolved > 0 { of.system - self.unsolved as f64 } else { f64::INFINITY };
        // A system that has come near the limit is about to be left unsolved, whatever the set-up costs.
        let setup = of.setup.min((limit / 3 * 2) as f64);
        let patience = setup.max(uncompiled).max(in_all.min(in_one)).max(SWITCH as f64).ceil() as usize;
        (patience < limit).then_some(patience)
    }

    /// Tells whether levels take over from the cheap kind behind so many iterations of a linear system, with so many before it that are likely to follow: these
    /// alone would cost twice what levels would. Never before the cheap kind has cost as much as a set-up.
    pub fn pays_at_once(&self, cheap: usize, left: f64) -> bool {
        let Some(of) = self.candidates.first() else { return false };
        let uncompiled = (of.compilation - (self.total + cheap) as f64).max(0.0);
        cheap as f64 >= of.setup && of.system + uncompiled <= SEEN * left
    }

    /// The limit of iterations for what follows so many of the cheap kind, `limit` at most: they cost no more than what that limit leaves to the
    /// cheap kind, or if that is more, in a trial than all of it so far, else than what they take the place of.
    pub fn limit(&self, cheap: usize, limit: usize) -> usize {
        let Some(of) = self.candidates.first().filter(|_| !self.insists) else { return limit };
        let others = match self.replaced {
            Some(replaced) if cheap == 0 => replaced,
            _ => (self.total + cheap) as f64,
        };
        let left = limit.saturating_sub(cheap) as f64;
        let iterations = (left.max(others - of.setup) / of.iteration).ceil();
        cheap + (iterations as usize).min(limit)
    }

    /// The next kind cannot be had.
    pub fn give_up(&mut self) {
        self.candidates.drain(..1.min(self.candidates.len()));
        (self.replaced, self.ahead) = (None, false);
    }

    /// A linear system was solved.
    pub fn solved(&mut self, of: Solved) {
        let (with_levels, system) = match (of, self.candidates.first()) {
            (Solved::Cheap(iterations) | Solved::Unsolved(iterations), _)
            | (Solved::Both(Trial { cheap: iterations, .. }), None) => {
                (self.total, self.since) = (self.total + iterations, self.since + iterations);
                self.unsolved += if let Solved::Unsolved(_) = of { iterations } else { 0 };
                self.systems += 1;
                self.in_turn = 0;
                return;
            }
            (Solved::Levels(_), None) => return,
            (Solved::Both(trial), Some(with)) => {
                self.total += trial.cheap;
                self.turns = if self.in_turn > 0 { 2 * self.turns } else { TURNS };
                self.in_turn = 0;
                self.replaced = Some(GAIN * trial.cheap_alone());
                (trial.levels, with.setup + with.iteration * trial.levels_alone())
            }
            (Solved::Levels(iterations), Some(with)) => {
                self.in_turn += 1;
                (iterations, with.setup + with.iteration * iterations as f64)
            }
        };
        // One long system behind many short ones says nothing of the next.
        let is_alone = matches!(of, Solved::Both(Trial { early: true, .. })) && self.systems >= MANY;
        (self.since, self.unsolved, self.systems) = (0, 0, 0);
        self.candidates[0].system = system;
        self.candidates[0].compilation = 0.0;
        self.replaced = self.replaced.filter(|&replaced| system <= replaced);
        let is_easy = with_levels <= WORTH && self.candidates[0].kind != Preconditioner::Multigrid;
        self.ahead = self.replaced.is_some() && !is_easy && !is_alone && self.in_turn < self.turns;
        if self.replaced.is_none() && !self.insists {
            self.choose();
        }
    }

    /// Puts the candidate first with which a system costs least, of equals the one before.
    fn choose(&mut self) {
        self.candidates.sort_by(|a, b| a.system.total_cmp(&b.system));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MULTIGRID: Option<Preconditioner> = Some(Preconditioner::Multigrid);
    const AGGREGATION: Option<Preconditioner> = Some(Preconditioner::Aggregation);

    fn auto(compilation: f64) -> Auto {
        Auto::new(vec![
            Candidate::new(Preconditioner::Aggregation, 60.0, 3.0, compilation),
            Candidate::new(Preconditioner::Multigrid, 15.0, 2.5, compilation),
        ])
    }

    /// A trial behind so many iterations whose error halves every tenth; levels take `levels` to 1e-6 of what is there.
    fn trial(cheap: usize, levels: usize) -> Trial {
        let error = |k: usize| 0.5f64.powf(k as f64 / 10.0);
        let measured = cheap / 3 * 2;
        let errors = Errors {
            start: 1.0,
            measured: error(measured),
            switched: error(cheap),
            end: 1e-6 * error(cheap),
        };
        Trial { measured, cheap, levels, errors, ended: true, early: false, zeta: None }
    }

    #[test]
    fn the_rate_tells_how_long_the_cheap_kind_would_have_taken() {
        let of = trial(60, 12);
        // Until the error is what it is behind levels: 2^-(k/10) = 1e-6 2^-6.
        assert_eq!(of.cheap_alone(), 260.0);
        // Until k times the growth of Q, which is rate times error, is a hundredth of Q.
        let rate = 2f64.ln() / 10.0;
        let by_model = Trial { zeta: Some(0.01), ..of }.cheap_alone();
        let holds = |k: f64| k * rate * 0.5f64.powf(k / 10.0) <= 0.01;
        assert!(holds(by_model) && !holds(by_model - 1.0), "{by_model}");
        // Levels that have not come to their end are compared by errors.
        assert_eq!(Trial { zeta: Some(0.01), ended: false, ..of }.cheap_alone(), 260.0);
        // Nobody looks further than that.
        let far = Errors { end: 1e-200, ..of.errors };
        assert_eq!(Trial { errors: far, ..of }.cheap_alone(), 960.0);
        // Levels from the start on gain the decades of the cheap iterations, too.
        let decades = 6.0 + 6.0 * 2f64.log10();
        assert!((of.levels_alone() - 12.0 * decades / 6.0).abs() < 1e-9);
        // Nothing is known of what does not fall, or is no number.
        for strange in [f64::NAN, 0.0, 2.0] {
            let errors = Errors { measured: strange, switched: 1.0, end: strange, ..of.errors };
            let of = Trial { errors, ..of };
            assert!(of.cheap_alone() <= 960.0 && of.levels_alone() >= 0.0);
        }
    }

    #[test]
    fn levels_follow_where_the_cheap_kind_has_cost_as_much_in_all_systems() {
        let mut auto = auto(100.0);
        // Compilation counts until its worth of iterations is done.
        assert_eq!((auto.first(), auto.next(), auto.patience(500)), (None, MULTIGRID, Some(100)));
        auto.solved(Solved::Cheap(30));
        // Two systems with levels cost 2 (15 + 4 * 2.5).
        assert_eq!(auto.patience(500), Some(70));
        auto.solved(Solved::Cheap(70));
        assert_eq!(auto.patience(500), Some(15));
        auto.solved(Solved::Cheap(10));
        assert_eq!(auto.patience(500), Some(15));
        auto.solved(Solved::Both(trial(110, 8)));
        // Behind four steps the cheap kind is heard again, for no longer than one with levels costs.
        for _ in 0..4 {
            assert_eq!(auto.first(), MULTIGRID);
            auto.solved(Solved::Levels(3));
        }
        assert_eq!((auto.first(), auto.next(), auto.patience(500)), (None, MULTIGRID, Some(23)));
        // What a limit of 500 leaves.
        assert_eq!(auto.limit(15, 500), 15 + 194);
    }

    /// Systems left unsolved at the limit count by themselves: easy systems before it do not put a trial off.
    #[test]
    fn unsolved_systems_are_a_reason_for_levels() {
        let large = || Candidate::new(Preconditioner::Aggregation, 590.0, 20.0, 0.0);
        let mut auto = Auto::new(vec![large()]);
        auto.solved(Solved::Cheap(50));
        auto.solved(Solved::Unsolved(500));
        // A system with levels costs 590 + 16 * 20.
        assert_eq!(auto.patience(500), Some(410));
        auto.solved(Solved::Unsolved(500));
        assert_eq!(auto.patience(500), Some(332));
        // The trial may cost what all iterations so far have: 50 + 1000 + 332 - 590 is left for 20 each.
        assert_eq!(auto.limit(332, 500), 332 + 40);
        // The error halves every tenth iteration: 107 iterations with levels from the start on would cost more than the 532 in place of which they are.
        let of = trial(332, 40);
        auto.solved(Solved::Both(of));
        assert_eq!(auto.first(), None);
        // Here 44 take the place of 3998, of which 0.8 are left for 20 each.
        let errors = Errors { end: of.errors.switched * 0.5f64.powf(366.55), ..of.errors };
        let mut auto = Auto::new(vec![large()]);
        auto.solved(Solved::Both(Trial { errors, ..of }));
        assert_eq!(auto.first(), AGGREGATION);
        assert_eq!(auto.limit(0, 500), 131);
        // One that comes to its limit does not pay.
        auto.solved(Solved::Levels(131));
        assert_eq!(auto.first(), None);
    }

    /// Levels take over at once from a cheap kind that is seen to have a long way before it.
    #[test]
    fn a_long_way_is_a_reason_for_levels() {
        let auto = auto(100.0);
        // 25 for a system and 80 until the code is there: half of what is saved.
        assert!(!auto.pays_at_once(20, 209.0) && auto.pays_at_once(20, 210.0));
        assert!(!auto.pays_at_once(14, 1e9), "a set-up costs 15");
        assert!(auto.clone().with_free_compilation().pays_at_once(20, 50.0));
        assert!(!Auto::default().pays_at_once(20, 1e9));
    }

    /// A long system behind many short ones is followed by one that begins with the cheap kind, another one by levels.
    #[test]
    fn a_long_system_among_short_ones_is_an_exception() {
        let early = || Solved::Both(Trial { early: true, ..trial(60, 10) });
        let mut of = auto(0.0);
        of.solved(Solved::Cheap(9));
        let mut others = of.clone();
        of.solved(early());
        assert_eq!(of.first(), MULTIGRID);
        (0..3).for_each(|_| others.solved(Solved::Cheap(9)));
        others.solved(early());
        assert_eq!((others.first(), others.next()), (None, MULTIGRID));
        others.solved(early());
        assert_eq!(others.first(), MULTIGRID);
    }

    /// Levels that go on to pay are left for longer and longer; the cheap kind stays where it serves.
    #[test]
    fn the_cheap_kind_is_heard_again() {
        let mut auto = auto(0.0);
        auto.solved(Solved::Both(trial(60, 10)));
        for turns in [4, 8, 16] {
            for _ in 0..turns {
                assert_eq!(auto.first(), MULTIGRID);
                auto.solved(Solved::Levels(2));
            }
            assert_eq!(auto.first(), None);
            auto.solved(Solved::Both(trial(60, 10)));
        }
        (0..32).for_each(|_| auto.solved(Solved::Levels(2)));
        auto.solved(Solved::Cheap(5));
        assert_eq!(auto.first(), None);
    }

    /// Few iterations with aggregation, whose eta is tight, say that the next step is easy, too.
    #[test]
    fn easy_systems_are_left_to_the_cheap_kind() {
        let mut auto = Auto::new(vec![Candidate::new(Preconditioner::Aggregation, 60.0, 3.0, 0.0)]);
        auto.solved(Solved::Both(trial(108, 10)));
        auto.solved(Solved::Levels(4));
        assert_eq!(auto.first(), AGGREGATION);
        auto.solved(Solved::Levels(3));
        assert_eq!(auto.first(), None);
    }

    #[test]
    fn what_does_not_pay_waits_until_it_would_have() {
        let mut auto = auto(0.0);
        // They would have cost 438 from the start on, in place of 260.
        auto.solved(Solved::Both(trial(60, 130)));
        assert_eq!((auto.first(), auto.next()), (None, AGGREGATION));
        // The other one costs 60 + 16 * 3.
        assert_eq!(auto.patience(500), Some(108));
        auto.solved(Solved::Both(trial(108, 12)));
        assert_eq!(auto.first(), AGGREGATION);
        // It pays no longer. The next trial waits for systems that cost as much as this one.
        auto.solved(Solved::Levels(70));
        assert_eq!((auto.first(), auto.next(), auto.patience(500)), (None, AGGREGATION, Some(270)));
        auto.solved(Solved::Cheap(200));
        assert_eq!(auto.patience(500), Some(340));
        auto.solved(Solved::Cheap(320));
        assert_eq!(auto.patience(500), Some(290));
    }

    #[test]
    fn nothing_is_tried_where_nothing_can_be_had() {
        let mut none = Auto::default();
        assert_eq!((none.first(), none.patience(500)), (None, None));
        none.solved(Solved::Cheap(500));
        assert_eq!(none.patience(500), None);
        let mut auto = auto(0.0);
        auto.solved(Solved::Both(trial(60, 10)));
        auto.give_up();
        assert_eq!((auto.first(), auto.next()), (None, AGGREGATION));
        auto.give_up();
        assert_eq!(auto.patience(500), None);
    }
}
