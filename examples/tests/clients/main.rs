//! What `docs/clients.md` says of HTTP clients below a stack: how they get rid of dead connections,
//! and what they send again on their own.

#[cfg(test)]
mod black_hole;
#[cfg(test)]
mod hidden_retries;
