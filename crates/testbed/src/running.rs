//! A process of a test.

use std::{
    io,
    process::{Child, Output},
};

/// A process that is killed by its own id when it is dropped, also when the test panics.
#[derive(Debug)]
pub struct Running(Option<Child>);

impl From<Child> for Running {
    fn from(child: Child) -> Self {
        Self(Some(child))
    }
}

impl Running {
    /// Its id.
    pub fn id(&self) -> u32 {
        let child = self.0.as_ref().expect("only `output` takes it");
        child.id()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        let child = self.0.as_mut().expect("only `output` takes it");
        !matches!(child.try_wait(), Ok(None))
    }

    /// Waits for its end; what it wrote.
    ///
    /// # Errors
    /// What it wrote can't be read.
    pub fn output(mut self) -> io::Result<Output> {
        let child = self.0.take().expect("only `output` takes it");
        child.wait_with_output()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
