//! Fails the build with one clear line when LLVM 22 is not installed.
