"""Which versions of which models the peer of TensorFlow Serving has loaded."""

import contextlib
import os
import re
import threading

from serving_peer_servable import Servable
from serving_peer_status import Refusal, refusal
from tensorflow_serving.apis import get_model_status_pb2

_State = get_model_status_pb2.ModelVersionStatus


class Models:
    """The models of a configuration: for each, the versions that should be served, and those that are.

    Args:
        config: ModelServerConfig.
        scheduler: BatchScheduler; `None` for no batching.
        early_labels: bool. Whether a new label may be assigned to a version that is not available.

    Raises:
        Refusal: if the configuration is not accepted.
    """

    def __init__(self, config, scheduler=None, early_labels=False):
        self._scheduler, self._early_labels = scheduler, early_labels
        self._lock = threading.Lock()
        self._loaded, self._failed, self._states, self._labels = {}, {}, {}, {}
        self.configure(config)

    def configure(self, config):
        """Adopts a configuration; the next `poll` acts on it."""
        names = set()
        for model in config.model_config_list.config:
            if model.name in names:
                raise Refusal("INVALID_ARGUMENT", f"Illegal to list model {model.name} multiple times in config list")
            names.add(model.name)
            if not os.path.isabs(model.base_path):
                raise Refusal(
                    "INVALID_ARGUMENT",
                    f"Expected model {model.name} to have an absolute path or URI; got base_path()={model.base_path}",
                )
            if model.model_platform != "tensorflow":
                raise Refusal(
                    "INVALID_ARGUMENT",
                    "Illegal setting neither ModelServerConfig::model_type (deprecated) nor "
                    "ModelServerConfig::model_platform.",
                )
        with self._lock:
            self._labels = {model.name: self._checked_labels(model) for model in config.model_config_list.config}
        self._config = config

    def poll(self):
        """Loads the versions that are new in the models' folders, and unloads those that should no longer be served."""
        config = {model.name: model for model in self._config.model_config_list.config}
        for name in sorted({*config, *self._loaded}):
            try:
                wanted = _wanted(config[name]) if name in config else {}
            except OSError:
                continue  # while the folder cannot be read, what is loaded stays
            self._serve(name, wanted)

    @contextlib.contextmanager
    def use(self, spec):
        """Yields the version that a `ModelSpec` asks for, and keeps it loaded until the end of the `with` block.

        Raises:
            Refusal: if there is no such version.
        """
        if not spec.name:
            raise Refusal("INVALID_ARGUMENT", "ModelSpec has no name specified.")
        with self._lock:
            version = self._version(spec)
            loaded = self._loaded.get(spec.name, {})
            if version not in loaded and (version is not None or not loaded):
                wanted = f"Latest({spec.name})" if version is None else f"Specific({spec.name}, {version})"
                raise Refusal("NOT_FOUND", f"Servable not found for request: {wanted}")
            servable = loaded[max(loaded) if version is None else version]
            servable.acquire()
        try:
            yield servable
        finally:
            servable.release()

    def status(self, spec):
        """Returns the `GetModelStatusResponse` for a `ModelSpec`."""
        with self._lock:
            states = dict(self._states.get(spec.name, {}))
        if spec.HasField("version"):
            version = spec.version.value
            if version not in states:
                raise Refusal("NOT_FOUND", f"Could not find version {version} of model {spec.name}")
            states = {version: states[version]}
        elif not states:
            raise Refusal("NOT_FOUND", f"Could not find any versions of model {spec.name}")
        response = get_model_status_pb2.GetModelStatusResponse()
        for version, (state, error) in states.items():
            status = response.model_version_status.add(version=version, state=state).status
            if error:
                status.error_code, status.error_message = error.code.value[0], error.message
            else:
                status.error_code = 0
        return response

    def _checked_labels(self, model):
        states, old = self._states.get(model.name, {}), self._labels.get(model.name, {})
        for label, version in model.version_labels.items():
            early = self._early_labels and old.get(label, version) == version
            if not early and states.get(version, [None])[0] != _State.AVAILABLE:
                raise Refusal(
                    "FAILED_PRECONDITION",
                    f"Request to assign label to version {version} of model {model.name}, which is not currently "
                    "available for inference",
                )
        return dict(model.version_labels)

    def _version(self, spec):
        """Returns the number of the version that is asked for; `None` for the latest."""
        if spec.HasField("version"):
            return spec.version.value
        if not spec.HasField("version_label"):
            return None
        labels = self._labels.get(spec.name, {})
        if spec.version_label not in labels:
            raise Refusal("INVALID_ARGUMENT", f"Unrecognized servable version label: {spec.version_label}")
        return labels[spec.version_label]

    def _serve(self, name, wanted):
        """Loads the wanted versions, a dict from number to path, and then unloads the others."""
        loaded = self._loaded.setdefault(name, {})
        failed = self._failed.setdefault(name, set())
        failed.intersection_update(wanted)  # a failed version is tried again only if its folder was gone
        for version in sorted(wanted.keys() - loaded.keys() - failed):
            self._set_state(name, version, _State.LOADING)
            try:
                servable = Servable(version, wanted[version], self._scheduler)
            except Exception as error:
                failed.add(version)
                self._set_state(name, version, _State.END, refusal(error))
            else:
                with self._lock:
                    loaded[version] = servable
                    self._states[name][version] = _State.AVAILABLE, None
        # If no wanted version could be loaded, the old ones stay, so that the model remains available.
        if not wanted or wanted.keys() & loaded.keys():
            for version in sorted(loaded.keys() - wanted.keys()):
                with self._lock:
                    self._states[name][version] = _State.UNLOADING, None
                    servable = loaded.pop(version)
                servable.unload()
                self._set_state(name, version, _State.END)

    def _set_state(self, name, version, state, error=None):
        with self._lock:
            self._states.setdefault(name, {})[version] = state, error


def _wanted(model):
    """Returns the versions in the folder that the model's policy selects: dict from number to path."""
    names = [name for name in os.listdir(model.base_path) if re.fullmatch("-?[0-9]{1,18}", name)]
    found = {int(name): os.path.join(model.base_path, name) for name in sorted(names)}
    policy = model.model_version_policy
    kind = policy.WhichOneof("policy_choice")
    if kind == "specific":
        return {version: found[version] for version in policy.specific.versions if version in found}
    if kind == "all":
        return found
    return {version: found[version] for version in sorted(found)[-max(policy.latest.num_versions, 1) :]}
