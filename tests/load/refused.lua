-- wrk: requests that must all be refused, one kind after the other.
package.path = (debug.getinfo(1, "S").source:match("^@(.*/)") or "./") .. "?.lua;" .. package.path
local requests = require("requests")
local raw = "application/octet-stream"
local function bad(method, path, content_type, body)
  return { method = method, path = path, headers = { ["Content-Type"] = content_type }, body = body }
end
requests.serve(
  bad("POST", "/v1/cumsum", "application/json", '{"data":[1,2,'),
  bad("POST", "/v1/cumsum", "application/json", '{"data":[[1,2],[3]]}'),
  bad("POST", "/v1/cumsum", "application/json", '{"data":[1],"axes":0}'),
  bad("POST", "/v1/cumsum?dtype=int32&shape=3", raw, "short"),
  bad("POST", "/v1/cumsum?dtype=int32&shape=3&axis=9", raw, ("\0"):rep(12)),
  bad("POST", "/v1/cumsum?dtype=float8&shape=3", raw, ("\0"):rep(12)),
  bad("POST", "/v1/cumsum", "application/x-npy", "no numpy file"),
  bad("POST", "/v1/cumsum", "text/plain", "hello"),
  bad("POST", "/v2/models/none/infer", "application/json", "{}"),
  bad("POST", "/v2/models/cumsum/infer", "application/json", '{"inputs":[]}'),
  bad("DELETE", "/v1/cumsum", raw, ""),
  bad("GET", "/nowhere", raw, "")
)
