//! The lessons in `examples/` run, and check their own results.

#[path = "../examples/lesson_01_first_func.rs"]
mod lesson_01;
#[path = "../examples/lesson_02_schedules.rs"]
mod lesson_02;
#[path = "../examples/lesson_03_producers.rs"]
mod lesson_03;
#[path = "../examples/lesson_04_reductions.rs"]
mod lesson_04;
#[path = "../examples/lesson_05_inputs.rs"]
mod lesson_05;
#[path = "../examples/lesson_06_looking_inside.rs"]
mod lesson_06;
#[path = "../examples/lesson_07_gpus.rs"]
mod lesson_07;
#[path = "../examples/lesson_08_domains.rs"]
mod lesson_08;
#[path = "../examples/lesson_09_borders.rs"]
mod lesson_09;
#[path = "../examples/lesson_10_updates.rs"]
mod lesson_10;
#[path = "../examples/lesson_11_tuples.rs"]
mod lesson_11;
#[path = "../examples/lesson_12_types.rs"]
mod lesson_12;
#[path = "../examples/lesson_13_variants.rs"]
mod lesson_13;
#[path = "../examples/lesson_14_layouts.rs"]
mod lesson_14;
#[path = "../examples/lesson_15_predicates.rs"]
mod lesson_15;
#[path = "../examples/lesson_16_partial_results.rs"]
mod lesson_16;
#[path = "../examples/lesson_17_wrappers.rs"]
mod lesson_17;
#[path = "../examples/lesson_18_other_machines.rs"]
mod lesson_18;
#[path = "../examples/lesson_19_gradients.rs"]
mod lesson_19;
#[path = "../examples/lesson_20_calls.rs"]
mod lesson_20;
#[path = "../examples/lesson_21_watching.rs"]
mod lesson_21;

macro_rules! lessons {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() {
            $name::main().unwrap_or_else(|e| panic!("{e}"));
        }
    )* };
}

lessons!(
    lesson_01 lesson_02 lesson_03 lesson_04 lesson_05 lesson_06 lesson_07 lesson_08
    lesson_09 lesson_10 lesson_11 lesson_12 lesson_13 lesson_14 lesson_15 lesson_16
    lesson_17 lesson_18 lesson_19 lesson_20 lesson_21
);
