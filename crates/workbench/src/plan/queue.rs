//! A node as a queue with Poisson arrivals, exponential service, and one server for each core
//! (M/M/c; Kleinrock, Queueing Systems, volume 1, section 3.5).

/// The number of cells for sums of response times.
const GRID: usize = 1_000;

/// A queue that is not overloaded. Times are in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    service_ms: f64,
    /// The mean number of free servers.
    free: f64,
    /// The probability to wait: Erlang's C formula.
    wait: f64,
}

impl Queue {
    /// A queue of `servers`, of which `busy` are busy on average; none if the queue is overloaded.
    pub(crate) fn new(servers: u32, busy: f64, service_ms: f64) -> Option<Self> {
        let free = f64::from(servers) - busy;
        let blocked = (1..=servers).fold(1.0, |blocked, server| {
            busy * blocked / (f64::from(server) + busy * blocked)
        });
        let utilisation = busy / f64::from(servers);
        (free > 0.0).then_some(Self {
            service_ms,
            free,
            wait: blocked / (1.0 - utilisation * (1.0 - blocked)),
        })
    }

    pub(crate) fn mean_ms(&self) -> f64 {
        self.service_ms * (1.0 + self.wait / self.free)
    }

    /// The probability that a response takes longer.
    fn longer_than(&self, ms: f64) -> f64 {
        let time = ms / self.service_ms;
        let rest = self.free - 1.0;
        // Where waiting and service take alike, the sum's limit is a gamma distribution.
        if rest.abs() < 1e-6 {
            return (-time).exp() * (1.0 + self.wait * time);
        }
        (-time).exp() * (1.0 + self.wait * (1.0 - (-rest * time).exp()) / rest)
    }
}

/// The times within which these shares of the responses pass all queues, one after the other.
pub(crate) fn quantiles_ms<const N: usize>(queues: &[Queue], quantiles: [f64; N]) -> [f64; N] {
    // All but a hundred-thousandth are within twelve times the mean.
    let range: f64 = queues.iter().map(Queue::mean_ms).sum::<f64>() * 12.0;
    let step = range / GRID as f64;
    let mut sum = vec![0.0; GRID];
    sum[0] = 1.0;
    for queue in queues.iter().filter(|queue| queue.service_ms > 0.0) {
        let share = |cell: usize| {
            let from = (cell as f64 - 0.5).max(0.0) * step;
            queue.longer_than(from) - queue.longer_than((cell as f64 + 0.5) * step)
        };
        let shares: Vec<f64> = (0..GRID).map(share).collect();
        sum = (0..GRID)
            .map(|cell| (0..=cell).map(|part| shares[part] * sum[cell - part]).sum())
            .collect();
    }
    quantiles.map(|quantile| reach(&sum, quantile).map_or(range, |cells| cells * step))
}

/// The number of cells that contain this share.
fn reach(shares: &[f64], quantile: f64) -> Option<f64> {
    let mut reached = 0.0;
    for (cell, share) in shares.iter().enumerate() {
        let before = reached;
        reached += share;
        if reached >= quantile {
            let within = (quantile - before) / share;
            return Some((cell as f64 - 0.5 + within).max(0.0));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(value: f64, expected: f64) {
        assert!(
            (value / expected - 1.0).abs() < 0.01,
            "{value} is not {expected}"
        );
    }

    #[test]
    fn one_server_takes_the_known_times() {
        // M/M/1: the response time is exponential with mean s / (1 - rho).
        let queue = Queue::new(1, 0.75, 2.0).unwrap();
        near(queue.mean_ms(), 8.0);
        let [p50, p99] = quantiles_ms(&[queue], [0.5, 0.99]);
        near(p50, 8.0 * 2.0_f64.ln());
        near(p99, 8.0 * 100.0_f64.ln());
    }

    #[test]
    fn several_servers_wait_as_erlang_says() {
        // Erlang's C formula for 4 servers and 3 Erlang is 0.5094.
        let queue = Queue::new(4, 3.0, 10.0).unwrap();
        near(queue.mean_ms(), 10.0 * (1.0 + 0.5094));
    }

    #[test]
    fn queues_in_a_row_add_up() {
        // Two exponential times of mean 2 are a gamma time: its median is 1.6783 and its 99 % quantile 6.6384 of the mean.
        let queue = Queue::new(1, 0.5, 1.0).unwrap();
        let [p50, p99] = quantiles_ms(&[queue, queue], [0.5, 0.99]);
        near(p50, 2.0 * 1.6783);
        near(p99, 2.0 * 6.6384);
    }

    #[test]
    fn too_few_servers_are_no_queue() {
        assert!(Queue::new(2, 2.0, 1.0).is_none());
    }
}
