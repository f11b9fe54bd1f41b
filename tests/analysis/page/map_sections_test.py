"""The maps of vectors in a report."""

import numpy as np
import pytest
from undrawn import undrawn

from keras_encdec.analysis.page.map_sections import map_regions, map_section, projector_files
from keras_encdec.analysis.vectors import LEAST, Vectors


def test_regions_are_dense_and_do_not_overlap():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.uniform(-50, 50, (200, 2)), rng.normal((20, 20), 0.5, (30, 2))])
    boxes = map_regions(points, size=10)
    assert len(boxes) == 3
    left, bottom, right, top = boxes[0]
    assert left > 17 and right < 23 and bottom > 17 and top < 23
    for i, one in enumerate(boxes):
        assert ((points >= one[:2]) & (points <= one[2:])).all(axis=1).sum() >= 10
        for other in boxes[:i]:
            assert one[2] < other[0] or one[0] > other[2] or one[3] < other[1] or one[1] > other[3]
    assert map_regions(points[:30]) == []


def test_projector_files_have_a_line_per_vector():
    names = ["le chat", "a\tb", "", "10\xa0000\r", "\u3000", "\ufeff"]
    files = projector_files(Vectors(names, np.arange(12, dtype="float32").reshape(6, 2) / 2))
    assert files["vectors.tsv"].startswith(b"0\t0.5\n1\t1.5\n2\t2.5\n")
    # The projector skips a line of white space, and all names after it would belong to the vectors before theirs.
    assert files["metadata.tsv"].decode() == "le chat\na b\n(empty)\n10\xa0000\n(empty)\n(empty)\n"


@pytest.mark.parametrize(("points", "has_regions"), [(20, False), (60, True)])
def test_only_a_map_with_regions_says_what_they_are(points, has_regions):
    plane = np.random.default_rng(0).normal(size=(points, 2))
    vectors = Vectors([f"word{i}" for i in range(points)], plane.astype("float32"))
    with undrawn():
        section = map_section("words", "Words", "", vectors, plane, {})
    assert ("The densest parts have letters" in section.body) == has_regions
    assert f"fewer than {LEAST} vectors" in section.body
