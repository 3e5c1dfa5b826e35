//! Block versions stored as sealed, dispersed fragments in several clouds.
