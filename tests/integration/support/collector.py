"""A small OpenTelemetry collector: parses OTLP/JSON strictly by the protocol, and keeps the
spans."""

import base64
import http.server
import json
import threading

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service

from .waiting import until


def read(text):
    """The spans of an ExportTraceServiceRequest, and the attributes of its resource. Unknown
    members, wrong types, and ids that are not hex of the right length are errors."""
    document = json.loads(text)
    for resource in document["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name, length in (("traceId", 16), ("spanId", 8), ("parentSpanId", 8)):
                    if name in span:  # OTLP says "hex-encoded"; Protobuf's JSON would have base64
                        number = bytes.fromhex(span[name])
                        assert len(number) == length and any(number), span
                        assert span[name] == number.hex()
                        span[name] = base64.b64encode(number).decode()
                for name in ("startTimeUnixNano", "endTimeUnixNano"):
                    assert isinstance(span[name], str)
                for attribute in span.get("attributes", []):
                    assert isinstance(attribute["value"].get("intValue", ""), str)
    message = json_format.ParseDict(document, service.ExportTraceServiceRequest())
    (resource,) = message.resource_spans
    (scope,) = resource.scope_spans
    assert scope.scope.name == "tallyd"
    return list(scope.spans), attributes(resource.resource)


def attributes(holder):
    """The attributes as a dict; checks that no key occurs twice."""
    values = {}
    for attribute in holder.attributes:
        assert attribute.key not in values
        values[attribute.key] = getattr(attribute.value, attribute.value.WhichOneof("value"))
    return values


class Collector:
    def __init__(self, status=200):
        self.status = status  # status of its answers
        self.spans, self.requests, self.resource = [], [], None
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    spans, collector.resource = read(body)
                except Exception as error:  # noqa: BLE001: the test reports it
                    spans = [error]
                collector.requests.append((self.path, dict(self.headers)))
                answer = b"{}"
                self.send_response(collector.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
                collector.spans += spans

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def trace(self, trace_id):
        """The spans of a trace by name, once its server span has arrived."""
        wanted = bytes.fromhex(trace_id)

        def found():
            for span in self.spans:
                assert not isinstance(span, Exception), span
            mine = [span for span in self.spans if span.trace_id == wanted]
            return {span.name: span for span in mine}

        return until(found, 60)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
