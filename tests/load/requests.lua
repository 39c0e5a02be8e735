-- Requests for wrk: one table each with method, path, headers and body. Used by the scripts here.
--   DTYPE=float32 SHAPE=3,4 AXIS=1 choose the tensor; its elements are 1.
local M = {}

local dtype = os.getenv("DTYPE") or "float32"
local shape = os.getenv("SHAPE") or "3,4"
local axis = os.getenv("AXIS") or "1"

-- The little-endian bytes of the number 1 in each type.
local one = {
  float16 = "\0\60", bfloat16 = "\128\63", float32 = "\0\0\128\63",
  float64 = "\0\0\0\0\0\0\240\63", int8 = "\1", uint8 = "\1", int16 = "\1\0", uint16 = "\1\0",
  int32 = "\1\0\0\0", uint32 = "\1\0\0\0", int64 = "\1\0\0\0\0\0\0\0", uint64 = "\1\0\0\0\0\0\0\0",
}
local descr = {
  float16 = "<f2", float32 = "<f4", float64 = "<f8", int8 = "|i1", uint8 = "|u1", int16 = "<i2",
  uint16 = "<u2", int32 = "<i4", uint32 = "<u4", int64 = "<i8", uint64 = "<u8",
}

local function sizes()
  local list, count = {}, 1
  for size in shape:gmatch("%d+") do
    list[#list + 1] = tonumber(size)
    count = count * tonumber(size)
  end
  return list, count
end

-- Nested JSON of ones, innermost dimension last.
local function nested(list, at)
  if at > #list then
    return "1"
  end
  local inner = nested(list, at + 1)
  local parts = {}
  for i = 1, list[at] do
    parts[i] = inner
  end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function post(path, content_type, body)
  return { method = "POST", path = path, headers = { ["Content-Type"] = content_type }, body = body }
end

function M.json()
  local list = sizes()
  local body = string.format('{"dtype":"%s","axis":%s,"data":%s}', dtype, axis, nested(list, 1))
  return post("/v1/cumsum", "application/json", body)
end

function M.raw()
  local _, count = sizes()
  local path = string.format("/v1/cumsum?dtype=%s&shape=%s&axis=%s", dtype, shape, axis)
  return post(path, "application/octet-stream", one[dtype]:rep(count))
end

function M.npy()
  local _, count = sizes()
  local text = string.format(
    "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }", assert(descr[dtype]), shape)
  local total = math.ceil((10 + #text + 1) / 64) * 64
  text = text .. (" "):rep(total - 10 - #text - 1) .. "\n"
  local head = "\147NUMPY\1\0" .. string.char(#text % 256, math.floor(#text / 256))
  return post("/v1/cumsum?axis=" .. axis, "application/x-npy", head .. text .. one[dtype]:rep(count))
end

function M.infer()
  local list, count = sizes()
  local kserve = ({ float32 = "FP32", float64 = "FP64", float16 = "FP16", bfloat16 = "BF16" })[dtype]
    or dtype:upper()
  local json = string.format(
    '{"parameters":{"axis":%s,"binary_data_output":true},"inputs":[{"name":"x","shape":[%s],' ..
    '"datatype":"%s","parameters":{"binary_data_size":%d}}]}',
    axis, table.concat(list, ","), kserve, #one[dtype] * count)
  local request = post("/v2/models/cumsum/infer", "application/octet-stream",
    json .. one[dtype]:rep(count))
  request.headers["Inference-Header-Content-Length"] = tostring(#json)
  return request
end

-- Make a wrk script of one or several requests, sent in turn.
function M.serve(...)
  local texts, at = {}, 0
  local requests = { ... }
  function init()
    for i, r in ipairs(requests) do
      for name, value in pairs(wrk.headers) do -- from wrk's option -H
        r.headers[name] = r.headers[name] or value
      end
      texts[i] = wrk.format(r.method, r.path, r.headers, r.body)
    end
  end
  function request()
    at = at % #texts + 1
    return texts[at]
  end
  function done(summary, latency)
    io.write(string.format(
      "microseconds: p50 %d  p99 %d  p99.9 %d  max %d\nerrors: status %d  connect %d  read %d  write %d  timeout %d\n",
      latency:percentile(50), latency:percentile(99), latency:percentile(99.9), latency.max,
      summary.errors.status, summary.errors.connect, summary.errors.read, summary.errors.write,
      summary.errors.timeout))
  end
end

return M
