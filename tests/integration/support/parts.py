"""Tensors in parts as raw bytes: a request has a part and its carry, and so has its answer."""

import numpy as np

from . import calls

LENGTH = "Tally-Carry-Length"


def post(client, dtype, stored, carry=b"", path="/v1/cumsum", **attributes):
    query = calls.query(dtype=dtype.name, shape=list(stored.shape), **attributes)
    headers = {LENGTH: str(len(carry))} if carry else {}
    body = carry + np.ascontiguousarray(stored).tobytes()
    return client.post(path + query, body, calls.RAW, headers)


def split(answer):
    assert answer.status == 200, answer
    length = int(answer.headers.get(LENGTH, "0"))
    return answer.body[:length], answer.body[length:]


def raw_part(client, dtype, stored, carry, **attributes):
    answer = post(client, dtype, stored, carry, **attributes)
    assert answer.headers["Tally-Shape"] == ",".join(map(str, stored.shape)), answer
    return split(answer)


def cut_at(size, cuts):
    edges = [0, *sorted(cuts), size]
    return list(zip(edges, edges[1:], strict=False))


def in_parts(clients, part, dtype, stored, cuts, axis, reverse=False, **attributes):
    """The concatenated outputs of all parts; the parts are sent to the clients in rotation."""
    size = stored.shape[axis]
    out = np.empty_like(stored)
    ranges = cut_at(size, cuts)
    carry, names = b"", ["first"] + ["next"] * (len(ranges) - 2) + ["last"]
    for k, ((begin, end), name) in enumerate(zip(ranges, names, strict=True)):
        if reverse:
            begin, end = size - end, size - begin
        where = (slice(None),) * axis + (slice(begin, end),)
        carry, bytes_out = part(
            clients[k % len(clients)],
            dtype,
            np.ascontiguousarray(stored[where]),
            carry,
            part=name,
            axis=axis,
            reverse=reverse,
            **attributes,
        )
        out[where] = np.frombuffer(bytes_out, stored.dtype).reshape(out[where].shape)
        assert (carry == b"") == (name == "last")
    return out
