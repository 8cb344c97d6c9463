//! What the process holds, as Linux tells it.

use std::{fmt, fs, io};

/// Open descriptors.
pub(crate) fn sockets() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/fd")?.count())
}

/// Resident memory over time, in KiB.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    samples: Vec<u64>,
}

impl Memory {
    pub(crate) fn note(&mut self) -> io::Result<()> {
        let status = fs::read_to_string("/proc/self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        let missing = || io::Error::other("/proc/self/status has no VmRSS");
        self.samples.push(kib.ok_or_else(missing)?);
        Ok(())
    }

    /// Means of the second and of the last quarter: the first warms up.
    fn quarters(&self) -> (u64, u64) {
        let quarter = (self.samples.len() / 4).max(1);
        let mean = |samples: &[u64]| samples.iter().sum::<u64>() / (samples.len() as u64).max(1);
        let last = self.samples.len().saturating_sub(quarter);
        let second = self.samples.iter().skip(quarter).take(quarter).copied();
        (
            mean(&second.collect::<Vec<_>>()),
            mean(&self.samples[last..]),
        )
    }

    /// What is wrong with it: a twentieth more, and more than the allocator may keep.
    pub(crate) fn growth(&self) -> Option<String> {
        let (early, late) = self.quarters();
        let grown = late.saturating_sub(early);
        (grown > early / 20 && grown > 8 * 1024).then(|| format!("memory grew by {grown} KiB"))
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (early, late) = self.quarters();
        let most = self.samples.iter().max().copied().unwrap_or_default();
        write!(
            f,
            "memory: {early} KiB in the second quarter, {late} in the last, {most} at most"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_seen_and_what_warms_up_is_not() {
        let memory = |kib: fn(u64) -> u64| Memory {
            samples: (0..60).map(kib).collect(),
        };
        assert!(memory(|i| 100_000 + i * 1000).growth().is_some());
        assert!(memory(|i| 100_000 + i.min(14) * 1000).growth().is_none());
    }

    #[test]
    fn it_is_read_from_the_kernel() {
        let mut memory = Memory::default();
        memory.note().unwrap();
        assert!(memory.samples[0] > 100);
        assert!(sockets().unwrap() > 0);
    }
}
