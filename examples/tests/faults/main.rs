//! The whole stack on real sockets, against every fault that the chaos provider knows.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod stack;
