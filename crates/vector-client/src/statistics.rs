/// What a client has sent and received so far; zeros where nothing has to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Requests that were sent and waited for.
    pub round_trips: u64,
    /// NFS operations in them.
    pub operations: u64,
    /// Bytes of the requests.
    pub bytes_out: u64,
    /// Bytes of the replies.
    pub bytes_in: u64,
}
