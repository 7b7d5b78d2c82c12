"""Five learners at once: each runs a notebook whole, moves a slider, saves; and nobody reads what another wrote."""

import json
import os
import pwd
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
import requests
from hub import COURSE, CULLER, OUTSIDER, PATIENCE, PUPILS, Pupil, accounts, hub, processes_of, wait_until
from kernel import opened
from tornado.web import create_signed_value, decode_signed_value

from attention_helpers import load_sentence
from attention_helpers.explorers import MaskExplorer
from classroom import marks, set_up

LACKING = set_up.lacking()
if LACKING and os.environ.get("CLASSROOM") != "required":  # as CI has it
    pytest.skip(LACKING, allow_module_level=True)

LESSON = "03_causal_masking.ipynb"
VIEW = "application/vnd.jupyter.widget-view+json"
# What a kernel finds out about places that are not its learner's.
TRIES = """
import json, os, urllib.error, urllib.request

def tries(read):
    try:
        return "read: " + str(read())[:40]
    except PermissionError:
        return "refused"
    except urllib.error.HTTPError as error:
        return "refused" if error.code in (401, 403) else str(error)
    except OSError as error:
        return repr(error)

def fetched(url):
    return urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open(url, timeout=60).read()

found = {{path: tries(lambda: open(path, "rb").read()) for path in {files}}}
found |= {{path: tries(lambda: os.listdir(path)) for path in {folders}}}
found |= {{url: tries(lambda: fetched(url)) for url in {urls}}}
print(json.dumps({{"uid": os.getuid(), "found": found}}))
"""


class Day(NamedTuple):
    """What one learner came away with."""

    statuses: list  # of the notebook's cells
    html: str  # of the explorer, once its slider was moved
    saved: int  # HTTP's status
    sizes: tuple  # RSS and PSS of the learner's processes, in MB
    listens: list  # addresses that anybody on this machine can connect to


class Class(NamedTuple):
    hub: object
    homes: Path
    pupils: list
    days: list


def ready(pupil):
    assert pupil.log_in().status_code == 302
    pupil.start()


def sizes(processes):
    """RSS and PSS of processes, in MB; PSS counts in parts what several share."""
    memory = [process.memory_full_info() for process in processes]
    return tuple(round(sum(getattr(each, kind) for each in memory) / 2**20) for kind in ("rss", "pss"))


def addresses_of(pupil):
    """Where a learner's processes let anybody on this machine connect."""
    connections = [connection for process in processes_of(pupil) for connection in process.net_connections("inet")]
    listening = [connection.laddr for connection in connections if connection.status == psutil.CONN_LISTEN]
    return [f"http://{place.ip}:{place.port}" for place in listening]


def run_whole(kernel, notebook):
    """Run every cell, keep its outputs in the notebook; return the cells' statuses, and the explorer's widgets."""
    statuses, widgets = [], []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            status, cell["outputs"], made = kernel.run(cell["source"])
            statuses.append(status if "raises-exception" not in cell["metadata"].get("tags", []) else "ok")
            widgets = made if cell["id"] == "explorer" else widgets
    return statuses, widgets


def slide(kernel, widgets):
    """Move the explorer's slider "perturb by" to 2; return the HTML that its picture then has."""
    states = {widget: kernel.widgets[widget] for widget in widgets}
    [slider] = [widget for widget, state in states.items() if state.get("description") == "perturb by"]
    [picture] = [widget for widget, state in states.items() if "<svg" in str(state.get("value"))]
    return kernel.move(slider, 2.0, picture)


def day_of(pupil):
    """Open notebook 03, run it, move a slider, save."""
    place = f"{pupil.home}/api/contents/{LESSON}"
    notebook = pupil.request("GET", place).json()["content"]
    with opened(pupil, LESSON) as kernel:
        statuses, widgets = run_whole(kernel, notebook)
        html = slide(kernel, widgets)
        saved = pupil.request("PUT", place, json={"type": "notebook", "content": notebook}).status_code
        return Day(statuses, html, saved, sizes(processes_of(pupil.name)), addresses_of(pupil.name))


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
    with accounts() as homes, hub(homes) as running:
        pupils = [Pupil(running.address, name) for name in PUPILS]
        started = time.monotonic()
        list(at_once.map(ready, pupils))
        seconds = time.monotonic() - started
        days = list(at_once.map(day_of, pupils))
        in_all = time.monotonic() - started
        failures = sum(status != "ok" for day in days for status in day.statuses)
        print(f"\nfive servers ready after {seconds:.0f} s, five notebooks run and saved after {in_all:.0f} s")
        print(f"memory a learner, MB: RSS {[day.sizes[0] for day in days]}, PSS {[day.sizes[1] for day in days]}")
        print(f"cells run: {[len(day.statuses) for day in days]}; failed: {failures}")
        own = [each for each in running.process.children(recursive=True) if each.uids().real == os.getuid()]
        print(f"memory of hub, proxy and culler, MB: PSS {sizes([running.process, *own])[1]}")
        yield Class(running, homes, pupils, days)


def test_five_at_once_run_the_notebook_move_a_slider_and_save(the_class):
    alone = MaskExplorer(load_sentence("journey"))
    alone.set(amount=2.0)
    for day in the_class.days:
        assert len(day.statuses) > 20  # cells
        assert set(day.statuses) == {"ok"}
        assert day.html == alone.view.value
        assert day.saved == 200


def test_what_was_saved_is_the_learners_own_and_without_dead_widgets(the_class):
    for pupil in the_class.pupils:
        file = the_class.homes / pupil.name / "workbook" / LESSON
        assert file.owner() == pupil.name
        outputs = [output for cell in json.loads(file.read_text())["cells"] for output in cell.get("outputs", [])]
        pictures = [output["data"] for output in outputs if "image/svg+xml" in output.get("data", {})]
        assert pictures
        assert all(VIEW not in data for data in pictures), "make lab drops these, and so must a learner's server"


def test_each_has_an_own_account_and_a_home_that_nobody_else_enters(the_class):
    assert len({pwd.getpwnam(name).pw_uid for name in PUPILS} | {0}) == len(PUPILS) + 1
    assert {(the_class.homes / name).stat().st_mode & 0o7777 for name in PUPILS} == {0o700}
    assert all(processes_of(name) for name in PUPILS)
    for name in ("jupyterhub.sqlite", "jupyterhub_cookie_secret"):
        assert (the_class.hub.folder / name).stat().st_mode & 0o077 == 0


def test_kernels_send_to_no_port(the_class):
    """A learner has two: the server's, and one by which ipykernel takes what a cell's own processes print."""
    assert [len(day.listens) for day in the_class.days] == [2] * len(PUPILS)


def test_no_learner_holds_a_file_of_roots(the_class):
    """A kernel inherits what its server holds open: through a log of root's, it erased and forged what others did."""
    for name in PUPILS:
        held = {file.path: file.mode for process in processes_of(name) for file in process.open_files()}
        written = {Path(path) for path, mode in held.items() if mode != "r"}
        assert the_class.homes / name / ".attention-server.log" in written
        assert {path for path in written if path.owner() != name} == set()


def page_at(the_class, cookie, hours):
    """Where the hub leads a browser whose login is this many hours old."""
    secret = bytes.fromhex((the_class.hub.folder / "jupyterhub_cookie_secret").read_text())
    value = decode_signed_value(secret, cookie.name, cookie.value.strip('"'))
    old = create_signed_value(secret, cookie.name, value, clock=lambda: time.time() - 3600 * hours).decode()
    with requests.Session() as browser:
        browser.trust_env = False  # no proxy of the machine's
        browser.cookies.set(cookie.name, old, path="/hub/")
        return browser.get(f"{the_class.hub.address}/hub/home", timeout=PATIENCE).url.split("?")[0]


def test_a_login_ends_after_half_a_day(the_class):
    """The browser keeps the cookie for longer, but neither the hub nor a server takes it then."""
    [login] = [each for each in the_class.pupils[0].browser.cookies if each.name == "jupyterhub-hub-login"]
    assert page_at(the_class, login, 11).endswith("/hub/home")
    assert page_at(the_class, login, 13).endswith("/hub/login")
    database = sqlite3.connect(f"file:{the_class.hub.folder / 'jupyterhub.sqlite'}?mode=ro", uri=True)
    [[tokens, days]] = database.execute(
        "select count(*), max(julianday(expires_at) - julianday(created)) from api_tokens where session_id is not null"
    )
    assert tokens >= len(PUPILS)
    assert days < 0.51, "the token that a browser keeps for its server"


def places_of_others(the_class, one):
    """What a curious kernel might read: files, folders, addresses."""
    others = [name for name in PUPILS if name != one.name]
    files = [the_class.homes / name / "workbook" / LESSON for name in others]
    files += [f"/proc/{process.pid}/environ" for name in others for process in processes_of(name)]
    files += [the_class.hub.folder / name for name in ("jupyterhub.sqlite", "jupyterhub_cookie_secret", "config.py")]
    folders = [*(the_class.homes / name for name in others), the_class.hub.folder]
    urls = [f"{address}/user/{name}/api/contents/{LESSON}" for name in others for address in addresses_of(name)]
    urls += [f"{the_class.hub.address}/hub/api/users", f"{the_class.hub.proxy}/api/routes"]
    return {"files": [*map(str, files)], "folders": [*map(str, folders)], "urls": urls}


def read_by_kernel(the_class, one, places):
    """What a learner's kernel could read of others', and what else went wrong when it tried."""
    own = str(the_class.homes / one.name / "workbook" / LESSON)
    places["files"].append(own)
    with opened(one, LESSON) as kernel:
        said = kernel.say(TRIES.format(**places))
    assert said["uid"] == pwd.getpwnam(one.name).pw_uid
    assert said["found"].pop(own).startswith("read: "), "this is how it looks when something can be read"
    assert len(said["found"]) == sum(map(len, places.values())) - 1
    return {place: how for place, how in said["found"].items() if how != "refused"}


def read_by_hub(one, other):
    """What a learner's browser gets from another's server, with all its cookies."""
    pages = [f"api/contents/{LESSON}", f"files/{LESSON}", f"notebooks/{LESSON}", "api/kernels", "lab", ""]
    answers = {page: one.browser.get(f"{other.home}/{page}", timeout=PATIENCE).status_code for page in pages}
    mine = {"type": "file", "format": "text", "content": "mine"}
    answers["put"] = one.request("PUT", f"{other.home}/api/contents/put.txt", json=mine).status_code
    return {(other.name, page): status for page, status in answers.items() if status not in (403, 404)}


def test_a_learner_opens_the_start_page_without_a_teachers_menus(the_class):
    one = the_class.pupils[0]
    page = one.browser.get(f"{one.home}/", timeout=PATIENCE)
    assert page.url == f"{one.home}/lab/tree/00_start_here.ipynb"
    assert '"disabledExtensions": ["@jupyter/nbgrader"]' in page.text
    assert one.browser.get(f"{one.home}/formgrader", timeout=PATIENCE).status_code == 404


def test_nobody_reads_what_another_wrote(the_class, at_once):
    places = [places_of_others(the_class, one) for one in the_class.pupils]  # before a kernel of theirs starts
    by_kernel = list(at_once.map(partial(read_by_kernel, the_class), the_class.pupils, places))
    by_hub = list(at_once.map(lambda two: read_by_hub(*two), permutations(the_class.pupils, 2)))
    assert by_kernel == [{}] * len(by_kernel)
    assert by_hub == [{}] * len(by_hub)
    print(f"\nfiles and servers of others read: {sum(map(len, by_kernel + by_hub))}")


def test_a_wrong_password_and_an_account_outside_the_class_stay_outside(the_class):
    assert Pupil(the_class.hub.address, PUPILS[0]).log_in("another").status_code == 403
    assert Pupil(the_class.hub.address, OUTSIDER).log_in().status_code == 403


def test_a_teacher_collects_what_a_learner_wrote_and_no_more_than_the_learner_may_read(the_class):
    honest, sly = (the_class.homes / name / "workbook" / LESSON for name in PUPILS[:2])
    sly.rename(kept := sly.with_name("kept.ipynb"))
    sly.symlink_to(honest)
    folder, owner = the_class.homes / "marks", pwd.getpwnam(OUTSIDER)
    folder.mkdir(mode=0o700)
    os.chown(folder, owner.pw_uid, owner.pw_gid)
    command = [sys.executable, marks.__file__, "collect", folder, "03", *PUPILS[:2]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    sly.unlink()
    kept.rename(sly)
    assert f"{PUPILS[1]} has no notebook 03 that can be read" in done.stdout
    assert "Traceback" not in done.stderr, "root left something that the marks' account cannot remove"
    [handed_in] = folder.glob("submitted/*/03/*")
    assert handed_in.parts[-3] == PUPILS[0]
    assert handed_in.owner() == OUTSIDER, "root writes nothing where learners' code may have put a link"
    assert handed_in.stat().st_mode & 0o077 == 0


def test_a_learner_brings_a_notebooks_newest_version_and_keeps_the_own(the_class):
    one = the_class.pupils[0]
    own = the_class.homes / one.name / "workbook" / LESSON
    own.write_text(own.read_text().replace("# 3. Causal masking", "# My notes"))
    command = ["make", "-C", str(COURSE), "--no-print-directory", "reset", "NOTEBOOK=03"]
    with opened(one, "00_start_here.ipynb") as kernel:
        said = kernel.say(
            f"import json, subprocess\nprint(json.dumps(subprocess.check_output({command}, text=True)))"
        ).splitlines()
    assert said[0] == f"Yours is now workbook/{own.stem}.yours-1.ipynb."
    assert "# My notes" in own.with_name(f"{own.stem}.yours-1.ipynb").read_text()
    assert "# 3. Causal masking" in own.read_text()


def test_logging_out_stops_the_server_and_its_kernels(the_class):
    """On a shared computer the next person gets neither the page nor what a kernel computed."""
    one = the_class.pupils[-1]
    with opened(one, LESSON):
        assert one.log_out().ok
        wait_until(lambda: not processes_of(one.name), "the server and its kernels end")
        page = one.browser.get(f"{one.home}/api/contents/{LESSON}", timeout=PATIENCE)
    assert "/hub/login" in page.url


def test_the_culler_stops_idle_servers_and_what_was_saved_stays(the_class):
    """The last of this file: afterwards nobody has a server."""
    api = {"JUPYTERHUB_API_TOKEN": CULLER, "JUPYTERHUB_API_URL": f"{the_class.hub.address}/hub/api"}
    command = [sys.executable, "-m", "jupyterhub_idle_culler", "--timeout=1", "--cull-every=2"]
    culler = subprocess.Popen(command, env=os.environ | api, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: not any(map(processes_of, PUPILS)), "all servers are stopped")
    finally:
        culler.terminate()
        culler.wait()
    assert all((the_class.homes / name / "workbook" / LESSON).exists() for name in PUPILS)
