//! Requests to stop: SIGTERM and SIGINT, seen by an ordinary thread.

use std::io::Read;
use std::os::fd::{IntoRawFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// A request to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Terminate,
    Interrupt,
}

/// The pipe into which the handler writes; -1 before it stands.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// Only what a handler may do: one write.
extern "C" fn on_signal(number: libc::c_int) {
    let byte = u8::try_from(number).unwrap_or(0);
    let pipe: RawFd = PIPE.load(Ordering::Acquire);
    // SAFETY: write is async-signal-safe and `byte` is readable; errno is put back, as the interrupted code may hold
    // its own.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(pipe, (&raw const byte).cast(), 1);
        *libc::__errno_location() = errno;
    }
}

/// Blocks an ordinary thread until SIGTERM or SIGINT. From the first call on these no longer end the process.
pub fn wait_for_signal() -> Signal {
    let (mut reader, writer) = std::io::pipe().expect("a pipe: two descriptors and no limit of ours");
    // The old writer, of an earlier call, stays open: a handler may hold it just now.
    PIPE.store(writer.into_raw_fd(), Ordering::Release);
    for number in [libc::SIGTERM, libc::SIGINT] {
        install(number);
    }
    loop {
        let mut byte = [0];
        match reader.read_exact(&mut byte) {
            Ok(()) if i32::from(byte[0]) == libc::SIGTERM => return Signal::Terminate,
            Ok(()) => return Signal::Interrupt,
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "the writer is never closed"),
        }
    }
}

fn install(number: libc::c_int) {
    // SAFETY: a sigaction is plain data, for which zero is a value: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler does only what a handler may, and `action` is whole for the length of the call.
    let result = unsafe { libc::sigaction(number, &raw const action, std::ptr::null_mut()) };
    assert_eq!(result, 0, "a handler for signal {number}, which may be caught");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn both_signals_are_told_apart() {
        for (number, signal) in [(libc::SIGTERM, Signal::Terminate), (libc::SIGINT, Signal::Interrupt)] {
            let before = PIPE.load(Ordering::Acquire);
            let waiting = std::thread::spawn(wait_for_signal);
            while PIPE.load(Ordering::Acquire) == before {
                std::thread::sleep(Duration::from_millis(1));
            }
            install(number); // the thread may not have come so far yet
            // SAFETY: raise takes no pointers, and the handler is installed.
            unsafe { libc::raise(number) };
            assert_eq!(waiting.join().expect("no panic"), signal);
        }
    }
}
