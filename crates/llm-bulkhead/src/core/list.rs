//! A doubly linked list through the entries of a slab: whoever leaves leaves nothing behind.

use slab::Slab;

/// The neighbours of an entry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Links {
    prev: Option<usize>,
    next: Option<usize>,
}

pub(crate) trait Linked {
    fn links(&mut self) -> &mut Links;
}

#[derive(Debug, Default)]
pub(crate) struct List {
    head: Option<usize>,
    tail: Option<usize>,
    len: usize,
}

impl List {
    pub(crate) fn first(&self) -> Option<usize> {
        self.head
    }

    pub(crate) fn last(&self) -> Option<usize> {
        self.tail
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn push_back<T: Linked>(&mut self, entries: &mut Slab<T>, i: usize) {
        let prev = self.tail.replace(i);
        *entries[i].links() = Links { prev, next: None };
        match prev {
            Some(prev) => entries[prev].links().next = Some(i),
            None => self.head = Some(i),
        }
        self.len += 1;
    }

    /// Takes out an entry, which must be in this list.
    pub(crate) fn remove<T: Linked>(&mut self, entries: &mut Slab<T>, i: usize) {
        let Links { prev, next } = std::mem::take(entries[i].links());
        match prev {
            Some(prev) => entries[prev].links().next = next,
            None => self.head = next,
        }
        match next {
            Some(next) => entries[next].links().prev = prev,
            None => self.tail = prev,
        }
        self.len -= 1;
    }
}
