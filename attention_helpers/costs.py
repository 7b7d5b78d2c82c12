"""What attention costs in time and memory, by formula and by measurement (notebooks 06, 09 and 10)."""

import os
import time
from functools import lru_cache, partial

from .checks import check_flag, check_size


def check_sizes(**sizes):
    """Check that each size, given by name, is a whole number of at least 1."""
    for name, size in sizes.items():
        check_size(name, size)


def parameters(d_in, d_out, qkv_bias=False):
    """Parameters of a MultiHeadAttention: three matrices, out_proj and biases. num_heads doesn't matter.

    Errors: TypeError or ValueError if a size isn't a whole number of at least 1, or qkv_bias isn't True or False.
    """
    check_sizes(d_in=d_in, d_out=d_out)
    check_flag("qkv_bias", qkv_bias)
    return 3 * (d_in + qkv_bias) * d_out + (d_out + 1) * d_out


def flops(num_tokens, d_in, d_out, b=1):
    """FLOPs of one forward pass, by part: a multiplication and an addition per term of each matrix product.

    We leave out softmax, masks and biases, and count the full score matrix, including the hidden half. num_heads
    doesn't matter, because more heads are narrower. Errors: TypeError or ValueError if a size isn't a whole number of
    at least 1.
    """
    check_sizes(num_tokens=num_tokens, d_in=d_in, d_out=d_out, b=b)
    return {
        "q, k, v": 2 * b * num_tokens * d_in * 3 * d_out,
        "scores": 2 * b * num_tokens**2 * d_out,
        "context": 2 * b * num_tokens**2 * d_out,
        "out_proj": 2 * b * num_tokens * d_out**2,
    }


def table_bytes(num_tokens, num_heads, b=1, bytes_per_number=4):
    """Bytes of the score matrices of all heads, (b, num_heads, num_tokens, num_tokens). Errors: as in flops."""
    check_sizes(num_tokens=num_tokens, num_heads=num_heads, b=b, bytes_per_number=bytes_per_number)
    return b * num_heads * num_tokens**2 * bytes_per_number


def cache_bytes(num_tokens, d_out, b=1, bytes_per_number=4):
    """Bytes of one layer's KV cache for num_tokens tokens. Errors: as in flops."""
    check_sizes(num_tokens=num_tokens, d_out=d_out, b=b, bytes_per_number=bytes_per_number)
    return 2 * b * num_tokens * d_out * bytes_per_number


def flops_per_cached_byte(num_heads, num_kv_heads, bytes_per_number=2):
    """FLOPs of scores and context per byte that decoding reads from the KV cache, for any length and batch.

    Each cached number is multiplied and added once for each query head that shares its KV head. Errors: as in flops;
    also ValueError if num_kv_heads doesn't divide num_heads.
    """
    check_sizes(num_heads=num_heads, num_kv_heads=num_kv_heads, bytes_per_number=bytes_per_number)
    if num_heads % num_kv_heads:
        raise ValueError(f"num_kv_heads must divide num_heads, got {num_kv_heads} and {num_heads}")
    return 2 * (num_heads // num_kv_heads) / bytes_per_number


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


def timed(functions, runs=7):
    """Seconds per call: a list of `runs` timings for each function, taken in turns so that conditions are equal.

    functions: by name, called without arguments. Errors: TypeError or ValueError for runs below 1.
    """
    seconds = {name: [] for name in functions}
    for run in range(check_size("runs", runs) + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if run > 0:  # the first call has more to do
                seconds[name].append(time.perf_counter() - start)
    return seconds
