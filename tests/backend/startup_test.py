"""What a process does before and after it imports Keras."""

import functools
import operator
import pickle
import sys

from keras_encdec.backend.startup import KerasWork


def test_work_of_another_process_is_imported_only_when_it_is_opened(tmp_path, monkeypatch):
    (tmp_path / "loads_a_model.py").write_text("def load(path):\n    return path.upper\n")
    monkeypatch.syspath_prepend(tmp_path)
    import loads_a_model

    pickled = pickle.dumps(KerasWork(functools.partial(loads_a_model.load, "model"), own_process=False))
    monkeypatch.delitem(sys.modules, "loads_a_model")
    work = pickle.loads(pickle.dumps(pickle.loads(pickled)))  # a worker that is started again gets it once more
    assert "loads_a_model" not in sys.modules
    assert work.open()() == "MODEL"
    assert "loads_a_model" in sys.modules


def test_work_in_this_process_may_hold_what_cannot_be_pickled():
    assert KerasWork(lambda: operator.neg, own_process=False).open()(2) == -2
