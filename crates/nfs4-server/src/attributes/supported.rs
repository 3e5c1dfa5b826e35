//! Which attributes exist here.

use nfs4::{Attribute, Bitmap};

/// Attributes that can be read or set.
pub(crate) const SUPPORTED: Bitmap = Attribute::REQUIRED;

/// Attributes that an exclusive create may set.
pub(crate) const EXCLUSIVE_CREATE: Bitmap = Bitmap::EMPTY;
