import pytest

from keras_encdec.trainers.budget import learning_rate_schedule


def test_halving_begins_after_some_epochs_and_goes_on_at_each_interval():
    factor = learning_rate_schedule("halving", halving_start=5, halving_every=0.5)
    epochs = [0, 4.99, 5, 5.49, 5.5, 5.99, 6, 7]
    assert [factor(0.3, epoch) for epoch in epochs] == [1, 1, 0.5, 0.5, 0.25, 0.25, 0.125, 2**-5]


@pytest.mark.parametrize("name, expected", [("constant", [1, 1, 1]), ("linear", [1, 0.5, 0]), ("cosine", [1, 0.5, 0])])
def test_the_others_follow_the_share_of_the_training_that_is_done(name, expected):
    assert [learning_rate_schedule(name)(done, 99) for done in (0, 0.5, 1)] == pytest.approx(expected)
