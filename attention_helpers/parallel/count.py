"""What a split layer sends and holds in a forward pass, by formula; and what the operating system counts."""

from pathlib import Path


def bytes_sent(processes, num_tokens, width, b=1, bytes_per_number=4):
    """Bytes that each process sends for one layer: 2 (P - 1) / P times b * num_tokens * width numbers.

    By heads, width is the output's: a sum over a ring sends P - 1 pieces on their way to be summed, and P - 1 finished
    ones, of 1 / P of the output each. By tokens, it's num_kv_heads * head_dim: each sends keys and values of 1 / P of
    the tokens P - 1 times.
    """
    return 2 * (processes - 1) * b * num_tokens * width * bytes_per_number // processes


def bytes_held(split, processes, num_tokens, width, kv_width, bytes_per_number=4):
    """Bytes that each process holds of one layer, by part. Scores don't count, because a fast layer never stores them.

    split: "heads" or "tokens"; by tokens, there's room for the keys and values that arrive. ValueError for another one.
    """
    if split not in ("heads", "tokens"):
        raise ValueError(f"split must be 'heads' or 'tokens', got {split!r}")
    each = bytes_per_number / processes
    rows, weights = 2 * num_tokens * width * each, 2 * width * (width + kv_width) * each
    whole = {"weights": weights, "input and output": rows}
    shared = "weights" if split == "tokens" else "input and output"  # what each process holds completely
    arriving = 2 * kv_width * (split == "tokens") * (processes > 1)
    inner = num_tokens * (width + 2 * kv_width + arriving) * each
    return whole | {shared: whole[shared] * processes, "queries, keys, values": inner}


def bytes_written():
    """Bytes that this process has written so far, to files, pipes and the network; None on other systems than Linux."""
    try:
        counters = Path("/proc/self/io").read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    return int(dict(line.split(": ") for line in counters.splitlines())["wchar"])
