"""An exported model with attention as the peer of TensorFlow Serving serves it: scores, targets and alignments."""

import contextlib

import numpy as np
import toy_models
from serving_calls import Calls
from serving_process import ServingProcess

from keras_encdec.decoding import registered_samplers
from keras_encdec.decoding.text_generator import TextGenerator
from keras_encdec.export import export_model
from keras_encdec.formats.alignments import links_line
from keras_encdec.scoring import TextScorer

WORDS = [f"w{i}" for i in range(30)]


def test_a_model_with_attention_scores_and_translates_as_in_python(tmp_path, monkeypatch):
    """With local attention, which does all that global attention does; its weights then fade around a position."""
    greedy = {"greedy": registered_samplers()["greedy"]}
    monkeypatch.setattr("keras_encdec.export.served_model.registered_samplers", lambda: greedy)
    random, arguments = np.random.default_rng(0), {"attention": "local_p", "cell": "gru", "layers": 1}
    directory = toy_models.save_model(tmp_path / "model", WORDS, WORDS, **arguments)
    export_model(directory, tmp_path / "models")
    texts = [" ".join(random.choice([*WORDS, "other"], random.integers(0, 12))) for _ in range(60)]
    pairs, scorer = list(zip(texts[::2], texts[1::2], strict=True)), TextScorer(directory)
    flags = {"model_config_file": tmp_path / "models" / "models.config", "rest_api_port": 0}
    flags["allow_version_labels_for_unavailable_models"] = True
    with contextlib.closing(ServingProcess(**flags)) as server:
        calls = Calls(server.grpc_address)
        expected = scorer.score([scorer.words(*pair) for pair in pairs])
        sources, targets = zip(*pairs, strict=True)
        scored = calls.predict(source=list(sources), target=list(targets))
        np.testing.assert_allclose(scored["log_prob"], expected, atol=1e-5)
        found = calls.predict("generate_greedy", source=texts)
    best = [one for (one,) in TextGenerator([directory]).generate(texts, "greedy", with_attention=True)]
    assert [text.decode() for text in found["target"]] == [" ".join(hypothesis.words) for hypothesis in best]
    np.testing.assert_allclose(found["log_prob"], [hypothesis.log_prob for hypothesis in best], atol=1e-5)
    links = [links_line(hypothesis.source_words, hypothesis.words, hypothesis.attention) for hypothesis in best]
    assert [text.decode() for text in found["alignment"]] == links and len(set(links)) > 10
