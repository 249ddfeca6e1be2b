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

macro_rules! lessons {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() {
            $name::main().unwrap_or_else(|e| panic!("{e}"));
        }
    )* };
}

lessons!(lesson_01 lesson_02 lesson_03 lesson_04 lesson_05 lesson_06 lesson_07);
