//! Overload controls of others, each as small as its idea allows, at the door of a node.

use std::time::Duration;

use sim::Scheme;

const TARGET: Duration = Duration::from_millis(20);

/// CoDel with adaptive LIFO, as in Facebook's thrift servers.
#[derive(Debug, Default)]
pub(crate) struct CoDel {
    last_short: Duration,
}

impl Scheme for CoDel {
    fn admits(&mut self, now: Duration, delay: Duration, _open: usize, _user: u64) -> bool {
        if delay < Duration::from_millis(5) {
            self.last_short = now;
        }
        let patience = if self.is_last_in_first_out(now) {
            5
        } else {
            100
        };
        delay < Duration::from_millis(patience)
    }

    fn is_last_in_first_out(&self, now: Duration) -> bool {
        now > self.last_short + Duration::from_millis(100)
    }
}

/// DAGOR: users have priorities; those below a level stay out. The level follows the mean delay.
#[derive(Debug, Default)]
pub(crate) struct Dagor {
    seen: Vec<u32>,
    admitted: u32,
    delays: Duration,
    count: u32,
    level: Option<usize>,
    window_from: Duration,
}

impl Dagor {
    fn turn(&mut self, now: Duration) {
        let is_over = self.delays > TARGET * self.count.max(1);
        let change = if is_over { 0.95 } else { 1.01 };
        let wanted = (f64::from(self.admitted) * change).ceil();
        let mut sum = 0.0;
        let level = self.seen.iter().position(|seen| {
            sum += f64::from(*seen);
            sum >= wanted
        });
        let level = level.unwrap_or(127);
        self.level = Some(match is_over {
            true => level.saturating_sub(1),
            false => (level + 1).min(127),
        });
        *self = Self {
            level: self.level,
            window_from: now,
            ..Self::default()
        };
    }
}

impl Scheme for Dagor {
    fn admits(&mut self, now: Duration, delay: Duration, _open: usize, user: u64) -> bool {
        if now > self.window_from + Duration::from_secs(1) || self.count >= 100 {
            self.turn(now);
        }
        self.delays += delay;
        self.count += 1;
        let priority = (user % 128) as usize;
        self.seen.resize(128, 0);
        self.seen[priority] += 1;
        // Who has waited so long is repeated anyway.
        let is_late = delay > Duration::from_millis(200);
        let admits = !is_late && priority <= self.level.unwrap_or(127);
        self.admitted += u32::from(admits);
        admits
    }
}

/// Breakwater's credits, held for the callers by the node: as many calls are open as there are credits.
#[derive(Debug)]
pub(crate) struct Breakwater {
    credits: f64,
    worst: Duration,
    due: Duration,
}

impl Default for Breakwater {
    fn default() -> Self {
        Self {
            credits: 16.0,
            worst: Duration::ZERO,
            due: Duration::ZERO,
        }
    }
}

impl Scheme for Breakwater {
    fn admits(&mut self, now: Duration, delay: Duration, open: usize, _user: u64) -> bool {
        self.worst = self.worst.max(delay);
        if self.due <= now {
            let over = self.worst.as_secs_f64() / TARGET.as_secs_f64() - 1.0;
            self.credits = if over < 0.0 {
                self.credits + 1.0
            } else {
                (self.credits * (1.0 - 0.02 * over).max(0.5)).max(1.0)
            };
            self.worst = Duration::ZERO;
            self.due = now + Duration::from_millis(10);
        }
        delay < TARGET * 2 && (open as f64) < self.credits
    }
}

/// Envoy's gradient: the limit of open calls follows the least time to the answer over the present one.
#[derive(Debug)]
pub(crate) struct Gradient {
    limit: f64,
    least: f64,
    took: Vec<f64>,
    due: Duration,
    probe_at: Duration,
    is_probing: bool,
}

impl Default for Gradient {
    fn default() -> Self {
        Self {
            limit: 3.0,
            least: f64::MAX,
            took: Vec::new(),
            due: Duration::ZERO,
            probe_at: Duration::ZERO,
            is_probing: true,
        }
    }
}

impl Gradient {
    fn median(&mut self) -> Option<f64> {
        self.took.sort_by(f64::total_cmp);
        let median = self.took.get(self.took.len() / 2).copied();
        self.took.clear();
        median
    }
}

impl Scheme for Gradient {
    fn admits(&mut self, _now: Duration, _delay: Duration, open: usize, _user: u64) -> bool {
        let limit = if self.is_probing { 3.0 } else { self.limit };
        (open as f64) < limit
    }

    fn answered(&mut self, now: Duration, took: Duration) {
        self.took.push(took.as_secs_f64());
        if self.is_probing {
            if self.took.len() >= 50 {
                self.least = self.median().unwrap_or(self.least);
                self.is_probing = false;
                self.probe_at = now + Duration::from_secs(60);
            }
            return;
        }
        if self.due <= now
            && let Some(median) = self.median()
        {
            let gradient = (1.25 * self.least / median).clamp(0.5, 2.0);
            self.limit = (gradient * self.limit + self.limit.sqrt()).clamp(3.0, 1_000.0);
            self.due = now + Duration::from_millis(100);
        }
        self.is_probing = self.probe_at <= now;
    }
}

/// A PID rejector, as Cinnamon: the share that stays out follows the delay's distance from its target.
#[derive(Debug, Default)]
pub(crate) struct Pid {
    out: f64,
    sum: f64,
    last: f64,
    delays: Duration,
    count: u32,
    due: Duration,
}

impl Scheme for Pid {
    fn admits(&mut self, now: Duration, delay: Duration, _open: usize, user: u64) -> bool {
        self.delays += delay;
        self.count += 1;
        if self.due <= now {
            let mean = (self.delays / self.count).as_secs_f64();
            let error = (mean / TARGET.as_secs_f64() - 1.0).clamp(-1.0, 5.0);
            self.sum = (self.sum + 0.02 * error).clamp(0.0, 0.98);
            self.out = (self.sum + 0.05 * error + 0.02 * (error - self.last)).clamp(0.0, 0.98);
            self.last = error;
            (self.delays, self.count) = (Duration::ZERO, 0);
            self.due = now + Duration::from_millis(100);
        }
        (user % 1_000) as f64 >= 1_000.0 * self.out
    }
}

/// TopFull's idea: a rate at the entry that follows what is answered in the end, and how late.
#[derive(Debug)]
pub(crate) struct Entry {
    rate: f64,
    tokens: f64,
    at: Duration,
    answered: u32,
    late: u32,
    due: Duration,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            rate: 100.0,
            tokens: 0.0,
            at: Duration::ZERO,
            answered: 0,
            late: 0,
            due: Duration::ZERO,
        }
    }
}

impl Scheme for Entry {
    fn admits(&mut self, now: Duration, _delay: Duration, _open: usize, _user: u64) -> bool {
        if self.due <= now {
            let is_late = self.late * 20 > self.answered;
            self.rate = match is_late {
                true => (self.rate * 0.8)
                    .max(f64::from(self.answered) * 0.95)
                    .max(1.0),
                false => self.rate.min(2.0 * f64::from(self.answered).max(20.0)) * 1.05,
            };
            (self.answered, self.late) = (0, 0);
            self.due = now + Duration::from_secs(1);
        }
        self.tokens += self.rate * (now - self.at).as_secs_f64();
        self.tokens = self.tokens.min(self.rate * 0.1 + 1.0);
        self.at = now;
        let admits = self.tokens >= 1.0;
        self.tokens -= f64::from(u8::from(admits));
        admits
    }

    fn answered(&mut self, _now: Duration, took: Duration) {
        self.answered += 1;
        self.late += u32::from(took > Duration::from_millis(100));
    }
}
