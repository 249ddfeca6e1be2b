//! Directives of nests for a GPU, and the numbers that follow from the machine.
//!
//! A thread has one element at a time. Blocks are tiles of 32 x 8 elements, or 256 of a list; a third dim is the grid's. In reductions a thread
//! adds up four elements, its block's threads are added up by the lanes of a warp, and one more block adds up blocks: each in an order that
//! sizes alone decide. Where vectors are skipped on a CPU, so are warps here: their threads read the same byte of the mask. Tiles,
//! whose rows begin anywhere, are computed whole.

use crate::matrix_free::schedule::nest::{Kind, Nest};
use rustc_hash::FxHashMap;
use sumsq_codegen::schedule::StageHandle;
use sumsq_codegen::{LoopLevel, Memory, Name, Schedule, Tail};

/// Threads of a block along the fastest dim of a grid: a warp.
const WIDE: i32 = 32;
/// Threads of a block along the second dim.
const HIGH: i32 = 8;
/// Threads of a block over a list.
const LONG: i32 = 256;
/// Elements that a thread of a reduction adds up.
const EACH: i32 = 4;

/// A schedule in the making.
#[derive(Default)]
pub struct Scheduler {
    /// The directives so far.
    pub schedule: Schedule,
    /// The innermost loop of every nest, where others may be computed for one element.
    innermost: FxHashMap<Name, LoopLevel>,
    /// The loop over blocks of every reduction, where others may be computed for one block.
    blocks: FxHashMap<Name, LoopLevel>,
}

impl Scheduler {
    /// Adds the directives of a nest; that of its reader must be there.
    pub fn add(&mut self, nest: &Nest) {
        match &nest.kind {
            Kind::Map(_) | Kind::Rows | Kind::Pairs(..) | Kind::RowsIn(_) => self.map(nest),
            Kind::RingIn(reader, ring) => self.tile(nest, reader, ring.stored),
            Kind::Scatter(over) => self.scatter(nest, over),
            Kind::Reduction(over, _) => self.reduction(nest, over),
            Kind::StoredIn(reader) => self.inside(nest, reader, true),
            Kind::RegistersIn(reader) => self.inside(nest, reader, false),
            Kind::Inline => {
                self.schedule.func(&nest.func).inline();
            }
        }
    }

    /// A scalar that no nest computes.
    pub fn scalar(&mut self, func: &Name) {
        self.schedule.func(func).compute_root().gpu_single();
    }

    fn map(&mut self, nest: &Nest) {
        let vars: Vec<&str> = nest.vars.iter().map(|v| &**v).collect();
        let stage = self.schedule.func(&nest.func).compute_root().relaxed();
        tiles(
            match nest.in_place_of {
                Some(id) => stage.in_place_of(&id.to_string()),
                None => stage,
            },
            &vars,
        );
        for u in 0..nest.updates {
            tiles(self.schedule.update(&nest.func, u), &vars);
        }
        let innermost = if vars.len() > 3 { vars[3] } else { "tx" };
        if let Some(live) = &nest.live {
            self.schedule.func(&nest.func).skip_unless(innermost, live.clone());
            for u in 0..nest.updates {
                self.schedule.update(&nest.func, u).skip_unless(innermost, live.clone());
            }
        }
        self.innermost.insert(nest.func.clone(), LoopLevel::pure(&nest.func, innermost));
    }

    /// A thread has a point, then something that adds to any points.
    fn scatter(&mut self, nest: &Nest, over: &[Name]) {
        let vars: Vec<&str> = nest.vars.iter().map(|v| &**v).collect();
        tiles(self.schedule.func(&nest.func).compute_root().relaxed(), &vars);
        for (u, var) in over.iter().enumerate() {
            tiles(self.schedule.update(&nest.func, u).relaxed().atomic(), &[&**var]);
        }
    }

    fn reduction(&mut self, nest: &Nest, over: &[Name]) {
        let (name, s) = (&*nest.func, &mut self.schedule);
        let (blocks, threads, lines) = (format!("{name}_b"), format!("{name}_t"), format!("{name}_l"));
        let vars: Vec<&str> = over.iter().map(|v| &**v).collect();
        let list = vars.len() == 1;
        // Loops over blocks, the fastest first, with the names of what is kept of them.
        let mut grid = vec![("bx", "gx")];
        if !list {
            grid.push(("by", "gy"));
        }
        if let Some(third) = vars.get(2) {
            grid.push((*third, "gz"));
        }
        let further: Vec<&str> = vars.iter().skip(3).copied().collect();

        s.func(name).compute_root().relaxed().gpu_single();
        let tail = Tail::Predicate;
        let all = s.update(name, 0).relaxed();
        let all = match list {
            true => all.split(vars[0], "bx", "row", LONG * EACH, tail).split("row", "k", "tx", LONG, tail),
            false => all
                .split(vars[0], "bx", "tx", WIDE, tail)
                .split(vars[1], "by", "row", HIGH * EACH, tail)
                .split("row", "k", "ty", HIGH, tail),
        };
        let all = all.rfactor(&grid, &blocks);
        // The sums of blocks, of which one block adds up as many at a time as it has threads.
        let (all, one) =
            grid[1..].iter().enumerate().fold((all, "bx".to_string()), |(all, one), (i, (var, _))| {
                let both = format!("g{i}");
                (all.fuse(&one, var, &both), both)
            });
        all.split(&one, "go", "gl", LONG, tail)
            .rfactor(&[("gl", "l")], &lines)
            .split("gl", "gs", "gw", WIDE, tail)
            .reorder(&["gw", "gs"])
            .gpu_single()
            .gpu_lanes("gw");
        // Known to be one block: so it joins what follows.
        line(s.func(&lines).compute_root().relaxed().bound("l", 0, LONG));
        line(s.update(&lines, 0).relaxed());

        let kept: Vec<&str> = grid.iter().map(|g| g.1).collect();
        s.func(&blocks).compute_root().relaxed().gpu_blocks(&kept);
        let threads_of: Vec<(&str, &str)> =
            if list { vec![("tx", "ux")] } else { vec![("tx", "ux"), ("ty", "uy")] };
        let block = s.update(&blocks, 0).relaxed().rfactor(&threads_of, &threads);
        let block = match list {
            true => block.split("tx", "ts", "tw", WIDE, tail).reorder(&[&["tw", "ts"][..], &kept].concat()),
            false => block.rename("tx", "tw").reorder(&[&["tw", "ty"][..], &kept].concat()),
        };
        block.gpu_blocks(&kept).gpu_lanes("tw");
        let level = LoopLevel::update(&blocks, 0, "gx");
        self.blocks.insert(nest.func.clone(), level.clone());
        let units: Vec<&str> = threads_of.iter().map(|t| t.1).collect();
        s.func(&threads).relaxed().compute_at(level).store_in(Memory::Shared).gpu_threads(&units);
        let order = [&["k"][..], &further, &units].concat();
        let stage = s.update(&threads, 0).relaxed().reorder(&order).gpu_threads(&units);
        if let Some(live) = &nest.live {
            stage.skip_unless("k", live.clone());
        }
        self.innermost.insert(nest.func.clone(), LoopLevel::update(&threads, 0, "k"));
    }

    /// A Func of which every block of its reader needs a tile: its threads compute that together, several elements each.
    fn tile(&mut self, nest: &Nest, reader: &Name, stored: bool) {
        let level = self.blocks.get(reader).expect("the reader is a reduction").clone();
        let stage = self.schedule.func(&nest.func).relaxed().compute_at(level).store_in(Memory::Shared);
        let stage = if stored { stage.sink() } else { stage };
        let (x, y) = (&nest.vars[0], &nest.vars[1]);
        let further: Vec<&str> = nest.vars[2..].iter().map(|v| &**v).collect();
        stage
            .split(x, "xk", "tx", WIDE, Tail::Predicate)
            .split(y, "yk", "ty", HIGH, Tail::Predicate)
            .reorder(&[&["xk", "yk"][..], &further, &["tx", "ty"]].concat())
            .gpu_threads(&["tx", "ty"]);
    }

    /// A Func of which the innermost loop of its reader needs one element, or a few.
    fn inside(&mut self, nest: &Nest, reader: &Name, stored: bool) {
        let level = self.innermost.get(reader).expect("the reader has a nest").clone();
        let stage = self.schedule.func(&nest.func).relaxed().compute_at(level);
        let stage = if stored { stage.sink() } else { stage };
        if let Some(id) = nest.in_place_of {
            stage.in_place_of(&id.to_string());
        }
        for u in 0..nest.updates {
            self.schedule.update(&nest.func, u).relaxed();
        }
    }
}

/// Elements of a tile of one block of a reduction over a grid, with so many around it in each dim.
pub fn tile_elements(reach: &[u32]) -> usize {
    let own = [WIDE, HIGH * EACH].into_iter().chain(std::iter::repeat(1));
    own.zip(reach).map(|(n, r)| n as usize + 2 * *r as usize).product()
}

/// Blocks and threads over the points of these variables.
fn tiles(stage: StageHandle<'_>, vars: &[&str]) {
    let tail = Tail::Predicate;
    match *vars {
        [] => {
            stage.gpu_single();
        }
        [x] => {
            stage.split(x, "bx", "tx", LONG, tail).gpu_blocks(&["bx"]).gpu_threads(&["tx"]);
        }
        [x, y, ref more @ ..] => {
            let grid = [&["bx", "by"][..], &more[..more.len().min(1)]].concat();
            let further = more.get(1..).unwrap_or_default();
            stage
                .split(x, "bx", "tx", WIDE, tail)
                .split(y, "by", "ty", HIGH, tail)
                .reorder(&[further, &["tx", "ty"], &grid].concat())
                .gpu_blocks(&grid)
                .gpu_threads(&["tx", "ty"]);
        }
    }
}

/// One block over a line of sums: its threads, each with every 256th block's.
fn line(stage: StageHandle<'_>) {
    stage.split("l", "lb", "lt", LONG, Tail::Predicate).gpu_blocks(&["lb"]).gpu_threads(&["lt"]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of this file fit a block.
    #[test]
    fn blocks_have_at_most_1024_threads() {
        const { assert!(WIDE * HIGH <= 1024 && LONG <= 1024 && LONG % WIDE == 0) }
    }
}
