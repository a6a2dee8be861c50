// Runs the engine, which is WebAssembly without a runtime of its own, beside the page. One message is one call; its answer carries the same number.
"use strict";
let engine = null;
const encoder = new TextEncoder(), decoder = new TextDecoder();

// What the C++ library asks of a system. There are no files, no environment and no other threads; the clock and the lines it prints are all there is.
const absent = -52;  // ENOSYS
const view = () => new DataView(engine.memory.buffer);
const system = {
  clock_time_get(_id, _precision, at) { view().setBigUint64(at, BigInt(Math.round((performance.timeOrigin + performance.now()) * 1e6)), true); return 0; },
  environ_sizes_get(count, size) { view().setUint32(count, 0, true); view().setUint32(size, 0, true); return 0; },
  environ_get() { return 0; },
  fd_write(_file, parts, count, written) {
    let all = 0;
    for (let i = 0; i < count; ++i) {
      const at = view().getUint32(parts + 8 * i, true), size = view().getUint32(parts + 8 * i + 4, true);
      console.error(decoder.decode(new Uint8Array(engine.memory.buffer, at, size)));
      all += size;
    }
    view().setUint32(written, all, true);
    return 0;
  },
  proc_exit(code) { throw new Error(`the engine ended with ${code}`); },
  emscripten_notify_memory_growth() {},
  page_tell(at, size) { postMessage({ told: JSON.parse(text(at, size)) }); },
  page_offer(at, size) { const bytes = copied(at, size); postMessage({ offered: bytes }, [bytes.buffer]); },
};

function started(module) {
  const imports = {};
  for (const { module: from, name, kind } of WebAssembly.Module.imports(module))
    if (kind === "function") (imports[from] ??= {})[name] = system[name] ?? (() => absent);
  engine = new WebAssembly.Instance(module, imports).exports;
  engine._initialize();
}
function text(at, size) { return decoder.decode(new Uint8Array(engine.memory.buffer, at, size)); }
function copied(at, size) { return new Uint8Array(engine.memory.buffer, at, size).slice(); }
// Bytes in the engine's memory; whoever asks for them frees them, or hands them over.
function put(bytes) {
  const at = engine.malloc(Math.max(1, bytes.length));
  if (!at) throw Object.assign(new Error("there is no memory left"), { code: "memory.oom", where: "page" });
  new Uint8Array(engine.memory.buffer, at, bytes.length).set(bytes);
  return at;
}
// Calls a function of the engine with numbers as they are, and each text or array of bytes as a pointer and its length.
function ask(name, ...given) {
  const kept = [], handed = [];
  for (const one of given) {
    if (typeof one === "number") { handed.push(one); continue; }
    const bytes = typeof one === "string" ? encoder.encode(one) : one.bytes ?? one;
    const at = put(bytes);
    if (!one.stays) kept.push(at);
    handed.push(at);
    if (!one.sized) handed.push(bytes.length);
  }
  try {
    const at = engine[name](...handed);
    if (at === undefined) return {};
    const answer = JSON.parse(text(at, engine.page_answer_size()));
    if (answer.error) throw Object.assign(new Error(answer.error.detail), answer.error);
    return answer;
  } finally {
    for (const at of kept) engine.free(at);
  }
}
// Pixels whose size goes along as numbers.
const pixels = image => ({ bytes: image.data, sized: true });

const calls = {
  start: ({ module }) => { started(module); return {}; },
  open: ({ bytes, preprocess }) => ask("page_open", bytes, preprocess ?? ""),
  classify: ({ picture, top }) => picture.data ? ask("page_classify_pixels", pixels(picture), picture.width, picture.height, top)
                                               : ask("page_classify_file", picture.bytes, picture.name, top),
  explain: ({ picture, index }) => {
    const { at, size } = picture.data ? ask("page_explain_pixels", pixels(picture), picture.width, picture.height, index)
                                      : ask("page_explain_file", picture.bytes, picture.name, index);
    return { png: copied(at, size) };
  },
  collect: ({ classes }) => { ask("page_clear"); for (const name of classes) ask("page_add_class", name); return {}; },
  add: ({ label, picture }) => picture.data ? ask("page_add_pixels", label, picture.name, pixels(picture), picture.width, picture.height)
                                            : ask("page_add_file", label, picture.name, { bytes: picture.bytes, stays: true }),
  teach: ({ options }) => ask("page_teach", JSON.stringify(options)),
};
onmessage = ({ data }) => {
  try {
    postMessage({ number: data.number, answer: calls[data.call](data) });
  } catch (e) {
    // What has no code of graft's has stopped the engine in the middle of something: it can be used no more.
    postMessage({ number: data.number, broken: !e.code, error: { code: e.code ?? "internal", where: e.where ?? "engine", detail: e.message } });
  }
};
