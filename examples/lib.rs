//! The examples are programs; here only the README's code is compiled, as documentation tests.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
