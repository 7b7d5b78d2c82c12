"""The data travel with the package: beside it in a wheel (test_front_door builds one), in ../data in a checkout."""

from attention_helpers import _data


def test_data_beside_the_package_come_first_then_those_above(tmp_path, monkeypatch):
    monkeypatch.setattr(_data, "PACKAGE", tmp_path / "attention_helpers")
    beside, above = tmp_path / "attention_helpers/data/toy.json", tmp_path / "data/toy.json"
    for path in (beside, above):
        path.parent.mkdir(parents=True)
        path.touch()
    assert _data.data_file("toy.json") == beside
    beside.unlink()
    assert _data.data_file("toy.json") == above
