//! The locks and shared pointers: those of `std`, or those of a model checker that tries the
//! orders in which threads can run.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU8, Ordering},
};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU8, Ordering},
};
