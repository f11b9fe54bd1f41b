"""The command that runs experiments: what it checks before Keras is imported."""

import sys

import pytest
from commands import fail
from in_process import in_process

from keras_encdec.cli.experiment import COMMAND

FILES = "".join(f'{part}_{side} = "text"\n' for part in ("train", "dev", "test") for side in ("source", "target"))
ROWS = '[[rows]]\nname = "Baseline"\nfeatures = []\n'


@pytest.fixture
def decoder(tmp_path):
    """An experiment with the decoder and a file that is not an n-gram model."""
    (tmp_path / "text").write_text("a\n")
    path = tmp_path / "experiment.toml"
    path.write_text(f'[data]\n{FILES}[baseline]\nsystem = "decoder"\nlanguage_model = "text"\n{ROWS}')
    return path


@pytest.mark.parametrize(
    ("library", "sentence"),
    [
        ("sacrebleu", 'BLEU needs sacrebleu, which is not installed: pip install "keras-encdec[smt]".'),
        (
            "matplotlib",
            'The chart of the results needs matplotlib, which is not installed: pip install "keras-encdec[analysis]".',
        ),
        ("kenlm", 'The decoder needs kenlm, which is not installed: pip install "keras-encdec[smt]".'),
    ],
)
def test_libraries_are_looked_for_before_the_first_stage(decoder, tmp_path, monkeypatch, library, sentence):
    monkeypatch.setitem(sys.modules, library, None)
    fail(in_process(COMMAND, f"--config={decoder}", f"--output={tmp_path / 'out'}"), 1, sentence)
    assert not (tmp_path / "out").exists()


def test_a_wrong_language_model_is_found_before_the_first_stage(decoder, tmp_path):
    done = in_process(COMMAND, f"--config={decoder}", f"--output={tmp_path / 'out'}")
    fail(done, 1, 'text, line 1: found "a" as the first line that is not empty, expected \\data\\, or a binary file')
    assert not (tmp_path / "out").exists()
