"""Prunes a trained model: sets its smallest weights to zero, and stores it in less space."""

import dataclasses
import warnings

from keras_encdec.errors import EncdecWarning, FilePath
from keras_encdec.model_average import write_derived_model
from keras_encdec.model_config import WEIGHTS, model_path
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.pruning.pruning_masks import prune_weights, zero_counts
from keras_encdec.pruning.pruning_options import PruningOptions
from keras_encdec.runtime.files import as_result, check_absent


@dataclasses.dataclass(frozen=True)
class PrunedClass:
    """The weights of a class.

    Attributes:
        name: str, such as "encoder layer 1".
        weights: int. Number of weights, without biases.
        pruned: int. Number of those that are zero.
    """

    name: str
    weights: int
    pruned: int

    @property
    def share(self) -> float:
        """Share of the weights that are zero."""
        return self.pruned / self.weights


@dataclasses.dataclass(frozen=True)
class PruningResult:
    """The result of `prune_model`.

    Attributes:
        path: pathlib.Path of the new model directory; for a remote directory its URL, a str.
        classes: tuple of PrunedClass, in the order of the model's weights.
        size: int. Bytes of the new file of weights.
        size_before: int. Bytes of the file of weights that was read.
    """

    path: FilePath
    classes: tuple[PrunedClass, ...]
    size: int
    size_before: int

    @property
    def share(self) -> float:
        """Share of all weights that are zero, without biases."""
        return sum(each.pruned for each in self.classes) / sum(each.weights for each in self.classes)

    def __str__(self) -> str:
        width = max(len(each.name) for each in self.classes)
        lines = [f"{each.name:{width}}  {each.share:6.1%} of {each.weights:,}" for each in self.classes]
        ratio = self.size / self.size_before
        sizes = f"{WEIGHTS} has {self.size:,} bytes instead of {self.size_before:,} ({ratio:.0%})"
        return "\n".join([*lines, f"{self.share:.1%} of the weights are zero; {sizes}: {self.path}"])


def prune_model(
    model_dir: FilePath, output: FilePath, options: PruningOptions | None = None, **values: object
) -> PruningResult:
    """Sets the smallest weights of a model to zero, and writes the result as a new model directory.

    The classes of weights are each layer's matrices on each side, both embeddings, attention and the softmax, see
    `weight_classes`. Biases are kept. The file of the weights is sparse, see `keras_encdec.sparse_weights`, and in
    float16 if that of the model is. Everything that reads model directories reads it as before, and scores with the
    dense weights. `train` continues from the pruned model with `initial_model` and `keep_pruned`.

    Args:
        model_dir: path of a model directory, or the name of a packaged model. It is not changed.
        output: path or URL of the model directory to write, which must not exist.
        options: PruningOptions. Defaults to `None`: the defaults of the command.
        **values: options by name, which override those in `options`.

    Raises:
        ConfigurationError: a ValueError, for an option out of bounds.
        InputError: if the model cannot be loaded or already has this share of zeros, or the output exists or cannot
            be written.

    Reference:
        - See, Luong and Manning, 2016 (arXiv 1606.09274)
    """
    options = PruningOptions.combined(options, values)
    check_absent(output)
    if options.share == 1:
        found = "found --share=1, which keeps only biases, so that the model computes the same output for every input"
        warnings.warn(EncdecWarning(f"{found}; give a smaller --share."), stacklevel=2)
    source = model_path(model_dir)
    directory = ModelDirectory.load(source)
    counts = zero_counts(directory.model).values()
    options.check_zeros(sum(zeros for zeros, _ in counts), sum(size for _, size in counts), directory.path)
    prune_weights(directory.model, options.share, options.scheme)
    size = write_derived_model(directory, output)
    classes = tuple(PrunedClass(name, size, zeros) for name, (zeros, size) in zero_counts(directory.model).items())
    return PruningResult(as_result(output), classes, size, (source / WEIGHTS).stat().st_size)
