import collections

from keras_encdec.analysis.table_sample import Reservoir


def sampled(seed, size=3, number=9):
    reservoir = Reservoir(size, seed)
    for item in range(number):
        reservoir.offer(item)
    return reservoir.items()


def test_every_item_is_equally_likely_and_the_order_is_kept():
    samples = [sampled(seed) for seed in range(3000)]
    assert all(sample == sorted(set(sample)) and len(sample) == 3 for sample in samples)
    counts = collections.Counter(item for sample in samples for item in sample)
    assert len(counts) == 9 and all(880 < count < 1120 for count in counts.values())
    assert sampled(7) == sampled(7) and sampled(1, size=20) == list(range(9))
