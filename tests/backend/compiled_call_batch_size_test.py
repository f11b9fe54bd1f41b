import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_encdec.backend import compiled_call as batch_size
from keras_encdec.backend import devices
from keras_encdec.backend.compiled_call import BatchReduction

NEEDED = st.lists(st.integers(1, 64), min_size=1, max_size=200)


def small_to_compile(monkeypatch):
    monkeypatch.setattr(batch_size, "COMPILING", 0)


@pytest.mark.parametrize(
    "size, needed, minimum, expected",
    [(64, 33, 4, 64), (64, 32, 4, 32), (64, 3, 4, 4), (8, 1, 4, 4), (5, 5, 1, 5), (7, 6, 1, 7), (7, 3, 1, 3)],
)
def test_a_batch_keeps_what_is_needed_and_is_halved_where_compiling_takes_nothing(
    monkeypatch, size, needed, minimum, expected
):
    small_to_compile(monkeypatch)
    reduced = BatchReduction(1, minimum).reduced("step", size, needed)
    if devices.backend_name() == "torch":
        assert reduced == (needed if needed <= size * 7 / 8 else size)
    else:
        assert reduced == expected


def test_the_rows_of_an_item_count(monkeypatch):
    small_to_compile(monkeypatch)
    batches = BatchReduction(1, 48)
    assert [batches.reduced("step", 64, 1, copies) for copies in (1, 12, 100)] == (
        [1, 1, 1] if devices.backend_name() == "torch" else [64, 4, 1]
    )


@pytest.mark.skipif(devices.backend_name() == "torch", reason="nothing is compiled")
class TestCompiling:
    @given(needed=NEEDED, multiplications=st.integers(1, 10**9), copies=st.integers(1, 3))
    def test_a_size_is_compiled_when_it_would_have_saved_as_much_as_compiling_takes(
        self, needed, multiplications, copies
    ):
        batches, in_vain = BatchReduction(multiplications, 4), dict.fromkeys((1, 2, 4, 8, 16, 32, 64), 0)
        for number in needed:
            wanted = next(each for each in in_vain if each >= number and each * copies >= 4)
            found = batches.reduced("step", 64, number, copies)
            assert found in in_vain and found >= number
            if in_vain[wanted] * multiplications >= batch_size.COMPILING:
                assert found == wanted
            in_vain[wanted] += (found - wanted) * copies
            # What it would have saved exceeds the cost of compiling by at most one step of a batch.
            assert in_vain[wanted] * multiplications < batch_size.COMPILING + 64 * copies * multiplications

    def test_a_size_that_is_larger_than_needed_is_better_than_none(self):
        # Once the size 32 is compiled, 16 would save too little to be compiled, too.
        batches = BatchReduction(int(batch_size.COMPILING / 64), 4)
        assert [batches.reduced("step", 64, 32) for _ in range(2)] == [64, 32]
        assert batches.reduced("step", 64, 16) == 32

    def test_each_compiled_function_is_counted_separately(self):
        batches = BatchReduction(int(batch_size.COMPILING / 64), 4)
        assert [batches.reduced("step", 64, 32) for _ in range(2)] == [64, 32]
        assert batches.reduced("other step", 64, 32) == 64
