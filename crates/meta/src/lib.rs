//! Transactional metadata: optimistic transactions over an ordered key-value engine.
