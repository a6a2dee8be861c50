// The engine as the page sees it: promises in front of a worker, which can be ended and begun anew.
const $ = id => document.getElementById(id);
function made(tag, attributes = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) name === "class" ? element.className = value : element.setAttribute(name, value);
  element.append(...inside);
  return element;
}

// Text of base64 to bytes, and back.
function from_base64(text) {
  const raw = atob(text.trim()), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; ++i) bytes[i] = raw.charCodeAt(i);
  return bytes;
}
function to_base64(bytes) {
  const parts = [];
  for (let i = 0; i < bytes.length; i += 24573) parts.push(btoa(String.fromCharCode(...bytes.subarray(i, i + 24573))));  // a multiple of 3
  return parts.join("");
}
async function through(bytes, stream) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}
const unpacked = text => through(from_base64(text), new DecompressionStream("deflate"));
const packed = async bytes => to_base64(await through(bytes, new CompressionStream("deflate")));

class Engine {
  constructor(module) {
    this.module = module;
    this.script = URL.createObjectURL(new Blob([$("worker").textContent], { type: "text/javascript" }));
    this.told = () => {};
    this.offered = () => {};
    this.broke = () => {};
    this.begin();
  }
  begin() {
    this.waiting = new Map();
    this.number = 0;
    this.worker = new Worker(this.script);
    this.worker.onmessage = ({ data }) => {
      if (data.told) return this.told(data.told);
      if (data.offered) return this.offered(data.offered);
      const { resolve, reject } = this.waiting.get(data.number);
      this.waiting.delete(data.number);
      if (!data.error) return resolve(data.answer);
      reject(Object.assign(new Error(`${data.error.code}: ${data.error.where}: ${data.error.detail}`), data.error));
      if (!data.broken) return;
      this.restart(new Error("the engine had to be begun anew"));
      this.broke();
    };
    this.worker.onerror = e => this.end(new Error(`the engine stopped: ${e.message}`));
    return this.call("start", { module: this.module });
  }
  call(call, more = {}, transfer = []) {
    return new Promise((resolve, reject) => {
      this.waiting.set(++this.number, { resolve, reject });
      this.worker.postMessage({ number: this.number, call, ...more }, transfer);
    });
  }
  end(why) {
    this.worker.terminate();
    for (const { reject } of this.waiting.values()) reject(why);
    this.waiting.clear();
  }
  // Ends what runs, which no message could reach, and begins with an engine that has no model open.
  restart(why) {
    this.end(why);
    return this.begin();
  }
}
