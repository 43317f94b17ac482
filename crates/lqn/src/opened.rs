//! A model under a demand from outside.

use crate::model::{Model, Multiplicity, Role};

impl Model {
    /// The same model with so many runs of each reference task in a unit of time, begun at random (a Poisson stream),
    /// whatever the system does. The time of a reference task's entry is then the time of a run.
    #[must_use]
    pub fn opened(&self, rate: f64) -> Self {
        let mut opened = self.clone();
        for task in &mut opened.tasks {
            if let Role::Reference { .. } = task.role {
                task.role = Role::Server;
                task.multiplicity = Multiplicity::Infinite;
                for entry in &task.entries {
                    opened.entries[entry.0].open_arrival_rate = rate;
                }
            }
        }
        opened
    }
}
