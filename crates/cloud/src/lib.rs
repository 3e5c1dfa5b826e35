//! Untrusted object stores behind one contract: drivers, retries, health.
