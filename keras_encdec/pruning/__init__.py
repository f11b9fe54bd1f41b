"""Sets the smallest weights of a trained model to zero."""

from typing import TYPE_CHECKING

from keras_encdec.runtime.imports import lazy_imports

if TYPE_CHECKING:
    from keras_encdec.pruning.prune_model import PrunedClass as PrunedClass
    from keras_encdec.pruning.prune_model import PruningResult as PruningResult
    from keras_encdec.pruning.prune_model import prune_model as prune_model
    from keras_encdec.pruning.pruning_masks import PruningMasks as PruningMasks
    from keras_encdec.pruning.pruning_masks import pruning_masks as pruning_masks
    from keras_encdec.pruning.pruning_options import PruningOptions as PruningOptions

lazy_imports(__name__)
