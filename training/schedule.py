"""How far training is, and the learning rate that follows from it."""

from dataclasses import dataclass

from run_folder import Progress


@dataclass(frozen=True)
class Schedule:
    """How far training is, measured in seconds or in steps, and what follows from it."""

    total: float
    in_steps: bool
    peak: float
    warmup: float

    def amount(self, progress: Progress) -> float:
        """What is done: the steps before the coming one, or the seconds."""
        return progress.step if self.in_steps else progress.spent

    def share(self, progress: Progress) -> float:
        """Between 0 and 1. The last step is the first to find 1; of N steps that is step number N - 1."""
        return min(1.0, self.amount(progress) / (self.total - 1 if self.in_steps else self.total))

    def learning_rate(self, share: float) -> float:
        """Linear from 0 to the peak during the warm-up, linear to 0 thereafter."""
        return self.peak * min(share / self.warmup, (1 - share) / (1 - self.warmup))

    def next_report(self, progress: Progress, *, first: bool = False) -> float:
        """The amount at which to report next: some sixty reports a run, the first of a call soon."""
        interval = self.total / 60
        if self.in_steps:
            interval = max(1.0, interval)
        else:
            interval = min(5.0, interval) if first else max(5.0, min(30.0, interval))
        return self.amount(progress) + interval
