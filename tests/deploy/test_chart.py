"""The Helm chart, rendered by helm itself and validated by kubeconform (``scripts/install-deploy-tools``).

Go also downloads the OpenAPI document of Kubernetes, of which ``schemas`` makes what kubeconform reads.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.deploy.programs import needs, path_of

from penstock.config.loading import load

CHART: Final = Path(__file__).parents[2] / "deploy" / "helm" / "penstock"
VALUES: Final[dict[str, Any]] = yaml.safe_load((CHART / "values.yaml").read_text())
CLUSTER: Final = (
    "replicaCount=3", "cluster.enabled=true", "cluster.store=postgresql://penstock:secret@db/penstock",
)  # fmt: skip
KUBERNETES: Final = "k8s.io/kubernetes@v1.31.0"
QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"  # The document says string; 1 is one, too.
KINDS: Final = {
    "statefulset-apps-v1": "apps.v1.StatefulSet", "service-v1": "core.v1.Service",
    "configmap-v1": "core.v1.ConfigMap", "secret-v1": "core.v1.Secret",
    "serviceaccount-v1": "core.v1.ServiceAccount",
    "poddisruptionbudget-policy-v1": "policy.v1.PodDisruptionBudget",
}  # fmt: skip

needs_helm = needs("helm")


def helm(*settings: str) -> subprocess.CompletedProcess[str]:
    program = str(path_of("helm"))
    command = [program, "template", "shop", str(CHART), "--namespace", "queues", "--kube-version", "1.31.0"]
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
def test_grpc_and_sqs_are_served_on_the_ports_that_they_are_given() -> None:
    manifests = rendered("service.ports.grpc=9000", "service.ports.sqs=80")

    served = {each["name"]: each["containerPort"] for each in container(manifests)["ports"]}
    environ = {each["name"]: each.get("value") for each in container(manifests)["env"]}
    ports = {each["name"]: each["port"] for each in manifests["Service/shop-penstock"]["spec"]["ports"]}
    assert (served["grpc"], served["sqs"]) == (9000, 9324)
    assert (environ["PENSTOCK_LISTEN__GRPC"], environ["PENSTOCK_LISTEN__SQS"]) == (
        "0.0.0.0:9000", "0.0.0.0:9324",
    )  # fmt: skip
    assert (ports["grpc"], ports["sqs"]) == (9000, 80)
    assert "grpc" not in {each["name"] for each in container(rendered())["ports"]}


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


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JSON schemas of the kinds that the chart has; fields that a kind does not have are errors."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go here")
    folder = tmp_path_factory.mktemp("schemas")
    command = ["go", "mod", "download", "-json", KUBERNETES]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        pytest.skip(f"{KUBERNETES} cannot be downloaded")
    document = Path(json.loads(done.stdout)["Dir"], "api", "openapi-spec", "swagger.json")
    definitions = strict(json.loads(document.read_text())["definitions"])
    definitions[QUANTITY] = {"type": ["string", "number"]}
    for name, kind in KINDS.items():
        schema = {"definitions": definitions, "$ref": f"#/definitions/io.k8s.api.{kind}"}
        (folder / f"{name}.json").write_text(json.dumps(schema))
    return folder


def strict(part: Any) -> Any:
    """The same part of a schema, which allows nothing that it does not name."""
    if isinstance(part, list):
        return [strict(each) for each in part]
    if not isinstance(part, dict):
        return part
    if part.get("format") == "int-or-string":
        return {"type": ["string", "integer"]}
    made = {name: strict(each) for name, each in part.items()}
    if isinstance(part.get("properties"), dict):
        made.setdefault("additionalProperties", False)
    return made


@needs_helm
@needs("kubeconform")
@pytest.mark.soak  # It downloads Kubernetes.
@pytest.mark.parametrize(
    "settings",
    [
        (),
        (*CLUSTER, "service.ports.grpc=9000", "service.ports.sqs=9324"),
        ("tls.existingSecret=tls", "persistence.enabled=false"),
    ],
)
def test_kubernetes_accepts_the_manifests(settings: tuple[str, ...], schemas: Path) -> None:
    where = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    command = [str(path_of("kubeconform")), "-strict", "-summary", "-schema-location", where]
    done = subprocess.run(
        command, input=helm(*settings).stdout,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Invalid: 0, Errors: 0, Skipped: 0" in done.stdout
