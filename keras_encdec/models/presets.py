"""Presets: flag files of the training command, of which the model reads its sizes."""

import importlib.resources

ENCDEC_ARGUMENTS = {
    "embedding_dim": int,
    "units": int,
    "maxout_units": int,
    "output_rank": int,
    "reset_after": "true".__eq__,
    "initial_stddev": float,
}
RECURRENT_ARGUMENTS = {
    "architecture": str,
    "layers": int,
    "units": int,
    "embedding_dim": int,
    "bidirectional": str,
    "condition": str,
    "reverse_source": "true".__eq__,
    "dropout": float,
    "initial_scale": float,
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


def encdec_preset(name):
    """The arguments of `RNNEncoderDecoder` in a preset: dict.

    Args:
        name: str, one of `preset_names()`.

    Raises:
        ValueError: for a name there is no preset of, or of another model.
    """
    flags = preset_flags(name)
    if "architecture" in flags:
        raise ValueError(f"The preset {name!r} is of RecurrentEncoderDecoder.")
    return {flag: convert(flags[flag]) for flag, convert in ENCDEC_ARGUMENTS.items() if flag in flags}


def recurrent_preset(name):
    """The arguments of `RecurrentEncoderDecoder` in a preset: dict. See `encdec_preset`."""
    flags = preset_flags(name)
    if "architecture" not in flags:
        raise ValueError(f"The preset {name!r} is of RNNEncoderDecoder.")
    sizes = {flag: convert(flags[flag]) for flag, convert in RECURRENT_ARGUMENTS.items() if flag in flags}
    return {"cell": sizes.pop("architecture"), **sizes}


def preset_flags(name):
    """The flags in a preset: dict of str. See `encdec_preset`."""
    lines = preset_path(name).read_text(encoding="utf-8").splitlines()
    return dict(line.strip().removeprefix("--").split("=", 1) for line in lines if line.startswith("--"))
