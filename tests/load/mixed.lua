-- wrk: every format in turn.
package.path = (debug.getinfo(1, "S").source:match("^@(.*/)") or "./") .. "?.lua;" .. package.path
local requests = require("requests")
requests.serve(requests.json(), requests.raw(), requests.npy(), requests.infer())
