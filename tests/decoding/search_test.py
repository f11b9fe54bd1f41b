"""The search as Python drives it: finished sources leave the batch, and samplers share compiled steps."""

import pytest
from table_model import TableModel, random_sources

from keras_encdec.backend import compiled_call as batch_size
from keras_encdec.decoding import BeamSampler, Generator, GreedySampler, RandomSampler, ensemble


@pytest.mark.parametrize(
    "sampler", [GreedySampler(), BeamSampler(6, num_best=4, length_penalty=0.5), RandomSampler(7)], ids=str
)
def test_removing_finished_sources_from_the_batch_changes_no_result(sampler, monkeypatch):
    model, sources = TableModel(scale=1.5), random_sources(150, 14)
    sizes, take_step = [], ensemble.SearchFunctions.step

    def counted(functions, sampler, words, *others):
        sizes.append(len(words))
        return take_step(functions, sampler, words, *others)

    monkeypatch.setattr(ensemble.SearchFunctions, "step", counted)
    monkeypatch.setattr(batch_size, "COMPILING", 0)
    with_it = Generator(model).generate(sources, sampler)
    assert sizes[0] > sizes[-1]
    monkeypatch.setattr(batch_size.BatchReduction, "reduced", lambda batches, what, size, *others: size)
    sizes.clear()
    without = Generator(model).generate(sources, sampler)
    for mine, others in zip(with_it, without, strict=True):
        assert [each.ids for each in mine] == [each.ids for each in others]
        assert [each.log_prob for each in mine] == pytest.approx([each.log_prob for each in others], abs=1e-5)
        assert [each.score for each in mine] == pytest.approx([each.score for each in others], abs=1e-5)


def test_samplers_that_differ_in_search_options_share_a_compiled_step(monkeypatch):
    made, compiled_call = [], ensemble.compiled_call

    def noted(layer):
        made.extend([layer.name] if layer.name == "step" else [])
        return compiled_call(layer)

    monkeypatch.setattr(ensemble, "compiled_call", noted)
    generator = Generator(TableModel())
    results = [
        generator.generate([[3, 2], [4, 2]], sampler)
        for sampler in (
            BeamSampler(3),
            BeamSampler(3, length_penalty=2.0),
            RandomSampler(3),
            RandomSampler(3, seed=2),
            RandomSampler(3, temperature=0.5),
        )
    ]
    assert made == ["step", "step"]
    assert all(results[i] != results[i + 1] for i in range(4))
    generator.generate([[3, 2]], RandomSampler(3, top_p=0.5))
    assert made == ["step", "step", "step"]
