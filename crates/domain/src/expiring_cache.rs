//! A cache whose entries expire. Its callers give the time, so that a test controls it.

use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values by key, each for the cache's lifetime. Threads share it.
#[derive(Debug)]
pub struct ExpiringCache<K, V> {
    lifetime: SignedDuration,
    max_entries: usize,
    entries: Mutex<HashMap<K, Entry<V>>>,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    until: Timestamp,
}

impl<K: Eq + Hash, V: Clone> ExpiringCache<K, V> {
    /// An empty cache whose entries expire after `lifetime`. Beyond `max_entries` it drops the expired ones, or all if
    /// none has expired.
    #[must_use]
    pub fn new(lifetime: SignedDuration, max_entries: usize) -> Self {
        Self { lifetime, max_entries, entries: Mutex::default() }
    }

    /// The value, if it has not expired at `now`.
    pub fn get(&self, key: &K, now: Timestamp) -> Option<V> {
        let entries = self.entries();
        entries.get(key).filter(|entry| now < entry.until).map(|entry| entry.value.clone())
    }

    /// The value if it has not expired, otherwise what `read` returns. Concurrent callers may both read.
    ///
    /// # Errors
    ///
    /// Those of `read`; they are not cached.
    pub async fn get_or_read<E, F>(
        &self,
        key: K,
        now: Timestamp,
        read: impl FnOnce() -> F,
    ) -> Result<V, E>
    where
        F: Future<Output = Result<V, E>>,
    {
        if let Some(value) = self.get(&key, now) {
            return Ok(value);
        }
        // In a box, so that the caller's own future stays small.
        let value = Box::pin(read()).await?;
        self.insert(key, value.clone(), now);
        Ok(value)
    }

    /// Stores a value that was read at `now`.
    pub fn insert(&self, key: K, value: V, now: Timestamp) {
        self.store(&mut self.entries(), key, value, now);
    }

    /// The value if it has not expired and `is_usable` accepts it; otherwise what `make` returns. Of concurrent callers,
    /// one calls `make`.
    pub fn get_or_insert(
        &self,
        key: K,
        now: Timestamp,
        is_usable: impl Fn(&V) -> bool,
        make: impl FnOnce() -> V,
    ) -> V {
        let mut entries = self.entries();
        if let Some(entry) = entries.get(&key)
            && now < entry.until
            && is_usable(&entry.value)
        {
            return entry.value.clone();
        }
        let value = make();
        self.store(&mut entries, key, value.clone(), now);
        value
    }

    fn store(&self, entries: &mut HashMap<K, Entry<V>>, key: K, value: V, now: Timestamp) {
        if entries.len() >= self.max_entries {
            entries.retain(|_, entry| now < entry.until);
        }
        if entries.len() >= self.max_entries {
            entries.clear();
        }
        let until = now.saturating_add(self.lifetime).unwrap_or(Timestamp::MAX);
        entries.insert(key, Entry { value, until });
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<K, Entry<V>>> {
        // A panic of another thread leaves complete entries behind.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: SignedDuration = SignedDuration::from_secs(5);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn an_entry_lives_for_the_lifetime_and_no_longer() {
        let cache = ExpiringCache::new(LIFETIME, 10);
        cache.insert("key", 1, at(0));
        assert_eq!(cache.get(&"key", at(4)), Some(1));
        assert_eq!(cache.get(&"key", at(5)), None);
        assert_eq!(cache.get(&"other", at(0)), None);
    }

    #[test]
    fn a_value_is_made_again_when_it_has_expired_or_is_not_usable() {
        let cache = ExpiringCache::new(LIFETIME, 10);
        let get =
            |now, is_usable, value| cache.get_or_insert("key", at(now), |_| is_usable, || value);
        assert_eq!(get(0, true, 1), 1);
        assert_eq!(get(4, true, 2), 1);
        assert_eq!(get(4, false, 3), 3);
        assert_eq!(get(9, true, 4), 4);
    }

    #[test]
    fn a_full_cache_drops_expired_entries_or_else_all() {
        let cache = ExpiringCache::new(LIFETIME, 10);
        for key in 0..10 {
            cache.insert(key, (), at(if key == 0 { 3 } else { 0 }));
        }
        cache.insert(10, (), at(5));
        assert_eq!(cache.entries().len(), 2, "the one that has not expired, and the new one");
        for key in 11..20 {
            cache.insert(key, (), at(6));
        }
        assert_eq!(cache.entries().len(), 1, "none had expired when the tenth came");
        assert!(cache.get(&19, at(6)).is_some());
    }
}
