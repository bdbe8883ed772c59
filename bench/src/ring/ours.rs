//! The echo through Helenus's io: one shard, a task a connection.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use helenus::base::local::Notify;
use helenus::io::{Io, Mesh, RealConfig, Stream, TaskClass, start_real};

use super::{BUFFER_BYTES, Meter, Reading, Served};

type Readings = (Reading, Reading);

pub(super) fn serve(served: Served, core: Option<usize>) -> Receiver<Readings> {
    let (done, readings) = channel();
    let config = RealConfig { shards: 1, cpus: core.map(|core| vec![core]), pin: core.is_some(), mesh_capacity: 1 };
    let once = Arc::new(Mutex::new(Some((served, done))));
    let running = start_real(config, move |io: Io, _: Mesh<()>| {
        let (served, done) = once.lock().expect("not poisoned").take().expect("one shard");
        entry(io, served, done)
    });
    let running = running.expect("a shard starts");
    std::thread::spawn(move || running.join().expect("the shard ends well"));
    readings
}

async fn entry(io: Io, served: Served, done: Sender<Readings>) {
    let listener = io.listen(([127, 0, 0, 1], 0).into()).await.expect("a free port");
    let meter = Rc::new(RefCell::new(Meter::new(&served)));
    let ended = Rc::new(Notify::new());
    let mut end = Box::pin(ended.notified());
    served.address.send(listener.local_addr()).expect("the load waits for it");
    for _ in 0..served.connections {
        let stream = io.adopt(listener.accept().await.expect("a connection")).expect("a TCP connection");
        let echo = echo(io.clone(), stream, meter.clone(), done.clone(), ended.clone());
        io.spawn(TaskClass::Foreground, echo);
    }
    end.as_mut().await;
}

async fn echo(io: Io, stream: Stream, meter: Rc<RefCell<Meter>>, done: Sender<Readings>, ended: Rc<Notify>) {
    let mut buf = Vec::with_capacity(BUFFER_BYTES);
    loop {
        let (received, got) = stream.recv(buf).await;
        if !matches!(got, Ok(1..)) {
            return;
        }
        let (mut sent, result) = stream.send_all(received).await;
        if result.is_err() {
            return;
        }
        let readings = meter.borrow_mut().echoed(sent.len(), || io.stats().ring_enters);
        if let Some(readings) = readings {
            done.send(readings).expect("the measurement waits for it");
            ended.notify_all();
        }
        sent.clear();
        buf = sent;
    }
}
