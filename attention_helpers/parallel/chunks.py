"""Which chunks of a text each process holds if a layer is split by tokens, and how much work they make.

Source: Llama team 2024, "The Llama 3 Herd of Models" (arXiv 2407.21783), section 3.3.2, for the zigzag order.
"""


def straight(rank, processes):
    """Which chunks a process holds, as a tuple of their numbers, if the tokens are cut into one chunk per process."""
    return (rank,)


def zigzag(rank, processes):
    """Which two chunks a process holds, as a tuple of their numbers, if the tokens are cut into two per process."""
    return rank, 2 * processes - 1 - rank


def pairs(order, processes):
    """How many pairs of a query chunk and a key chunk each process computes in each step: a list for each rank."""
    chunks = [order(rank, processes) for rank in range(processes)]
    return [
        [sum(mine >= theirs for mine in own for theirs in chunks[rank - step]) for step in range(processes)]
        for rank, own in enumerate(chunks)
    ]
