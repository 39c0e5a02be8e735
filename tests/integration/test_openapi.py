"""The OpenAPI document against the service: its examples are run, and schemathesis generates more
requests."""

import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tomllib

import jsonschema
import pytest
from support.tallyd import TOP
from support.waiting import until

MADE = TOP / "build" / "openapi"
DOCUMENT = json.loads((MADE / "openapi.json").read_text())
DOORS = r"^(/v1/cumsum|/v1/directml/.*|/v1/openvino/.*|/v2/models/.*/infer)$"
PATH_VALUES = {"{model}": "cumsum", "{version}": "1", "{region}": "region"}


def examples():
    """(path, name, request, answer) of every request example with an answer of the same name."""
    for path, operations in DOCUMENT["paths"].items():
        for operation in operations.values():
            if not isinstance(operation, dict) or "requestBody" not in operation:
                continue
            requests = operation["requestBody"]["content"].get("application/json", {})
            answers = operation["responses"].get("200", {}).get("content", {})
            answers = answers.get("application/json", {}).get("examples", {})
            for name, request in requests.get("examples", {}).items():
                if name in answers:
                    yield path, name, request["value"], answers[name]["value"]


EXAMPLES = list(examples())


def test_the_document_that_was_made_is_the_one_that_is_served(client):
    assert client.get("/openapi.json").json() == DOCUMENT


def make_document(folder, routes=None, change=None):
    """Build the document for other routes, or after a change of one fragment."""
    fragments = [TOP / "proto/openapi/service.json"]
    fragments += [*TOP.glob("proto/*.openapi.json"), *TOP.glob("server/pages/*.openapi.json")]
    listed = folder / "routes"
    listed.write_text((MADE / "routes").read_text() if routes is None else routes)
    if change is not None:
        name, alter = change
        at = next(i for i, path in enumerate(fragments) if path.name == name)
        fragment = json.loads(fragments[at].read_text())
        alter(fragment)
        fragments[at] = folder / name
        fragments[at].write_text(json.dumps(fragment))
    return subprocess.run(
        [MADE / "make_openapi", listed, *fragments], capture_output=True, text=True, timeout=60
    )


def test_the_document_is_made_of_the_routes_and_the_fragments(tmp_path):
    done = make_document(tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout) == DOCUMENT


def test_a_route_that_nothing_describes_fails_the_build(tmp_path):
    done = make_document(tmp_path, (MADE / "routes").read_text() + "page GET /v1/new\n")
    assert done.returncode != 0 and "no fragment describes the route GET /v1/new" in done.stderr


def test_a_method_that_nothing_describes_fails_the_build(tmp_path):
    routes = (MADE / "routes").read_text().replace("page GET /livez", "page GET,POST /livez")
    done = make_document(tmp_path, routes)
    assert done.returncode != 0 and "no fragment describes the route POST /livez" in done.stderr


def test_a_description_without_a_route_fails_the_build(tmp_path):
    routes = (MADE / "routes").read_text().replace("page GET /livez\n", "")
    done = make_document(tmp_path, routes)
    assert done.returncode != 0 and 'nothing uses operation "GET /livez"' in done.stderr


def unknown_schema(fragment):
    fragment["operations"]["GET /livez"]["200"]["application/json"]["schema"] = "#Alive"


def unused_schema(fragment):
    fragment["schemas"]["Alive"] = {"type": "boolean"}


def schema_of_another_file(fragment):
    fragment["schemas"]["Error"] = {"type": "object"}


def without_summary(fragment):
    del fragment["operations"]["GET /livez"]["summary"]


@pytest.mark.parametrize(
    ("alter", "says"),
    [
        (unknown_schema, 'there is no schema called "Alive"'),
        (unused_schema, 'nothing uses schema "Alive"'),
        (schema_of_another_file, 'schemas "Error" is in another file, too'),
        (without_summary, "the operation of /livez lacks id, summary"),
    ],
)
def test_a_fragment_that_does_not_fit_fails_the_build(tmp_path, alter, says):
    done = make_document(tmp_path, change=("pages.openapi.json", alter))
    assert done.returncode != 0 and says in done.stderr


def test_every_door_has_an_example_that_is_run():
    doors = {path for path, *_ in EXAMPLES}
    assert doors >= {
        "/v1/cumsum",
        "/v1/directml/cumulative_summation",
        "/v1/openvino/cumsum-3",
        "/v2/models/{model}/infer",
    }


@pytest.mark.parametrize(
    ("path", "request_body", "expected"),
    [(path, request, answer) for path, _, request, answer in EXAMPLES],
    ids=[f"{path}-{name}" for path, name, *_ in EXAMPLES],
)
def test_an_example_is_answered_as_documented(client, path, request_body, expected):
    for name, value in PATH_VALUES.items():
        path = path.replace(name, value)
    answer = client.post_json(path, request_body)
    assert answer.status == 200 and answer.json() == expected


ALWAYS = {"date", "content-type", "content-length", "connection"}
FLOATS = [[1.5, 2.5], [3.5, 4.5]]
OPENVINO = "/v1/openvino/cumsum-3"
DIRECTML = "/v1/directml/cumulative_summation"
FLAGGED = {"DataType": "FLOAT32", "Sizes": [1], "Flags": ["NONE"]}
FLAGS_IN_A_LIST = {
    "desc": {
        "InputTensor": {**FLAGGED, "Flags": ["DML_TENSOR_FLAG_NONE", "OWNED_BY_DML"]},
        "OutputTensor": FLAGGED,
        "Axis": 0,
        "AxisDirection": "INCREASING",
        "HasExclusiveSum": False,
    },
    "data": [1],
}


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        (OPENVINO, {"inputs": [{"precision": "f32", "shape": [1], "data": [1]}]}, {}, 200),
        (OPENVINO, {"inputs": [{"precision": "I8", "shape": [1], "data": [1]}]}, {}, 200),
        (DIRECTML, FLAGS_IN_A_LIST, {}, 200),
        (OPENVINO, {"inputs": [{"precision": "boolean", "shape": [1], "data": [True]}]}, {}, 200),
        ("/v1/cumsum", {"data": FLOATS}, {"Accept-Encoding": "gzip"}, 200),
        ("/v1/cumsum", {"data": [1]}, {"Content-Encoding": "br"}, 415),
        ("/v2/repository/index", {}, {"Content-Encoding": "br"}, 415),
        ("/v1/cumsum", {"data": [[1], 2]}, {}, 400),
    ],
)
def test_an_answer_is_as_its_schema_and_has_no_other_headers(client, path, body, headers, status):
    answer = client.post_json(path, body, headers)
    assert answer.status == status, answer
    expect_documented(answer, path, "post")


TOTALS = "/v1/cumsum/totals"
INFER = "/v2/models/{model}/infer"
OPENVINO_X = {"precision": "FP32", "shape": [1], "data": [1]}
X = {"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}
B = {"name": "x", "shape": [1], "datatype": "BOOL", "data": [True]}


def flagged(flags):
    described = {**FLAGGED, "Flags": flags}
    desc = {**FLAGS_IN_A_LIST["desc"], "InputTensor": described}
    return {**FLAGS_IN_A_LIST, "desc": desc}


LEGAL = [
    ("/v1/cumsum", {"data": [1], "axis": 0.0, "shape": [1.0]}),
    ("/v1/cumsum", {"data": ["NaN", "-Infinity", 1], "dtype": "float32"}),
    ("/v1/cumsum", {"data": [True], "dtype": "bool", "output_dtype": "uint8", "initial": 1}),
    ("/v1/cumsum", {"data": [1.5], "nan": "skip", "initial": "Infinity", "include_initial": True}),
    (TOTALS, {"data": [1, 2], "initial": 1, "include_initial": False}),
    (TOTALS, {"data": [1, 2], "shape": [1, 2], "strides": [2, 1], "exclusive": True}),
    *(
        (OPENVINO, {"inputs": [{**OPENVINO_X, "precision": name}]})
        for name in ("FP32", "f32", "i8")
    ),
    (OPENVINO, {"attributes": {"exclusive": True, "reverse": False}, "inputs": [OPENVINO_X]}),
    (DIRECTML, flagged("DML_TENSOR_FLAG_OWNED_BY_DML")),
    (DIRECTML, flagged([])),
    (INFER, {"parameters": {"exclusive": False, "reverse": True}, "inputs": [X]}),
    (INFER, {"parameters": {"has_exclusive_sum": True}, "inputs": [X]}),
    (INFER, {"parameters": {"nan": "zero", "initial": 1, "output_dtype": "FP64"}, "inputs": [X]}),
    (INFER, {"inputs": [B], "outputs": [{"name": "y", "datatype": "INT16"}]}),
]
REFUSED = [
    ("/v1/cumsum", {"data": [1], "exclusive": 1}),
    ("/v1/cumsum", {"data": [1], "shape": [1], "strides": []}),
    (TOTALS, {"data": [1], "part": "first"}),
    (TOTALS, {"data": [1], "output_strides": [1]}),
    (TOTALS, {"data": [1], "include_initial": True}),
    ("/v1/cumsum", {"data": [1], "output_dtype": "bool"}),
    ("/v1/cumsum", {"data": [1], "nan": "no"}),
    ("/v1/cumsum", {"data": [1], "initial": None}),
    (INFER, {"inputs": [X], "outputs": [{"name": "y", "datatype": "BOOL"}]}),
    *(
        (OPENVINO, {"attributes": {"exclusive": flag}, "inputs": [OPENVINO_X]})
        for flag in (2, "True", "", None)
    ),
    (OPENVINO, {"inputs": [{**OPENVINO_X, "precision": "F32"}]}),
    *((DIRECTML, flagged(flags)) for flags in ("none", 0, None, ["DML_NONE"])),
    (INFER, {"parameters": {"exclusive": 2}, "inputs": [X]}),
    (INFER, {"parameters": {"sequence_id": "a"}, "inputs": [X]}),
]


def fits(schema, value):
    return jsonschema.Draft202012Validator({**DOCUMENT, **schema}).is_valid(value)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [(*request, 200) for request in LEGAL] + [(*request, 400) for request in REFUSED],
    ids=str,
)
def test_a_request_fits_its_schema_if_it_is_answered(client, path, body, status):
    content = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]
    answer = client.post_json(path.replace("{model}", "cumsum"), body)
    assert answer.status == status, answer
    assert fits(content["application/json"]["schema"], body) == (status == 200)


@pytest.mark.parametrize(
    ("name", "text", "status"),
    [
        ("shape", ",".join(["1"] * 64), 200),
        ("shape", ",".join(["1"] * 65), 400),
        ("strides", "1", 200),
        ("strides", "1,", 400),
    ],
)
def test_a_query_fits_its_schema_if_it_is_answered(client, name, text, status):
    query = {"dtype": "uint8", "shape": "1", name: text}
    target = "/v1/cumsum?" + "&".join(f"{key}={value}" for key, value in query.items())
    answer = client.post(target, b"1", "application/octet-stream")
    assert answer.status == status, answer
    parameters = DOCUMENT["components"]["parameters"].values()
    (schema,) = (found["schema"] for found in parameters if found["name"] == name)
    assert fits(schema, text) == (status == 200)


def headers_of_numbers():
    """(name, schema) of every integer request header, references resolved."""
    for parameter in DOCUMENT["components"]["parameters"].values():
        schema = dict(parameter["schema"])
        if "$ref" in schema:
            named = schema.pop("$ref").rpartition("/")[2]
            schema = {**DOCUMENT["components"]["schemas"][named], **schema}
        if parameter["in"] == "header" and schema["type"] == "integer":
            yield pytest.param(
                parameter["name"], schema, id=f"{parameter['name']}-{schema['minimum']}"
            )


@pytest.mark.parametrize(("name", "schema"), list(headers_of_numbers()))
def test_a_number_in_a_header_has_the_bounds_of_the_document(client, name, schema):
    """The largest number passes the check of the header; a number beyond 2^63-1 does not."""
    largest = schema["maximum"]
    assert largest == 2**63 - 1 - (2**63 - 1) % schema.get("multipleOf", 1)
    assert schema["minimum"] >= 0
    for value, blamed in ((largest, False), (2**63, True), (-1, True)):
        answer = client.post_json("/v1/cumsum", {"data": [1]}, {name: str(value)})
        said = answer.json().get("error", "")
        assert (f'{name} is "{value}", expected ' in said) == blamed, answer


def expect_documented(answer, path, method):
    response = DOCUMENT["paths"][path][method]["responses"][str(answer.status)]
    if "$ref" in response:
        response = DOCUMENT["components"]["responses"][response["$ref"].rpartition("/")[2]]
    schema = response["content"]["application/json"]["schema"]
    if "Content-Encoding" not in answer.headers:
        jsonschema.Draft202012Validator({**DOCUMENT, **schema}).validate(answer.json())
    told = {name.lower() for name in answer.headers} - ALWAYS
    assert told <= {name.lower() for name in response["headers"]}, answer


def test_every_kind_of_refusal_is_answered_as_documented(start_server, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"watcher:{hashlib.sha256(b'secret').hexdigest()}:metrics\n")
    client = start_server("--token-file", str(tokens)).client()
    for headers, status in (({}, 401), ({"Authorization": "Bearer secret"}, 403)):
        answer = client.post_json("/v1/cumsum", {"data": [1]}, headers)
        assert answer.status == status, answer
        expect_documented(answer, "/v1/cumsum", "post")
    client.close()


def test_a_service_that_drains_says_so_as_documented(start_server):
    server = start_server("--drain-delay-ms", "60000")
    client = server.client()
    # a connected client is still answered before the service ends
    assert client.get("/readyz").status == 200
    server.signal(signal.SIGTERM)
    until(lambda: client.get("/readyz").status == 503)
    for path in ("/readyz", "/v2/health/ready", "/v2/models/{model}/ready"):
        answer = client.get(path.replace("{model}", "cumsum"))
        assert answer.status == 503, answer
        expect_documented(answer, path, "get")
    client.close()


def error_examples():
    for response in DOCUMENT["components"]["responses"].values():
        content = response.get("content", {}).get("application/json", {})
        values = [example["value"] for example in content.get("examples", {}).values()]
        yield from [*values, *([content["example"]] if "example" in content else [])]


def test_examples_of_errors_are_errors():
    errors = list(error_examples())
    assert errors
    for error in errors:
        assert set(error) <= {"error", "code", "field"} and {"error", "code"} <= set(error)


# Generated clients ----------------------------------------------------------------------------


def schemas_of(value):
    """Yields every schema of the document, including nested ones."""
    if isinstance(value, list):
        for item in value:
            yield from schemas_of(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in ("schema", "items"):
                yield item
            elif key in ("properties", "schemas"):
                yield from item.values()
            if not key.startswith("example"):
                yield from schemas_of(item)


SCHEMAS = list(schemas_of(DOCUMENT))
ENUMS = [schema for schema in SCHEMAS if isinstance(schema, dict) and "enum" in schema]


def test_every_schema_is_an_object_and_every_array_says_of_what():
    """openapi-python-client refuses the whole document for a single faulty schema."""
    assert len(SCHEMAS) > 100 and all(isinstance(schema, dict) for schema in SCHEMAS)
    arrays = [schema for schema in SCHEMAS if "array" in schema.get("type", ())]
    assert arrays and all("items" in schema for schema in arrays)


def test_an_enum_is_of_strings_that_differ_by_more_than_case():
    assert ENUMS
    for schema in ENUMS:
        assert schema["type"] == "string", schema
        names = schema.get("x-enum-varnames", schema["enum"])
        assert len({name.upper() for name in names}) == len(schema["enum"]), schema


def test_enums_share_no_constant():
    """In Go the constants of all named enums share a namespace; a common prefix is removed."""
    found = set()
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for constant in schema.get("x-enum-varnames", schema.get("enum", ())):
            assert constant.upper() not in found, f"{name}: {constant}"
            found.add(constant.upper())
    assert {"FLOAT32", "V2_FP32", "IR_FP32", "DML_FLOAT32"} <= found


def test_no_query_parameter_has_a_default():
    """Generated clients send defaults, and a JSON request must not have attributes in the query."""
    for parameter in DOCUMENT["components"]["parameters"].values():
        assert "default" not in parameter["schema"], parameter["name"]


# Derived from the title of the document. Tally's own package is tally-client, imported as tally.
GENERATED_PROJECT = "tally-http-api-client"
GENERATED = """
import io, json, struct, sys
from tally_http_api_client import Client
from tally_http_api_client.api.cumsum import cumsum
from tally_http_api_client.api.v2 import v_2_infer, v_2_models
from tally_http_api_client.models import CumsumRequest, Dtype, V2Datatype, V2InferModel, V2InferRequest
from tally_http_api_client.models import V2InferRequestInputsItem, V2InferRequestInputsItemName
from tally_http_api_client.models import V2InferRequestParameters
from tally_http_api_client.types import File

client = Client(sys.argv[1], headers={"Accept": "application/json"})
nested = CumsumRequest(data=[[1, 2], [3, 4]], dtype=Dtype.FLOAT64, axis=1)
raw = File(payload=io.BytesIO(struct.pack("<4f", 1, 2, 3, 4)))
x = V2InferRequestInputsItem(
    name=V2InferRequestInputsItemName.X, shape=[2, 3], datatype=V2Datatype.V2_INT32, data=[1, 2, 3, 4, 5, 6]
)
v2 = V2InferRequest(inputs=[x], parameters=V2InferRequestParameters.from_dict({"axis": 1}))
print(json.dumps([
    cumsum.sync(client=client, body=nested).data,
    cumsum.sync(client=client, body=raw, dtype=Dtype.FLOAT32, shape="2,2", axis=1, exclusive=True).data,
    v_2_infer.sync(V2InferModel.CUMSUM, client=client, body=v2).outputs[0].data,
    v_2_models.sync(client=client).models[0],
]))
"""


def test_a_generated_python_client_has_its_own_name_and_posts_nested_raw_and_v2_tensors(
    server, tmp_path
):
    tools = pathlib.Path(sys.executable).parent
    generated = subprocess.run(
        [tools / "openapi-python-client", "generate", "--path", MADE / "openapi.json"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},  # the generator calls ruff
    )
    said = generated.stdout + generated.stderr
    assert generated.returncode == 0, said
    # The generator supports everything except NPY bodies, for which it warns on each route.
    assert said.count("WARNING") == 2, said
    assert said.count("Unsupported content type application/x-npy") == 2, said
    [project] = tmp_path.iterdir()
    ours = tomllib.loads((TOP / "client/python/pyproject.toml").read_text())["project"]["name"]
    assert project.name == GENERATED_PROJECT != ours
    assert f'name = "{GENERATED_PROJECT}"' in (project / "pyproject.toml").read_text()
    done = subprocess.run(
        [sys.executable, "-c", GENERATED, f"http://127.0.0.1:{server.port}"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=project,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        [[1.0, 3.0], [3.0, 7.0]],
        [0.0, 1.0, 0.0, 3.0],
        [1, 3, 6, 4, 9, 15],
        "cumsum",
    ]


def test_the_page_of_clients_names_the_generated_project():
    page = (TOP / "docs/clients/README.md").read_text()
    assert f"`{GENERATED_PROJECT}`" in page


# Schemathesis ---------------------------------------------------------------------------------


def schemathesis(server, folder, *arguments):
    """Run schemathesis with the settings of the command in CONTRIBUTING.md; returns the number of
    test cases."""
    done = subprocess.run(
        [
            str(pathlib.Path(sys.executable).parent / "schemathesis"),
            *("--config-file", str(TOP / "tests/schemathesis.toml")),
            *("run", f"http://127.0.0.1:{server.port}/openapi.json", "--no-color"),
            *("--phases", "examples,coverage,fuzzing", "--max-examples", "5", "--seed", "1"),
            *("--generation-database", "none", "--request-timeout", "60", *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=280,
        cwd=folder,  # schemathesis stores its findings in this folder
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return int(re.search(r"(\d+) generated", done.stdout).group(1))


def test_schemathesis_finds_no_failure_of_a_page(server, tmp_path):
    assert schemathesis(server, tmp_path, "--exclude-path-regex", DOORS) > 100


def test_schemathesis_finds_no_failure_of_a_door(server, tmp_path):
    assert schemathesis(server, tmp_path, "--include-path-regex", DOORS) > 100
