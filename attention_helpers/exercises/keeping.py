"""Put back what a learner's code leaves changed, so that their next cell does not fail for no visible reason."""

import math
import os
import sys
from collections.abc import Callable
from operator import is_not
from typing import Any, NamedTuple

import torch


class Setting(NamedTuple):
    """Something that code can leave changed: what to say of it, now and once it is put back, how to read and set it."""

    left: str
    again: str
    read: Callable[[], Any]
    write: Callable[[Any], Any]


def folder():
    try:
        return os.getcwd()
    except OSError:
        return "a folder that is gone"


def device(name):
    torch.set_default_device(None if name == "cpu" else name)  # a default that is set costs time in every call


SETTINGS = [
    Setting(
        "gradients switched {now}",
        "they are {before} again",
        lambda: "on" if torch.is_grad_enabled() else "off",
        lambda word: torch.set_grad_enabled(word == "on"),
    ),
    Setting("the default dtype at {now}", "it is {before} again", torch.get_default_dtype, torch.set_default_dtype),
    Setting("the default device at {now}", "it is {before} again", lambda: str(torch.get_default_device()), device),
    Setting("torch with {now} threads", "it has {before} again", torch.get_num_threads, torch.set_num_threads),
    Setting("the working directory at {now}", "it is {before} again", folder, os.chdir),
    Setting("the recursion limit at {now}", "it is {before} again", sys.getrecursionlimit, sys.setrecursionlimit),
    *(
        Setting(
            f"`sys.{stream}` replaced",
            "it is the old one again",
            lambda stream=stream: getattr(sys, stream),
            lambda old, stream=stream: setattr(sys, stream, old),
        )
        for stream in ("stdout", "stderr")
    ),
]

SPACES = {"torch": torch, "nn": torch.nn, "nn.functional": torch.nn.functional, "Tensor": torch.Tensor, "math": math}
BY_TORCH = {"manual_seed", "Storage"}  # torch itself replaces them: its first compile, its set_default_dtype


class Kept:
    """The settings, and the functions of torch, as they are now.

    put_back(): set what has changed since, and note it in `said`, one sentence each. Where nothing has, it takes less
    than a millisecond, so that it can follow each call.
    """

    def __init__(self):
        self.settings = [setting.read() for setting in SETTINGS]
        self.functions = {name: dict(vars(space)) for name, space in SPACES.items()}
        self.said = []

    def put_back(self):
        left = [*self._put_back_functions(), *self._put_back_settings()]
        self.said += [sentence for sentence in left if sentence not in self.said]

    def _put_back_functions(self):
        replaced = [f"`{name}`" for name in self._replaced()]
        if replaced:
            names = ", ".join(replaced[:3]) + (f" and {len(replaced) - 3} more" if len(replaced) > 3 else "")
            again = "they are the old ones again" if len(replaced) > 1 else "it is the old one again"
            yield f"Your code left {names} replaced; {again}."

    def _replaced(self):
        """Put the functions back, and give the name of each that was replaced, deleted, or hidden by a new one."""
        for place, before in self.functions.items():
            space = SPACES[place]
            if len(vars(space)) == len(before) and not any(map(is_not, before.values(), vars(space).values())):
                continue  # the quick way to see that nothing has changed
            for name, old in before.items():
                if vars(space).get(name) is not old and callable(old) and name not in BY_TORCH:
                    setattr(space, name, old)
                    yield f"{place}.{name}"
            if space is torch.Tensor:  # most of its methods are those of its base: a new one hides them
                for name in vars(space).keys() - before.keys():
                    if hasattr(torch._C.TensorBase, name):
                        delattr(space, name)
                        yield f"{place}.{name}"

    def _put_back_settings(self):
        for setting, before in zip(SETTINGS, self.settings, strict=True):
            now = setting.read()
            if now is before or (type(now) is type(before) and now == before):
                continue
            left = f"Your code left {setting.left.format(now=now, before=before)}"
            try:
                setting.write(before)
            except Exception:  # a working directory that is gone
                yield f"{left}, and that cannot be put back: restart the kernel."
            else:
                yield f"{left}; {setting.again.format(now=now, before=before)}."
