"""Which engine: this process, several of this machine, or Ray."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from headscope.choices import ENGINE_NAMES, RAY
from headscope.control import read_control
from headscope.errors import HeadscopeError
from headscope.models.fingerprint import model_fingerprint
from headscope.models.model import Model
from headscope.models.spec import ModelSpec, spec_of
from headscope.runs.crew import Crew
from headscope.runs.crew_engine import CrewEngine
from headscope.runs.engine import Engine
from headscope.runs.local_engine import LocalEngine
from headscope.runs.process_crew import ProcessCrew
from headscope.runs.ray_crew import RayCrew


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How many workers there are to be, and what each of them has."""

    workers: int | None = None
    threads: int | None = None  # cores of each
    ray_address: str | None = None
    gpus_per_worker: float = 0

    def check(self, engine: str | None) -> None:
        """Refuse what makes no sense."""
        if engine is not None and engine not in ENGINE_NAMES:
            raise HeadscopeError(f"engine={engine!r} is not possible", f"use one of {', '.join(ENGINE_NAMES)}")
        if self.workers is not None and (not isinstance(self.workers, int) or self.workers < 1):
            raise HeadscopeError(f"workers={self.workers} is not possible", "give a whole number from 1")
        if not 0 <= self.gpus_per_worker <= 1024:
            raise HeadscopeError(f"gpus_per_worker={self.gpus_per_worker} is not possible", "give a number from 0")
        if engine != RAY and (self.ray_address is not None or self.gpus_per_worker):
            raise HeadscopeError(
                "--ray-address and --gpus-per-worker are for a Ray cluster", "ask for it: --engine ray (engine='ray')"
            )


def make_engine(
    model: Model | ModelSpec | str | None,
    control: str | None,
    engine: str | None,
    options: EngineOptions,
    say: Callable[[str], None],
) -> Engine:
    """The engine that is meant. Without workers the model is loaded into this process; `say` is told of troubles."""
    options.check(engine)
    read_control(control)
    if engine != RAY and options.workers is None:
        return LocalEngine(model_under(control, model), options.threads)
    spec = spec_of(model.under(control) if isinstance(model, Model) and control is not None else model)
    if control is not None and not isinstance(model, Model):
        spec = replace(spec, control=control)
    crew: Crew
    if engine == RAY:
        if options.gpus_per_worker and spec.device == "auto":
            spec = replace(spec, device="cuda")
        crew = RayCrew(spec, options.workers, options.threads, options.gpus_per_worker, options.ray_address)
    else:
        workers = options.workers or 1
        crew = ProcessCrew(spec, workers, options.threads or max(1, (os.cpu_count() or 1) // workers))
    made = CrewEngine(crew, say)
    if isinstance(model, Model):
        _check_same_weights(made, model)
    return made


def _check_same_weights(engine: CrewEngine, model: Model) -> None:
    """A network that was changed after it was loaded is not the one that workers load."""
    try:
        same = engine.facts().fingerprint["weights"] == model_fingerprint(model)["weights"]
    except BaseException:
        engine.close()
        raise
    if not same:
        engine.close()
        raise HeadscopeError(
            f"the weights of {model.name!r} are not those that workers load under its name",
            "save the model to a folder and name that, or leave out the workers",
        )


def model_under(control: str | None, model: Any) -> Model:
    """The model that is meant, loaded where it is only named; a control that makes no sense is refused before that."""
    if isinstance(model, Model):
        return model if control is None else model.under(control)
    spec = spec_of(model)
    return (spec if control is None else replace(spec, control=control)).load()
