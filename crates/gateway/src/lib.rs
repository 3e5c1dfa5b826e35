//! One running gateway: configuration, wiring and the admin interface.
