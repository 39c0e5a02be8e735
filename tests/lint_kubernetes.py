"""Render every folder of deploy/kubernetes/, and its components together, and check the result:
`lint_kubernetes.py [--write-rule]`.

Kubernetes' own kinds are checked against its schemas, those of Prometheus' operator and KEDA
against models derived from theirs, KServe's against its schemas (kserve_schemas.py); unknown
fields are refused. Then checkov runs, with the exceptions that the files justify. --write-rule
writes the operator's copy of deploy/monitoring/rules.yaml.
"""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types

import jsonschema
import kubernetes_validate
import yaml


def leave_bare(name):
    """Import a package of models without its submodules for all versions, which would take
    seconds."""
    places = importlib.util.find_spec(name).submodule_search_locations
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = places


leave_bare("cloudcoil.models.keda")
leave_bare("cloudcoil.models.prometheus_operator")

from checkov.kubernetes.runner import Runner  # noqa: E402
from checkov.runner_filter import RunnerFilter  # noqa: E402
from cloudcoil.models.keda import v1alpha1 as keda  # noqa: E402
from cloudcoil.models.prometheus_operator import v1 as operator  # noqa: E402

TOP = pathlib.Path(__file__).resolve().parents[1]
FOLDER = TOP / "deploy" / "kubernetes"
RULES = TOP / "deploy" / "monitoring" / "rules.yaml"
RULE = FOLDER / "components" / "monitoring" / "prometheus-rule.yaml"
RULE_HEAD = """\
# deploy/monitoring/rules.yaml for Prometheus' operator. Made by tests/lint_kubernetes.py --write-rule.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: tally
  labels: {app.kubernetes.io/name: tally}
spec:
"""
TOGETHER = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../base]
components: [{}]
"""
BINARIES = pathlib.Path(sys.executable).parent
VERSION = "1.37"
KSERVE = json.loads((TOP / "tests" / "kserve.schema.json").read_text())
MODELS = {
    "ServiceMonitor": operator.ServiceMonitor,
    "PrometheusRule": operator.PrometheusRule,
    "ScaledObject": keda.ScaledObject,
}


def rule_text():
    lines = RULES.read_text().splitlines()
    return RULE_HEAD + "".join(f"  {line}".rstrip() + "\n" for line in lines)


def folders(temporary):
    """The folders to render: existing ones, the README's, and all components that can be
    combined."""
    for path in sorted(FOLDER.rglob("kustomization.yaml")):
        if "kind: Component" not in path.read_text():
            yield path.parent
    readme = (FOLDER / "README.md").read_text()
    texts = {"readme": re.search(r"(?:^    .*\n)+(?=\n\| folder)", readme, re.M)[0]}
    names = {path.name for path in (FOLDER / "components").iterdir()}
    for other in ("hpa", "keda"):
        parts = ", ".join(f"../components/{name}" for name in sorted(names - {other}))
        texts[f"without-{other}"] = TOGETHER.format(parts)
    for name, text in texts.items():
        folder = pathlib.Path(temporary) / name
        folder.mkdir()
        text = text.replace("../", f"{os.path.relpath(FOLDER, folder)}/")
        (folder / "kustomization.yaml").write_text(text)
        yield folder


def render(folder):
    command = [BINARIES / "kubectl", "kustomize", folder]
    ran = subprocess.run(command, capture_output=True, text=True)
    # A warning of kustomize (deprecated fields) counts as a fault, too.
    return ran.stdout, ran.stderr


def lost(given, kept, path):
    """Paths of unknown fields, which a model dropped or changed."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for key in given:
            if key not in kept:
                yield f"{path}.{key}: unknown"
            else:
                yield from lost(given[key], kept[key], f"{path}.{key}")
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        for index, (mine, theirs) in enumerate(zip(given, kept)):
            yield from lost(mine, theirs, f"{path}[{index}]")
    elif given != kept:
        yield f"{path}: {given!r} is read as {kept!r}"


def model_faults(document):
    try:
        read = MODELS[document["kind"]].model_validate(document)
    except ValueError as error:
        return [str(error)]
    # Models ignore unknown fields.
    kept = read.model_dump(by_alias=True, exclude_unset=True, mode="json")
    return list(lost(document, kept, document["kind"]))


def schema_faults(document):
    try:
        kubernetes_validate.validate(document, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"{'.'.join(map(str, error.path))}: {error.message}"]
    return []


def kserve_faults(document):
    """Returns the faults of a document of KServe. KServe's schemas do not check the metadata:
    these are checked as those of a ConfigMap, since metadata have the same form in every
    kind."""
    schema = {"$defs": KSERVE["$defs"], **KSERVE[document["kind"]]}
    found = jsonschema.Draft202012Validator(schema).iter_errors(document)
    faults = [f"{error.json_path}: {error.message}" for error in found]
    named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": document["metadata"]}
    return faults + schema_faults(named)


def faults_of(document):
    kind = document["kind"]
    if kind in MODELS:
        return model_faults(document)
    return kserve_faults(document) if kind in KSERVE else schema_faults(document)


def image_faults(text):
    version = re.search(r"^VERSION := (.*)$", (TOP / "Makefile").read_text(), re.M)[1]
    for image in re.findall(r"\bimage: (\S+)", text):
        if not image.endswith(":" + version):
            yield f"image {image}: not {version}"


def checkov_faults(folder):
    """Run the part of checkov that checks manifests. Its command would import the parts for twenty
    other formats."""
    report = Runner().run(str(folder), runner_filter=RunnerFilter(framework=["kubernetes"]))
    if not report.passed_checks:
        yield "checkov has checked nothing"
    for check in report.failed_checks:
        yield f"{check.file_path}: {check.resource}: {check.check_id} {check.check_name}"


def main():
    if sys.argv[1:] == ["--write-rule"]:
        RULE.write_text(rule_text())
        return 0
    found = []
    if RULE.read_text() != rule_text():
        found.append(f"{RULE.name} is not {RULES.name}: run this with --write-rule")
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as rendered:
        for folder in folders(made):
            name = folder.name
            text, said = render(folder)
            documents = list(yaml.safe_load_all(text))
            if said or not documents:
                found.append(f"{name}: kustomize: {said}")
            (pathlib.Path(rendered) / f"{name}.yaml").write_text(text)
            found += [f"{name}: {fault}" for fault in image_faults(text)]
            for document in documents:
                where = f"{name}: {document['kind']}"
                found += [f"{where}: {fault}" for fault in faults_of(document)]
        found += checkov_faults(rendered)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
