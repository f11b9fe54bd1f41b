"""Reads the histories of trainings from their model directories."""

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
    """The history of a training.

    Attributes:
        name: str. Names of the model directory and its parent folder.
        rounds: tuple of TrainingRound, without averages of rounds.
    """

    name: str
    rounds: tuple[TrainingRound, ...]

    def values(self, name: str) -> tuple[list[int], list[float]]:
        """Lists a measurement over the updates, for the rounds that have it.

        Args:
            name: str. An attribute of TrainingRound; or "pairs_per_second", the speed within each round.

        Returns:
            tuple: list of int, the updates at the end of each round; list of float, the values.
        """
        if name == "pairs_per_second":
            return self._pairs_per_second()
        known = [(each.updates, getattr(each, name)) for each in self.rounds if getattr(each, name) is not None]
        return [updates for updates, _ in known], [value for _, value in known]

    def _pairs_per_second(self):
        updates, values, pairs, seconds = [], [], 0, 0.0
        for each in self.rounds:
            if each.seconds > seconds:
                updates.append(each.updates)
                values.append((each.pairs - pairs) / (each.seconds - seconds))
            pairs, seconds = each.pairs, each.seconds
        return updates, values


def read_training_run(folder: FilePath) -> TrainingRun | None:
    """Reads the history of a training.

    Args:
        folder: model directory.

    Returns:
        TrainingRun; `None` if the directory has no history, such as a copy for scoring.

    Raises:
        InputError: when there is no such directory, or its history is invalid.
    """
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise InputError("found no such directory", "expected a model directory made by encdec-train", path=folder)
    try:
        rounds = read_parsed(folder / HISTORY, json.loads)["rounds"]
        rounds = tuple(map(TrainingRound.from_dict, rounds))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        found, expected = f"found an invalid history ({error})", "expected the file that encdec-train writes"
        raise InputError(found, expected, "remove or restore it", folder / HISTORY) from None
    name = "/".join(folder.resolve().parts[-2:])
    return TrainingRun(name, tuple(each for each in rounds if each.averaged_rounds is None))
