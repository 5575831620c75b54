"""Workers as actors of a Ray cluster: each holds a model, loaded once; Ray finds room for them and tells their end."""

from __future__ import annotations

import re
import socket
import time
from typing import Any

from headscope.errors import HeadscopeError, brief
from headscope.extras import require
from headscope.models.spec import ModelSpec
from headscope.runs.crew import Answer, CrewLost

LOOK_EVERY, GONE_AFTER = 3.0, 10.0  # seconds: how often a silent cluster's head is looked for, when it counts as gone
OWN_NODE_LOST = "the node of the cluster that this command was typed on is lost"
NOT_THERE = re.compile(r"No module named '[^']+'")


class RayCrew:
    """Actors of a cluster; without an address, of one that Ray begins on this machine or is part of already."""

    def __init__(
        self, spec: ModelSpec, workers: int | None, cores: int | None, gpus: float = 0, address: str | None = None
    ) -> None:
        self.ray = ray = _ray()
        self.spec, self.gpus = spec, gpus
        self._began = not ray.is_initialized()
        if self._began:
            if (address or "").startswith("ray://"):
                raise HeadscopeError(
                    f"{address!r} is an address of Ray's client, through which workers cannot be run",
                    "type the command on a node of the cluster, with --ray-address HEAD:6379 or auto",
                )
            _check_reachable(address)
            try:
                ray.init(address=address, log_to_driver=False, logging_level="error", include_dashboard=False)
            except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
                raise _unreachable(address, error) from error
        self._head, self._node = str(ray.get_runtime_context().gcs_address), ray.get_runtime_context().get_node_id()
        self._daemon = next(
            (node["NodeManagerAddress"], int(node["NodeManagerPort"]))
            for node in ray.nodes()
            if node["NodeID"] == self._node
        )
        self._seen = time.monotonic()  # when the head was last known to be there
        self._lost = False
        try:
            self.wanted, self.cores = self._shares(workers, cores)
        except BaseException:
            if self._began:
                ray.shutdown()
            raise
        self._actors: dict[int, Any] = {}
        self._waiting: dict[Any, tuple[int, int]] = {}  # by reference: worker and call
        self._hired = self._calls = 0
        options: dict[str, Any] = {"num_cpus": self.cores, "num_gpus": gpus, "max_restarts": 0, "max_task_retries": 0}
        from headscope.runs.computer import ShardComputer

        self._actor = ray.remote(**options)(ShardComputer)

    def _shares(self, workers: int | None, cores: int | None) -> tuple[int, int]:
        """How many workers, and with how many cores each: a worker for every share of graphics cards, or every node."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        if not nodes:
            raise HeadscopeError("the Ray cluster has no node with a CPU", "`ray status` on its head shows its nodes")
        if workers is None:
            cards = sum(node.get("GPU", 0) for node in nodes)
            if self.gpus and cards < self.gpus:
                raise HeadscopeError(
                    f"the Ray cluster has {cards:g} graphics cards, and a worker needs {self.gpus:g}",
                    "leave out --gpus-per-worker, or add nodes that have some",
                )
            workers = max(1, int(cards / self.gpus)) if self.gpus else len(nodes)
        if cores is None:
            per_node = -(-workers // len(nodes))
            cores = max(1, int(min(node["CPU"] for node in nodes)) // per_node)
        if not any(node["CPU"] >= cores and node.get("GPU", 0) >= self.gpus for node in nodes):
            raise HeadscopeError(
                f"no node of the Ray cluster has the {cores} CPUs and {self.gpus:g} GPUs that a worker needs",
                "ask for fewer: --threads (threads=), --gpus-per-worker (gpus_per_worker=); `ray status` tells what "
                "there is",
            )
        return workers, cores

    def hire(self) -> int:
        """Ask Ray for an actor, which loads the model where there is room."""
        self._hired += 1
        self._actors[self._hired] = self._actor.remote(self.spec, self.cores)
        return self._hired

    def call(self, worker: int, method: str, *arguments: Any) -> int:
        """Ask an actor."""
        self._calls += 1
        reference = getattr(self._actors[worker], method).remote(*arguments)
        self._waiting[reference] = worker, self._calls
        return self._calls

    def answers(self, seconds: float) -> list[Answer]:
        """What Ray has ready."""
        ray = self.ray
        if not self._waiting:
            time.sleep(seconds)
            self._look_for_the_cluster()
            return []
        try:
            references = list(self._waiting)
            ready, _ = ray.wait(references, num_returns=1, timeout=seconds)
            if ready:  # and whatever else is there already: of a thousand workers many answer at once
                ready, _ = ray.wait(references, num_returns=len(references), timeout=0, fetch_local=False)
        except Exception as error:
            raise self._gone(self._why(error)) from error
        if not ready:
            self._look_for_the_cluster()
        found = []
        for reference in ready:
            if reference not in self._waiting:
                continue  # of a worker whose end was told just now
            worker, call = self._waiting.pop(reference)
            try:
                found.append(Answer(worker, call, ray.get(reference)))
            except (
                ray.exceptions.RayActorError,
                ray.exceptions.ObjectLostError,
                ray.exceptions.WorkerCrashedError,
            ) as error:
                self._forget(worker)
                found.append(Answer(worker, call, died=brief(error)))
            except ray.exceptions.RayTaskError as error:
                found.append(Answer(worker, call, error=_cause(error)))
            except Exception as error:  # whatever else: Ray itself is in trouble
                raise self._gone(self._why(error)) from error
        return found

    def _look_for_the_cluster(self) -> None:
        """Ray waits for a lost head for minutes, then ends this process without a word; this notices it earlier.

        Where the node that this process is on is lost, it waits for ever: its actors are nobody's, and none comes.
        """
        if time.monotonic() - self._seen < LOOK_EVERY:
            return
        try:
            _check_reachable(self._head)
        except HeadscopeError as error:
            if time.monotonic() - self._seen > GONE_AFTER:
                raise self._gone(error.problem) from error
            return
        self._seen = time.monotonic()
        if self._own_node_is_lost():
            raise self._gone(OWN_NODE_LOST)

    def _own_node_is_lost(self) -> bool:
        """Whether the node that this process is on is lost: Ray's daemon is gone from it, or the cluster knows.

        The cluster takes half a minute to know.
        """
        lives = [node["Alive"] for node in self.ray.nodes() if node["NodeID"] == self._node]
        return _refused(self._daemon) or not any(lives)

    def _why(self, error: Exception) -> str:
        """What ended Ray's answers. A lost node is a broken connection at first; a while later the cluster knows."""
        until = time.monotonic() + GONE_AFTER
        while time.monotonic() < until:
            try:
                _check_reachable(self._head)
                if self._own_node_is_lost():
                    return OWN_NODE_LOST
            except Exception:  # the head is lost, too: what Ray said first is as good as any
                break
            time.sleep(1)
        return f"{type(error).__name__}: {brief(error)}"

    def _gone(self, why: str) -> CrewLost:
        self._lost = True
        return CrewLost(why)

    def _forget(self, worker: int) -> None:
        self._actors.pop(worker, None)
        self._waiting = {reference: about for reference, about in self._waiting.items() if about[0] != worker}

    def dismiss(self, worker: int) -> None:
        """End an actor."""
        actor = self._actors.get(worker)
        self._forget(worker)
        if actor is not None:
            self.ray.kill(actor)

    def trouble(self) -> str:
        """What is free on the cluster, where workers are awaited."""
        free = self.ray.available_resources()
        cores, cards = free.get("CPU", 0), free.get("GPU", 0)
        if cores >= self.cores and cards >= self.gpus:
            return (
                "waiting for the cluster: it has room for a worker, which has not come yet; `ray status` may tell why"
            )
        return (
            f"waiting for the cluster: CPUs that a worker takes: {self.cores}, free: {cores:g}; GPUs: {self.gpus:g}, "
            f"free: {cards:g}"
        )

    def close(self) -> None:
        """End all actors, and the connection where it was begun here."""
        if self.ray.is_initialized() and not self._lost:
            for worker in list(self._actors):
                self.dismiss(worker)
            if self._began:
                self.ray.shutdown()


def _check_reachable(address: str | None) -> None:
    """Ray itself tries for many minutes; whether anybody listens there is known at once."""
    host, _, port = (address or "").rpartition(":")
    if not port.isdigit():  # "auto"
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise _unreachable(address, error) from error


def _refused(address: tuple[str, int]) -> bool:
    """Whether nobody listens there any more, where that is known."""
    try:
        socket.create_connection(address, timeout=10).close()
    except OSError as error:
        return isinstance(error, ConnectionRefusedError)
    return False


def _unreachable(address: str | None, error: Exception) -> HeadscopeError:
    return HeadscopeError(
        f"the Ray cluster {address or 'of this machine'!r} cannot be reached: {brief(error)}",
        "check --ray-address; `ray status` on its head shows whether it runs; a cluster that asks for a token wants "
        "RAY_AUTH_MODE=token, and the head's ~/.ray/auth_token",
    )


def _cause(error: Any) -> BaseException:
    """What was raised in the actor, as itself and not as one of Ray's own kind."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, HeadscopeError):
        return HeadscopeError(cause.problem, cause.remedy)
    missing = NOT_THERE.search(str(cause or error))
    if missing is not None:
        return HeadscopeError(
            f"a worker cannot read what it was sent: {missing.group()}",
            "put the module where Python finds it on every node, and begin Ray there after that",
        )
    return RuntimeError(brief(cause or error))


def _ray() -> Any:
    require("running on a Ray cluster", "ray")
    import ray

    return ray
