"""Unpack the file system of an OCI archive, and print the configuration of its image:

    tests/release/unpack.py ARCHIVE FOLDER

Fails if a blob does not have its digest, or if nothing names a file of the archive."""

import gzip
import hashlib
import json
import pathlib
import sys
import tarfile


def main(archive, folder):
    with tarfile.open(archive) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar}
    unnamed = set(files) - {"index.json", "oci-layout", "manifest.json"}

    def blob(entry):
        name = "blobs/" + entry["digest"].replace(":", "/")
        unnamed.remove(name)
        content = files[name]
        assert f"sha256:{hashlib.sha256(content).hexdigest()}" == entry["digest"], name
        assert len(content) == entry["size"], name
        return content

    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (described,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(described))
    config = json.loads(blob(manifest["config"]))
    assert config["architecture"] == described["platform"]["architecture"]
    folder.mkdir()
    for layer, digest in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
        packed = folder.with_name(folder.name + ".layer")
        packed.write_bytes(blob(layer))
        with tarfile.open(packed) as tar:
            tar.extractall(folder, filter="tar")
        plain = hashlib.sha256(gzip.decompress(packed.read_bytes())).hexdigest()
        assert f"sha256:{plain}" == digest, digest
        packed.unlink()
    assert not unnamed, unnamed
    print(json.dumps(config))


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
