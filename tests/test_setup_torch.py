"""Which build of torch an installation takes: pip is real, and so are the indexes, on the loopback address."""

import re
import sys
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from checkouts import ROOT, copy_of_checkout, load

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere pip finds the build for the CPU by itself"),
    pytest.mark.slow,  # makes an environment
]
PIN = re.search(r"^torch==(\S+)", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE)[1]

NOBODY = "http://127.0.0.1:9"  # where no server listens
SOURCES = ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"]


@pytest.fixture
def index(tmp_path):
    """Serves wheels of a torch without content, each with a local version."""
    servers = []

    def serve(*tags, version="cpu"):
        folder = tmp_path / f"index{len(servers)}/torch"
        folder.mkdir(parents=True)
        for tag in tags:
            info = f"torch-{PIN}+{version}.dist-info"
            with zipfile.ZipFile(folder / f"torch-{PIN}+{version}-{tag}.whl", "w") as wheel:
                wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {PIN}+{version}\n")
                wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
                wheel.writestr(f"{info}/RECORD", "")
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder.parent))
        Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def tool(tmp_path_factory):
    """ensure_venv in a copy that needs torch and nothing else, with pip in its .venv."""
    checkout = copy_of_checkout(tmp_path_factory.mktemp("setup"))
    for name in ("requirements.txt", "requirements-model.txt", "constraints.txt"):
        (checkout / name).write_text(f"torch=={PIN}\n" if name == "requirements.txt" else "")
    tool = load(checkout, "setup/ensure_venv")
    tool.make_venv()
    return tool


@pytest.fixture
def alone(tool, monkeypatch):
    """The tool without torch, and without this machine's settings of pip."""
    for name in (*SOURCES, "TORCH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    tool.run([*tool.PIP, "uninstall", "--yes", "--quiet", "torch"])
    for path in (tool.STAMP, tool.TORCH):
        path.unlink(missing_ok=True)
    return tool


@pytest.fixture
def asked(alone, monkeypatch):
    """Where the calls of pip were to look, when they aren't made."""
    calls = []
    monkeypatch.setattr(alone, "run", lambda command: calls.append(command) or 0)
    return lambda: [call[call.index("--index-url") + 1] if "--index-url" in call else "" for call in calls]


def installed(tool):
    return [path.name.removesuffix(".dist-info").partition("+")[2] for path in tool.PACKAGES.glob("torch-*.dist-info")]


def test_torch_comes_from_the_index_of_cpu_builds_and_stays_until_another_is_asked_for(alone, index, monkeypatch):
    monkeypatch.setattr(alone, "CPU_BUILDS", index("py3-none-any"))
    alone.ensure("lab")
    assert installed(alone) == ["cpu"]
    other = index("py3-none-any", version="cu130")
    monkeypatch.setenv("TORCH", other)
    alone.ensure("lab")
    assert installed(alone) == ["cu130"]
    monkeypatch.setattr(alone, "run", None)  # nothing is left to do, neither for who asks again nor for who doesn't
    alone.ensure("lab")
    monkeypatch.delenv("TORCH")
    alone.ensure("lab")


def test_without_a_build_one_sentence_says_so_and_pip_goes_on(alone, asked, index, monkeypatch, capsys):
    for address in (NOBODY, index("cp27-cp27m-win32")):
        monkeypatch.setattr(alone, "CPU_BUILDS", address)
        assert not alone.cpu_build_is_at_hand(f"torch=={PIN}")
        [said] = capsys.readouterr().out.splitlines()
        assert address in said
    monkeypatch.setattr(alone, "CPU_BUILDS", index("py3-none-any"))
    monkeypatch.setattr(alone, "PATIENCE", 0.01)  # no answer comes so soon
    alone.ensure("lab")
    assert asked() == ["", ""]


@pytest.mark.parametrize("setting", ["PIP_EXTRA_INDEX_URL", "PIP_CONFIG_FILE"])
def test_a_users_own_source_is_respected(alone, asked, index, monkeypatch, tmp_path, setting):
    monkeypatch.setattr(alone, "CPU_BUILDS", index("py3-none-any"))
    (tmp_path / "1").write_text("[install]\nfind-links = wheels\n")
    monkeypatch.setenv(setting, str(tmp_path / "1"))
    alone.ensure("lab")
    assert asked() == ["", ""]


def test_a_name_that_is_no_build_is_refused(alone, monkeypatch):
    monkeypatch.setenv("TORCH", "gpu")
    with pytest.raises(OSError, match="TORCH must be cpu, cuda or the address of an index, got 'gpu'"):
        alone.ensure("lab")
