//! The examples are programs; here only the code of the README and of docs/ is compiled, as
//! documentation tests.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../docs/clients.md")]
struct Clients;
