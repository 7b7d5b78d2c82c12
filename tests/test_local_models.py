"""Models that other programs keep are found where they keep them, and nothing else is."""

import json

from attention_course.local_models import OLLAMAS_MODEL, local_models


def test_models_are_found_by_name_and_other_files_are_not(tmp_path, monkeypatch):
    for name in ("HOME", "HF_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("LLAMA_CACHE", "HF_HUB_CACHE", "OLLAMA_MODELS"):
        monkeypatch.delenv(name, raising=False)
    assert local_models() == {}
    for name in (".lmstudio/models/a/one.gguf", "hub/two.gguf", "hub/mmproj-two.gguf", "hub/three.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    manifests = tmp_path / ".ollama/models/manifests/host/owner/four"
    manifests.mkdir(parents=True)
    parts = [{"mediaType": OLLAMAS_MODEL, "digest": "sha256:12"}, {"mediaType": "licence", "digest": "sha256:34"}]
    (manifests / "tag").write_text(json.dumps({"layers": parts}))
    (manifests / ".DS_Store").write_text("not JSON")
    found = local_models()
    assert {name: path.name for name, path in found.items()} == {
        "one": "one.gguf",
        "two": "two.gguf",
        "four:tag": "sha256-12",
    }
