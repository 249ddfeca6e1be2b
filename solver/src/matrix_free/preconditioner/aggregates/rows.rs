//! Loops over rows on the threads of a pool, in which every row is computed by itself: the same bits for any number of threads.

use std::ops::Range;
use std::sync::Mutex;
use sumsq_codegen::runtime::Pool;

/// Rows of one task. Sums are combined per task, in order: the size is part of their bits.
const GRAIN: usize = 256;

/// Calls `f` with the number and the values of every row, `width` values each.
pub fn each<T: Send>(pool: &Pool, values: &mut [T], width: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    if width == 0 {
        return;
    }
    let parts = values.chunks_mut(GRAIN * width).enumerate();
    let run = |(part, values): (usize, &mut [T])| {
        values.chunks_mut(width).enumerate().for_each(|(row, values)| f(part * GRAIN + row, values));
    };
    in_tasks(pool, parts.collect(), run);
}

/// As [`each`], where row i has the `size` times `starts[i + 1] - starts[i]` values from `size * starts[i]` on.
pub fn each_ragged<T: Send>(
    pool: &Pool,
    values: &mut [T],
    starts: &[usize],
    size: usize,
    f: impl Fn(usize, &mut [T]) + Sync,
) {
    let (nothing, width): (&mut [()], _) = (&mut [], 0);
    each_with(pool, (values, size), starts, (nothing, width), |row, values, _| f(row, values));
}

/// As [`each_ragged`], with `width` values of another kind beside each row.
pub fn each_with<T: Send, U: Send>(
    pool: &Pool,
    (values, size): (&mut [T], usize),
    starts: &[usize],
    (beside, width): (&mut [U], usize),
    f: impl Fn(usize, &mut [T], &mut [U]) + Sync,
) {
    let rows = starts.len() - 1;
    let (mut parts, mut rest, mut rest_beside) = (vec![], values, beside);
    for first in (0..rows).step_by(GRAIN) {
        let end = (first + GRAIN).min(rows);
        let own = rest.split_off_mut(..size * (starts[end] - starts[first])).unwrap_or_default();
        let own_beside = rest_beside.split_off_mut(..width * (end - first)).unwrap_or_default();
        parts.push((first..end, own, own_beside));
    }
    let run = |(of, mut values, mut beside): (Range<usize>, &mut [T], &mut [U])| {
        for row in of {
            let own = values.split_off_mut(..size * (starts[row + 1] - starts[row])).unwrap_or_default();
            f(row, own, beside.split_off_mut(..width).unwrap_or_default());
        }
    };
    in_tasks(pool, parts, run);
}

/// The sum of `f` of all rows, task by task.
pub fn sum(pool: &Pool, rows: usize, f: impl Fn(usize) -> f64 + Sync) -> f64 {
    let mut sums = vec![0.0; rows.div_ceil(GRAIN)];
    let run = |(part, sum): (usize, &mut f64)| {
        *sum = (part * GRAIN..((part + 1) * GRAIN).min(rows)).map(&f).sum();
    };
    in_tasks(pool, sums.iter_mut().enumerate().collect(), run);
    sums.iter().sum()
}

/// Runs every task once, on any thread.
fn in_tasks<T: Send>(pool: &Pool, tasks: Vec<T>, run: impl Fn(T) + Sync) {
    if tasks.len() <= 1 {
        tasks.into_iter().for_each(run);
        return;
    }
    let tasks: Vec<Mutex<Option<T>>> = tasks.into_iter().map(|t| Mutex::new(Some(t))).collect();
    pool.for_each(tasks.len() as i32, |i| {
        let task = tasks[i as usize].lock().map(|mut task| task.take());
        if let Ok(Some(task)) = task {
            run(task);
        }
    });
}
