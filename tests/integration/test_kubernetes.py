"""The files of deploy/kubernetes/ fit the programs that they start. `make lint` renders all of them
and checks their form."""

import importlib
import re
import subprocess

import pytest
import yaml

from support.tallyd import BINARY, TOP

FOLDER = TOP / "deploy" / "kubernetes"
RUNTIME = FOLDER / "overlays" / "kserve" / "runtime.yaml"
SCHEDULER = "tally-dask-scheduler"
SERVICE = FOLDER / "overlays" / "kserve" / "inference-service.yaml"


def documents():
    for path in sorted(FOLDER.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            yield path, document


def test_the_inference_service_asks_for_what_the_runtime_offers(client):
    runtime = yaml.safe_load(RUNTIME.read_text())
    service = yaml.safe_load(SERVICE.read_text())
    model = service["spec"]["predictor"]["model"]
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]
    offered = [
        {key: one[key] for key in ("name", "version")}
        for one in runtime["spec"]["supportedModelFormats"]
    ]
    assert model["modelFormat"] in offered
    # KServe uses the name of the service as the model's name.
    assert client.get(f"/v2/models/{service['metadata']['name']}/ready").status == 200


def containers(dask=False):
    """Containers of tallyd, or of dask's own programs."""
    for path, document in documents():
        spec = document.get("spec", {})
        spec = spec.get("template", {}).get("spec", spec) if "template" in spec else spec
        for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
            if (container.get("image") == "tally-dask") == dask:
                yield pytest.param(container, id=f"{path.relative_to(FOLDER)} {container['name']}")


@pytest.mark.parametrize("container", list(containers()))
def test_the_settings_of_a_container_are_tallyds(container):
    set_here = {one["name"]: one.get("value", "2") for one in container.get("env", ())}
    ours = {name: value for name, value in set_here.items() if name.startswith("TALLY_")}
    command = [BINARY, "--print-config", "env"]
    said = subprocess.run(command, env=ours, capture_output=True, text=True, check=True).stdout
    for name in ours:
        assert re.search(rf"^#?{name}=", said, re.M), name


def test_a_container_has_a_fixed_tag_and_nodes_pull_it_once():
    version = re.search(r"^VERSION := (.*)$", (TOP / "Makefile").read_text(), re.M)[1]
    found = [one.values[0] for one in (*containers(), *containers(dask=True))]
    policies = [one["imagePullPolicy"] for one in found if "image" in one]  # patches have no policy
    assert len(policies) == 5 and set(policies) == {"IfNotPresent"}
    for path in FOLDER.rglob("kustomization.yaml"):
        for image in yaml.safe_load(path.read_text()).get("images", ()):
            assert image.get("newTag", version) == version, path


def test_the_page_begins_with_building_the_image_that_the_files_name():
    version = re.search(r"^VERSION := (.*)$", (TOP / "Makefile").read_text(), re.M)[1]
    page = (FOLDER / "README.md").read_text()
    commands = re.search(r"(?:^    .*\n)+", page, re.M)[0].split("\n    ")
    assert commands[0].split("#")[0].split() == ["make", "image"]
    assert commands[1].split("#")[0].split()[-1] == f"tally:{version}"
    assert commands[-1].split() == ["kubectl", "apply", "-k", "deploy/kubernetes/base"]
    assert (TOP / "deploy/kubernetes/base/kustomization.yaml").exists()


@pytest.mark.parametrize("container", list(containers()))
def test_the_probes_of_a_container_ask_for_pages_that_there_are(client, container):
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        if "httpGet" in container.get(kind, ()):
            assert client.get(container[kind]["httpGet"]["path"]).status == 200


@pytest.mark.parametrize("container", list(containers(dask=True)))
def test_dask_accepts_the_arguments_of_its_containers(container):
    program, *told = container["command"][1:]
    command = importlib.import_module(f"distributed.cli.dask_{program}").main
    options = command.make_context(program, told).params
    ports = {port["containerPort"] for port in container["ports"]}
    if program == "scheduler":
        assert ports == {int(options["port"]), int(options["dashboard_address"].strip(":"))}
        return
    named = (options[name] for name in ("worker_port", "nanny_port"))
    assert ports == {*map(int, named), int(options["dashboard_address"].strip(":"))}
    (service,) = [
        one
        for _, one in documents()
        if one.get("kind") == "Service" and one["metadata"]["name"] == SCHEDULER
    ]
    assert options["scheduler"] == f"tcp://{SCHEDULER}:{service['spec']['ports'][0]['port']}"
    # The worker uses the tallyd in the same pod.
    (sidecar,) = [p.values[0] for p in containers() if "dask" in p.id]
    listen = {one["name"]: one.get("value") for one in sidecar["env"]}["TALLY_LISTEN"]
    assert container["env"] == [{"name": "TALLY_URL", "value": f"http://{listen}"}]


def test_a_pod_has_time_for_delay_and_drain_together():
    file = FOLDER / "base" / "deployment.yaml"
    pod = yaml.safe_load(file.read_text())["spec"]["template"]["spec"]
    env = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    drain = int(env["TALLY_DRAIN_DELAY_MS"]) / 1000 + int(env["TALLY_DRAIN_TIMEOUT_S"])
    assert drain < pod["terminationGracePeriodSeconds"]
