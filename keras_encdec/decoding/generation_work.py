"""What a worker needs to generate in shards. It needs no Keras, so that the worker chooses how Keras is imported."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from keras_encdec.backend.startup import import_keras, keep_freed_memory
from keras_encdec.decoding.generation_options import GenerationOptions
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.runtime.engines import Work


@dataclasses.dataclass(frozen=True)
class GenerationWork:
    """Opens the models in a worker: a `keras_encdec.runtime.engines.WorkOpener`.

    Attributes:
        model_dirs: list of the paths of the models; in this process any `ModelsOrGenerator`.
        sampler: Sampler.
        options: GenerationOptions.
        own_process: bool. Whether the worker is a process of its own, which may change how it uses memory.
    """

    model_dirs: Sequence[Any] | Any
    sampler: Sampler
    options: GenerationOptions
    own_process: bool

    def open(self) -> Work:
        """Loads the models. See `WorkOpener`."""
        import_keras()
        from keras_encdec.decoding.generate_file import ShardGenerator

        if self.own_process:
            keep_freed_memory()
        return ShardGenerator(self)
