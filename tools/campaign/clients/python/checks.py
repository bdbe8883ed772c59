"""What the Python scripts share: their arguments, and how a check is reported."""
import argparse
import sys
import time
import traceback


def arguments(description):
    """Parses what `helenus-campaign clients` passes to every script, and the driver's own two."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9042)
    parser.add_argument("--rows", type=int, default=100_000, help="rows to write, and to page over")
    parser.add_argument("--seed", type=int, default=1, help="makes the values written")
    parser.add_argument("--protocol", type=int, default=5, choices=(3, 4, 5))
    parser.add_argument("--compression", default="lz4", choices=("lz4", "snappy"))
    return parser.parse_args()


def run(checks):
    """Runs each check in its order; prints `ok NAME`, or says what was wrong and ends with status 1."""
    for check in checks:
        try:
            check()
        except Exception:  # the campaign reports whatever it was, with its place
            traceback.print_exc()
            print(f"check {check.__name__} failed", file=sys.stderr, flush=True)
            sys.exit(1)
        print(f"ok {check.__name__}", flush=True)


def same(got, want, what=""):
    """Fails unless the two are equal, and shows both."""
    if got != want:
        raise AssertionError(f"{what}\n  want {shortened(want)}\n  got  {shortened(got)}")


def shortened(value):
    text = repr(value)
    return text if len(text) < 2000 else text[:2000] + f"… ({len(text)} characters)"


def eventually(condition, what, within_s=10):
    """Waits until `condition()` holds."""
    until = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"not within {within_s} s: {what}")
        time.sleep(0.05)


def fails(kind, action):
    """Runs `action`, which must raise `kind`; gives the exception."""
    try:
        result = action()
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}, got {shortened(result)}")


def mixed(seed, number):
    """A number that depends on both and on nothing else (SplitMix64's last steps)."""
    x = (seed * 0x9E3779B97F4A7C15 + number * 0xBF58476D1CE4E5B9 + 1) & (2**64 - 1)
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return x ^ (x >> 31)
