"""run.json: what a run is of, and how far it has come."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from headscope.choices import differences
from headscope.result.schema import check_version
from headscope.runs.plan import Plan

KINDS: dict[str, type] = {
    "settings": dict, "model": dict, "texts": dict, "plan": dict, "versions": dict, "finished": bool, "files": dict,
    "shards": list, "machines": list, "known_model": dict,
}  # fmt: skip


@dataclass(slots=True)
class Manifest:
    """Everything that decides a run's numbers, and what became of it."""

    schema: int
    settings: dict[str, Any]
    model: dict[str, Any]  # its fingerprint
    texts: dict[str, Any]  # their number and fingerprint, where they are known, and how they were chosen
    plan: Plan
    versions: dict[str, str]
    finished: bool = False
    files: dict[str, str] = field(default_factory=dict)  # of the finished run, with their hashes
    shards: list[str] = field(default_factory=list)  # hashes of their texts, once it is finished
    machines: list[str] = field(default_factory=list)  # the kinds of machines that computed it
    known_model: dict[str, Any] = field(default_factory=dict)  # by which its model is known without being loaded

    def as_json(self) -> str:
        """As run.json holds it."""
        return json.dumps(asdict(self), indent=1)

    @property
    def key(self) -> str:
        """A hash of what decides a shard's data, by which shards of another run are told apart."""
        model = {name: value for name, value in self.model.items() if name != "name"}  # a folder may have been moved
        plan = {name: value for name, value in asdict(self.plan).items() if name != "batches"}
        texts = self.texts.get("fingerprint")  # of a stream there is none: its shards are compared by their own hashes
        decides = json.dumps([self.schema, self.settings, model, texts, plan], sort_keys=True)
        return hashlib.sha256(decides.encode()).hexdigest()[:16]

    def differences(self, now: Manifest) -> list[str]:
        """What would be another run, in words; neither the plan nor what a thing is called is looked at."""
        was, is_ = ({key: dict(getattr(each, key)) for key in ("settings", "model", "texts")} for each in (self, now))
        for each in (was, is_):
            each["model"].pop("name", None)  # a folder may have been moved
            each["texts"].pop("name", None)
        return differences(was, is_)


def read_manifest(content: bytes, where: str) -> Manifest:
    """What run.json says, or ValueError; HeadscopeError where another edition of the method wrote it."""
    told = json.loads(content)
    if not isinstance(told, dict) or not isinstance(told.get("schema"), int):
        raise ValueError("it holds no settings")
    check_version(told["schema"], f"the run in {where!r}", _made_by(told))
    for name, kind in KINDS.items():
        if not isinstance(told.get(name, kind()), kind) or (name in _NEEDED and name not in told):
            raise ValueError(f"{name} is missing or of the wrong kind")
    try:
        plan = Plan(**told["plan"])
        plan.batch(0)
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError("its plan makes no sense") from error
    known = {each.name for each in fields(Manifest)}
    return Manifest(**{name: value for name, value in told.items() if name in known} | {"plan": plan})


_NEEDED = ("settings", "model", "texts", "plan", "versions", "finished")


def _made_by(told: Mapping[str, Any]) -> object:
    known = told.get("versions")
    return known.get("headscope") if isinstance(known, dict) else None
