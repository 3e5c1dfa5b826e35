//! Gives the shared library its name for the loader, which changes when programs have to be compiled anew.

#![allow(clippy::print_stdout)] // how cargo is told

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libkurma.so.0");
}
