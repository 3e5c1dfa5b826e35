//! What every implementation has to pass.
