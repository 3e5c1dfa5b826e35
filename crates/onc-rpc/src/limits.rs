use std::time::Duration;

/// The bounds of one connection.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Largest record accepted, in bytes; a larger one closes the connection.
    pub record_bytes: usize,
    /// Most fragments one record may come in; more close the connection.
    pub fragments: usize,
    /// Most calls of the other side that are executing or whose reply is not yet written. When it is reached the
    /// connection stops reading, replies to our own calls included: keep it above the number of session slots.
    pub calls: usize,
    /// Most bytes of records held by those calls.
    pub call_bytes: usize,
    /// Bytes waiting to be written above which the connection stops reading and our own calls wait.
    pub queued_bytes: usize,
    /// Most calls of ours that wait for a reply; more wait for their turn.
    pub outgoing_calls: usize,
    /// How long the other side may leave what it asked for unread, or a record unfinished (1 MiB of it; longer ones
    /// get as much longer), before the connection is closed.
    pub patience: Duration,
    /// Bytes of memory that are kept for records to come, once nobody uses the data of earlier ones any more. It is not counted with
    /// the memory that connections share: for clients.
    pub recycled_bytes: usize,
}

impl Default for Limits {
    /// Fit for NFS payloads of 4 MiB.
    fn default() -> Limits {
        Limits {
            record_bytes: 5 << 20,
            fragments: 4096,
            calls: 256,
            call_bytes: 64 << 20,
            queued_bytes: 16 << 20,
            outgoing_calls: 256,
            patience: Duration::from_secs(60),
            recycled_bytes: 0,
        }
    }
}
