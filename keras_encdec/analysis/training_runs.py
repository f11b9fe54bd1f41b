"""How trainings went, from their model directories."""

import dataclasses
import json
import pathlib

from keras_encdec.errors import InputError
from keras_encdec.formats import FilePath
from keras_encdec.runtime.settings_files import read_parsed
from keras_encdec.trainers.checkpoints import HISTORY
from keras_encdec.trainers.training_result import TrainingRound


@dataclasses.dataclass(frozen=True)
class TrainingRun:
    """A training.

    Attributes:
        name: str. Of the model directory and the folder that it is in.
        rounds: tuple of TrainingRound, averages of rounds left out.
    """

    name: str
    rounds: tuple[TrainingRound, ...]

    def values(self, name: str) -> tuple[list[int], list[float]]:
        """The updates at the end of each round, and an attribute of TrainingRound, where a round has it.

        "pairs_per_second" is that of the round itself.
        """
        if name == "pairs_per_second":
            return self._pairs_per_second()
        known = [(one.updates, getattr(one, name)) for one in self.rounds if getattr(one, name) is not None]
        return [updates for updates, _ in known], [value for _, value in known]

    def _pairs_per_second(self):
        updates, values, pairs, seconds = [], [], 0, 0.0
        for one in self.rounds:
            if one.seconds > seconds:
                updates.append(one.updates)
                values.append((one.pairs - pairs) / (one.seconds - seconds))
            pairs, seconds = one.pairs, one.seconds
        return updates, values


def read_training_run(folder: FilePath) -> TrainingRun | None:
    """Reads the history of a training.

    Args:
        folder: model directory.

    Returns:
        TrainingRun; `None` where the directory has no history, as a copy to score with.

    Raises:
        InputError: when there is no such directory, or its history is none.
    """
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise InputError("found no such directory", "expected a model directory made by encdec-train", path=folder)
    try:
        rounds = read_parsed(folder / HISTORY, json.loads)["rounds"]
        rounds = tuple(TrainingRound.from_dict(one) for one in rounds)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        found, expected = f"found a history that does not read ({error})", "expected that of encdec-train"
        raise InputError(found, expected, "remove or restore it", folder / HISTORY) from None
    name = "/".join(folder.resolve().parts[-2:])
    return TrainingRun(name, tuple(one for one in rounds if one.averaged_rounds is None))
