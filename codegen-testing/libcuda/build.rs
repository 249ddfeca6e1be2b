//! Gives the library the name under which programs ask for NVIDIA's.

fn main() {
    // Programs try this name first; a library that is loaded already answers to it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so");
    println!("cargo::rerun-if-changed=build.rs");
}
