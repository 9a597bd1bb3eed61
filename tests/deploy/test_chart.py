"""The Helm chart, rendered by helm itself and validated by kubeconform, where they are installed.

go install helm.sh/helm/v3/cmd/helm@v3.22.0
go install github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from penstock.config.loading import load

CHART: Final = Path(__file__).parents[2] / "deploy" / "helm" / "penstock"
VALUES: Final[dict[str, Any]] = yaml.safe_load((CHART / "values.yaml").read_text())
CLUSTER: Final = (
    "replicaCount=3", "cluster.enabled=true", "cluster.store=postgresql://penstock:secret@db/penstock",
)  # fmt: skip

needs_helm = pytest.mark.skipif(shutil.which("helm") is None, reason="there is no helm here")


def helm(*settings: str) -> subprocess.CompletedProcess[str]:
    command = ["helm", "template", "shop", str(CHART), "--namespace", "queues", "--kube-version", "1.31.0"]
    for setting in settings:
        command += ["--set", setting]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def rendered(*settings: str) -> dict[str, Any]:
    """The manifests by kind and name."""
    done = helm(*settings)
    assert done.returncode == 0, done.stderr
    manifests = [each for each in yaml.safe_load_all(done.stdout) if each]
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in manifests}


def container(manifests: dict[str, Any]) -> dict[str, Any]:
    [found] = manifests["StatefulSet/shop-penstock"]["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_the_schema_knows_every_value_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    assert set(schema["properties"]) - {"global"} == set(VALUES)


def test_the_settings_of_the_chart_are_those_of_a_server() -> None:
    load(text=yaml.safe_dump(VALUES["settings"]), file="penstock.yaml")


@needs_helm
def test_one_node_has_a_volume_and_nothing_of_a_cluster() -> None:
    manifests = rendered()

    assert sorted(manifests) == [
        "ConfigMap/shop-penstock", "Service/shop-penstock", "Service/shop-penstock-nodes",
        "ServiceAccount/shop-penstock", "StatefulSet/shop-penstock",
    ]  # fmt: skip
    node = container(manifests)
    assert node["securityContext"]["readOnlyRootFilesystem"]
    assert {node[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe")} == {"/health"}
    assert node["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert node["resources"] == VALUES["resources"]
    [claim] = manifests["StatefulSet/shop-penstock"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi"
    load(text=manifests["ConfigMap/shop-penstock"]["data"]["penstock.yaml"], file="penstock.yaml")


@needs_helm
def test_a_cluster_has_numbers_a_secret_and_a_disruption_budget() -> None:
    manifests = rendered(*CLUSTER)

    environ = {each["name"]: each for each in container(manifests)["env"]}
    index = environ["PENSTOCK_CLUSTER__NODE"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert index == "metadata.labels['apps.kubernetes.io/pod-index']"
    assert manifests["StatefulSet/shop-penstock"]["spec"]["ordinals"] == {"start": 1}
    secret = environ["PENSTOCK_CLUSTER__STORE"]["valueFrom"]["secretKeyRef"]["name"]
    assert manifests[f"Secret/{secret}"]["stringData"]["store"].startswith("postgresql://")
    assert manifests["PodDisruptionBudget/shop-penstock"]["spec"]["maxUnavailable"] == 1
    assert "Secret/shop-penstock-store" not in rendered(*CLUSTER, "cluster.existingSecret=mine")


@needs_helm
@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (["replicaCount=3"], "needs cluster.enabled"),
        (["cluster.enabled=true"], "a cluster needs a store"),
        (["service.type=Something"], "service/type"),
        (["replicas=3"], "replicas"),
    ],
)
def test_values_that_cannot_be_are_refused(settings: list[str], why: str) -> None:
    done = helm(*settings)

    assert done.returncode != 0
    assert why in done.stderr.replace(".type", "/type")


@needs_helm
@pytest.mark.skipif(shutil.which("kubeconform") is None, reason="there is no kubeconform here")
@pytest.mark.soak  # It downloads the schemas of Kubernetes.
@pytest.mark.parametrize("settings", [(), CLUSTER, ("tls.existingSecret=tls", "persistence.enabled=false")])
def test_kubernetes_accepts_the_manifests(settings: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["kubeconform", "-strict", "-summary"], input=helm(*settings).stdout, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip

    if "failed downloading schema" in done.stdout:
        pytest.skip("the schemas of Kubernetes cannot be downloaded")
    assert done.returncode == 0, done.stdout + done.stderr
