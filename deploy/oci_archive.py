"""Pack an image as an OCI archive; the same image gives the same bytes:

    deploy/oci_archive.py FOLDER NAME:TAG ARCHIVE

`buildah push --format v2s2 IMAGE dir:FOLDER` writes FOLDER. The archive is an OCI image layout
(https://github.com/opencontainers/image-spec/blob/main/image-layout.md) that also has the file
of `docker save`, so that `docker load`, `podman load` and `skopeo copy oci-archive:ARCHIVE` can
read it.

buildah can write such archives, too, but they contain the time of day and lack the health check,
for which OCI has no field. Docker and podman read the check from the image's configuration,
where BuildKit also stores it.
"""

import hashlib
import io
import json
import pathlib
import sys
import tarfile

OCI = "application/vnd.oci.image"
# Fields of Docker's image configuration. Its other fields describe the container that built the image.
OF_IMAGE = ("architecture", "created", "history", "os", "rootfs", "variant")
OF_ITS_CONTAINERS = (
    *("Cmd", "Entrypoint", "Env", "ExposedPorts", "Healthcheck", "Labels", "Shell", "StopSignal"),
    *("User", "Volumes", "WorkingDir"),
)


def encoded(document):
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def kept(document, names):
    return {name: document[name] for name in names if document.get(name)}


def pack(folder, name, archive):
    files = {}

    def put(kind, content):
        digest = hashlib.sha256(content).hexdigest()
        files[f"blobs/sha256/{digest}"] = content
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    def blob(entry):
        algorithm, digest = entry["digest"].split(":")
        content = (folder / digest).read_bytes()
        if hashlib.new(algorithm, content).hexdigest() != digest:
            raise SystemExit(f"{folder / digest} has not the bytes of its name")
        return content

    manifest = json.loads((folder / "manifest.json").read_text())
    docker = json.loads(blob(manifest["config"]))
    wanted = {**kept(docker, OF_IMAGE), "config": kept(docker["config"], OF_ITS_CONTAINERS)}
    config = put(f"{OCI}.config.v1+json", encoded(wanted))
    layers = [put(f"{OCI}.layer.v1.tar+gzip", blob(layer)) for layer in manifest["layers"]]
    kind = f"{OCI}.manifest.v1+json"
    document = {"schemaVersion": 2, "mediaType": kind, "config": config, "layers": layers}
    described = put(kind, encoded(document))
    described["platform"] = {"architecture": docker["architecture"], "os": docker["os"]}
    described["annotations"] = {"org.opencontainers.image.ref.name": name.split(":")[1]}
    files["index.json"] = encoded({"schemaVersion": 2, "manifests": [described]})
    files["oci-layout"] = encoded({"imageLayoutVersion": "1.0.0"})
    paths = ["blobs/" + each["digest"].replace(":", "/") for each in (config, *layers)]
    files["manifest.json"] = encoded(
        [{"Config": paths[0], "RepoTags": [name], "Layers": paths[1:]}]
    )

    with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as tar:
        for path, content in sorted(files.items()):
            member = tarfile.TarInfo(path)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


if __name__ == "__main__":
    pack(pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3])
