"""The files for operators in docs/deploy: their schemas, and the flags that they give the server."""

import importlib.resources
import json
import pathlib
import re
import subprocess

import pytest
import yaml

DEPLOY = pathlib.Path(__file__).parents[2] / "docs" / "deploy"
# Flags of tensorflow_model_server, from its main.cc.
FLAGS = {
    "allow_version_labels_for_unavailable_models",
    "batching_parameters_file",
    "enable_batching",
    "enable_grpc_healthcheck_service",
    "model_config_file",
    "model_config_file_poll_wait_seconds",
    "monitoring_config_file",
    "tensorflow_inter_op_parallelism",
    "tensorflow_intra_op_parallelism",
}


def documents(name):
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def compose():
    (document,) = documents("compose.yaml")
    return document


@pytest.fixture(scope="module")
def deployment():
    (found,) = (document for document in documents("kubernetes/serving.yaml") if document["kind"] == "Deployment")
    return found


def container(deployment):
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return container


def test_compose_keeps_its_schema(compose):
    jsonschema = pytest.importorskip("jsonschema")
    package = pytest.importorskip("check_jsonschema")
    schema = importlib.resources.files(package) / "builtin_schemas" / "vendor" / "compose-spec.json"
    validator = jsonschema.validators.validator_for(document := json.loads(schema.read_text()))(document)
    validator.validate(compose)
    compose["services"]["serving"]["helthcheck"] = {}
    with pytest.raises(jsonschema.ValidationError, match="helthcheck"):
        validator.validate(compose)
    del compose["services"]["serving"]["helthcheck"]


@pytest.mark.parametrize("path", sorted(DEPLOY.glob("kubernetes/*.yaml")), ids=lambda path: path.name)
def test_manifests_keep_the_schemas_of_kubernetes(path):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for document in documents(path):
        kubernetes_validate.validate(document, "1.34", strict=True)
    document["misspelled"] = 1
    with pytest.raises(kubernetes_validate.ValidationError, match="misspelled"):
        kubernetes_validate.validate(document, "1.34", strict=True)


def test_compose_starts_nothing_without_the_folder_of_versions(compose):
    volume = compose["services"]["serving"]["volumes"][0]  # a default path would start from the folder of compose.yaml
    assert re.fullmatch(r"\$\{SERVED:\?[^:{}]+\}:/models/encdec:ro", volume)


def test_compose_and_kubernetes_start_the_server_with_the_same_existing_flags(compose, deployment):
    flags = compose["services"]["serving"]["command"]
    assert flags == container(deployment)["args"]
    assert {re.match(r"--(\w+)=", flag)[1] for flag in flags} == FLAGS
    probe = container(deployment)["readinessProbe"]["httpGet"]
    assert (
        probe["port"] == "rest" and f"GET {probe['path']} " in compose["services"]["serving"]["healthcheck"]["test"][-1]
    )


def test_volumes_claims_and_selectors_are_those_of_the_manifests(deployment):
    serving = {document["kind"]: document for document in documents("kubernetes/serving.yaml")}
    (claim,) = documents("kubernetes/model-volume.yaml")
    (job,) = documents("kubernetes/export-job.yaml")
    for each in (deployment, job):
        template = each["spec"]["template"]["spec"]
        volumes = {volume["name"]: volume for volume in template["volumes"]}
        assert volumes["models"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        mounts = {mount["name"]: mount["mountPath"] for mount in template["containers"][0]["volumeMounts"]}
        assert set(mounts) == set(volumes) and mounts["models"] == "/models/encdec"
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert serving["Service"]["spec"]["selector"] == labels == deployment["spec"]["selector"]["matchLabels"]
    assert serving["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert "labels" not in job["spec"]["template"].get("metadata", {})  # else the Service would find the job


def test_the_monitoring_endpoint_is_where_prometheus_looks(deployment):
    text = (DEPLOY / "monitoring.config").read_text(encoding="utf-8")
    (scrape,) = documents("prometheus.yml")[0]["scrape_configs"]
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    assert scrape["metrics_path"] == annotations["prometheus.io/path"]
    # In text form; tensorflow-serving-api lacks the message MonitoringConfig.
    assert text.split() == ["prometheus_config", "{", "enable:", "true", "path:", f'"{scrape["metrics_path"]}"', "}"]
    (inline,) = (each for each in documents("kubernetes/serving.yaml") if each["kind"] == "ConfigMap")
    assert inline["data"] == {"monitoring.config": text}


def test_a_server_that_never_starts_is_an_alert_too(compose):
    assert "depends_on" not in compose["services"]["prometheus"]
    rule = documents("alerts.yml")[0]["groups"][0]["rules"][0]
    (job,) = (each["job_name"] for each in documents("prometheus.yml")[0]["scrape_configs"])
    assert rule["expr"] == f'up{{job="{job}"}} == 0 or absent(up{{job="{job}"}})'


def test_the_guide_names_the_metrics_of_all_alerts():
    guide = (DEPLOY.parent / "guides" / "serving.md").read_text(encoding="utf-8")
    (group,) = documents("alerts.yml")[0]["groups"]
    metrics = {name for rule in group["rules"] for name in re.findall(r":tensorflow:[\w:]+", rule["expr"])}
    assert len(metrics) == 4
    assert all(f"`{name.removesuffix('_bucket')}`" in guide for name in metrics)


def test_the_health_check_finds_whether_the_stable_version_is_loaded(compose, peer):
    test = compose["services"]["serving"]["healthcheck"]["test"]
    port = peer().rest_address.rpartition(":")[2]

    def ready(old, new):
        command = test[-1].replace("$$", "$")  # Compose reads $ as the beginning of a variable
        assert old in command
        command = command.replace(old, new)
        return subprocess.run([*test[1:-1], command], capture_output=True, timeout=30).returncode == 0

    assert ready("/8501", f"/{port}")
    assert not ready("/8501", "/1")
    assert test[-1].count("labels/stable") == 1
    command = test[-1].replace("$$", "$").replace("/8501", f"/{port}").replace("labels/stable", "labels/none")
    assert subprocess.run([*test[1:-1], command], capture_output=True, timeout=30).returncode == 1
