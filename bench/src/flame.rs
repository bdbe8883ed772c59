//! `bench flame`: a flame graph of the server on one core under a workload, and its largest costs.
//!
//! perf samples the server's threads by the CPU clock, with call chains by frame pointers, which a build has with
//! `RUSTFLAGS="-C force-frame-pointers=yes"`; without them chains are shallow, but for `--call-graph dwarf`. What is drawn is what perf gives; for the list of costs, a library's function
//! counts as the function of Helenus's that called it, and the kernel's as the operation that it was asked for.

mod costs;

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use inferno::collapse::Collapse;
use inferno::collapse::perf::{Folder, Options as FolderOptions};
use inferno::flamegraph::{self, Options};

use crate::arguments::Takes;
use crate::calibration;
use crate::inprocess::{Kind, MapSize};
use crate::loopback::{Helenus, Shape};
use crate::report::Report;
use crate::scratch::Scratch;
use crate::workloads::{self, Flame};

/// Samples a second: no divisor of what else happens in one.
const SAMPLES_PER_S: &str = "1999";
/// How long perf may take to attach.
const ATTACHES_WITHIN: Duration = Duration::from_secs(5);

/// Rows that are there before the load.
const ROWS: u64 = 200_000;
/// Of the loads that bench itself puts on the server.
const CONNECTIONS: usize = 8;
const IN_FLIGHT: usize = 64;

pub fn run(arguments: &[String]) -> Result<(), String> {
    const TAKES: Takes =
        Takes { command: "flame", options: &["--seconds", "--top", "--svg", "--call-graph", "--json"], flags: &[] };
    let given = TAKES.parse(arguments)?;
    let [name] = &given.words[..] else { return Err("bench flame: one of w1, w2, w4, read, write".into()) };
    let (seconds, top) = (given.number("--seconds", 10)?, given.number("--top", 3)?);
    let svg = PathBuf::from(given.text("--svg").map_or(format!("flame-{name}.svg"), str::to_owned));
    let chains = given.text("--call-graph").unwrap_or("fp");
    let mut report = Report::new(&format!("flame {name}"), calibration::shown());
    let scratch = Scratch::new("flame")?;
    let recording = |process_id: u32| Perf::start(process_id, chains, &scratch.0.join("perf.data"));
    let recorded = match name.as_str() {
        "w1" => workloads::flame(Flame::Mixed { rows: ROWS }, seconds, &recording)?,
        "w2" => workloads::flame(Flame::Batches, seconds, &recording)?,
        "read" => own_load(Kind::Read, seconds, &recording)?,
        "write" => own_load(Kind::Write, seconds, &recording)?,
        "w4" => own_load(Kind::Add(MapSize::Thousand), seconds, &recording)?,
        other => return Err(format!("bench flame: `{other}` is none of w1, w2, w4, read, write")),
    };
    let folded = recorded.folded()?;
    draw(&folded, &format!("{name}, {} B of call chains by {chains}", folded.len()), &svg)?;
    println!("{} is drawn", svg.display());
    let costs = costs::of(&folded);
    let samples: u64 = costs.iter().map(|(_, samples)| samples).sum();
    println!("{samples} samples of the server's CPU; the largest costs:");
    for (cost, count) in costs.iter().take(top as usize) {
        let share = *count as f64 / samples.max(1) as f64 * 100.0;
        println!("  {share:>5.1} %  {cost}");
        report.add(cost.clone(), share, "% of samples");
    }
    report.save(given.text("--json"))
}

/// What a recording is started by, given the server's process.
pub type Recording<'a> = &'a dyn Fn(u32) -> Result<Perf, String>;

/// Requests of one kind, again and again.
fn own_load(kind: Kind, seconds: u64, recording: Recording<'_>) -> Result<Recorded, String> {
    let server = Helenus::start(kind)?;
    let shape = Shape { connections: CONNECTIONS, in_flight: IN_FLIGHT, operations: 200_000 };
    server.measure(shape)?;
    let perf = recording(server.process_id())?;
    let ends = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < ends {
        let rate = server.measure(shape)?;
        println!(
            "{}: {:.0} op/s, {:.0} ns of server CPU an operation",
            kind.name(),
            rate.operations_per_s,
            rate.server_cpu_ns
        );
    }
    perf.end()
}

/// perf, while it records.
pub struct Perf {
    child: Child,
    file: PathBuf,
}

/// What perf recorded.
pub struct Recorded {
    file: PathBuf,
}

impl Perf {
    fn start(process_id: u32, chains: &str, file: &Path) -> Result<Perf, String> {
        let child = Command::new("perf")
            .args(["record", "-q", "-e", "cpu-clock", "-F", SAMPLES_PER_S, "--call-graph", chains])
            .args(["-p", &process_id.to_string(), "-o"])
            .arg(file)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("perf: {error} (apt-get install linux-perf)"))?;
        let mut perf = Perf { child, file: file.to_owned() };
        let started = Instant::now();
        // It writes the file's head once it is attached.
        while std::fs::metadata(file).map_or(0, |file| file.len()) == 0 {
            let ended = perf.child.try_wait().map_err(|error| error.to_string())?.is_some();
            if ended || started.elapsed() > ATTACHES_WITHIN {
                return Err(perf.failure());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(perf)
    }

    /// Ends the recording.
    pub fn end(mut self) -> Result<Recorded, String> {
        let process_id = libc::pid_t::try_from(self.child.id()).map_err(|error| error.to_string())?;
        // SAFETY: kill takes two numbers; the process is our child, which we have not waited for.
        let told = unsafe { libc::kill(process_id, libc::SIGINT) };
        if told != 0 {
            return Err(format!("perf: {}", std::io::Error::last_os_error()));
        }
        self.child.wait().map_err(|error| format!("perf: {error}"))?;
        match std::fs::metadata(&self.file) {
            Ok(_) => Ok(Recorded { file: self.file }),
            Err(_) => Err(self.failure()),
        }
    }

    fn failure(&mut self) -> String {
        // Both fail only where it has ended already.
        let _killed = self.child.kill();
        let _waited = self.child.wait();
        let said = self.child.stderr.take().and_then(|pipe| std::io::read_to_string(pipe).ok());
        format!("perf does not record: {}", said.unwrap_or_default())
    }
}

impl Recorded {
    /// A line for each different call chain: its functions from the outermost on, and how many samples had it.
    fn folded(&self) -> Result<String, String> {
        let mut script = Command::new("perf")
            .args(["script", "--no-inline", "-i"])
            .arg(&self.file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("perf: {error}"))?;
        let mut options = FolderOptions::default();
        options.annotate_kernel = true;
        let mut folded = Vec::new();
        let said = script.stdout.take().ok_or("perf has no output")?;
        let collapsed = Folder::from(options).collapse(BufReader::new(said), &mut folded);
        script.wait().map_err(|error| format!("perf: {error}"))?;
        collapsed.map_err(|error| format!("perf script: {error}"))?;
        String::from_utf8(folded).map_err(|error| error.to_string())
    }
}

fn draw(folded: &str, title: &str, svg: &Path) -> Result<(), String> {
    let file = std::fs::File::create(svg).map_err(|error| format!("{}: {error}", svg.display()))?;
    let mut options = Options::default();
    options.title = format!("Helenus, one core, {title}");
    flamegraph::from_lines(&mut options, folded.lines(), file).map_err(|error| format!("{}: {error}", svg.display()))
}
