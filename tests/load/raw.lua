-- wrk: raw requests to a tensor route; see requests.lua and docs/load-testing.md.
package.path = (debug.getinfo(1, "S").source:match("^@(.*/)") or "./") .. "?.lua;" .. package.path
local requests = require("requests")
requests.serve(requests.raw())
