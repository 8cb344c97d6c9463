//! The layers as their users see them.

#[cfg(test)]
mod deadline;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod socket;
#[cfg(test)]
mod support;
#[cfg(test)]
mod timeout;
