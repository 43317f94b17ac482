use node::tap::Tap;

/// Learns what passes before any of it leaves the process.
pub trait Witness: Send + Sync {
    /// A worker's first tap.
    fn tap(&self) -> Tap;
    /// A worker's tap has news, and what it tells of is about to be sent. The worker waits for this.
    fn see(&self, worker: usize, tap: &mut Tap);
}
