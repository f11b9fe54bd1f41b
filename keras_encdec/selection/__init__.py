"""Selects sentence pairs of a corpus by their cross-entropies."""

from typing import TYPE_CHECKING

from keras_encdec.runtime.imports import lazy_imports

if TYPE_CHECKING:
    from keras_encdec.selection.cross_entropies import LanguageModelEntropies as LanguageModelEntropies
    from keras_encdec.selection.cross_entropies import NgramEntropies as NgramEntropies
    from keras_encdec.selection.cross_entropies import TranslationEntropies as TranslationEntropies
    from keras_encdec.selection.select_pairs import SelectionSummary as SelectionSummary
    from keras_encdec.selection.select_pairs import select_pairs as select_pairs
    from keras_encdec.selection.selection_options import SelectionOptions as SelectionOptions
    from keras_encdec.selection.selection_options import bilingual_difference as bilingual_difference
    from keras_encdec.selection.selection_options import cross_entropy_difference as cross_entropy_difference
    from keras_encdec.selection.selection_options import (
        dual_conditional_cross_entropy as dual_conditional_cross_entropy,
    )

lazy_imports(__name__)
