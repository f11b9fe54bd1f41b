"""What a worker needs to score shards. It needs no Keras, so that the worker chooses how Keras is imported."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from keras_encdec.backend.startup import import_keras, keep_freed_memory
from keras_encdec.formats.sentences import Sentences
from keras_encdec.runtime.engines import Work
from keras_encdec.scoring.scoring_options import ScoringOptions


@dataclasses.dataclass(frozen=True)
class ScoringWork:
    """Opens the models in a worker: a `keras_encdec.runtime.engines.WorkOpener`.

    Attributes:
        options: ScoringOptions.
        models: list of the paths of the model and, if there is one, the reverse model; in this process, of any
            `ModelOrPath`.
        sentences: Sentences, the sources of an n-best list; `None` for other formats.
        own_process: bool. Whether the worker is a process of its own, which may change how it uses memory.
    """

    options: ScoringOptions
    models: Sequence[Any]
    sentences: Sentences | None
    own_process: bool

    def open(self) -> Work:
        """Loads the models. See `WorkOpener`."""
        import_keras()
        from keras_encdec.scoring.sharded_scoring import ShardScorer

        if self.own_process:
            keep_freed_memory()
        return ShardScorer(self)
