"""Write constraints.txt anew: the newest versions of everything that the requirement files bring along.

It installs both requirement files into a temporary environment, with no constraints, and notes down what came.
If anything fails, constraints.txt stays as it was.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ["requirements.txt", "requirements-dev.txt"]
HEADER = """\
# Made by `make upgrade`, not by hand: what the packages of the two requirement files bring along, on any
# system. With it the course installs the same next year as today.
-c requirements-dev.txt
"""
# Packages wanted on other systems or newer Pythons only: pip does not install them here, but they need pins too.
ELSEWHERE = re.compile(r"sys_platform|platform_system|os_name|python_version\s*>")
PLATFORMS = ["win_amd64", "macosx_11_0_arm64", "manylinux_2_28_x86_64"]


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement_name(line: str) -> str:
    return normalised(re.match(r"[\w.-]+", line).group())


def direct_names() -> set[str]:
    lines = [line for name in REQUIREMENTS for line in (ROOT / name).read_text().splitlines()]
    return {requirement_name(line) for line in lines if re.match(r"\w", line)}


def oldest_python() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["requires-python"].removeprefix(">=")


def pip(python: Path, *arguments: str) -> str:
    command = [python, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def installed_packages(folder: Path) -> tuple[Path, list[dict]]:
    """Install everything into a new environment; return its Python and the metadata of what is there."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    pip(python, "uninstall", "--yes", "setuptools")  # comes with venv; pinned only if something asks for it
    pip(python, "install", *(part for name in REQUIREMENTS for part in ("-r", name)))
    pip(python, "check")
    return python, json.loads(pip(python, "inspect", "--local"))["installed"]


def versions(packages: list[dict]) -> dict[str, str]:
    """Names and versions without local parts: 2.13.0+cpu is a build of 2.13.0."""
    return {
        normalised(package["metadata"]["name"]): package["metadata"]["version"].split("+")[0] for package in packages
    }


def pins_for_elsewhere(python: Path, packages: list[dict], folder: Path) -> dict[str, str]:
    """Versions of the packages that are wanted on other systems only, such as pywinpty on Windows."""
    here, wanted = versions(packages), set()
    for package in packages:
        for line in package["metadata"].get("requires_dist", []):
            requirement, _, marker = line.partition(";")
            if ELSEWHERE.search(marker) and "extra" not in marker and requirement_name(line) not in here:
                wanted.add(requirement.strip())
    if not wanted:
        return {}
    platforms = [part for platform in PLATFORMS for part in ("--platform", platform)]
    options = ["--dry-run", "--quiet", "--report=-", "--ignore-installed", "--no-deps", "--only-binary=:all:"]
    target = ["--python-version", oldest_python(), "--target", str(folder)]
    report = json.loads(pip(python, "install", *options, *platforms, *target, *sorted(wanted)))
    return versions(report["install"])


def write_constraints(pins: dict[str, str]) -> None:
    part = ROOT / ".constraints.txt.part"
    part.write_text(HEADER + "".join(f"{name}=={version}\n" for name, version in sorted(pins.items())))
    os.replace(part, ROOT / "constraints.txt")


def main() -> None:
    running, oldest = "{}.{}".format(*sys.version_info), oldest_python()
    if running != oldest:
        sys.exit(
            f"Constraints must suit the oldest Python that the course supports, and this is {running}: "
            f"make upgrade PYTHON=python{oldest}"
        )
    try:
        with tempfile.TemporaryDirectory() as name:
            python, packages = installed_packages(Path(name) / "venv")
            pins = versions(packages) | pins_for_elsewhere(python, packages, Path(name) / "target")
    except subprocess.CalledProcessError as error:
        sys.exit(f"constraints.txt stays as it was: {' '.join(map(str, error.cmd[1:6]))} ... failed.")
    own = {"pip", "attention-helpers"} | direct_names()
    write_constraints({name: version for name, version in pins.items() if name not in own})
    print(f"constraints.txt pins {len(pins.keys() - own)} packages.")


if __name__ == "__main__":
    main()
