"""An experiment as a function: a configuration in, the paper's Table 1 out."""

import json
import os
import pathlib
from collections.abc import Callable

from keras_encdec.experiment.experiment_config import ExperimentConfig
from keras_encdec.experiment.experiment_file import load_experiment
from keras_encdec.experiment.plan import EVALUATION, plan_stages
from keras_encdec.experiment.results import ExperimentResult, draw_results, read_result, write_results
from keras_encdec.experiment.stage_runner import Stage, StageResult, run_stages
from keras_encdec.runtime.directory_lock import directory_lock


def experiment(
    config: ExperimentConfig | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    begun: Callable[[Stage, int], object] = lambda stage, number: None,
    ended: Callable[[StageResult], object] = lambda result: None,
) -> ExperimentResult:
    """Measures what features add to a translation system: Table 1 of Cho et al., 2014.

    The baseline's n-best lists get the features of each row, the weights are tuned on the development set with several
    seeds, and the test set is translated with them. Every stage leaves a record in `output`; a second call runs only
    the stages whose inputs or settings have changed since, and continues interrupted stages.

    Args:
        config: ExperimentConfig; or the path of its TOML file; or the name of an experiment of the package.
        output: directory to write to, made if it is missing: `results.md`, `results.json`, `results.svg`,
            `results.png`, the models, the n-best lists with features, weights and translations.
        begun: callable of each Stage that runs and the number of all stages, called before it. Defaults to nothing.
        ended: callable of each StageResult. Defaults to nothing.

    Returns:
        ExperimentResult.

    Raises:
        ConfigurationError, ImportError, InputError: when settings or files cannot be used or a library is missing.
        TrainingStopped: when a signal stopped a training.

    Example:

        print(experiment("experiment.toml", "table1"))
    """
    config = config if isinstance(config, ExperimentConfig) else load_experiment(config)
    output = pathlib.Path(output)
    stages = plan_stages(config, output)
    with directory_lock(output, "experiment", "--output"):
        results = run_stages(stages, output / "stages", lambda stage: begun(stage, len(stages)), ended)
        result = read_result(config, json.loads((output / EVALUATION).read_text(encoding="utf-8")), results)
        write_results(result, output)
        draw_results(result, output)
    return result
