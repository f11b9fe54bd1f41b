"""Vectors in two dimensions."""

import numpy as np

PERPLEXITY = 30
# Fewer points than this have no neighbourhoods to keep.
LEAST = 8


def project(vectors: np.ndarray, seed: int = 0) -> np.ndarray:
    """Projects vectors to two dimensions by Barnes-Hut t-SNE, so that near ones stay near.

    Args:
        vectors: float array `(n, width)`.
        seed: int. Defaults to `0`.

    Returns:
        float64 array `(n, 2)`, of mean 0; by their first two principal components where there are fewer than 8.

    Reference:
        - van der Maaten, 2013 (arXiv 1301.3342): Barnes-Hut-SNE, as in section 4.4 of the paper
    """
    centred = np.asarray(vectors, np.float64)
    centred = centred - centred.mean(axis=0, keepdims=True)
    if len(centred) < LEAST:
        left, scales, _ = np.linalg.svd(centred, full_matrices=False)
        plane = np.zeros((len(centred), 2))
        plane[:, : min(2, len(scales))] = (left * scales)[:, :2]
        return plane
    from openTSNE import TSNE

    tsne = TSNE(
        perplexity=min(PERPLEXITY, (len(centred) - 1) / 3), initialization="pca", negative_gradient_method="bh",
        metric="cosine", n_jobs=1, random_state=seed,
    )  # fmt: skip
    # Equal vectors, such as those of phrases of the same unknown words, would have no distance at all.
    noise = np.random.default_rng(seed).normal(0, 1e-6 * max(float(centred.std()), 1e-12), centred.shape)
    plane = np.asarray(tsne.fit(np.asarray(vectors, np.float64) + noise))
    return plane - plane.mean(axis=0)
