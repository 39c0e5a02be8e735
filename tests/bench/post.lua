-- One body, posted again and again. Environment: BODY (file), CONTENT_TYPE, EXTRA ("Name: value" lines).
-- DELAY_MS: average pause of a connection before its next request, in ms (random, from 1 to 2 * DELAY_MS - 1).
-- Prints one line of JSON at the end; latencies in microseconds.
wrk.method = "POST"
wrk.headers["Content-Type"] = os.getenv("CONTENT_TYPE") or "application/json"
for line in (os.getenv("EXTRA") or ""):gmatch("[^\n]+") do
  local name, value = line:match("^([^:]+):%s*(.*)$")
  wrk.headers[name] = value
end
local file = assert(io.open(os.getenv("BODY"), "rb"))
wrk.body = file:read("*a")
file:close()

local delay_ms = tonumber(os.getenv("DELAY_MS") or "0")
if delay_ms > 0 then
  function delay()
    return math.random(1, 2 * delay_ms - 1)
  end
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\nRESULT {"requests":%d,"seconds":%.6f,"bytes":%.0f,"p50_us":%d,"p90_us":%d,"p99_us":%d,"p999_us":%d,"max_us":%d,' ..
    '"status_errors":%d,"socket_errors":%d}\n',
    summary.requests, summary.duration / 1e6, summary.bytes, latency:percentile(50), latency:percentile(90),
    latency:percentile(99), latency:percentile(99.9), latency.max,
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
