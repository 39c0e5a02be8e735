"""Values that a server counts."""

import re


def metric(server, name):
    """The value of a metric without labels."""
    client = server.client()
    text = client.get("/metrics").body.decode()
    client.close()
    return float(re.search(rf"^{name} (\S+)$", text, re.M)[1])
