"""What attention costs in FLOPs, by formula, and in memory, by measurement (notebooks 06 and 09)."""

import os
from functools import lru_cache, partial


def flops(num_tokens, d_in, d_out, b=1):
    """FLOPs of one forward pass, by part: a multiplication and an addition per term of each matrix product.

    We leave out softmax, masks and biases, and count the full score matrix, including the hidden half. num_heads
    doesn't matter, because more heads are narrower.
    """
    return {
        "q, k, v": 2 * b * num_tokens * d_in * 3 * d_out,
        "scores": 2 * b * num_tokens**2 * d_out,
        "context": 2 * b * num_tokens**2 * d_out,
        "out_proj": 2 * b * num_tokens * d_out**2,
    }


def peak_bytes(f, *args):
    """The most memory that f(*args) holds at once on the CPU, in bytes, on top of what was there before.

    Counted at torch's allocator, so scratch space inside operations counts too. Returns an int.
    """
    profile = quiet_profiler()
    with profile() as profiler:
        kept = f(*args)
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    del kept
    return peak


@lru_cache
def quiet_profiler():
    """A function that makes torch's memory profiler for the CPU. The first one may print, so one starts here already.

    What it prints is harmless: an error if torch was imported on another thread, as in a notebook's kernel.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or each start prints a line
    from torch.profiler import ProfilerActivity, profile

    made = partial(profile, activities=[ProfilerActivity.CPU], profile_memory=True)
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)  # it prints past Python's sys.stderr
    try:
        with made():
            pass
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)
    return made
