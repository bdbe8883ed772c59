"""What the scripts below this folder share: a Python that has the driver, and a server of their own."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(os.path.dirname(HERE), "target"))
BINARY = os.path.join(TARGET, "debug", "helenus")
READY_WITHIN_S = 60


def enter_venv():
    """Goes on in a Python that has the driver, made anew where the pinned versions changed."""
    venv = os.path.join(TARGET, "python")
    python = os.path.join(venv, "bin", "python")
    requirements = os.path.join(HERE, "requirements.txt")
    stamp = os.path.join(venv, "installed-from")
    with open(requirements, encoding="utf-8") as pins:
        wanted = pins.read()
    installed = None
    with contextlib.suppress(FileNotFoundError), open(stamp, encoding="utf-8") as found:
        installed = found.read()
    if installed != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "-r", requirements], check=True)
        with open(stamp, "w", encoding="utf-8") as out:
            out.write(wanted)
    if os.path.realpath(sys.prefix) != os.path.realpath(venv):
        os.execv(python, [python, os.path.abspath(sys.argv[0]), *sys.argv[1:]])


def address(text):
    """(host, port) of HOST[:PORT]."""
    host, _, port = text.partition(":")
    return host, int(port or 9042)


@contextlib.contextmanager
def server(binary):
    """A fresh server on free ports with a directory of its own; gives its (host, port)."""
    os.makedirs(TARGET, exist_ok=True)
    work = tempfile.mkdtemp(prefix="server-", dir=TARGET)
    log = open(os.path.join(work, "server.log"), "w", encoding="utf-8")
    command = [binary, "--overprovisioned", "--shards", "2", "--port", "0", "--shard-aware-port", "0",
               "--set", "write_request_timeout=60s", "--set", "read_request_timeout=60s",
               "--admin-port", "0", "--data-dir", os.path.join(work, "data")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    late = threading.Timer(READY_WITHIN_S, process.kill)
    late.start()
    try:
        line = process.stdout.readline()
        late.cancel()
        ready = re.match(r"READY cql=(\S+):(\d+) ", line)
        if not ready:
            sys.exit(f"the server did not get ready: {line!r}; see {log.name}")
        yield ready.group(1), int(ready.group(2))
        if process.poll() is not None:
            sys.exit(f"the server ended by itself with status {process.returncode}; see {log.name}")
        process.send_signal(signal.SIGTERM)
        if process.wait(60) != 0:
            sys.exit(f"after SIGTERM the server ended with status {process.returncode}; see {log.name}")
        shutil.rmtree(work)
    finally:
        late.cancel()
        process.kill()
        process.wait()
        log.close()
