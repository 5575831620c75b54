"""What the viewer's server answers is what the library computes, bit for bit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import xarray as xr
from safetensors.numpy import load as unpacked

import headscope
import naive
import naive_order
from headscope.inspection import Inspection
from headscope.measures.relations import RELATIONS
from headscope.view import arrays
from headscope.view.desk import ALL_AT_ONCE, Desk
from long import first_of
from serving import (
    LONG,
    SHORT,
    TEXT,
    Tiny,
    said,
    serving,
)

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "embedded": ("embedded", {}),
    "rank": ("embedded", {"scale": "rank", "window": 60}),
    "cosine": ("embedded", {"readings": ["cosine"], "window": 80, "start": 30}),
    "special": ("embedded", {"special": True, "repeated": "word", "window": 80}),
    "pair": ("embedded", {"pair": SHORT, "window": 90}),
    "causal": ("gpt2", {}),
    "causal rank cosine": ("gpt2", {"scale": "rank", "readings": ["cosine", "dot"], "window": 60}),
    "centred": ("embedded", {"readings": ["centred", "dot"], "window": 60}),
    "values": ("llama", {"readings": ["values", "centred"], "window": 60}),
    "cross": ("t5", {"stack": "cross"}),
    "decoder": ("t5", {"stack": "decoder", "special": True, "window": 80}),
    "long": ("long", {"window": 300}),
    "long rank": ("long", {"window": 270, "scale": "rank", "special": True}),
    "long cross": ("t5", {"window": 256, "stack": "cross"}),
}
FULL = {"long": LONG, "long rank": LONG, "long cross": LONG}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, embedded: headscope.Model, tiny: Tiny) -> Iterator[Seen]:
    """A text behind the server, and the same text inspected directly with every map kept."""
    kind, options = CASES[request.param]
    model = embedded if kind == "embedded" else tiny(kind)
    text = FULL.get(request.param, TEXT)
    with serving(Desk(lambda: model)) as place, place.client() as client:
        answer = client.post("/api/texts", json={"text": text, **options})
        assert answer.status_code == 200, answer.text
        yield Seen(client, answer.json(), model.inspect(text, **options))


@dataclass(frozen=True)
class Seen:
    """What the server says of a text, and what the library says of it."""

    client: httpx.Client
    told: dict[str, Any]
    own: Inspection

    def arrays(self, path: str) -> dict[str, np.ndarray]:
        """A binary answer; layers and heads in the main reading."""
        answer = self.client.get(f"/api/texts/{self.told['id']}/{path}")
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/octet-stream"
        return unpacked(answer.content)

    @property
    def places(self) -> list[tuple[int, int]]:
        return naive.pairs(self.own.counting.tolist())

    @property
    def key(self) -> int:
        """What is drawn at random in the window is drawn from this."""
        return naive_order.window_key(self.own.tokens.id.tolist())

    @property
    def heads(self) -> list[tuple[int, int, int]]:
        """Some heads: the place of the layer, its number, and the head's."""
        layers = self.own.captured.layers
        last = self.own.captured.heads - 1
        return [(0, layers[0], 0), (len(layers) // 2, layers[len(layers) // 2], 1), (len(layers) - 1, layers[-1], last)]


def test_the_tokens_are_those_of_the_inspection(case: Seen) -> None:
    told, own = case.told, case.own
    for names, table in (("tokens", own.tokens), ("keys", own.key_tokens)):
        if told[names] is None:
            assert own.stack != "cross"
            continue
        for column in ("label", "category", "sentence", "word", "part", "start", "end", "unknown"):
            assert told[names][column] == table[column].tolist(), column
    assert told["tokens"]["counting"] == own.counting.tolist()
    assert told["tokens"]["same"] == own.same.tolist()
    assert told["layers"] == list(own.captured.layers)
    assert (told["model"], told["stack"], told["shown"]) == (own.model, own.stack, own.shown)
    assert told["options"] == json.loads(json.dumps(own.settings()))
    assert told["readings"] == [own.reading, *(name for name in own.readings if name != own.reading)]
    assert ("values" in told["readings"]) == (own.stack != "cross")
    assert told["maps_kept"] == (len(own.window) <= ALL_AT_ONCE)
    relation = case.arrays("pairs")["relation"]
    assert np.array_equal(relation, own.relations.numpy())
    same, table = own.window.repeats(own.choices.repeated).tolist(), own.tokens
    ids = [number if number >= 0 else ("none", place) for place, number in enumerate(same)]
    word, sentence = ([x if x >= 0 else None for x in table[name]] for name in ("word", "sentence"))
    category = table.category.tolist()
    again = [naive.relation(i, j, ids, category, word, sentence) for i, j in case.places]
    assert [RELATIONS[r] for r in relation] == again


def levels(matrix: np.ndarray, places: list[tuple[int, int]], rank: bool) -> list[float]:
    """naive.levels, but the largest is looked for once: there are tens of thousands of pairs here."""
    if rank:
        return naive.levels(matrix, places, rank=True) or []
    values = [matrix[i, j] for i, j in places]
    largest = max(values)
    return [value / largest for value in values]


def test_a_head_is_bit_for_bit_that_of_the_inspection_and_its_bins_are_the_naive_ones(case: Seen) -> None:
    own = case.own
    rank, places = own.choices.scale == "rank", case.places
    for k, layer, head in case.heads[: 1 if rank and len(places) > 10_000 else None]:  # naive ranks take seconds
        found = case.arrays(f"{own.reading}/heads/{layer}/{head}")
        matrix = own.similarity.values[k, head]
        assert np.array_equal(found["similarity"], matrix[np.triu_indices(len(matrix), 1)])
        assert found["similarity"].dtype == np.float32
        assert np.array_equal(found["norms"], own.norms.values[k, head])
        assert np.array_equal(found["received"], own.received(layer, head).values, equal_nan=True)
        text_only = own.received(layer, head, text_only=True).values
        assert np.array_equal(found["received_text"], text_only, equal_nan=True)
        level = levels(matrix.astype(float), places, rank=rank)
        assert found["flat"].tolist() == [0]
        assert found["bin"].tolist() == [naive.bin_of(each) for each in level]
        values = [float(matrix[place]) for place in places]
        assert found["order"].tolist() == naive_order.order(values, naive_order.edges(values, case.key))
        top = naive_order.top_pairs(found["order"].tolist())
        assert found["has_top"].tolist() == [bool(top)]
        assert ("level" in found) == rank
        if rank:
            assert found["level"].tolist() == level


def test_an_attention_map_is_bit_for_bit_that_of_the_inspection(case: Seen) -> None:
    for k, layer, head in case.heads:
        found = case.arrays(f"heads/{layer}/{head}/attention")["attention"]
        assert np.array_equal(found, case.own.attention.values[k, head])
        assert found.shape == (len(case.own.window), len(case.own.captured.keys))


@pytest.mark.parametrize("case", first_of(CASES, 4), indirect=True)
def test_scores_at_every_threshold_are_those_of_the_summary(case: Seen) -> None:
    names = [score["name"] for score in case.told["scores"]]
    layers = {layer: case.arrays(f"{case.own.reading}/layers/{layer}") for _, layer, _ in case.heads}
    for step in (1, 10, 19):
        summary = case.own.summary(step / 20).set_index("layer")
        for layer, found in layers.items():
            rows = summary.loc[layer]
            for name, scores in zip(names, found["scores"][:, step - 1], strict=True):
                np.testing.assert_array_equal(scores, rows[name].to_numpy(float), err_msg=name)
            labels = [case.told["same_labels"][n] if n >= 0 else None for n in found["focal"][step - 1]]
            assert labels == [token if isinstance(token, str) else None for token in rows.focal_token]


def test_thumbnails_show_the_strongest_pair_of_every_square(case: Seen) -> None:
    k, layer, head = case.heads[1]
    thumb = case.arrays(f"{case.own.reading}/layers/{layer}")["thumbs"][head]
    counting = np.flatnonzero(case.own.counting.numpy())
    level = case.own.levels.values[k, head]
    level = level[counting[0] : counting[-1] + 1, counting[0] : counting[-1] + 1].astype(float)
    side, size = len(thumb), len(level)
    assert side == min(size, arrays.THUMB)
    for row in range(side):
        for column in range(side):
            square = level[
                row * size // side : (row + 1) * size // side, column * size // side : (column + 1) * size // side
            ]
            there = square[~np.isnan(square)]
            assert thumb[row, column] == (1 + round(254 * max(there.max(), 0.0)) if len(there) else 0)


@pytest.mark.parametrize("case", ["embedded", "long", "cross"], indirect=True)
def test_every_reading_is_answered_from_one_capture(case: Seen) -> None:
    """Also where maps were not kept, and the model must run once more."""
    _, layer, head = case.heads[1]
    step, matrices = 12, set()
    for reading in case.told["readings"]:
        own = case.own.read_as(reading)
        found = case.arrays(f"{reading}/heads/{layer}/{head}")
        upper = own.similarity_matrix(layer, head)[np.triu_indices(len(own.window), 1)]
        assert np.array_equal(found["similarity"], upper)
        matrices.add(upper.tobytes())
        told = case.arrays(f"{reading}/layers/{layer}")
        for place, rows in ((step - 1, own.heads(layer, step / 20)), (-1, own.heads(layer, top=True))):
            for score, values in zip(case.told["scores"], told["scores"][:, place], strict=True):
                np.testing.assert_array_equal(values, rows[score["name"]].to_numpy(float), err_msg=score["name"])
            labels = [case.told["same_labels"][n] if n >= 0 else None for n in told["focal"][place]]
            assert labels == [token if isinstance(token, str) else None for token in rows.focal_token]
    assert len(matrices) == len(case.told["readings"])


@pytest.mark.parametrize("case", ["cross"], indirect=True)
def test_a_reading_that_a_text_does_not_have_is_refused(case: Seen) -> None:
    for path in ("heads/0/0", "layers/0", "inspection.nc"):
        answer = case.client.get(f"/api/texts/{case.told['id']}/values/{path}")
        assert answer.status_code == 422
        assert "cross-attention cannot be read by 'values'" in said(answer)
        assert case.client.get(f"/api/texts/{case.told['id']}/L2/{path}").status_code in (404, 422)


@pytest.mark.parametrize("case", ["rank", "cross", "long"], indirect=True)
def test_the_file_for_download_is_the_saved_inspection(case: Seen, tmp_path: Path) -> None:
    answer = case.client.get(f"/api/texts/{case.told['id']}/{case.own.reading}/inspection.nc")
    assert answer.status_code == 200
    assert 'filename="inspection.nc"' in answer.headers["content-disposition"]
    (tmp_path / "got.nc").write_bytes(answer.content)
    got = xr.open_dataset(tmp_path / "got.nc", engine="h5netcdf")
    own = xr.open_dataset(case.own.save(tmp_path / "own.nc"), engine="h5netcdf")
    if not case.told["maps_kept"]:
        own = own.drop_vars(["attention", "similarity", "levels", "readable"])
        own = own.drop_vars(set(own.coords) - set(got.coords))
    xr.testing.assert_identical(got, own)


def test_a_download_does_not_stay_in_memory(embedded: headscope.Model) -> None:
    """All matrices of all heads at once are for the file; the desk counts only what it keeps."""
    behind = Desk(lambda: embedded)
    with serving(behind) as place, place.client() as client:
        name = client.post("/api/texts", json={"text": TEXT}).json()["id"]
        assert client.get(f"/api/texts/{name}/dot/inspection.nc").status_code == 200
    kept = behind.texts()[-1]
    assert not {"similarity", "levels"} & set(vars(kept))


def test_without_a_run_or_a_model_that_is_said() -> None:
    with serving(Desk()) as place, place.client() as client:
        assert client.get("/api/about").json()["can_inspect"] is False
        answer = client.post("/api/texts", json={"text": SHORT})
        assert (answer.status_code, "no model" in said(answer)) == (422, True)
        for path in ("", "/findings", "/sensitivity", "/scores/reach/3", "/result.nc", "/heads/0/0",
                     "/heads/0/0/examples/distance"):  # fmt: skip
            answer = client.get(f"/api/run{path}")
            assert (answer.status_code, "no result" in said(answer)) == (404, True)
