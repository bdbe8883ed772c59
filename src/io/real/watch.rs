//! The watchdog: an ordinary thread that sees when a turn keeps a shard from its ring for too long, and logs the shard's
//! stack while it does.
//!
//! A shard writes when its turn began into its heartbeat, with a plain store, and 0 when the turn is over. The watchdog
//! looks at that every few milliseconds. Where a turn is too long it sends the shard's thread a signal, whose handler
//! walks the thread's frame pointers and leaves the return addresses in the heartbeat. Names are found by the watchdog,
//! which may allocate, lock and read files as it likes. An optimised build keeps frame pointers where it is told to
//! (`-C force-frame-pointers=yes`); where it does not, only the innermost function is sure.

use std::ffi::c_void;
use std::fmt::Write;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering, compiler_fence};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The signal that asks a shard's thread for its stack. By default it is ignored, so that one that comes too late, or from
/// elsewhere, does no harm; the kernel sends it for urgent data only to who asked for it.
const SIGNAL: libc::c_int = libc::SIGURG;
/// Return addresses that are taken.
const FRAMES_MAX: usize = 64;
/// One shard's stack is logged at most once in this time.
const LOGGED_INTERVAL: Duration = Duration::from_secs(1);
/// So long the watchdog waits for a stack: a thread that does not run takes no signal either.
const ANSWER_PATIENCE: Duration = Duration::from_millis(50);

/// No stack has been taken since it was last asked for.
const UNANSWERED: usize = usize::MAX;

/// What a shard tells the watchdog; on cache lines of its own.
#[repr(align(128))]
pub(super) struct Heartbeat {
    /// When the turn under way began; 0 between turns.
    turn_ns: AtomicU64,
    /// The shard's thread, while it lives.
    thread: AtomicI32,
    /// Where that thread's stack ends: the first address above it.
    stack_end: AtomicUsize,
    /// The turn whose stack is asked for.
    wanted_ns: AtomicU64,
    /// How many addresses were left in `frames`; none where that turn was over.
    taken: AtomicUsize,
    frames: [AtomicUsize; FRAMES_MAX],
}

thread_local! {
    /// This thread's heartbeat, where it is a shard's.
    static HEARTBEAT: AtomicPtr<Heartbeat> = const { AtomicPtr::new(std::ptr::null_mut()) };
}

impl Heartbeat {
    pub(super) fn new() -> Self {
        Heartbeat {
            turn_ns: AtomicU64::new(0),
            thread: AtomicI32::new(0),
            stack_end: AtomicUsize::new(0),
            wanted_ns: AtomicU64::new(0),
            taken: AtomicUsize::new(UNANSWERED),
            frames: [const { AtomicUsize::new(0) }; FRAMES_MAX],
        }
    }

    /// A turn begins, at a time that is not 0.
    pub(super) fn turn_begins(&self, now_ns: u64) {
        self.turn_ns.store(now_ns, Ordering::Relaxed);
    }

    pub(super) fn turn_ends(&self) {
        self.turn_ns.store(0, Ordering::Relaxed);
    }

    /// The return addresses of the turn that began at `turn_ns`, innermost first; `None` where it was over, or its thread
    /// did not answer.
    fn stack_of(&self, turn_ns: u64) -> Option<Vec<usize>> {
        let thread = self.thread.load(Ordering::Acquire);
        if thread == 0 {
            return None;
        }
        self.wanted_ns.store(turn_ns, Ordering::Relaxed);
        self.taken.store(UNANSWERED, Ordering::Release);
        // SAFETY: tgkill takes no pointers. A number that is another thread's of this process by now gets a signal that
        // its handler ignores there.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
        let asked = Instant::now();
        while sent == 0 && asked.elapsed() < ANSWER_PATIENCE {
            std::thread::sleep(Duration::from_micros(200));
            let taken = self.taken.load(Ordering::Acquire);
            if taken != UNANSWERED {
                let frames = self.frames.iter().take(taken).map(|frame| frame.load(Ordering::Relaxed));
                return (taken > 0).then(|| frames.collect());
            }
        }
        None
    }
}

/// A shard's thread that is watched until this is dropped, on that thread.
pub(super) struct Watched {
    heartbeats: Arc<[Heartbeat]>,
    at: usize,
}

impl Watched {
    /// Has the calling thread watched by this heartbeat.
    pub(super) fn new(heartbeats: &Arc<[Heartbeat]>, at: usize) -> Self {
        let watched = Watched { heartbeats: heartbeats.clone(), at };
        let heartbeat = &watched.heartbeats[at];
        heartbeat.stack_end.store(stack_end(), Ordering::Relaxed);
        HEARTBEAT.with(|own| own.store(std::ptr::from_ref(heartbeat).cast_mut(), Ordering::Relaxed));
        // The handler, which runs on this thread, finds the heartbeat once the watchdog finds the thread.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: gettid takes nothing.
        heartbeat.thread.store(unsafe { libc::gettid() }, Ordering::Release);
        watched
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.heartbeats[self.at].thread.store(0, Ordering::Release);
        // A signal that was sent before that finds no heartbeat from here on.
        HEARTBEAT.with(|own| own.store(std::ptr::null_mut(), Ordering::Relaxed));
        compiler_fence(Ordering::SeqCst);
    }
}

/// The first address above the calling thread's stack; 0 where it cannot be told.
fn stack_end() -> usize {
    // SAFETY: the attributes are plain data to be filled in; `pthread_getattr_np` fills them or fails, and only what it
    // filled is read and destroyed.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return 0;
        }
        let (mut start, mut bytes) = (std::ptr::null_mut::<c_void>(), 0);
        let result = libc::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut bytes);
        libc::pthread_attr_destroy(&raw mut attributes);
        if result == 0 { start.addr() + bytes } else { 0 }
    }
}

/// Where a thread was interrupted: program counter, stack pointer, frame pointer.
type Registers = (usize, usize, usize);

#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> Option<Registers> {
    let register = |at: libc::c_int| context.uc_mcontext.gregs[at as usize] as usize;
    Some((register(libc::REG_RIP), register(libc::REG_RSP), register(libc::REG_RBP)))
}

#[cfg(target_arch = "aarch64")]
fn registers(context: &libc::ucontext_t) -> Option<Registers> {
    let machine = &context.uc_mcontext;
    Some((machine.pc as usize, machine.sp as usize, machine.regs[29] as usize))
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn registers(_: &libc::ucontext_t) -> Option<Registers> {
    None
}

/// Leaves the interrupted stack in the thread's heartbeat.
///
/// It may run between any two instructions of the thread, also within malloc or under a lock. So it does only what is
/// async-signal-safe: it calls nothing of libc's (and leaves errno alone), allocates nothing, takes no lock, and does not
/// panic: indices are checked by iterators, arithmetic wraps or is checked. What it touches is on its own stack, in a
/// thread-local without initialiser or destructor (in a program's own TLS block, which is there before the thread's first
/// instruction), in the heartbeat, whose atomics are lock-free words, and on the interrupted stack.
extern "C" fn on_signal(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let Ok(own) = HEARTBEAT.try_with(|own| own.load(Ordering::Relaxed)) else { return };
    // SAFETY: the pointer is set to a heartbeat of an `Arc` that `Watched` holds, and set back to null on this same thread
    // before that lets go.
    let Some(heartbeat) = (unsafe { own.as_ref() }) else { return };
    // SAFETY: the kernel passes a handler with SA_SIGINFO the interrupted context, whole for the length of the call.
    let Some(context) = (unsafe { context.cast::<libc::ucontext_t>().as_ref() }) else { return };
    if heartbeat.taken.load(Ordering::Acquire) != UNANSWERED {
        return; // nobody waits for it
    }
    let mut taken = 0;
    if heartbeat.turn_ns.load(Ordering::Relaxed) == heartbeat.wanted_ns.load(Ordering::Relaxed)
        && let Some(registers) = registers(context)
    {
        let walk = Walk::new(registers, heartbeat.stack_end.load(Ordering::Relaxed));
        for (frame, address) in heartbeat.frames.iter().zip(walk) {
            frame.store(address, Ordering::Relaxed);
            taken += 1;
        }
    }
    heartbeat.taken.store(taken, Ordering::Release);
}

/// The addresses of an interrupted thread's frames, innermost first.
struct Walk {
    next: Option<usize>,
    frame: usize,
    /// Frames stand above this, and below `end`.
    above: usize,
    end: usize,
}

impl Walk {
    fn new((counter, stack, frame): Registers, end: usize) -> Self {
        Walk { next: Some(counter), frame, above: stack, end }
    }
}

impl Iterator for Walk {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        const WORD: usize = size_of::<usize>();
        let address = self.next.take()?;
        let is_frame = self.frame.is_multiple_of(WORD)
            && self.frame >= self.above
            && self.frame.checked_add(2 * WORD).is_some_and(|frame_end| frame_end <= self.end);
        if is_frame {
            let frame = std::ptr::with_exposed_provenance::<usize>(self.frame);
            // SAFETY: both words lie between the stack pointer at the interruption and the end of this thread's stack,
            // which is mapped and belongs to this thread, and nothing else of it runs. Whatever stands there is taken as
            // a number: where code kept no frame pointer the walk ends early or names a wrong place.
            let (outer, back) = unsafe { (frame.read_volatile(), frame.add(1).read_volatile()) };
            self.above = self.frame + 2 * WORD;
            self.frame = outer;
            self.next = (back != 0).then_some(back);
        }
        Some(address)
    }
}

fn install_handler() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: a sigaction is plain data, for which zero is a value: no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void) = on_signal;
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
        // SAFETY: the handler does only what a handler may, and `action` is whole for the length of the call.
        let result = unsafe { libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut()) };
        assert_eq!(result, 0, "a handler for a signal that may be caught");
    });
}

/// A turn that has taken too long, and goes on.
pub(super) struct Stall {
    pub(super) shard: usize,
    pub(super) so_far: Duration,
    /// The functions that it stands in, innermost first.
    pub(super) stack: String,
}

impl Stall {
    pub(super) fn log(&self) {
        let Stall { shard, so_far, stack } = self;
        tracing::warn!(shard, so_far_ms = so_far.as_millis(), "a turn keeps this shard from its ring: {stack}");
    }
}

/// The watching thread; it ends when this is dropped.
pub(super) struct Watchdog {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches the turns of these shards, whose times count from `started`. Where no thread can be made they go unwatched.
    pub(super) fn start(
        heartbeats: Arc<[Heartbeat]>,
        started: Instant,
        limit: Duration,
        report: impl Fn(&Stall) + Send + 'static,
    ) -> Self {
        install_handler();
        let (stop, stopped) = channel();
        let watch = move || watch(&heartbeats, started, limit, &stopped, &report);
        let thread = std::thread::Builder::new().name("watchdog".into()).spawn(watch);
        if let Err(error) = &thread {
            tracing::warn!(%error, "no watchdog: stalls are counted, but their stacks are not logged");
        }
        Watchdog { stop: Some(stop), thread: thread.ok() }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join(); // a panic has been told by its hook
        }
    }
}

fn watch(heartbeats: &[Heartbeat], started: Instant, limit: Duration, stopped: &Receiver<()>, report: &dyn Fn(&Stall)) {
    let mut logged: Vec<Option<Instant>> = vec![None; heartbeats.len()];
    while stopped.recv_timeout(limit / 2) == Err(RecvTimeoutError::Timeout) {
        for ((shard, heartbeat), logged) in heartbeats.iter().enumerate().zip(&mut logged) {
            let turn_ns = heartbeat.turn_ns.load(Ordering::Relaxed);
            let so_far = started.elapsed().saturating_sub(Duration::from_nanos(turn_ns));
            let is_recent = logged.is_some_and(|logged| logged.elapsed() < LOGGED_INTERVAL);
            if turn_ns == 0 || so_far <= limit || is_recent {
                continue;
            }
            if let Some(stack) = heartbeat.stack_of(turn_ns) {
                *logged = Some(Instant::now());
                report(&Stall { shard, so_far, stack: named(&stack) });
            }
        }
    }
}

/// The functions at these addresses, down to the task's own; what stands below is the same for all.
fn named(stack: &[usize]) -> String {
    let mut text = String::new();
    for (depth, address) in stack.iter().enumerate() {
        // A return address is that of the instruction behind the call, which may be another function's.
        let address = if depth == 0 { *address } else { address.wrapping_sub(1) };
        let mut is_last = false;
        backtrace::resolve(std::ptr::without_provenance_mut(address), |symbol| {
            let name = symbol.name().map_or_else(|| "?".to_owned(), |name| format!("{name:#}"));
            is_last |= name.contains("io::real::task::Tracked");
            if is_last {
                return;
            }
            let between = if text.is_empty() { "" } else { " < " };
            let _ = write!(text, "{between}{name}");
            if let (Some(file), Some(line)) = (symbol.filename(), symbol.lineno()) {
                let _ = write!(text, " ({}:{line})", file.display());
            }
        });
        if is_last {
            break;
        }
    }
    backtrace::clear_symbol_cache();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_follows_frames_upwards_and_stops_at_what_is_none() {
        // Frames at words 1, 3 and 5: each holds where the outer one is, and its return address.
        let mut stack = [0usize; 8];
        let at = |word: usize| stack.as_ptr().expose_provenance() + word * size_of::<usize>();
        let (first, second, third, end) = (at(1), at(3), at(5), at(8));
        let begin = at(0);
        let mut walk = |frames: [(usize, usize); 3], frame: usize, end: usize| {
            for ((outer, back), word) in frames.into_iter().zip([1, 3, 5]) {
                (stack[word], stack[word + 1]) = (outer, back);
            }
            std::hint::black_box(&mut stack);
            Walk::new((100, begin, frame), end).collect::<Vec<_>>()
        };
        assert_eq!(walk([(second, 101), (third, 102), (0, 103)], first, end), [100, 101, 102, 103]);
        assert_eq!(walk([(second, 101), (third, 0), (0, 103)], first, end), [100, 101], "no return address");
        assert_eq!(walk([(second, 101), (first, 102), (0, 103)], first, end), [100, 101, 102], "not upwards");
        assert_eq!(walk([(second + 1, 101), (third, 102), (0, 103)], first, end), [100, 101], "not aligned");
        assert_eq!(walk([(end, 101), (third, 102), (0, 103)], first, end), [100, 101], "beyond the stack");
        assert_eq!(walk([(usize::MAX - 7, 101), (third, 102), (0, 103)], first, end), [100, 101], "beyond all");
        assert_eq!(walk([(second, 101), (third, 102), (0, 103)], first, 0), [100], "no stack is known");
    }

    #[test]
    fn the_end_of_the_stack_is_above_what_stands_on_it() {
        let here = 0u8;
        let above = stack_end() - std::ptr::from_ref(&here).addr();
        assert!(above < 64 << 20, "{above} bytes");
    }

    #[test]
    fn a_turn_that_is_over_has_no_stack() {
        install_handler();
        let heartbeats: Arc<[Heartbeat]> = [Heartbeat::new()].into();
        let (stands, standing) = channel();
        let (tell, told) = channel::<()>();
        let theirs = heartbeats.clone();
        let shard = std::thread::spawn(move || {
            let _watched = Watched::new(&theirs, 0);
            theirs[0].turn_begins(7);
            stands.send(()).expect("waited for");
            let _waits = told.recv();
        });
        standing.recv().expect("sent");
        assert!(heartbeats[0].stack_of(7).is_some_and(|stack| !stack.is_empty()));
        assert_eq!(heartbeats[0].stack_of(6), None);
        drop(tell);
        shard.join().expect("no panic");
        assert_eq!(heartbeats[0].stack_of(7), None, "its thread has ended");
    }
}
