//! Hedges above the real layers that send again, on simulated time.

#[cfg(test)]
mod places;
#[cfg(test)]
mod race;
