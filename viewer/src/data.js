// What the page holds: facts as JSON, arrays as one deflated buffer.

const KINDS = {
  u1: Uint8Array, i1: Int8Array, u2: Uint16Array, u4: Uint32Array, i4: Int32Array, f4: Float32Array,
};

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

export async function load() {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const element = document.getElementById("data");
  const packed = new Blob([bytesOf(element.textContent.trim())]);
  element.remove(); // the text is not needed any more
  const stream = packed.stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const array = (place) => place && new KINDS[place[0]](buffer, place[1], place[2]);
  return { facts, array };
}
