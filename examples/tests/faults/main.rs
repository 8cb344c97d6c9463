//! The whole stack: on real sockets against every fault that the chaos provider knows, and on paused
//! time dropped at every poll.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod drops;
#[cfg(test)]
mod stack;
