"""Create schemas of KServe's kinds for `make lint` from KServe's own definitions:
`kserve_schemas.py CHECKOUT`, of a release.

Descriptions are removed, and repeated definitions are stored once: two megabytes shrink to a
fiftieth. Unknown fields are refused; a cluster would ignore them.
"""

import collections
import json
import pathlib
import sys

import yaml

OUT = pathlib.Path(__file__).with_name("kserve.schema.json")
KINDS = {"clusterservingruntimes": "v1alpha1", "inferenceservices": "v1beta1"}
LEFT_OUT = ("description", "format")  # strict() also leaves out x-kubernetes-*


def strict(schema):
    """A schema without descriptions that refuses unknown fields."""
    kept = {
        key: value
        for key, value in schema.items()
        if key not in LEFT_OUT and not key.startswith("x-kubernetes-")
    }
    if "properties" in kept:
        kept["properties"] = {name: strict(one) for name, one in kept["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            kept["additionalProperties"] = False
    elif "additionalProperties" in kept:
        kept["additionalProperties"] = strict(kept["additionalProperties"])
    if "items" in kept:
        kept["items"] = strict(kept["items"])
    return kept


class Shared:
    """Definitions that occur more than once."""

    def __init__(self, schemas):
        self.seen = collections.Counter()
        self.definitions = {}
        self.names = {}
        for schema in schemas:
            self.count(schema)

    def inner(self, schema):
        return [*schema.get("properties", {}).values()] + [
            schema[key]
            for key in ("items", "additionalProperties")
            if isinstance(schema.get(key), dict)
        ]

    def count(self, schema):
        self.seen[json.dumps(schema)] += 1
        for one in self.inner(schema):
            self.count(one)

    def short(self, schema):
        text = json.dumps(schema)
        if self.seen[text] == 1 or len(text) < 60:
            return self.shortened(schema)
        if text not in self.names:
            self.names[text] = f"d{len(self.names)}"
            self.definitions[self.names[text]] = self.shortened(schema)
        return {"$ref": f"#/$defs/{self.names[text]}"}

    def shortened(self, schema):
        less = dict(schema)
        if "properties" in less:
            less["properties"] = {k: self.short(v) for k, v in less["properties"].items()}
        for key in ("items", "additionalProperties"):
            if isinstance(less.get(key), dict):
                less[key] = self.short(less[key])
        return less


def main():
    folder = pathlib.Path(sys.argv[1]) / "config" / "crd" / "full"
    schemas = {}
    for name, version in KINDS.items():
        text = (folder / f"serving.kserve.io_{name}.yaml").read_text()
        spec = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["spec"]
        (found,) = [one for one in spec["versions"] if one["name"] == version]
        schemas[spec["names"]["kind"]] = strict(found["schema"]["openAPIV3Schema"])
    shared = Shared(schemas.values())
    kinds = {kind: shared.short(schema) for kind, schema in schemas.items()}
    lines = [f'"{name}": {json.dumps(one)}' for name, one in shared.definitions.items()]
    about = "Of KServe (Apache-2.0), made by tests/kserve_schemas.py."
    OUT.write_text(
        f'{{"$comment": "{about}",\n"$defs": {{\n'
        + ",\n".join(lines)
        + "},\n"
        + ",\n".join(f'"{kind}": {json.dumps(one)}' for kind, one in kinds.items())
        + "}\n"
    )


if __name__ == "__main__":
    main()
