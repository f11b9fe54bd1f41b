"""Presets: flag files of the training command, of which the model reads its sizes."""

import importlib.resources

ARGUMENTS = {
    "embedding_dim": int,
    "units": int,
    "maxout_units": int,
    "output_rank": int,
    "reset_after": "true".__eq__,
    "initial_stddev": float,
}


def preset_path(name):
    """Path of the flag file of a preset.

    Args:
        name: str, one of `preset_names()`.

    Raises:
        ValueError: for a name there is no preset of.
    """
    path = importlib.resources.files("keras_encdec.models") / "presets" / f"{name}.flags"
    if name not in preset_names():
        raise ValueError(f"There is no preset {name!r}: choose one of {', '.join(preset_names())}.")
    return path


def preset_names():
    """Names of the presets, sorted."""
    folder = importlib.resources.files("keras_encdec.models") / "presets"
    return sorted(file.name.removesuffix(".flags") for file in folder.iterdir() if file.name.endswith(".flags"))


def preset_sizes(name):
    """The model's arguments in a preset: embedding_dim, units, maxout_units, output_rank, reset_after, initial_stddev.

    Args:
        name: str, one of `preset_names()`.

    Returns:
        dict of arguments of `RNNEncoderDecoder`.
    """
    sizes = {}
    for line in preset_path(name).read_text(encoding="utf-8").splitlines():
        flag, _, value = line.strip().removeprefix("--").partition("=")
        if flag in ARGUMENTS:
            sizes[flag] = ARGUMENTS[flag](value)
    return sizes
