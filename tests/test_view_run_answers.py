"""What the viewer answers about a run is what the library computes; what takes long keeps nobody waiting."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load as unpacked

import headscope
from headscope.errors import HeadscopeError
from headscope.figures.colours import CONTROL_DASHES, CONTROL_LABELS
from headscope.findings import CLAIMS
from headscope.findings.checks import together
from headscope.findings.showing import OWN
from headscope.measures.bands import by_band
from headscope.measures.quantities import named
from headscope.report.examples import KINDS
from headscope.view.desk import Desk
from headscope.view.later import Later
from headscope.view.run_data import OF_LAYERS, RunData
from serving import Place, said, serving


def test_a_run_is_answered_as_it_is_in_the_file(with_run: Place, view_run: Path, view_corpus: RunData) -> None:
    with with_run.client() as client:
        assert client.get("/api/run").json() == json.loads(json.dumps(view_corpus.about))
        assert client.get("/api/run/result.nc").content == (view_run / "result.nc").read_bytes()
        assert client.get("/api/run/scores/reach/cosine").content == view_corpus.scores("reach", "cosine")
        assert client.get("/api/run/scores/reach/7").content == view_corpus.scores("reach", "7")
        assert client.get("/api/run/heads/3/4").content == view_corpus.curves(3, 4)
        examples = client.get("/api/run/heads/3/4/examples/separator_focus_stop").json()
        assert examples == json.loads(json.dumps(view_corpus.examples(3, 4, "separator_focus_stop")))
        assert all(any(p["text"].startswith(row["text"]) for p in headscope.passages()[:16]) for row in examples)


def test_a_text_is_marked_as_the_report_marks_it(
    with_run: Place, embedded: headscope.Model, view_corpus: RunData
) -> None:
    kind = next(each for each in KINDS if each.score == "repetition_preference")
    rows = view_corpus.examples(8, 0, "repetition_preference")
    seen = embedded.inspect(rows[1]["text"], stack="encoder", **view_corpus.result.inspect_options)
    spans = kind.mark(seen, 8, 0, 0.5)
    with with_run.client() as client:
        path = "/api/run/heads/8/0/examples"
        told = client.get(f"{path}/repetition_preference/marked/1").json()
        assert told["marked"] == kind.marked
        assert [words.strip() for words, marked in told["pieces"] if marked] == [
            rows[1]["text"][a:b].strip() for a, b in spans
        ]
        assert client.get(f"{path}/focal_share/marked/0").status_code == 200
        for nothing in ("repetition_preference/marked/5", "mean_distance/marked/0", "nothing/marked/0"):
            assert client.get(f"{path}/{nothing}").status_code == 422
    with pytest.raises(headscope.HeadscopeError, match="no model"):
        Desk(run_data=view_corpus).answer("run/heads/8/0/examples/repetition_preference/marked/0")


@pytest.mark.parametrize("score", ["separator_focus_stop", "mean_distance"])
def test_a_text_that_is_not_marked_ends_at_a_word_too(view_corpus: RunData, score: str) -> None:
    """Without a model, in a saved file, by scores with nothing to mark: windows may cut a text in a word."""
    rows = view_corpus.examples(3, 4, score)
    assert any(not row["ends"] for row in rows)
    for row in rows:
        kept = row["short"].removesuffix(" …")
        assert (kept != row["short"]) == (not row["ends"] or len(kept) < len(" ".join(row["text"].split())))
        whole = next(p["text"] for p in headscope.passages() if p["text"].startswith(row["text"]))
        follows = " ".join(whole.split())[len(kept) :][:1]
        assert not follows.isalnum(), kept[-20:]


def test_each_stack_of_a_run_is_answered_beside_the_others(stacks_run: headscope.Result) -> None:
    opened = RunData(stacks_run.stack("decoder"))
    with serving(Desk(run_data=opened)) as place, place.client() as client:
        first = client.get("/api/run").json()
        assert (first["stack"], first["stacks"]) == ("decoder", ["encoder", "decoder", "cross"])
        assert first["path"] == "stacks/decoder/run"
        assert client.get("/api/stacks/decoder/run").json() == first
        for name in first["stacks"]:
            own, path = RunData(stacks_run.stack(name)), f"/api/stacks/{name}/run"
            assert client.get(path).json() == json.loads(json.dumps(own.about))
            assert client.get(f"{path}/scores/reach/10").content == own.scores("reach", "10")
            assert client.get(f"{path}/heads/0/1").content == own.curves(0, 1)
            examples = client.get(f"{path}/heads/0/1/examples/focal_share").json()
            assert examples == json.loads(json.dumps(own.examples(0, 1, "focal_share")))
            values = [each["statistics"][0]["value"] for each in ready(client, f"{path}/findings")["claims"].values()]
            assert values == [each.as_dict()["value"] for each in own.result.findings()]
            assert ready(client, f"{path}/sensitivity")["ready"]
        assert client.get("/api/run/scores/reach/10").content == opened.scores("reach", "10")
        assert client.get("/api/stacks/middle/run").status_code == 422
        assert opened.of_stack("cross") is opened.of_stack("cross")  # worked out once
    one = headscope.analyze(None, [headscope.passages()[0]["text"]], layers=[0], window=16, progress=False)
    with serving(Desk(run_data=RunData(one))) as place, place.client() as client:
        gone = client.get("/api/stacks/cross/run")
        assert (gone.status_code, said(gone)) == (422, "there is no stack 'cross'. To fix it: the result has encoder.")


def reading_of(way: str) -> str | None:
    return None if way in ("tau", "attention") else way


@pytest.mark.parametrize("step", [4, 10])
def test_every_score_in_every_way_is_that_of_the_library(view_corpus: RunData, step: int) -> None:
    result, about = view_corpus.result, view_corpus.about
    ways = {each["name"]: each["ways"] for each in about["quantities"]}
    assert ways["separator_focus_stop"] == ["attention"]
    assert ways["sentence_preference"] == ["tau", "dot", "cosine"]
    assert ways["separation_repeated"] == ["dot", "cosine", "direct", "rows"]
    for name, way in [(name, way) for name, own in ways.items() for way in own]:
        if step != 10 and way != "tau":
            continue
        found = unpacked(view_corpus.scores(name, str(step) if way == "tau" else way))
        asked: dict[str, Any] = {"tau": step / 20, "reading": reading_of(way)}
        layers = result.quantity(name, by="layer", **asked)
        for row, column in zip(found["layers"], OF_LAYERS, strict=True):
            np.testing.assert_array_equal(row, layers[column].values, err_msg=f"{name} {way} {column}")
        assert layers.attrs["over_windows"] == (step != 10 and bool(named(name).matched))
        if named(name).of_layers:
            assert "heads" not in found
            continue
        heads = result.quantity(name, by="head", **asked)
        for row, column in zip(found["heads"], ("value", "low", "high"), strict=True):
            np.testing.assert_array_equal(row, heads[column].values, err_msg=f"{name} {way} {column}")
        if column == "high" and np.isfinite(found["heads"][0]).any():
            assert np.isfinite(found["heads"][1:]).any(), f"{name} {way}: no head has an interval"


def test_curves_are_those_of_the_counts(view_corpus: RunData) -> None:
    """Counted once more from the dataset alone."""
    data, about = view_corpus.result.dataset, view_corpus.about
    relations = list(data["relation"].values)
    classes = {"within": ("sentence", "both"), "across": ("none", "repeated")}
    pairs, top = by_band(data["pairs"].values, axis=3), data["top_pairs"].values
    every = pairs[0, 0].sum(0)  # (band, relation): the same for every head
    np.testing.assert_allclose(about["base"], every.sum(1) / every.sum())
    for layer, head in ((0, 0), (7, 3), (11, 11)):
        found = unpacked(view_corpus.curves(layer, head))
        high = [pairs[layer, head, step + 1 :].sum(0) for step in range(1, 20)]
        for way, counts in enumerate([*high, top[0, layer, head], top[1, layer, head]]):
            with np.errstate(invalid="ignore"):
                share = counts.sum(1) / counts.sum()
            np.testing.assert_allclose(found["distance"][0, way], share, rtol=1e-6, err_msg=f"{layer}.{head} {way}")
            for name, kinds in classes.items():
                places = [relations.index(kind) for kind in kinds]
                with np.errstate(invalid="ignore"):
                    rate = counts[:, places].sum(1) / every[:, places].sum(1)
                np.testing.assert_allclose(found[name][0, way], rate, rtol=1e-6, err_msg=f"{layer}.{head} {way} {name}")
        for value, low, above in found.values():
            known = np.isfinite(low)
            assert known.any()
            assert (low <= value)[known].all()
            assert (value <= above)[known].all()


def ready(client: Any, path: str) -> dict[str, Any]:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        answer = client.get(path)
        assert answer.status_code == 200, answer.text
        if answer.json()["ready"]:
            return dict(answer.json())
        time.sleep(0.2)
    raise AssertionError(f"{path} is never ready")


def test_findings_come_with_a_state_for_every_control(with_run: Place, view_corpus: RunData) -> None:
    with with_run.client() as client:
        told = ready(client, "/api/run/findings")
        swept = ready(client, "/api/run/sensitivity")
    found = view_corpus.result.findings()
    assert list(told["claims"]) == [claim.key for claim in CLAIMS]
    assert told["warnings"] == list(found.warnings)
    kinds = [kind["name"] for kind in view_corpus.about["kinds"]]
    assert kinds[0] == OWN
    assert sorted(kinds[1:]) == sorted(found.control_names)
    for finding in found:
        own = told["claims"][finding.key]
        assert own["marks"].pop(OWN) == together(each.state for each in finding.statistics)
        assert own["marks"] == {kind: finding.state(kind) for kind in kinds[1:]}
        assert {name: own[name] for name in finding.as_dict()} == json.loads(json.dumps(finding.as_dict()))
    table = view_corpus.result.sensitivity()
    rows = [row for claim in CLAIMS for row in swept["claims"][claim.key]]
    assert [row["statistic"] for row in rows] == table["statistic"].values.tolist()
    np.testing.assert_array_equal(np.array([row["value"] for row in rows], float), table["value"].values)
    assert [row["state"] for row in rows] == table["state"].values.tolist()


def test_what_takes_long_keeps_nobody_waiting(view_corpus: RunData, monkeypatch: pytest.MonkeyPatch) -> None:
    data, go = RunData(view_corpus.result), threading.Event()
    monkeypatch.setattr(data, "_findings", Later(lambda: {"claims": {}} if go.wait(60) else {}))
    with serving(Desk(run_data=data)) as place, place.client() as client:
        for _ in range(6):  # more than there are threads to answer
            assert client.get("/api/run/findings").json() == {"ready": False}
        assert client.get("/api/run/sensitivity").json() == {"ready": False}
        assert client.get("/api/run/scores/reach/cosine").status_code == 200
        assert client.get("/api/run/heads/0/0").status_code == 200
        go.set()
        assert ready(client, "/api/run/findings") == {"ready": True, "claims": {}}


def test_work_is_done_once_and_its_failure_is_told_to_everybody() -> None:
    done: list[int] = []

    def fail() -> None:
        done.append(1)
        raise HeadscopeError("it does not work", "nothing helps")

    later = Later(fail)
    assert not later.is_ready
    for _ in range(3):
        with pytest.raises(HeadscopeError, match="it does not work"):
            later.value()
    assert later.is_ready
    assert len(done) == 1


def test_a_failure_of_the_findings_is_an_answer(view_corpus: RunData, monkeypatch: pytest.MonkeyPatch) -> None:
    data = RunData(view_corpus.result)

    def fail() -> Any:
        raise HeadscopeError("the file is gone", "bring it back")

    monkeypatch.setattr(data, "_findings", Later(fail))
    with serving(Desk(run_data=data)) as place, place.client() as client:
        until = time.monotonic() + 30
        while (answer := client.get("/api/run/findings")).status_code == 200 and time.monotonic() < until:
            time.sleep(0.05)
        assert answer.status_code == 422
        assert "the file is gone" in said(answer)
        assert client.get("/api/run/scores/reach/cosine").status_code == 200


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("scores/nothing/10", "no score 'nothing'"),
        ("scores/reach/0", "not read by '0'"),
        ("scores/reach/20", "not read by '20'"),
        ("scores/reach/tau", "a number of twentieths"),
        ("scores/reach/direct", "from 1 to 19, dot, cosine"),
        ("scores/separator_focus_stop/dot", "use one of attention"),
        ("scores/separation_repeated/10", "use one of dot, cosine, direct, rows"),
        ("heads/12/0", "layers are 0 to 11"),
        ("heads/0/12", "heads 0 to 11"),
        ("heads/0/0/examples/nothing", "no score 'nothing'"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(with_run: Place, path: str, why: str) -> None:
    with with_run.client() as client:
        answer = client.get(f"/api/run/{path}")
    assert answer.status_code == 422
    assert why in said(answer)


@pytest.mark.long
def test_control_runs_stand_beside_the_layers(view_corpus: RunData, view_rotated: headscope.Result) -> None:
    data = RunData(view_corpus.result, [view_rotated])
    drawn = {"label": CONTROL_LABELS["rotated"], "dash": list(CONTROL_DASHES["rotated"][1])}
    assert data.about["controls"] == [{"kind": "rotated", "name": view_rotated.model["name"]} | drawn]
    for name, way in (
        ("sentence_preference", "10"),
        ("sentence_preference", "cosine"),
        ("separator_focus_stop", "attention"),
    ):
        found = unpacked(data.scores(name, way))
        own = view_rotated.quantity(name, draws=0, reading=None if way != "cosine" else way).value.values
        np.testing.assert_array_equal(found["controls"], own[None])
    assert "controls" not in unpacked(data.scores("sentence_preference", "6"))
    told = data._findings.value()["claims"]["4"]
    assert [run["kind"] for run in told["runs"]] == ["rotated"]
    assert told["marks"]["rotated"] != "not run"
    with pytest.raises(HeadscopeError, match="is not a control"):
        RunData(view_corpus.result, [view_corpus.result])
