//! The layers as their users see them.

mod deadline;
mod socket;
mod support;
mod timeout;
