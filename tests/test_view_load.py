"""Many clients at once, the line before the model, the server as a process, and whatever else may be asked."""

from __future__ import annotations

import signal
import socket
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

import httpx
import hypothesis
import numpy as np
import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

import headscope
from headscope.cli import main
from headscope.view import desk, server
from headscope.view.desk import Desk
from serving import (
    SHORT,
    TEXT,
    Load,
    Place,
    errands,
    heard,
    load,
    said,
    serving,
    view_process,
)

# ---------------------------------------------------------------------- the line before the model


def test_when_the_line_is_full_the_rest_is_told_to_come_back(embedded: headscope.Model) -> None:
    may_load, texts = threading.Event(), [f"{SHORT} That was number {k}." for k in range(22)]

    def load_when_told() -> headscope.Model:
        assert may_load.wait(60)
        return embedded

    def post(text: str) -> httpx.Response:
        with place.client() as client:
            return client.post("/api/texts", json={"text": text})

    with serving(Desk(load_when_told)) as place, ThreadPoolExecutor(len(texts)) as pool:
        try:
            asked = {pool.submit(post, text): text for text in texts}
            told: set[Any] = set()
            while len(told) < len(texts) - 17:  # one at work, 16 in line
                done, _ = wait(set(asked) - told, 30, FIRST_COMPLETED)
                assert done
                told |= done
            for each in told:
                answer = each.result()
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
                assert "try again" in said(answer)
            assert place.answers()  # who only looks need not wait for the model
        finally:
            may_load.set()
        for each in set(asked) - told:
            answer = each.result()
            assert answer.status_code == 200
            assert answer.json()["texts"] == [asked[each]]
        for each in told:
            assert post(asked[each]).status_code == 200


def test_a_text_that_was_let_go_is_missing_and_can_be_sent_again(
    embedded: headscope.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "MOST_TEXTS", 2)
    with serving(Desk(lambda: embedded)) as place, place.client() as client:
        names = [client.post("/api/texts", json={"text": f"{SHORT} {k}."}).json()["id"] for k in range(2)]
        first = client.get(f"/api/texts/{names[0]}/dot/heads/3/3").content  # looked at last, so the other one goes
        client.post("/api/texts", json={"text": TEXT})
        assert client.get(f"/api/texts/{names[0]}").status_code == 200
        for path in ("", "/pairs", "/dot/layers/0", "/dot/heads/0/0", "/heads/0/0/attention", "/dot/inspection.nc"):
            answer = client.get(f"/api/texts/{names[1]}{path}")
            assert (answer.status_code, "send it again" in said(answer)) == (404, True)
        again = client.post("/api/texts", json={"text": f"{SHORT} 1."})
        assert (again.status_code, again.json()["id"]) == (200, names[1])
        assert client.get(f"/api/texts/{names[1]}").status_code == 200
        assert client.get(f"/api/texts/{names[0]}/dot/heads/3/3").content == first


def test_no_more_texts_are_kept_than_fit(embedded: headscope.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    size = desk.Seen(embedded.inspect(TEXT)).size
    monkeypatch.setattr(desk, "KEPT", int(2.5 * size))
    with serving(Desk(lambda: embedded)) as place, place.client() as client:
        for passage in headscope.passages()[:5]:
            client.post("/api/texts", json={"text": passage["text"]})
        assert len(client.get("/api/about").json()["texts"]) == 2


# ---------------------------------------------------------------------- as a process


@pytest.mark.long
def test_the_viewer_starts_answers_and_ends_when_told_to() -> None:
    with view_process("A cat.") as viewer:
        place, process = viewer.place, viewer.process
        with place.client() as client:
            told = client.get("/api/about").json()
            assert told["model"]["name"] == "headscope/bert12"
            shown = client.get(f"/api/texts/{told['texts'][0]}").json()
            assert shown["texts"] == ["A cat."]
            # It ends in time whoever still holds a connection: idle, half asked, or not reading.
            half, deaf = place.connect(), place.connect(buffer=4096)
            half.sendall(place.head("/api/texts", "Content-Length: 100", method="POST"))
            deaf.sendall(place.head(f"/api/texts/{told['texts'][0]}/dot/inspection.nc"))
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        took = time.monotonic() - began
        print(f"said its address after {viewer.began_after:.1f} s, ended {took:.1f} s after SIGINT")
        assert process.returncode == 0
        assert took < 10
        assert "closed" in out
        assert err == ""
        for each in (half, deaf):
            each.close()
        with pytest.raises(ConnectionRefusedError):
            place.connect()
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(("127.0.0.1", place.port))


def test_a_port_that_is_taken_is_said_in_a_sentence(served: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", SHORT, "--no-open", "--port", str(served.port)]) == 2
    out, err = capsys.readouterr()
    told = " ".join(err.split())
    assert f"port {served.port} cannot be used" in told
    assert "leave out --port" in told
    assert out == ""


def test_an_address_that_was_said_takes_connections_at_once(embedded: headscope.Model) -> None:
    """Before the server runs they wait in line, so that a browser may be opened on it."""
    made = server.Server(Desk(lambda: embedded))
    with Place(made.port, made.token).connect() as early:
        early.sendall(Place(made.port, made.token).head())
        thread = threading.Thread(target=made.run)
        thread.start()
        assert heard(early).status == 200
    made.stop()
    thread.join(15)
    assert not thread.is_alive()


# ---------------------------------------------------------------------- many at once


def under_load(model: headscope.Model, *, seconds: float) -> Load:
    with ThreadPoolExecutor(1) as beside:
        work = beside.submit(errands, model, 72)
        with view_process(SHORT) as viewer:
            found = load(viewer, work.result(), clients=50, seconds=seconds)
            assert viewer.place.answers()
    print(f"\n50 clients for {seconds:.0f} s: {found}")
    assert found.wrong == []
    assert set(found.statuses) <= {200, 503}
    assert found.statuses[200] > 50
    assert np.percentile(found.seconds, 95) < 10
    assert max(found.seconds) < 15
    return found


@pytest.mark.long
def test_fifty_clients_at_once_get_right_answers_or_are_told_to_come_back(embedded: headscope.Model) -> None:
    found = under_load(embedded, seconds=10)
    assert found.full is not None  # until then memory grows with every text
    early, late = found.at(max(5, found.full)), found.memory[-1][1]
    assert late - early < max(150, 0.15 * early)


@pytest.mark.long
def test_fifty_clients_for_minutes_do_not_make_memory_grow(embedded: headscope.Model) -> None:
    found = under_load(embedded, seconds=180)
    slope = found.slope(after=40)
    print(f"memory grows by {slope:.1f} MB a minute after the first 40 s")
    assert slope < 25


# ---------------------------------------------------------------------- whatever else may be asked

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def fuzzed(place: Place, examples: int, *, anew: bool = False) -> dict[str, dict[int, int]]:
    """Ask every operation of the OpenAPI document for things it allows and for things it does not."""
    token = {"X-Headscope-Token": place.token}
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{place.port}/api/openapi.json", headers=token)
    with place.client() as client:
        known = [client.post("/api/texts", json={"text": text}).json()["id"] for text in (SHORT, "A cat.")]
        file = client.post("/api/files", json={"texts": known[1:], "readings": ["dot"]}).json()["name"]
        while not client.get(f"/api/files/{file}").json()["ready"]:
            time.sleep(0.1)
    real = {"file": st.just(file), "name": st.sampled_from(known),
            "layer": st.integers(0, 12), "head": st.integers(0, 12),
            "score": st.sampled_from(["reach", "sentence_preference", "focal_share", "nothing"]),
            "way": st.sampled_from(["dot", "cosine", "10", "20"]), "stack": st.just("encoder"),
            "number": st.integers(0, 2)}  # fmt: skip
    settings = hypothesis.settings(
        max_examples=examples, derandomize=not anew, deadline=None, database=None,
        phases=[hypothesis.Phase.generate], suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    # Files that are there are asked for before others are made, which would take their place.
    operations = sorted((each.ok() for each in schema.get_all_operations()), key=lambda each: each.method != "get")
    return {each.label: fuzz(each, token, real, settings) for each in operations}


def fuzz(
    operation: schemathesis.APIOperation, token: dict[str, str], real: dict[str, Any], settings: hypothesis.settings
) -> dict[int, int]:
    """One operation, sometimes with places that exist; how often each status was the answer."""
    counts: dict[int, int] = {}
    modes = [operation.as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode]

    @settings
    @hypothesis.given(data=st.data(), asked=st.one_of(modes))
    def ask(data: st.DataObject, asked: schemathesis.Case) -> None:
        for name in sorted(set(asked.path_parameters or {}) & set(real)):
            if data.draw(st.integers(0, 3)):
                asked.path_parameters[name] = data.draw(real[name])
        if isinstance(asked.body, dict) and operation.path == "/api/files":
            asked.body |= {"run": False}  # a run takes minutes to write
            if data.draw(st.booleans()):
                asked.body = {"texts": [data.draw(real["name"])], "readings": ["dot"]}
        elif isinstance(asked.body, dict) and operation.path == "/api/phone" and data.draw(st.booleans()):
            asked.body = {"address": "layer=1"}
        elif isinstance(asked.body, dict) and data.draw(st.booleans()):
            asked.body |= {"text": SHORT, "start": data.draw(st.integers(0, 3)), "stack": None}
        answer = asked.call(headers=token, timeout=60)
        counts[answer.status_code] = counts.get(answer.status_code, 0) + 1
        asked.validate_response(answer, checks=CHECKS)
        if answer.status_code >= 400:
            assert isinstance(answer.json()["error"], str)

    ask()
    return counts


def test_whatever_is_asked_there_is_no_server_error(with_run: Place) -> None:
    found = fuzzed(with_run, 20)
    print(f"\n{sum(sum(counts.values()) for counts in found.values())} requests:", found)
    assert len(found) == 28
    assert all(200 in counts for counts in found.values())
    assert with_run.answers()


@pytest.mark.long
def test_whatever_is_asked_for_minutes_there_is_no_server_error(with_run: Place) -> None:
    found = fuzzed(with_run, 400, anew=True)
    print(f"\n{sum(sum(counts.values()) for counts in found.values())} requests:", found)
    assert with_run.answers()
