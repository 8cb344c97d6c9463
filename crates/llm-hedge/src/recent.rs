//! [`Recent`]: a map that forgets what has not been used for longest.

use std::{collections::HashMap, hash::Hash, mem};

/// A map of bounded size, for values that may be forgotten.
///
/// It has two generations. What is used moves into the young one; when that is half of the whole,
/// the old one is forgotten and the young one takes its place. So whatever was used among the last
/// `most / 2` different keys is there, and all of it costs no list and no clock.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    half: usize,
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    /// At most so many keys, and at least two.
    pub(crate) fn new(most: usize) -> Recent<K, V> {
        Recent {
            young: HashMap::new(),
            old: HashMap::new(),
            half: (most / 2).max(1),
        }
    }

    /// Uses the value of a key, which is made where it is new or forgotten.
    pub(crate) fn get_or(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V {
        let mut moved = None;
        if self.young.len() >= self.half && !self.young.contains_key(key) {
            moved = self.old.remove(key);
            self.old = mem::take(&mut self.young);
        }
        let (young, old) = (&mut self.young, &mut self.old);
        // Found at the first look, nearly always.
        (young.entry(key.clone()))
            .or_insert_with(|| moved.or_else(|| old.remove(key)).unwrap_or_else(make))
    }

    /// Looks at the value of a key, which is no use of it.
    pub(crate) fn peek(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// All that is there.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.young.iter().chain(&self.old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_size_is_bounded() {
        let mut recent = Recent::new(10);
        for key in 0..1_000 {
            *recent.get_or(&7, || 0) += 1;
            recent.get_or(&key, || 0);
            assert!(recent.iter().count() <= 10);
        }
        assert_eq!(recent.peek(&7), Some(&1_000));
        assert_eq!(recent.peek(&999), Some(&0));
        assert_eq!(recent.peek(&500), None);
    }

    #[test]
    fn the_last_half_is_always_there_and_nothing_twice() {
        let mut recent = Recent::new(8);
        for key in 0..100_u32 {
            recent.get_or(&key, || key);
            for last in key.saturating_sub(3)..=key {
                assert_eq!(recent.peek(&last), Some(&last));
            }
            let mut keys: Vec<_> = recent.iter().map(|(key, _)| *key).collect();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), recent.iter().count());
        }
    }
}
