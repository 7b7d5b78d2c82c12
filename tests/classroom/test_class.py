"""Five learners at once: each runs a notebook whole and saves; and nobody reads what another wrote."""

import json
import os
import pwd
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import pytest
from hub import OUTSIDER, PATIENCE, PUPILS, Pupil, accounts, hub, processes_of, wait_until
from kernel import opened

from classroom import marks, set_up

LACKING = set_up.lacking()
if LACKING and os.environ.get("CLASSROOM") != "required":  # as CI has it
    pytest.skip(LACKING, allow_module_level=True)

LESSON = "03_causal_masking.ipynb"
VIEW = "application/vnd.jupyter.widget-view+json"


class Class(NamedTuple):
    address: str
    folder: Path  # to which the hub writes
    homes: Path
    pupils: list
    days: list  # of each, the statuses of the notebook's cells, and HTTP's status of saving


def ready(pupil):
    assert pupil.log_in().status_code == 302
    pupil.start()


def day_of(pupil):
    """Open notebook 03, run it, save."""
    place = f"{pupil.home}/api/contents/{LESSON}"
    notebook, statuses = pupil.request("GET", place).json()["content"], []
    with opened(pupil, LESSON) as kernel:
        for cell in [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]:
            status, cell["outputs"] = kernel.run(cell["source"])
            statuses.append(status if "raises-exception" not in cell["metadata"].get("tags", []) else "ok")
        return statuses, pupil.request("PUT", place, json={"type": "notebook", "content": notebook}).status_code


@pytest.fixture(scope="module")
def at_once():
    with ThreadPoolExecutor(len(PUPILS)) as threads:
        yield threads


@pytest.fixture(scope="module")
def the_class(at_once):
    """Five pupils who log in at once and work at once; the hub still runs."""
    if LACKING:
        pytest.fail(LACKING)
    set_up.install_proxy()
    with accounts() as homes, hub(homes) as (address, folder):
        pupils = [Pupil(address, name) for name in PUPILS]
        list(at_once.map(ready, pupils))
        yield Class(address, folder, homes, pupils, list(at_once.map(day_of, pupils)))


def test_five_at_once_run_the_notebook_and_save_what_is_their_own_and_without_dead_widgets(the_class):
    lesson = json.loads((Path(__file__).parents[2] / "notebooks" / LESSON).read_text(encoding="utf-8"))
    count = sum(cell["cell_type"] == "code" for cell in lesson["cells"])
    for pupil, (statuses, saved) in zip(the_class.pupils, the_class.days, strict=True):
        assert statuses == ["ok"] * count  # none is missing
        assert saved == 200
        file = the_class.homes / pupil.name / "workbook" / LESSON
        assert file.owner() == pupil.name
        outputs = [output for cell in json.loads(file.read_text())["cells"] for output in cell.get("outputs", [])]
        pictures = [output["data"] for output in outputs if "image/svg+xml" in output.get("data", {})]
        assert pictures
        assert all(VIEW not in data for data in pictures), "make lab drops these, and so must a learner's server"


LOOKS = """import json, os
transport = get_ipython().kernel.parent.transport
print(json.dumps([os.getuid(), transport, [place for place in {places} if os.access(place, os.R_OK)]]))"""


def read_by_kernel(one, places):
    """Which of these places a learner's kernel can open; it sends to no port, where every account could listen."""
    with opened(one, LESSON) as kernel:
        uid, transport, found = kernel.say(LOOKS.format(places=places))
    assert (uid, transport) == (pwd.getpwnam(one.name).pw_uid, "ipc")
    return found


def read_by_hub(one, other):
    """What a learner's browser gets from another's server, with all its cookies."""
    pages = [f"api/contents/{LESSON}", f"files/{LESSON}", "api/kernels", "lab"]
    answers = {page: one.browser.get(f"{other.home}/{page}", timeout=PATIENCE).status_code for page in pages}
    mine = {"type": "file", "format": "text", "content": "mine"}
    answers["put"] = one.request("PUT", f"{other.home}/api/contents/put.txt", json=mine).status_code
    return {page: status for page, status in answers.items() if status not in (403, 404)}


def test_nobody_reads_what_another_wrote(the_class, at_once):
    homes = {name: str(the_class.homes / name) for name in PUPILS}
    places = [*homes.values(), *(f"{home}/workbook/{LESSON}" for home in homes.values())]
    places += [str(the_class.folder / name) for name in ("jupyterhub.sqlite", "jupyterhub_cookie_secret")]
    for one, found in zip(PUPILS, at_once.map(lambda one: read_by_kernel(one, places), the_class.pupils), strict=True):
        assert found == [homes[one], f"{homes[one]}/workbook/{LESSON}"]
    pairs = list(permutations(the_class.pupils, 2))
    assert list(at_once.map(lambda two: read_by_hub(*two), pairs)) == [{}] * len(pairs)


def test_a_wrong_password_and_an_account_outside_the_class_stay_outside(the_class):
    assert Pupil(the_class.address, PUPILS[0]).log_in("another").status_code == 403
    assert Pupil(the_class.address, OUTSIDER).log_in().status_code == 403


def test_logging_out_stops_the_server_and_its_kernels(the_class):
    """On a shared computer the next person gets neither the page nor what a kernel computed."""
    one = the_class.pupils[-1]
    with opened(one, LESSON):
        assert one.log_out().ok
        wait_until(lambda: not processes_of(one.name), "the server and its kernels end")
        page = one.browser.get(f"{one.home}/api/contents/{LESSON}", timeout=PATIENCE)
    assert "/hub/login" in page.url


def test_a_teacher_collects_what_a_learner_wrote_and_no_more_than_the_learner_may_read(the_class):
    honest, sly = (the_class.homes / name / "workbook" / LESSON for name in PUPILS[:2])
    sly.unlink()
    sly.symlink_to(honest)
    folder, owner = the_class.homes / "marks", pwd.getpwnam(OUTSIDER)
    folder.mkdir(mode=0o700)
    os.chown(folder, owner.pw_uid, owner.pw_gid)
    command = [sys.executable, marks.__file__, "collect", folder, "03", *PUPILS[:2]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{PUPILS[1]} has no notebook 03 that can be read" in done.stdout
    [handed_in] = folder.glob("submitted/*/03/*")
    assert handed_in.parts[-3] == PUPILS[0]
    assert handed_in.owner() == OUTSIDER, "root writes nothing where learners' code may have put a link"
    assert handed_in.stat().st_mode & 0o077 == 0
