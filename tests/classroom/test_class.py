"""Five learners at once: each runs a notebook whole and saves; and nobody reads what another wrote."""

import json
import os
import pwd
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

import psutil
import pytest
from course import FOLDER, SVG, code_cells, read
from hub import OUTSIDER, PASSWORD, PATIENCE, PUPILS, Pupil, accounts, hub, processes_of, run, skip_or_fail

from classroom import marks, set_up
from tools.setup.lab_hook import VIEW

LESSON = "03_causal_masking.ipynb"


@pytest.fixture(scope="module")
def at_once():
    with ThreadPoolExecutor(len(PUPILS)) as threads:
        yield lambda job, each: list(threads.map(job, each))


@pytest.fixture(scope="module")
def homes():
    if lacking := set_up.lacking():
        skip_or_fail(lacking)
    set_up.install_proxy()
    with accounts() as homes:
        yield homes


@pytest.fixture(scope="module")
def pupils(homes, at_once):
    """Five pupils who have logged in at once; the hub still runs."""
    with hub(homes) as address:
        pupils = [Pupil(address, name) for name in PUPILS]
        assert [answer.status_code for answer in at_once(Pupil.log_in, pupils)] == [302] * len(PUPILS)
        at_once(Pupil.start, pupils)
        yield pupils


def day_of(pupil):
    """Open the notebook, run it, save: the statuses of its cells, and HTTP's status of saving."""
    place = f"{pupil.home}/api/contents/{LESSON}"
    notebook, statuses = pupil.request("GET", place).json()["content"], []
    with pupil.kernel_of(LESSON) as kernel:
        for cell in [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]:
            status, cell["outputs"] = run(kernel, cell["source"])
            statuses.append(status if "raises-exception" not in cell["metadata"].get("tags", []) else "ok")
        return statuses, pupil.request("PUT", place, json={"type": "notebook", "content": notebook}).status_code


def test_five_at_once_run_the_notebook_and_save_what_is_their_own_and_without_dead_widgets(homes, pupils, at_once):
    cells = ["ok" for _ in code_cells(read(FOLDER / LESSON))]
    assert at_once(day_of, pupils) == [(cells, 200)] * len(pupils)
    for name in PUPILS:
        file = homes / name / "workbook" / LESSON
        assert file.owner() == name
        outputs = [output for cell in code_cells(read(file)) for output in cell.outputs]
        pictures = [output.data for output in outputs if SVG in output.get("data", {})]
        assert pictures
        assert all(VIEW not in data for data in pictures), "make lab drops these, and so must a learner's server"


LOOKS = """import json, os
transport = get_ipython().kernel.parent.transport
print(json.dumps([os.getuid(), transport, [place for place in {places} if os.access(place, os.R_OK)]]))"""


def read_by_kernel(one, places):
    """Which of these places a learner's kernel can open; it sends to no port, where every account could listen."""
    with one.kernel_of(LESSON) as kernel:
        _, [output] = run(kernel, LOOKS.format(places=places))
    uid, transport, found = json.loads(output["text"])
    assert (uid, transport) == (pwd.getpwnam(one.name).pw_uid, "ipc")
    return found


def read_by_hub(one, other):
    """What a learner's browser gets from another's server, with all its cookies."""
    pages = [f"api/contents/{LESSON}", f"files/{LESSON}", "api/kernels", "lab"]
    answers = {page: one.get(f"{other.home}/{page}").status_code for page in pages}
    mine = {"type": "file", "format": "text", "content": "mine"}
    answers["put"] = one.request("PUT", f"{other.home}/api/contents/put.txt", json=mine).status_code
    return {page: status for page, status in answers.items() if status not in (403, 404)}


def test_nobody_reads_what_another_wrote(homes, pupils, at_once):
    own = [[f"{homes}/{name}", f"{homes}/{name}/workbook/{LESSON}"] for name in PUPILS]
    places = [place for both in own for place in both]
    places += [f"{homes}/hub/{name}" for name in ("jupyterhub.sqlite", "jupyterhub_cookie_secret")]
    assert at_once(lambda one: read_by_kernel(one, places), pupils) == own
    pairs = list(permutations(pupils, 2))
    assert at_once(lambda two: read_by_hub(*two), pairs) == [{}] * len(pairs)


def test_a_wrong_password_and_an_account_outside_the_class_stay_outside(pupils):
    for name, password in (PUPILS[0], "another"), (OUTSIDER, PASSWORD):
        assert Pupil(pupils[0].address, name).log_in(password).status_code == 403


def test_logging_out_stops_the_server_and_its_kernels(pupils):
    """On a shared computer the next person gets neither the page nor what a kernel computed."""
    one = pupils[-1]
    with one.kernel_of(LESSON):
        running = processes_of(one.name)
        assert one.get(f"{one.address}/hub/logout").ok
        assert psutil.wait_procs(running, PATIENCE)[1] == []
        page = one.get(f"{one.home}/api/contents/{LESSON}")
    assert "/hub/login" in page.url


def test_a_teacher_collects_what_a_learner_wrote_and_no_more_than_the_learner_may_read(homes, pupils):
    honest, sly = (homes / name / "workbook" / LESSON for name in PUPILS[:2])
    sly.unlink()
    sly.symlink_to(honest)
    folder, owner = homes / "marks", pwd.getpwnam(OUTSIDER)
    folder.mkdir(mode=0o700)
    os.chown(folder, owner.pw_uid, owner.pw_gid)
    command = [sys.executable, marks.__file__, "collect", folder, "03", *PUPILS[:2]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{PUPILS[1]} has no notebook 03 that can be read" in done.stdout
    [handed_in] = folder.glob("submitted/*/03/*")
    assert handed_in.parts[-3] == PUPILS[0]
    assert handed_in.owner() == OUTSIDER, "root writes nothing where learners' code may have put a link"
    assert handed_in.stat().st_mode & 0o077 == 0
