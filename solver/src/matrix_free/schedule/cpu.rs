//! Directives of nests for a CPU, and the numbers that follow from the machine.
//!
//! Strips run in parallel; vectors of as many elements as the target has lanes, of more in long sums, run along the fastest dim, with masks where
//! a row ends.

use crate::matrix_free::params::{Size, strip};
use crate::matrix_free::schedule::nest::{Kind, Nest, Pairs, Strip};
use rustc_hash::{FxHashMap, FxHashSet};
use sumsq_codegen::schedule::StageHandle;
use sumsq_codegen::{BinaryOp, Expr, ExprKind, Func, LoopLevel, Memory, Name, Schedule, Tail, Target};

/// Pixels below which cutting a strip in two is not worth a barrier.
const STRIP_PIXELS: usize = 16 * 1024;

/// Numbers of A in a strip of a coarser level: a pixel costs what there are of them.
const STRIP_NUMBERS: usize = 5 * STRIP_PIXELS;

/// Rows of level 1, where rows of level 0 are made on the way: two of these of every strip are made by its neighbour, too.
const STRIP_ROLLING: usize = 32;

/// The same of lists: what hyperedges meet at, and hyperedges, cost many times what a pixel does.
const STRIP_ENTRIES: usize = 512;

/// Blocks of rows that one thread takes at a time.
const BLOCKS: i32 = 16;

/// Entries of a vertex's rows that one thread takes at a time.
const ENTRIES: i32 = 1024;

/// Vectors that one pass over a long sum of products with constants computes: a constant is loaded once for all of them. With one vector every
/// product loads two operands, and PCG on one residual over 15 x 15 pixels takes 1.6 to 2.6 times as long.
const VECTORS: i32 = 2;

/// Products with constants in a sum that is long.
const LONG: usize = 48;

/// Height of a strip along the last dim, from sizes alone: 32 strips, fewer where a strip would be so small
/// that a barrier costs more than its work. Neighbouring strips of a ring recompute `2 reach` rows each.
pub fn strip_height(extents: &[usize], target: &Target) -> usize {
    strip_of(extents, STRIP_PIXELS, target)
}

/// The same of a coarser level that stores so many numbers of A for every element. `rolls`: it is made of level 0 row by row.
pub fn level_strip_height(extents: &[usize], numbers: usize, rolls: bool, target: &Target) -> usize {
    let strip = strip_of(extents, STRIP_NUMBERS.div_ceil(numbers.max(5)), target);
    let least = if rolls { STRIP_ROLLING } else { 1 };
    strip.max(extents.last().map_or(1, |&rows| least.min(rows)))
}

fn strip_of(extents: &[usize], pixels: usize, target: &Target) -> usize {
    let Some((&rows, inner)) = extents.split_last() else { return 1 };
    let row: usize = inner.iter().product::<usize>().max(1);
    if inner.is_empty() {
        // Whole vectors.
        let strip = rows.div_ceil(32).max(STRIP_ENTRIES).clamp(1, rows.max(1));
        return strip.next_multiple_of(target.lanes as usize);
    }
    rows.div_ceil(32).max(pixels.div_ceil(row)).clamp(1, rows.max(1))
}

/// A schedule in the making.
pub struct Scheduler {
    /// The directives so far.
    pub schedule: Schedule,
    lanes: i32,
    /// Lanes of a reduction's vectors.
    summed: i32,
    /// The loops of every nest that others may be computed in.
    loops: FxHashMap<Name, Loops>,
}

/// The loops of a nest that producers are computed at.
struct Loops {
    /// The innermost loop outside of the vector: where producers of single vectors are computed.
    vector: LoopLevel,
    /// Lanes of the vector.
    lanes: i32,
    /// Of a reduction, and of pairs: the loop over rows of a strip (equal to that over strips in one dim), and the parallel loop over strips.
    rows: Option<(LoopLevel, LoopLevel)>,
    /// Of pairs: the innermost loop outside of those over vectors.
    line: Option<LoopLevel>,
}

impl Scheduler {
    /// Nothing is scheduled yet. `long_sums`: reductions are over sums of many products with constants.
    pub fn new(target: &Target, long_sums: bool) -> Scheduler {
        let lanes = target.lanes;
        let summed = if long_sums { VECTORS * lanes } else { lanes };
        Scheduler { schedule: Schedule::new(), lanes, summed, loops: FxHashMap::default() }
    }

    /// Adds the directives of a nest; that of its reader must be there.
    pub fn add(&mut self, nest: &Nest) {
        match &nest.kind {
            Kind::Map(strip) => self.map(nest, *strip),
            Kind::Pairs(strip, pairs) => self.pairs(nest, *strip, *pairs),
            Kind::RowsIn(reader) => self.rows_in(nest, reader),
            Kind::PairsIn(reader, n) => self.pairs_in(nest, reader, *n),
            Kind::Rows => self.rows(nest),
            // No choice has it here.
            Kind::Scatter(_) => drop(self.schedule.func(&nest.func).compute_root()),
            Kind::Reduction(over, strip) => self.reduction(nest, over, *strip),
            Kind::StoredIn(reader) => self.stored(nest, reader),
            Kind::RegistersIn(reader) => self.inside(nest, reader, Memory::Register),
            Kind::ArrayIn(reader, dims) => self.array(nest, reader, *dims),
            Kind::RingIn(reader, ring) => self.ring(nest, reader, ring.reach, ring.stored),
            Kind::Inline => {
                self.schedule.func(&nest.func).inline();
            }
        }
    }

    fn map(&mut self, nest: &Nest, strip: Strip) {
        let vars = &nest.vars;
        let last = &vars[vars.len() - 1];
        let first = if vars.len() == 1 { "row" } else { &vars[0] };
        let lanes = self.lanes;
        let loops = |stage: StageHandle<'_>| {
            let stage = stage
                .split(last, "strip", "row", height(strip), Tail::Predicate)
                .split(first, "vec", "lane", lanes, Tail::Predicate)
                .parallel("strip")
                .vectorize_loop("lane");
            if let Some(live) = &nest.live {
                stage.skip_unless("vec", live.clone());
            }
        };
        let stage = self.schedule.func(&nest.func).compute_root().relaxed();
        loops(match nest.in_place_of {
            Some(id) => stage.in_place_of(&id.to_string()),
            None => stage,
        });
        for u in 0..nest.updates {
            loops(self.schedule.update(&nest.func, u));
        }
        let vector = LoopLevel::pure(&nest.func, "vec");
        self.loops.insert(nest.func.clone(), Loops { vector, lanes: self.lanes, rows: None, line: None });
    }

    fn pairs(&mut self, nest: &Nest, strip: Strip, pairs: Pairs) {
        let Some((pair, vars)) = nest.vars.split_last() else { return };
        let last = &vars[vars.len() - 1];
        let first = if vars.len() == 1 { "row" } else { &vars[0] };
        let middle: Vec<&str> =
            vars.iter().skip(1).take(vars.len().saturating_sub(2)).map(|v| &**v).collect();
        let rows: &[&str] = if vars.len() == 1 { &[] } else { &["row"] };
        let order = match pairs {
            Pairs::First => [&["lane", "vec"], &middle[..], rows, &[pair, "strip"]].concat(),
            Pairs::ByRows => [&["lane", "vec"], &middle[..], &[pair], rows, &["strip"]].concat(),
            Pairs::WrittenOut(_) => [&["lane", pair, "vec"], &middle[..], rows, &["strip"]].concat(),
        };
        let line = order.iter().skip_while(|v| **v != "vec").nth(1);
        let level = |var: &str| LoopLevel::pure(&nest.func, var);
        let (line, rows) = (line.map(|v| level(v)), rows.first().map(|row| (level(row), level("strip"))));
        let stage = self.schedule.func(&nest.func).compute_root().relaxed();
        let stage = stage
            .split(last, "strip", "row", height(strip), Tail::Predicate)
            .split(first, "vec", "lane", self.lanes, Tail::Predicate)
            .reorder(&order)
            .parallel("strip")
            .vectorize_loop("lane");
        let stage = match pairs {
            Pairs::WrittenOut(n) => stage.bound(pair, 0, n).unroll(pair),
            _ => stage,
        };
        if let Some(live) = &nest.live {
            stage.skip_unless("vec", live.clone());
        }
        let vector = level("vec");
        self.loops.insert(nest.func.clone(), Loops { vector, lanes: self.lanes, rows, line });
    }

    fn rows_in(&mut self, nest: &Nest, reader: &Name) {
        let line = self.loops.get(reader).and_then(|loops| loops.line.clone());
        let (_, strip) = self.rows_of(reader);
        let stage = self.schedule.func(&nest.func).compute_at(line.expect("the reader is of pairs"));
        // A row takes hardly longer than to allocate it.
        let stage = stage.hoist_storage(strip).vectorize(&nest.vars[0], self.lanes, Tail::Predicate);
        if let Some(live) = &nest.live {
            stage.skip_unless(&format!("{}o", nest.vars[0]), live.clone());
        }
    }

    fn pairs_in(&mut self, nest: &Nest, reader: &Name, n: i32) {
        let (row, strip) = self.rows_of(reader);
        let Some((pair, [x, others @ ..])) = nest.vars.split_last() else { return };
        let order: Vec<&str> = ["lane", pair, "vec"].into_iter().chain(others.iter().map(|v| &**v)).collect();
        let stage = self.schedule.func(&nest.func).relaxed().store_at(strip).compute_at(row);
        let stage = stage.split(x, "vec", "lane", self.lanes, Tail::Predicate).reorder(&order);
        let stage = stage.vectorize_loop("lane").bound(pair, 0, n).unroll(pair);
        if let Some(live) = &nest.live {
            stage.skip_unless("vec", live.clone());
        }
        let vector = LoopLevel::pure(&nest.func, "vec");
        let loops = Loops { vector, lanes: self.lanes, rows: None, line: None };
        self.loops.insert(nest.func.clone(), loops);
    }

    fn rows(&mut self, nest: &Nest) {
        let (name, s) = (&nest.func, &mut self.schedule);
        s.func(name).compute_root().relaxed().split("block", "strip", "b", BLOCKS, Tail::Predicate);
        s.func(name).parallel("strip").vectorize("lane", self.lanes, Tail::Predicate);
        s.func(name).reorder(&["lanei", "laneo", "b", "strip"]);
        let vector = LoopLevel::pure(name, "laneo");
        self.loops.insert(name.clone(), Loops { vector, lanes: self.lanes, rows: None, line: None });
    }

    fn reduction(&mut self, nest: &Nest, over: &[Name], strip: Strip) {
        let (name, s) = (&*nest.func, &mut self.schedule);
        let (strips, lanes) = (format!("{name}_s"), format!("{name}_sl"));
        let vars: Vec<&str> = over.iter().map(|v| &**v).collect();
        let last = vars[vars.len() - 1];
        // In one dimension the vector loop is split from inside the strip.
        let first = if vars.len() == 1 { "row" } else { vars[0] };
        s.func(name).compute_root().relaxed();
        s.update(name, 0)
            .split(last, "strip", "row", height(strip), Tail::Predicate)
            .split(first, "vec", "lane", self.summed, Tail::Predicate)
            .rfactor(&[("strip", "s")], &strips);
        s.func(&strips).compute_root();
        s.update(&strips, 0).rfactor(&[("lane", "l")], &lanes).parallel("s").vectorize_loop("lane");
        let strip = LoopLevel::update(&strips, 0, "s");
        s.func(&lanes).compute_at(strip.clone()).store_in(Memory::Register).vectorize_loop("l");
        let mut order = vec!["l", "vec"];
        order.extend(vars[..vars.len() - 1].iter().skip(1));
        if vars.len() > 1 {
            order.push("row");
        }
        order.push("s");
        let stage = s.update(&lanes, 0).reorder(&order).vectorize_loop("l");
        if let Some(live) = &nest.live {
            stage.skip_unless("vec", live.clone());
        }
        let row = if vars.len() == 1 { strip.clone() } else { LoopLevel::update(&lanes, 0, "row") };
        let vector = LoopLevel::update(&lanes, 0, "vec");
        self.loops.insert(
            nest.func.clone(),
            Loops { vector, lanes: self.summed, rows: Some((row, strip)), line: None },
        );
    }

    /// The loop over vectors of a nest, and their lanes.
    fn vector_of(&self, reader: &Name) -> (LoopLevel, i32) {
        let loops = self.loops.get(reader).expect("the reader has a nest");
        (loops.vector.clone(), loops.lanes)
    }

    fn stored(&mut self, nest: &Nest, reader: &Name) {
        let ((vector, lanes), x) = (self.vector_of(reader), &nest.vars[0]);
        let stage = self.schedule.func(&nest.func).relaxed().compute_at(vector);
        let stage = stage.vectorize(x, lanes, Tail::Predicate).sink();
        if let Some(id) = nest.in_place_of {
            stage.in_place_of(&id.to_string());
        }
    }

    fn inside(&mut self, nest: &Nest, reader: &Name, memory: Memory) {
        let ((vector, lanes), x) = (self.vector_of(reader), &nest.vars[0]);
        let stage = self.schedule.func(&nest.func).compute_at(vector).store_in(memory);
        stage.vectorize(x, lanes, Tail::Predicate);
        for u in 0..nest.updates {
            self.schedule.update(&nest.func, u).vectorize(x, lanes, Tail::Predicate);
        }
    }

    fn array(&mut self, nest: &Nest, reader: &Name, dims: usize) {
        self.inside(nest, reader, Memory::Stack);
        let ([x, others @ ..], entries) = nest.vars.split_at(dims) else { return };
        let (lane, vectors) = (format!("{x}i"), format!("{x}o"));
        fn named(vars: &[Name]) -> Vec<&str> {
            vars.iter().map(|v| &**v).collect()
        }
        let order = [&[&*lane][..], &named(entries), &[&*vectors], &named(others)].concat();
        let stage = self.schedule.func(&nest.func).reorder(&order);
        entries.iter().fold(stage, |stage, entry| stage.unroll(entry));
    }

    /// The loops over rows and strips of a nest.
    fn rows_of(&self, reader: &Name) -> (LoopLevel, LoopLevel) {
        let rows = self.loops.get(reader).and_then(|loops| loops.rows.clone());
        rows.expect("the reader has rows")
    }

    fn ring(&mut self, nest: &Nest, reader: &Name, reach: Option<u32>, stored: bool) {
        let (row, strip) = self.rows_of(reader);
        let x = &nest.vars[0];
        let mut stage = self.schedule.func(&nest.func).relaxed().store_at(strip).compute_at(row);
        if let Some(reach) = reach {
            let last = &nest.vars[nest.vars.len() - 1];
            stage = stage.fold_storage(last, (2 * reach + 1).next_power_of_two());
        }
        // Whole vectors of memory, whose halo has no room for more.
        let lanes = if stored { self.lanes } else { self.summed };
        let stage = stage.align_bounds(x, self.lanes as u32).vectorize(x, lanes, Tail::Predicate);
        let stage = match stored {
            true => stage.sink().non_temporal(Size::Streaming.expr()),
            false => stage,
        };
        if let Some(live) = &nest.live {
            stage.skip_unless(&format!("{x}o"), live.clone());
        }
    }
}

/// Is this a long sum of products with constants, and of little else? Then it keeps few values beside the sum.
pub fn is_long_sum(f: &Func) -> bool {
    let mut left: Vec<&Expr> = f.values.iter().collect();
    let (mut seen, mut products, mut others) = (FxHashSet::default(), 0, 0);
    let is_constant = |e: &Expr| matches!(e.kind(), ExprKind::Float(_));
    while let Some(e) = left.pop() {
        if !seen.insert(e.id()) {
            continue;
        }
        match e.operation() {
            // Coordinates are no floats.
            ExprKind::Call { .. } => continue,
            ExprKind::Binary(BinaryOp::Mul, a, b) | ExprKind::Fma(a, b, _)
                if is_constant(a) || is_constant(b) =>
            {
                products += 1;
            }
            ExprKind::Binary(BinaryOp::Add | BinaryOp::Sub, ..) | ExprKind::Float(_) => (),
            // Guards are the same for all lanes inside.
            ExprKind::Select(_, a, b) => {
                left.extend([a, b]);
                continue;
            }
            _ => others += 1,
        }
        e.for_each_child(|child| left.push(child));
    }
    products >= LONG && others <= products / 8
}

/// The share of a domain that one thread takes at a time.
fn height(of: Strip) -> Expr {
    match of {
        Strip::Of(domain) => strip(domain),
        Strip::Level(space, level) => Size::LevelStrip(space, level).expr(),
        Strip::Blocks => Expr::from(BLOCKS),
        Strip::Entries => Expr::from(ENTRIES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sumsq_codegen::{ScalarType, Var};

    #[test]
    fn long_sums_are_of_products_with_constants() {
        let x = Var::new("x");
        let p = |i: i32| Expr::call("p", ScalarType::F32, vec![Expr::from(&x) + i], 0);
        let taps = |n: i32, factor: &dyn Fn(i32) -> Expr| {
            (0..n).map(|i| factor(i) * p(i)).reduce(|a, b| a + b).unwrap()
        };
        let is_long = |e: Expr| is_long_sum(&Func::new("f", &[x], vec![e]));
        let constant = |i: i32| Expr::float(ScalarType::F32, 0.5 + f64::from(i));
        assert!(is_long(taps(60, &constant)));
        assert!(is_long(taps(60, &constant) - p(3) * p(4)), "one product of values among sixty");
        assert!(!is_long(taps(40, &constant)), "too few");
        assert!(!is_long(taps(60, &|i| p(-i))), "nothing to load once");
        assert!(!is_long((0..60).map(p).reduce(|a, b| a + b).unwrap()), "no products");
    }

    #[test]
    fn strips_come_from_sizes() {
        let target = Target::host().with_lanes(16);
        let strip = |extents: &[usize]| strip_height(extents, &target);
        assert_eq!(strip(&[4096, 4096]), 128);
        assert_eq!(strip(&[64, 64]), 64);
        assert_eq!(strip(&[10]), 16);
        assert_eq!(strip(&[10_000]), 512);
        assert_eq!(strip(&[1_000_000]), 31_264);
        assert_eq!(strip(&[7, 0]), 1);
        let level = |n: usize, numbers, rolls| level_strip_height(&[n, n], numbers, rolls, &target);
        assert_eq!([level(256, 5, false), level(256, 35, false), level(256, 35, true)], [64, 10, 32]);
        assert_eq!([level(64, 5, false), level(64, 35, false), level(16, 35, true)], [64, 37, 16]);
        assert_eq!(level_strip_height(&[40], 6, false, &target), 48);
    }
}
