//! What a socket does not let in: what a filter drops, and what finds the receive buffer full.

use std::{
    io,
    os::fd::AsRawFd,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use socket2::SockFilter;

use super::Socket;

/// One instruction of classic BPF: the operation, how many instructions to skip if its condition holds and if not, and a
/// constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are named as the kernel names them")]
pub struct Instruction {
    pub code: u16,
    pub jt: u8,
    pub jf: u8,
    pub k: u32,
}

/// The filter of a socket.
#[derive(Debug, Default)]
pub(super) struct Filter {
    attached: AtomicBool,
    tally: Mutex<Tally>,
}

/// The kernel has one counter for what the filter drops and for what finds the buffer full. It tells them apart by how full
/// the buffer is when somebody looks at it, so somebody looks before each batch is taken out of it.
#[derive(Debug, Default)]
struct Tally {
    /// What the kernel had dropped at the last look.
    seen: u32,
    /// What the filter dropped of it.
    filtered: u32,
}

/// The kernel's figures of a receive buffer.
struct Memory {
    used: u32,
    limit: u32,
    dropped: u32,
}

impl Socket {
    /// Drops the datagrams of which `program` keeps nothing. It replaces an earlier program without a gap.
    /// What is in the receive buffer stays there.
    ///
    /// # Errors
    /// The system's error: the kernel finds a fault in the program, such as more than 4,096 instructions, or has no room
    /// for it beside an earlier one within `net.core.optmem_max`.
    pub fn set_filter(&self, program: impl IntoIterator<Item = Instruction>) -> io::Result<()> {
        let program: Vec<_> = program.into_iter().map(Instruction::for_kernel).collect();
        // The kernel gets 16 bits of the length.
        if program.len() > usize::from(u16::MAX) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut tally = self.filter.tally();
        if !self.filter.attached.load(Relaxed) {
            tally.seen = self.memory()?.dropped;
        }
        self.inner.attach_filter(&program)?;
        self.filter.attached.store(true, Relaxed);
        Ok(())
    }

    /// Has `program` choose which of the sockets that share this one's address gets a datagram: by its place, in the order
    /// in which they were bound. Any other number leaves the choice to the kernel. It replaces an earlier program
    /// without a gap.
    ///
    /// # Errors
    /// The system's error: the address is not shared, or the kernel finds a fault in the program, or it is longer than
    /// `net.core.optmem_max`.
    pub fn steer(&self, program: impl IntoIterator<Item = Instruction>) -> io::Result<()> {
        let mut program: Vec<_> = program.into_iter().map(Instruction::for_kernel).collect();
        let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let program = libc::sock_fprog {
            len: length,
            filter: program.as_mut_ptr().cast(),
        };
        // SAFETY: the program has so many instructions, and the kernel copies them.
        let status = unsafe {
            libc::setsockopt(
                self.inner.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_REUSEPORT_CBPF,
                (&raw const program).cast(),
                size_of_val(&program) as libc::socklen_t,
            )
        };
        match status {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Lets all datagrams in, whether there was a filter or not.
    ///
    /// # Errors
    /// The system's error; none is known for a filter that nobody locked.
    pub fn clear_filter(&self) -> io::Result<()> {
        if !self.filter.attached.load(Relaxed) {
            return Ok(());
        }
        self.inner.detach_filter()?;
        self.account_drops();
        self.filter.attached.store(false, Relaxed);
        Ok(())
    }

    /// Returns how many datagrams the kernel dropped since the bind because its receive buffer was full. The number wraps.
    /// While there is a filter, it is as old as the last [`Self::recv`], and counts what the filter drops while the buffer
    /// is at least half full.
    ///
    /// # Errors
    /// The system's error; Linux before 4.12 does not have this number.
    pub fn kernel_drops(&self) -> io::Result<u32> {
        let tally = self.filter.tally();
        let dropped = if self.filter.attached.load(Relaxed) {
            tally.seen
        } else {
            self.memory()?.dropped
        };
        Ok(dropped.wrapping_sub(tally.filtered))
    }

    /// Returns how many datagrams filters dropped since the bind, as of the last [`Self::recv`]. The number wraps.
    #[must_use]
    pub fn filter_drops(&self) -> u32 {
        self.filter.tally().filtered
    }

    /// Tells what the filter dropped since the last look from what found the buffer full.
    pub(super) fn account_drops(&self) {
        if !self.filter.attached.load(Relaxed) {
            return;
        }
        // What can be read now could be read when the filter was set.
        if let Ok(memory) = self.memory() {
            self.filter.tally().look(&memory);
        }
    }

    fn memory(&self) -> io::Result<Memory> {
        let mut info = [0u32; libc::SK_MEMINFO_DROPS as usize + 1];
        let mut length = size_of_val(&info) as libc::socklen_t;
        // SAFETY: `info` has room for `length` bytes.
        let status = unsafe {
            libc::getsockopt(
                self.inner.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MEMINFO,
                info.as_mut_ptr().cast(),
                &mut length,
            )
        };
        match status {
            0 => Ok(Memory {
                used: info[libc::SK_MEMINFO_RMEM_ALLOC as usize],
                limit: info[libc::SK_MEMINFO_RCVBUF as usize],
                dropped: info[libc::SK_MEMINFO_DROPS as usize],
            }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Filter {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
    fn look(&mut self, memory: &Memory) {
        let new = memory.dropped.wrapping_sub(self.seen);
        self.seen = memory.dropped;
        // A buffer that was full a batch ago is more than half full.
        if memory.used < memory.limit / 2 {
            self.filtered = self.filtered.wrapping_add(new);
        }
    }
}

impl Instruction {
    fn for_kernel(self) -> SockFilter {
        SockFilter::new(self.code, self.jt, self.jf, self.k)
    }
}
