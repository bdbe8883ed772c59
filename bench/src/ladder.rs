//! `bench ladder`: what each step adds on the way from the bytes of a request to its answer over a socket, all in one
//! run, and each as a share of the echo: the floor over loopback.

use std::hint::black_box;

use crate::arguments::Takes;
use crate::calibration;
use crate::inprocess::{self, Kind, Shape, To, WINDOW};
use crate::loopback::{self, Helenus, Wire};
use crate::micro::{DECODES, decode_ns, ns_each};
use crate::report::{Report, short};

const IN_FLIGHT: [(usize, u64); 3] = [(1, 20_000), (16, 100_000), (64, 200_000)];

pub fn run(arguments: &[String]) -> Result<(), String> {
    const TAKES: Takes = Takes { command: "ladder", options: &["--json", "--connections"], flags: &[] };
    let given = TAKES.parse(arguments)?;
    let connections = usize::try_from(given.number("--connections", 1)?).map_err(|error| error.to_string())?;
    let kinds = match &given.words[..] {
        [] => vec![Kind::Read, Kind::Write],
        words => words.iter().map(|name| Kind::named(name)).collect::<Result<_, _>>()?,
    };
    let mut report = Report::new("ladder", calibration::shown());
    for kind in kinds {
        ladder(kind, connections, &mut report)?;
    }
    report.save(given.text("--json"))
}

fn ladder(kind: Kind, connections: usize, report: &mut Report) -> Result<(), String> {
    let server = Helenus::start(kind)?;
    let memcpy = memcpy_ns(&server.wire);
    let decode = decode_ns(kind, DECODES)?;
    let shape = Shape { kind, shards: 1, to: To::Owner, floor: false, operations: 500 * WINDOW };
    let in_process = inprocess::cost(&shape, true, None)?.cpu_ns;
    let Wire { request_bytes, answer_bytes, .. } = server.wire;
    println!("{}: {request_bytes} B asked, {answer_bytes} B answered, CPU of the server an operation", kind.name());
    println!("{:<12} {:>14} {:>12} {:>12} {:>12}", "", "in flight", "ns", "of the echo", "op/s");
    for (in_flight, operations) in IN_FLIGHT {
        let shape = loopback::Shape { connections, in_flight, operations };
        let (cql, echo) = loopback::beside_echo(&server, shape)?;
        let steps = [
            ("memcpy", memcpy, None),
            ("decode only", decode, None),
            ("in-process", in_process, None),
            ("echo", echo.server_cpu_ns, Some(echo.operations_per_s)),
            ("CQL", cql.server_cpu_ns, Some(cql.operations_per_s)),
        ];
        for (step, ns, rate) in steps {
            let flight = format!("{connections} × {in_flight}");
            let share = ns / echo.server_cpu_ns * 100.0;
            println!(
                "{step:<12} {flight:>14} {:>12} {share:>11.1}% {:>12}",
                short(ns),
                rate.map_or(String::new(), short)
            );
            report.add(format!("{}, {flight}: {step}", kind.name()), ns, "ns/op");
            if let Some(rate) = rate {
                report.add(format!("{}, {flight}: {step}, rate", kind.name()), rate, "op/s").rising = true;
            }
        }
        println!();
    }
    Ok(())
}

/// A copy of a request and of an answer.
fn memcpy_ns(wire: &Wire) -> f64 {
    const TIMES: u64 = 1_000_000;
    let (request, answer) = (&wire.requests[..wire.request_bytes], vec![1; wire.answer_bytes]);
    let (mut first, mut second) = (vec![0; request.len()], vec![0; answer.len()]);
    ns_each(TIMES, || {
        for _ in 0..TIMES {
            black_box(&mut first).copy_from_slice(black_box(request));
            black_box(&mut second).copy_from_slice(black_box(&answer));
        }
    })
}
