//! Hash maps with a fixed hash, so that the same seed walks them in the same order everywhere.

/// The fixed hash of every map.
pub type Hasher = foldhash::fast::FixedState;
pub type HashMap<K, V> = hashbrown::HashMap<K, V, Hasher>;
pub type HashSet<K> = hashbrown::HashSet<K, Hasher>;

/// The hasher, for `HashMap::with_hasher` and `hashbrown::HashTable`.
pub fn hasher() -> Hasher {
    foldhash::fast::FixedState::with_seed(0x48_65_6c_65_6e_75_73)
}
