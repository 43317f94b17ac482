//! A slice of any variation, as stages that are exponential.

/// A slice as exponential stages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stages {
    /// Of stages 0, 1, ...: all have this rate, or in a hyperexponential slice, each its own.
    rates: [f64; 2],
    pub(super) last: u8,
    /// The chance to begin at stage 1.
    pub(super) skip: f64,
    pub(super) is_sequence: bool,
}

impl Stages {
    pub(super) fn new(mean: f64, cvsq: f64, stages_max: u8) -> Self {
        if cvsq > 1.0 {
            let first = 0.5 * (1.0 + ((cvsq - 1.0) / (cvsq + 1.0)).sqrt());
            let rates = [2.0 * first / mean, 2.0 * (1.0 - first) / mean];
            return Self {
                rates,
                last: 1,
                skip: 1.0 - first,
                is_sequence: false,
            };
        }
        let cvsq = cvsq.max(1.0 / f64::from(stages_max));
        // k stages, or with some chance one less (Tijms 1994).
        let k = (1.0 / cvsq - 1e-9).ceil().max(1.0);
        let skip = (k * cvsq - (k * (1.0 + cvsq) - k * k * cvsq).max(0.0).sqrt()) / (1.0 + cvsq);
        let skip = if k == 1.0 { 0.0 } else { skip };
        let rate = (k - skip) / mean;
        Self {
            rates: [rate, rate],
            last: k as u8 - 1,
            skip,
            is_sequence: true,
        }
    }

    pub(super) fn rate(&self, stage: u8) -> f64 {
        self.rates[usize::from(stage.min(1))]
    }
}
