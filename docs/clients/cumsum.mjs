// Node 18 or later, or a browser: typed arrays as raw bytes. node cumsum.mjs
const url = process.env.TALLY_URL ?? "http://127.0.0.1:8000";

async function cumsum(numbers, shape, axis) {
  const answer = await fetch(`${url}/v1/cumsum?dtype=float32&shape=${shape}&axis=${axis}`, {
    method: "POST",
    headers: { "Content-Type": "application/octet-stream" },
    body: numbers,
  });
  if (!answer.ok) throw new Error((await answer.json()).error);
  return new Float32Array(await answer.arrayBuffer());
}

console.log((await cumsum(Float32Array.of(1, 2, 3, 10, 20, 30), [2, 3], 1)).join(" "));
