//! Directives of nests for a GPU, and the numbers that follow from the machine.
//!
//! A thread has one element at a time, in PCG's maps two. Blocks are tiles of 32 x 8 elements, or 128 of a list; a third dim is the grid's. In reductions a block has
//! two rows a thread, and so many more that there are not too many blocks; its threads are added up by the lanes of a warp, and one more block adds up
//! blocks: each in an order that sizes alone decide. What a reduction reads of others' elements is computed for one tile at a time, whose rows are as
//! wide as a warp with what lies beside them, as two where an element has one number there: of more, wider tiles take longer. Where vectors are skipped on a CPU, so are warps here: their threads read the same byte of the
//! mask, but in tiles, whose rows begin anywhere; those are computed whole.

use crate::matrix_free::params::{self, Size};
use crate::matrix_free::schedule::nest::{Kind, Nest, Strip, Tiles};
use rustc_hash::FxHashMap;
use sumsq_codegen::schedule::StageHandle;
use sumsq_codegen::{Expr, LoopLevel, Memory, Name, Partition, Schedule, Tail};

/// Threads of a block along the fastest dim of a grid: a warp.
const WIDE: i32 = 32;
/// Threads of a block along the second dim.
const HIGH: i32 = 8;
/// Elements of a thread of a map over a grid in PCG, a warp's width apart.
const COLUMNS: i32 = 2;
/// The loop over them.
const COLUMN: &str = "column";
/// Threads of a block over a list.
const LONG: i32 = 128;
/// Rows of a tile of a reduction over a grid: with one more on either side, two for each warp of a block.
const TALL: i32 = 2 * HIGH - 2;
/// Sums of blocks that a thread of the last block asks for at once, where that runs again and again.
const AT_ONCE: i32 = 8;
/// Blocks of a reduction that keep a device busy: beyond, each has several tiles.
const ENOUGH: usize = 2048;
/// Most tiles of a block. What a block costs by itself is as much as two; those of many lie far from the tiles that are computed meanwhile.
const TILES: usize = 8;

/// A schedule in the making.
pub struct Scheduler {
    /// The directives so far.
    pub schedule: Schedule,
    /// The innermost loop of every nest, where others may be computed for one element.
    innermost: FxHashMap<Name, LoopLevel>,
    /// The loop over tiles of every reduction that has such, where others may be computed for one tile.
    tiles: FxHashMap<Name, LoopLevel>,
    /// Is the pipeline part of PCG, so that its time counts for more than that of compiling it?
    often: bool,
}

impl Scheduler {
    /// Nothing is scheduled yet. `often`: the pipeline is part of PCG, so that its time counts for more than that of compiling it: only there
    /// tiles without borders have code of their own.
    pub fn new(often: bool) -> Scheduler {
        Scheduler {
            schedule: Schedule::new(),
            innermost: FxHashMap::default(),
            tiles: FxHashMap::default(),
            often,
        }
    }

    /// Adds the directives of a nest; that of its reader must be there.
    pub fn add(&mut self, nest: &Nest) {
        match &nest.kind {
            Kind::Map(_) | Kind::Rows | Kind::Pairs(..) | Kind::RowsIn(_) => self.map(nest),
            Kind::RingIn(reader, ring) => self.tile(nest, reader, ring.stored),
            Kind::Scatter(over) => self.scatter(nest, over),
            Kind::Reduction(over, strip) => self.reduction(nest, over, *strip),
            Kind::StoredIn(reader) => self.inside(nest, reader, true),
            Kind::RegistersIn(reader) => self.inside(nest, reader, false),
            Kind::ArrayIn(reader, dims) => {
                self.inside(nest, reader, false);
                let stage = self.schedule.func(&nest.func).store_in(Memory::Stack);
                nest.vars[*dims..].iter().fold(stage, |stage, entry| stage.unroll(entry));
            }
            // No hierarchy has it here.
            Kind::PairsIn(..) => self.map(nest),
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
        // Rows of vertices belong to lists.
        let high = if matches!(nest.kind, Kind::Rows) { LONG / WIDE } else { HIGH };
        let stage = self.schedule.func(&nest.func).compute_root().relaxed();
        let stage = match nest.in_place_of {
            Some(id) => stage.in_place_of(&id.to_string()),
            None => stage,
        };
        tiles(stage, &vars, high, self.often);
        for u in 0..nest.updates {
            tiles(self.schedule.update(&nest.func, u), &vars, high, self.often);
        }
        let innermost = match vars.len() {
            2.. if self.often => COLUMN,
            4.. => vars[3],
            _ => "tx",
        };
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
        tiles(self.schedule.func(&nest.func).compute_root().relaxed(), &vars, HIGH, self.often);
        for (u, var) in over.iter().enumerate() {
            tiles(self.schedule.update(&nest.func, u).relaxed().atomic(), &[&**var], HIGH, self.often);
        }
    }

    fn reduction(&mut self, nest: &Nest, over: &[Name], strip: Strip) {
        let (name, s) = (&*nest.func, &mut self.schedule);
        let [blocks, threads, warp] = ["b", "t", "w"].map(|part| format!("{name}_{part}"));
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
        let (further, tail) = (&vars[vars.len().min(3)..], Tail::Predicate);

        s.func(name).compute_root().relaxed().gpu_single();
        let all = s.update(name, 0).relaxed();
        let all = match (list, nest.tiles) {
            (true, _) => {
                all.split(vars[0], "bx", "row", height(strip), tail).split("row", "k", "tx", LONG, tail)
            }
            (false, None) => all
                .split(vars[0], "bx", "tx", WIDE, tail)
                .split(vars[1], "by", "row", height(strip), tail)
                .split("row", "k", "ty", HIGH, tail),
            // Some warps' width is a row of a tile, with what is read beside the row's own elements.
            (false, Some(Tiles { beside, values })) => all
                .split(vars[0], "bx", "column", width(beside, values), tail)
                .split("column", "c", "tx", WIDE, tail)
                .split(vars[1], "by", "row", height(strip), tail)
                .split("row", "tile", "line", TALL, tail)
                .split("line", "k", "ty", HIGH, tail),
        };
        all.rfactor(&grid, &blocks);
        self.total(name, &grid.iter().map(|g| g.0).collect::<Vec<_>>());

        let (kept, s): (Vec<&str>, _) = (grid.iter().map(|g| g.1).collect(), &mut self.schedule);
        s.func(&blocks).compute_root().relaxed().gpu_blocks(&kept);
        let threads_of: &[(&str, &str)] = if list { &[("tx", "ux")] } else { &[("tx", "ux"), ("ty", "uy")] };
        let block = s.update(&blocks, 0).relaxed().rfactor(threads_of, &threads);
        // A lane adds up what the warps have of it, then the lanes of one warp are added up.
        let block = if list { block.split("tx", "ts", "tw", WIDE, tail) } else { block.rename("tx", "tw") };
        let block = block.rfactor(&[("tw", "uw")], &warp).reorder(&[&["tw"][..], &kept].concat());
        bordered(block.gpu_blocks(&kept).gpu_lanes("tw"), &kept, self.often);
        let level = LoopLevel::update(&blocks, 0, "gx");
        s.func(&warp).relaxed().compute_at(level.clone()).store_in(Memory::Shared).gpu_threads(&["uw"]);
        s.update(&warp, 0).relaxed().unroll(if list { "ts" } else { "ty" }).gpu_threads(&["uw"]);
        let units: Vec<&str> = threads_of.iter().map(|t| t.1).collect();
        s.func(&threads).relaxed().compute_at(level).store_in(Memory::Shared).gpu_threads(&units);
        let mut order = vec!["k"];
        let tiled = !list && nest.tiles.is_some();
        order.extend(tiled.then_some("c"));
        order.extend(further.iter().chain(&units));
        order.extend(tiled.then_some("tile"));
        let stage = s.update(&threads, 0).relaxed().reorder(&order).gpu_threads(&units);
        if let Some(live) = &nest.live {
            stage.skip_unless("k", live.clone());
        }
        if tiled {
            self.tiles.insert(nest.func.clone(), LoopLevel::update(&threads, 0, "tile"));
        }
        self.innermost.insert(nest.func.clone(), LoopLevel::update(&threads, 0, "k"));
    }

    /// The sums of blocks, as many as these variables count, in one block more. It adds up as many at a time as it has threads, some of these at once; then
    /// each lane has what the warps have of it, then the lanes of one warp are added up.
    fn total(&mut self, name: &str, blocks: &[&str]) {
        let (s, tail) = (&mut self.schedule, Tail::Predicate);
        let [lines, last] = ["l", "e"].map(|part| format!("{name}_{part}"));
        let at_once = if self.often { AT_ONCE } else { 1 };
        // Threads as in the blocks before.
        let high = if blocks.len() == 1 { LONG / WIDE } else { HIGH };
        let all = s.update(name, 0);
        // A warp reads what lies side by side.
        let (all, inside): (_, &[&str]) = match *blocks {
            [list] => {
                let all = all
                    .split(list, "turn", "go", WIDE * high * at_once, tail)
                    .split("go", "go", "gl", WIDE * high, tail)
                    .split("gl", "gy", "gx", WIDE, tail);
                (all, &["go", "turn"])
            }
            [x, y, ref more @ ..] => {
                let all = more.iter().fold(all, |all, z| all.fuse(y, z, y));
                let all = all
                    .split(x, "ho", "gx", WIDE, tail)
                    .split(y, "turn", "go", high * at_once, tail)
                    .split("go", "go", "gy", high, tail);
                (all, &["go", "turn", "ho"])
            }
            [] => unreachable!("a reduction has blocks"),
        };
        all.rfactor(&[("gx", "l"), ("gy", "m")], &lines)
            .rfactor(&[("gx", "w")], &last)
            .gpu_single()
            .gpu_lanes("gx");
        // Known to be one block: so they join what follows.
        let square = |f: StageHandle<'_>, inside: &[&str]| {
            let f = f.split("l", "lb", "lt", WIDE, tail).reorder(&[inside, &["lt", "m", "lb"]].concat());
            f.gpu_blocks(&["lb"]).gpu_threads(&["lt", "m"]);
        };
        square(s.func(&lines).compute_root().relaxed().bound("l", 0, WIDE).bound("m", 0, high), &[]);
        square(s.update(&lines, 0).relaxed().unroll("go"), inside);
        let row = |f: StageHandle<'_>, inside: &[&str]| {
            let f = f.split("w", "lb", "lt", WIDE, tail).reorder(&[inside, &["lt", "lb"]].concat());
            f.gpu_blocks(&["lb"]).gpu_threads(&["lt"]);
        };
        row(s.func(&last).compute_root().relaxed().bound("w", 0, WIDE), &[]);
        row(s.update(&last, 0).relaxed().unroll("gy"), &["gy"]);
    }

    /// A Func of which every block of its reader needs a tile: its threads compute that together, several elements each.
    fn tile(&mut self, nest: &Nest, reader: &Name, stored: bool) {
        let level = self.tiles.get(reader).expect("the reader is a reduction of tiles").clone();
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

/// Elements of a tile of one block of a reduction over a grid, of so many numbers each, with so many around it in each dim.
pub fn tile_elements(reach: &[u32], values: usize) -> usize {
    let beside = reach.first().copied().unwrap_or(0);
    let own = [width(beside, values), TALL].into_iter().chain(std::iter::repeat(1));
    own.zip(reach).map(|(n, r)| n as usize + 2 * *r as usize).product()
}

/// Own elements of a row of a tile of so many numbers each, of which so many are read on either side: with these a thread has one, or two.
fn width(beside: u32, values: usize) -> i32 {
    let all = if values == 1 { 2 * WIDE } else { WIDE };
    (all - 2 * beside.min(WIDE as u32) as i32).max(WIDE / 2)
}

/// Height of what a block of a reduction adds up, along the second dim or that of a list, from sizes alone: one tile, or a few where there are more
/// tiles than blocks that keep a device busy.
pub fn strip_height(extents: &[usize]) -> usize {
    let tile = if extents.len() == 1 { LONG } else { TALL } as usize;
    let along = |(d, n): (usize, &usize)| match d {
        0 if extents.len() > 1 => n.div_ceil(WIDE as usize),
        0 | 1 => n.div_ceil(tile),
        _ => *n,
    };
    let tiles: usize = extents.iter().enumerate().map(along).product();
    tile * (tiles / ENOUGH).clamp(1, TILES)
}

/// Height of what a block of a reduction adds up.
fn height(of: Strip) -> Expr {
    match of {
        Strip::Of(domain) => params::strip(domain),
        Strip::Level(space, level) => Size::LevelStrip(space, level).expr(),
        Strip::Blocks | Strip::Entries => Expr::from(TALL),
    }
}

/// Blocks that test all their borders in place, but in PCG.
fn bordered<'a>(stage: StageHandle<'a>, blocks: &[&str], often: bool) -> StageHandle<'a> {
    let all = if often { &[] } else { blocks };
    all.iter().fold(stage, |stage, var| stage.partition(var, Partition::Never))
}

/// Blocks and threads over the points of these variables. `often`: see [`Scheduler::new`].
fn tiles(stage: StageHandle<'_>, vars: &[&str], high: i32, often: bool) {
    let tail = Tail::Predicate;
    match *vars {
        [] => {
            stage.gpu_single();
        }
        [x] => {
            let stage = stage.split(x, "bx", "tx", LONG, tail);
            bordered(stage, &["bx"], often).gpu_blocks(&["bx"]).gpu_threads(&["tx"]);
        }
        [x, y, ref more @ ..] => {
            let grid = [&["bx", "by"][..], &more[..more.len().min(1)]].concat();
            let further = more.get(1..).unwrap_or_default();
            let (stage, columns): (_, &[&str]) = match often {
                true => {
                    let stage = stage.split(x, "bx", "tx", COLUMNS * WIDE, tail);
                    (stage.split("tx", COLUMN, "tx", WIDE, tail), &[COLUMN])
                }
                false => (stage.split(x, "bx", "tx", WIDE, tail), &[]),
            };
            let stage = stage.split(y, "by", "ty", high, tail);
            let stage = bordered(stage, &grid, often)
                .reorder(&[columns, further, &["tx", "ty"], &grid].concat())
                .gpu_blocks(&grid)
                .gpu_threads(&["tx", "ty"]);
            columns.iter().fold(stage, |stage, column| stage.unroll(column));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_several_tiles_where_there_are_many() {
        assert_eq!(strip_height(&[512, 512]), 14);
        assert_eq!(strip_height(&[2048, 2048]), 4 * 14);
        assert_eq!(strip_height(&[8192, 8192]), 8 * 14);
        assert_eq!(strip_height(&[256, 256, 256]), 8 * 14);
        assert_eq!(strip_height(&[17_000]), 128);
        assert_eq!(strip_height(&[1 << 22]), 8 * 128);
        assert_eq!((strip_height(&[0]), strip_height(&[0, 7])), (128, 14));
    }

    /// The numbers of this file fit a block.
    #[test]
    fn blocks_have_at_most_1024_threads() {
        const { assert!(WIDE * HIGH <= 1024 && WIDE * WIDE <= 1024 && LONG % WIDE == 0) }
    }
}
