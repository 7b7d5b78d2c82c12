"""Kernels for tests that need not load torch: each is a fork of one process that has it, and has run no cell.

Where a process can't be forked (Windows, macOS), kernels start as ever.
"""

import multiprocessing
import os
import sys

from jupyter_client.provisioning import local_provisioner

PATH = [*sys.path]  # before pytest adds the folder of tests
PRELOADED = ["ipykernel.kernelapp", "torch._dynamo", "matplotlib.backends.backend_agg"]
PRELOADED += ["attention_course.explorers", "attention_course.exercises"]


def run_kernel(started, arguments, folder, environment, path):
    """In the fork: be the kernel that a command line's arguments ask for, in a group of processes of its own."""
    os.setsid()
    os.chdir(folder)
    os.environ.update(environment)
    sys.path[:] = path
    started.send(None)
    from ipykernel.kernelapp import IPKernelApp

    IPKernelApp.launch_instance(argv=[*arguments, f"--IPKernelApp.parent_handle={os.getppid()}"])


class ForkedKernel:
    """A kernel's process, with what jupyter_client asks of a subprocess.Popen."""

    stdin = stdout = stderr = None

    def __init__(self, command, cwd=None, env=None, **_):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        ready, started = context.Pipe(duplex=False)
        given = started, command[command.index("-f") :], cwd or ".", dict(env or {}), PATH
        self.process = context.Process(target=run_kernel, args=given)
        self.process.start()
        ready.recv()  # its group is its own now
        self.pid = self.process.pid

    def poll(self):
        self.process.join(0)
        return self.process.exitcode

    def wait(self, timeout=None):
        self.process.join(timeout)
        return self.process.exitcode

    def send_signal(self, number):
        os.kill(self.pid, number)


def fork_kernels():
    """Have the kernels of this process be forks from now on. (macOS's own libraries don't survive a fork.)"""
    if sys.platform == "linux":
        local_provisioner.launch_kernel = ForkedKernel
