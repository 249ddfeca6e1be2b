//! The functions that programs call, by the names and with the arguments of `cuda.h`.

mod contexts;
mod control;
mod devices;
mod errors;
mod graphs;
mod memory;
mod modules;
mod pointers;
mod streams;

/// Functions of the driver: each body is given the state and returns a code by `?`.
macro_rules! exports {
    ($(fn $name:ident($driver:ident $(, $argument:ident: $type:ty)* $(,)?) $body:block)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of the driver.")]
        // SAFETY: no other library of the process defines the name, but for the one that this one stands for.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> crate::status::Status {
            crate::driver::call(stringify!($name), |$driver| $body)
        }
    )*};
}
pub(crate) use exports;
