"""Options that several tasks share."""

import pytest

from keras_encdec.errors import InputError
from keras_encdec.task_options import UnknownWordsOption


@pytest.mark.parametrize("share, words, unknown", [(0.29, 100, 29), (0.57, 100, 57), (0.58, 50, 29), (0.0, 0, 0)])
def test_a_share_of_unknown_words_at_the_limit_is_accepted(share, words, unknown):
    limit = UnknownWordsOption(max_unknown=share)
    limit.check_unknown("source", words, unknown)
    with pytest.raises(InputError, match="expected .* % at most"):
        limit.check_unknown("source", words + 1, unknown + 1)
